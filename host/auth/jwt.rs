//! JWTs: credentials that somebody else signs (RFC 7519).

use std::sync::Arc;

use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::{Algorithm, Validation, decode, decode_header};
use serde_json::{Map, Value as Json};

use super::jwks::Jwks;
use super::{Caller, User, invalid, is_tenant};
use crate::clock::{Clock, Millis};
use crate::config::JwtSettings;
use crate::failure::Failure;

/// Lets in whom the issuer of the settings names.
pub(super) struct Jwt {
    settings: JwtSettings,
    algorithms: Vec<Algorithm>,
    pub keys: Jwks,
}

impl Jwt {
    /// `None` where no JWTs are to be taken.
    pub fn new(settings: &JwtSettings, clock: Arc<dyn Clock>) -> Option<Self> {
        let algorithms: Vec<Algorithm> = settings.algorithms.iter().filter_map(|name| name.parse().ok()).collect();
        let keys = Jwks::new(settings.jwks.as_ref()?, algorithms.clone(), clock);
        Some(Self { settings: settings.clone(), algorithms, keys })
    }

    /// Whom a JWT names.
    ///
    /// # Errors
    /// `UNAUTHENTICATED`; `UNAVAILABLE` while the issuer's keys cannot be had.
    pub async fn caller(&self, token: &str, now: Millis) -> Result<Caller, Failure> {
        // `none` is no algorithm to the library, so such a JWT ends here.
        let header = decode_header(token)
            .map_err(|_| invalid("the JWT is malformed, or its signature is of a kind that is never taken"))?;
        if !self.algorithms.contains(&header.alg) {
            return Err(invalid("the JWT's signature is of a kind that is not taken here"));
        }
        let Some(key) = self.keys.find(header.kid.as_deref(), header.alg).await? else {
            return Err(invalid("the JWT is signed with a key that its issuer's key set does not have"));
        };
        let read = decode::<Map<String, Json>>(token, &key.key, &self.validation(header.alg));
        let claims = read.map_err(|error| invalid(&why(&error)))?.claims;
        self.check_times(&claims, now)?;
        self.read(claims)
    }

    /// What the library checks. The times are checked here instead, by the host's own clock.
    fn validation(&self, algorithm: Algorithm) -> Validation {
        let mut validation = Validation::new(algorithm);
        validation.set_issuer(&[&self.settings.issuer]);
        validation.set_audience(&self.settings.audience);
        validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
        validation.validate_exp = false;
        validation
    }

    fn check_times(&self, claims: &Map<String, Json>, now: Millis) -> Result<(), Failure> {
        // Seconds, perhaps with a fraction; a double holds them exactly enough for the next million years.
        #[expect(clippy::cast_precision_loss, reason = "milliseconds since 1970 are below 2^53")]
        let now = now as f64 / 1000.0;
        let skew = self.settings.skew.as_secs_f64();
        match claims.get("exp").and_then(Json::as_f64) {
            Some(at) if now < at + skew => {}
            Some(_) => return Err(invalid("the JWT has expired; sign in again")),
            None => return Err(invalid("the JWT's claim exp is no time")),
        }
        match claims.get("nbf").map(Json::as_f64) {
            None => Ok(()),
            Some(Some(at)) if at <= now + skew => Ok(()),
            Some(Some(_)) => Err(invalid("the JWT is not good yet (nbf); compare the clocks")),
            Some(None) => Err(invalid("the JWT's claim nbf is no time")),
        }
    }

    fn read(&self, claims: Map<String, Json>) -> Result<Caller, Failure> {
        let claims = Json::Object(claims);
        let name = &self.settings.tenant_claim;
        let tenant = claim(&claims, name).and_then(Json::as_str).filter(|tenant| is_tenant(tenant.as_bytes()));
        let Some(tenant) = tenant.map(str::to_owned) else {
            return Err(invalid(&format!(
                "the JWT's claim {name} is no tenant: 1 to 64 letters, digits, dots, underscores or hyphens"
            )));
        };
        // The library takes an issuer out of a list, too, which RFC 7519 does not know.
        for name in ["iss", "sub"] {
            if claims.get(name).and_then(Json::as_str).is_none_or(str::is_empty) {
                return Err(invalid(&format!("the JWT's claim {name} must be a text that is not empty")));
            }
        }
        let subject = claims.get("sub").and_then(Json::as_str).unwrap_or_default().to_owned();
        let name = &self.settings.scope_claim;
        let Some(scopes) = scopes(claim(&claims, name)) else {
            return Err(invalid(&format!(
                "the JWT's claim {name} is neither a text with spaces between scopes nor an array of texts"
            )));
        };
        Ok(Caller { tenant, user: Some(User { subject, scopes, claims }) })
    }
}

/// The scopes that a claim lists; none where it is not there, `None` where it is something else.
fn scopes(claim: Option<&Json>) -> Option<Vec<String>> {
    match claim {
        None | Some(Json::Null) => Some(Vec::new()),
        Some(Json::String(text)) => Some(text.split_whitespace().map(str::to_owned).collect()),
        Some(Json::Array(items)) => items.iter().map(|item| item.as_str().map(str::to_owned)).collect(),
        Some(Json::Bool(_) | Json::Number(_) | Json::Object(_)) => None,
    }
}

/// A claim by its name, or where a JSON Pointer says.
fn claim<'a>(claims: &'a Json, name: &str) -> Option<&'a Json> {
    if name.starts_with('/') { claims.pointer(name) } else { claims.get(name) }
}

fn why(error: &Error) -> String {
    let kind = error.kind();
    if let ErrorKind::MissingRequiredClaim(claim) = kind {
        return format!("the JWT's claim {claim} is missing, or not of the type that RFC 7519 gives it");
    }
    let text = if matches!(kind, ErrorKind::InvalidSignature) {
        "the JWT's signature does not fit"
    } else if matches!(kind, ErrorKind::InvalidAudience) {
        "the JWT was made for somebody else (aud)"
    } else if matches!(kind, ErrorKind::InvalidIssuer) {
        "the JWT comes from somebody else (iss)"
    } else if matches!(kind, ErrorKind::Json(_)) {
        "the JWT's claims are no JSON object, or iss, sub, aud, exp or nbf is not of the type that RFC 7519 gives it"
    } else {
        "the JWT is malformed"
    };
    text.to_owned()
}
