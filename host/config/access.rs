//! The settings about who may call, where, and how often.

use std::net::SocketAddr;
use std::time::Duration;

/// Whose JWTs are taken: `[auth.jwt]` in the settings file, `auth_jwt_…` elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JwtSettings {
    /// A file or URL with the issuer's public keys (RFC 7517). `None`: no JWTs.
    pub jwks: Option<String>,
    /// What `iss` must be.
    pub issuer: String,
    /// One of these must be in `aud`.
    pub audience: Vec<String>,
    /// Where the tenant and the scopes stand: a claim's name, or a JSON Pointer for one that is nested.
    pub tenant_claim: String,
    pub scope_claim: String,
    /// The signatures that are taken, by their names in RFC 7518 and RFC 8037.
    pub algorithms: Vec<String>,
    /// How far the issuer's clock may be from this machine's.
    pub skew: Duration,
}

impl Default for JwtSettings {
    fn default() -> Self {
        Self {
            jwks: None,
            issuer: String::new(),
            audience: Vec::new(),
            tenant_claim: "tenant".to_owned(),
            scope_claim: "scope".to_owned(),
            algorithms: ALGORITHMS.map(str::to_owned).into(),
            skew: Duration::from_secs(60),
        }
    }
}

/// All signatures by public keys that can be checked. A secret that both sides share is none of them: who can check
/// such a signature can make it too.
const ALGORITHMS: [&str; 9] = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA"];

impl JwtSettings {
    /// Refuses settings that would take JWTs which were made for somebody else.
    pub(super) fn check(&self) -> Result<(), String> {
        let lacking = match &self.jwks {
            None if *self == Self::default() => return Ok(()),
            None => "auth_jwt_jwks",
            Some(_) if self.issuer.is_empty() => "auth_jwt_issuer",
            Some(_) if self.audience.is_empty() => "auth_jwt_audience",
            Some(_) => return Ok(()),
        };
        Err(format!("{lacking} is missing; JWTs need auth_jwt_jwks, auth_jwt_issuer and auth_jwt_audience together"))
    }
}

pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    let numeric = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    numeric.as_deref().unwrap_or(text).parse().map_err(|_| {
        format!("{text:?} is no address to listen on; write ADDRESS:PORT, such as 127.0.0.1:7070 or [::1]:7070")
    })
}

pub(super) fn collector(text: &str) -> Result<String, String> {
    let plain =
        text.strip_prefix("http://").is_some_and(|rest| !rest.is_empty() && !rest.contains(['@', '?', '#', ' ']));
    if plain {
        return Ok(text.to_owned());
    }
    Err(format!(
        "{text:?} is no collector that can be reached; write http://HOST:PORT, such as http://127.0.0.1:4318 (for \
                 TLS put a collector beside the host)"
    ))
}

pub(super) fn origins(text: &str) -> Result<Vec<String>, String> {
    let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
    items
        .map(|item| {
            let host = item.strip_prefix("http://").or_else(|| item.strip_prefix("https://"));
            let plain = |host: &str| !host.is_empty() && !host.contains(['/', '*', '@', '?', '#', ' ']);
            if host.is_some_and(plain) {
                Ok(item.to_ascii_lowercase())
            } else {
                Err(format!("{item:?} is no origin; write scheme, host and port, such as http://localhost:5173"))
            }
        })
        .collect()
}

pub(super) fn jwks(text: &str) -> Result<Option<String>, String> {
    let local = |rest: &str| {
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let port = authority.rsplit_once(':').filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
        let host = port.map_or(authority, |(host, _)| host);
        matches!(host, "localhost" | "127.0.0.1" | "[::1]")
    };
    match text.split_once("://") {
        Some((_, rest)) if rest.split(['/', '?', '#']).next().is_some_and(|authority| authority.contains('@')) => {
            Err("public keys need no user name and password; leave them out of the URL".to_owned())
        }
        _ if text.is_empty() => Err("the file or URL is missing".to_owned()),
        None | Some(("https", _)) => Ok(Some(text.to_owned())),
        Some(("http", rest)) if local(rest) => Ok(Some(text.to_owned())),
        // Whoever can change the keys on their way can sign whatever he likes.
        Some(("http", _)) => Err(format!("{text:?} can be changed on its way; use https")),
        Some(_) => Err(format!("{text:?} is no file and no https URL")),
    }
}

pub(super) fn text(text: &str) -> Result<String, String> {
    if text.is_empty() { Err("must not be empty".to_owned()) } else { Ok(text.to_owned()) }
}

pub(super) fn list(text: &str) -> Result<Vec<String>, String> {
    let items: Vec<String> =
        text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned).collect();
    if items.is_empty() { Err("must not be empty".to_owned()) } else { Ok(items) }
}

pub(super) fn claim(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Err("write a claim's name, or a JSON Pointer such as /realm_access/roles".to_owned());
    }
    Ok(text.to_owned())
}

pub(super) fn algorithms(text: &str) -> Result<Vec<String>, String> {
    let items = list(text)?;
    for item in &items {
        if item.starts_with("HS") {
            return Err(format!(
                "{item} signs with a shared secret; take one with a public key, such as RS256 or EdDSA"
            ));
        }
        if !ALGORITHMS.contains(&item.as_str()) {
            return Err(format!("{item:?} is not one of {}", ALGORITHMS.join(", ")));
        }
    }
    Ok(items)
}

/// Paths that `serve` may answer without credentials.
const PUBLIC: [&str; 2] = ["/metrics", "/openapi.json"];

pub(super) fn public(text: &str) -> Result<Vec<String>, String> {
    let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
    items
        .map(|item| match PUBLIC.contains(&item) {
            true => Ok(item.to_owned()),
            false => Err(format!("{item:?} cannot be public; these can: {}", PUBLIC.join(", "))),
        })
        .collect()
}

/// How often a tenant may call: `count` calls in `per`, at an even pace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    pub count: u32,
    pub per: Duration,
}

pub(super) fn rate(text: &str) -> Result<Option<Rate>, String> {
    let wrong = || format!("{text:?} is no rate; write a whole number and /s, /m or /h, such as 100/s");
    let (count, unit) = text.split_once('/').ok_or_else(wrong)?;
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => return Err(wrong()),
    };
    match count.parse() {
        Ok(count @ 1..=1_000_000) => Ok(Some(Rate { count, per: Duration::from_secs(seconds) })),
        _ => Err(format!("{text:?} must have a whole number from 1 to 1000000 before the /")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_a_number_and_a_unit() {
        assert_eq!(rate("100/s"), Ok(Some(Rate { count: 100, per: Duration::from_secs(1) })));
        assert_eq!(rate("6000/m"), Ok(Some(Rate { count: 6000, per: Duration::from_secs(60) })));
        for wrong in ["", "100", "/s", "0/s", "-1/s", "1.5/s", "100/d", "100/ s", "1000001/s"] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn keys_come_from_a_file_or_over_https() {
        for good in ["keys.json", "/etc/keys.json", "https://id.example/keys", "http://127.0.0.1:9/k", "http://[::1]/k"]
        {
            assert_eq!(jwks(good), Ok(Some(good.to_owned())));
        }
        for bad in [
            "",
            "http://id.example/keys",
            "http://127.0.0.1.evil.example/k",
            "http://127.0.0.1@evil/k",
            "ftp://x",
            "https://u:p@x/k",
        ] {
            assert!(jwks(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn shared_secrets_and_unknown_signatures_are_refused() {
        assert_eq!(algorithms("RS256, EdDSA").unwrap(), ["RS256", "EdDSA"]);
        assert!(algorithms("HS256").unwrap_err().contains("public key"));
        assert!(algorithms("none").unwrap_err().contains("is not one of RS256"));
        assert!(algorithms("").is_err());
    }

    #[test]
    fn jwts_need_keys_issuer_and_audience() {
        let default = JwtSettings::default();
        assert_eq!(default.check(), Ok(()));
        let issuer = JwtSettings { issuer: "i".to_owned(), ..default.clone() };
        assert!(issuer.check().unwrap_err().starts_with("auth_jwt_jwks is missing"));
        let keys = JwtSettings { jwks: Some("k".to_owned()), ..issuer };
        assert!(keys.check().unwrap_err().starts_with("auth_jwt_audience is missing"));
        assert_eq!(JwtSettings { audience: vec!["a".to_owned()], ..keys }.check(), Ok(()));
    }

    #[test]
    fn only_what_shows_no_data_can_be_public() {
        assert_eq!(public("/metrics").unwrap(), ["/metrics"]);
        assert!(public("/admin/tokens").unwrap_err().contains("/metrics, /openapi.json"));
    }
}
