//! Who calls and what that caller may do: tokens of the host's own, JWTs of others, scopes, and the rate of a tenant.

use std::sync::Arc;

use serde_json::{Value as Json, json};

use crate::clock::Clock;
use crate::config::Settings;
use crate::failure::{Code, Failure};
use crate::store::host_db::HostDb;

mod jwks;
mod jwt;
mod rate;
pub mod scope;
pub mod token;

pub use jwks::Unusable;
use jwt::Jwt;
use rate::Rates;
use token::Tokens;

/// Who calls.
#[derive(Clone, Debug, Default)]
pub struct Caller {
    pub tenant: String,
    /// `None` in `dev` and over the local socket, where nobody is a stranger.
    pub user: Option<User>,
}

/// `ctx.user`.
#[derive(Clone, Debug, Default)]
pub struct User {
    pub subject: String,
    pub scopes: Vec<String>,
    /// All claims of a JWT; of a token none.
    pub claims: Json,
}

impl Caller {
    /// Refuses a caller whose credentials do not have the scope `needed`.
    ///
    /// # Errors
    /// `FORBIDDEN`, naming that scope.
    pub fn need(&self, needed: &str) -> Result<(), Failure> {
        match &self.user {
            Some(user) if !scope::covers(&user.scopes, needed) => {
                let text = format!("these credentials lack the scope {needed}; use ones that have it");
                Err(Failure::new(Code::Forbidden, text).with_details(json!({ "scope": needed })))
            }
            Some(_) | None => Ok(()),
        }
    }
}

/// Looks at the keys for JWTs that the settings name, without a host; `None` where they name none.
///
/// # Errors
/// Why they cannot be used.
pub async fn look_at_keys(settings: &Settings, clock: Arc<dyn Clock>) -> Result<Option<usize>, Unusable> {
    look_at(Jwt::new(&settings.jwt, clock).as_ref()).await
}

async fn look_at(jwt: Option<&Jwt>) -> Result<Option<usize>, Unusable> {
    match jwt {
        Some(jwt) => jwt.keys.look().await.map(Some),
        None => Ok(None),
    }
}

/// `[A-Za-z0-9._-]{1,64}` (spec §3).
pub fn is_tenant(text: &[u8]) -> bool {
    let one = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=64).contains(&text.len()) && text.iter().all(one)
}

/// The longest credentials that are looked at, in bytes.
const LONGEST: usize = 16 << 10;

/// Everything that lets callers in.
pub struct Auth {
    pub tokens: Tokens,
    jwt: Option<Jwt>,
    rates: Option<Rates>,
    clock: Arc<dyn Clock>,
}

impl Auth {
    /// What the settings and the host's database say.
    ///
    /// # Errors
    /// One sentence for the operator.
    pub fn open(settings: &Settings, db: Arc<HostDb>, clock: Arc<dyn Clock>) -> Result<Self, String> {
        let tokens = Tokens::open(db).map_err(|error| error.to_string())?;
        let jwt = Jwt::new(&settings.jwt, clock.clone());
        let rates = settings.rate.map(|rate| Rates::new(rate, settings.rate_burst));
        Ok(Self { tokens, jwt, rates, clock })
    }

    /// Looks at the keys for JWTs, and gives how many there are; `None` where no JWTs are taken.
    ///
    /// # Errors
    /// Why they cannot be used.
    pub async fn look_at_keys(&self) -> Result<Option<usize>, Unusable> {
        look_at(self.jwt.as_ref()).await
    }

    /// Whether there are tokens that anybody could call with.
    pub fn has_tokens(&self) -> bool {
        self.tokens.any(self.clock.now())
    }

    /// Whether there are credentials by which anybody could call.
    pub fn has_credentials(&self) -> bool {
        self.jwt.is_some() || self.has_tokens()
    }

    /// Who sends this `Authorization` header; `None` without one.
    ///
    /// # Errors
    /// `UNAUTHENTICATED`, and `UNAVAILABLE` when nobody can tell at the moment. What was sent is never repeated.
    pub async fn caller(&self, authorization: Option<&[u8]>) -> Result<Caller, Failure> {
        let credentials = bearer(authorization)?;
        let now = self.clock.now();
        if credentials.starts_with(token::PREFIX) {
            return self.tokens.caller(credentials, now);
        }
        match &self.jwt {
            Some(jwt) => jwt.caller(credentials, now).await,
            None => Err(invalid("the credentials are no token of this host, and it takes no JWTs")),
        }
    }

    /// Counts a call of a tenant against its rate. Replays count like any other call: each is read from the disk.
    ///
    /// # Errors
    /// `RATE_LIMITED`.
    pub fn count(&self, tenant: &str) -> Result<(), Failure> {
        self.rates.as_ref().map_or(Ok(()), |rates| rates.count(tenant, self.clock.now()))
    }

    /// Keeps the keys for JWTs fresh, for as long as this is awaited.
    pub async fn keep_fresh(&self) {
        match &self.jwt {
            Some(jwt) => jwt.keys.keep_fresh().await,
            None => std::future::pending().await,
        }
    }
}

/// The credentials of a `Bearer` header (RFC 6750); the scheme's name in any case.
fn bearer(authorization: Option<&[u8]>) -> Result<&str, Failure> {
    let Some(line) = authorization else {
        return Err(Failure::new(
            Code::Unauthenticated,
            "this needs credentials; send Authorization: Bearer TOKEN (`oncehost token create` makes a token)",
        ));
    };
    if line.len() > LONGEST {
        return Err(invalid("the credentials are too long"));
    }
    let text = std::str::from_utf8(line).ok().map(str::trim).and_then(|line| line.split_once(' '));
    let token = text.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")).map(|(_, token)| token.trim_start());
    token
        .filter(|token| !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic()))
        .ok_or_else(|| invalid("the Authorization header has another form; send Authorization: Bearer TOKEN"))
}

/// Credentials that were sent and do not do.
fn invalid(why: &str) -> Failure {
    Failure::new(Code::Unauthenticated, why).with_details(json!({ "error": "invalid_token" }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bearer_is_taken_in_any_case_and_nothing_else_is() {
        for good in ["Bearer abc.d-e_f", "bearer abc.d-e_f", "BEARER  abc.d-e_f "] {
            assert_eq!(bearer(Some(good.as_bytes())), Ok("abc.d-e_f"), "{good}");
        }
        for bad in ["", "Bearer", "Bearer ", "Basic YTpi", "abc", "Bearer a b", "Bearer é", "Bearerabc"] {
            let failure = bearer(Some(bad.as_bytes())).unwrap_err();
            assert_eq!(failure.code, Code::Unauthenticated, "{bad}");
            assert!(failure.detail.contains("Authorization: Bearer TOKEN"), "{bad}");
        }
        assert!(bearer(None).unwrap_err().detail.contains("oncehost token create"));
        let long = format!("Bearer {}", "x".repeat(LONGEST));
        assert!(bearer(Some(long.as_bytes())).unwrap_err().detail.contains("too long"));
    }

    #[test]
    fn caller_without_a_user_may_do_everything_and_a_user_what_his_scopes_say() {
        assert_eq!(Caller::default().need("invoke:orders"), Ok(()));
        let user = User { scopes: vec!["invoke:shop".to_owned()], ..User::default() };
        let caller = Caller { tenant: "acme".to_owned(), user: Some(user) };
        assert_eq!(caller.need("invoke:shop"), Ok(()));
        let failure = caller.need("invoke:orders").unwrap_err();
        assert_eq!(failure.code, Code::Forbidden);
        assert!(failure.detail.contains("invoke:orders"), "{failure}");
    }

    #[test]
    fn tenants_have_the_form_of_the_contract() {
        assert!(is_tenant(b"acme-1.EU_x") && is_tenant(&[b'a'; 64]));
        assert!(!is_tenant(b"") && !is_tenant(&[b'a'; 65]) && !is_tenant(b"a/b") && !is_tenant("é".as_bytes()));
    }
}
