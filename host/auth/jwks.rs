//! The public keys of those who sign JWTs (RFC 7517), from a file or a URL, kept and renewed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyOperations, PublicKeyUse};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey};
use serde_json::Value as Json;

use crate::clock::{Clock, Millis};
use crate::failure::{Code, Failure};

/// The least time between two looks at the source on behalf of callers, so that nobody can make the host ask all
/// the time by sending unknown key ids.
const LOOK_AGAIN: Millis = 10_000;
/// How often the source is looked at anyway: a key that its owner took out counts no longer than this.
const RENEW: Duration = Duration::from_secs(300);
/// How long a fetch may take in all, and how many bytes it may bring.
const FETCH_TIME: Duration = Duration::from_secs(5);
const FETCH_SIZE: u64 = 1 << 20;
/// The least length of an RSA key, in characters of base64 (2048 bits; RFC 7518, section 3.3).
const RSA_LEAST: usize = 342;

/// What is wrong with a set that is read and of no use.
const NO_KEY: &str = "none of the keys in it can check a signature";

/// A key that a signature can be checked with.
pub(super) struct Key {
    id: Option<String>,
    /// The signatures that it can check, whether they are taken or not.
    algorithms: Vec<Algorithm>,
    pub key: DecodingKey,
}

/// The keys, as they were last seen. They go on counting while the source is away.
pub(super) struct Jwks {
    source: Arc<Source>,
    /// The signatures that are taken.
    taken: Vec<Algorithm>,
    clock: Arc<dyn Clock>,
    seen: RwLock<Seen>,
    /// Held while the source is asked: whoever else needs it meanwhile waits for the same answer.
    asking: tokio::sync::Mutex<()>,
}

/// Why nobody can be let in with a JWT.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the keys for JWTs cannot be had from {source_name} (auth_jwt_jwks): {why}")]
pub struct Unusable {
    /// The file or URL.
    pub source_name: String,
    /// A file that cannot be used is for the operator to mend; a server may be back in a moment.
    pub is_file: bool,
    pub why: String,
    /// Whether its keys are good ones, and only not for the signatures that are taken.
    pub others_only: bool,
}

impl Unusable {
    /// What to do about it.
    pub fn fix(&self) -> &'static str {
        if self.others_only {
            "name what the issuer signs with in auth_jwt_algorithms, or have it sign otherwise"
        } else if self.is_file {
            "put the issuer's key set there ({\"keys\": […]}), or name another file or URL"
        } else {
            "see that this machine reaches it, and that it answers with a key set; a host that has tokens, or listens on \
             loopback, starts without it and asks it again and again"
        }
    }
}

#[derive(Default)]
struct Seen {
    keys: Vec<Arc<Key>>,
    asked_at: Option<Millis>,
    /// Why the last look failed.
    fault: Option<String>,
}

enum Source {
    File(PathBuf),
    /// A blocking client on a thread of its own: fetches are rare. `rustls`, so that no system library is needed.
    Url(String, ureq::Agent),
}

impl Jwks {
    /// Keys from a file or URL, for signatures of the kinds that are `taken`; nothing is read yet.
    pub fn new(source: &str, taken: Vec<Algorithm>, clock: Arc<dyn Clock>) -> Self {
        let source = if source.contains("://") {
            // The machine's own list of authorities: it has those of a house's own too.
            let tls = ureq::tls::TlsConfig::builder().root_certs(ureq::tls::RootCerts::PlatformVerifier).build();
            let config = ureq::Agent::config_builder()
                .tls_config(tls)
                .timeout_global(Some(FETCH_TIME))
                .https_only(source.starts_with("https://"))
                .max_redirects(3)
                .user_agent(concat!("oncehost/", env!("CARGO_PKG_VERSION")))
                .build();
            Source::Url(source.to_owned(), config.into())
        } else {
            Source::File(Path::new(source).to_owned())
        };
        Self { source: Arc::new(source), taken, clock, seen: RwLock::default(), asking: tokio::sync::Mutex::default() }
    }

    /// The key that a JWT names, for a signature of this kind; without a name the only key that fits. Where it is not
    /// known the source is asked again, though not at each call. `None` when it has no such key.
    ///
    /// # Errors
    /// `UNAVAILABLE` when the source could not be asked and so nobody knows.
    pub async fn find(&self, id: Option<&str>, algorithm: Algorithm) -> Result<Option<Arc<Key>>, Failure> {
        if let Some(key) = self.known(id, algorithm) {
            return Ok(Some(key));
        }
        let asking = self.asking.lock().await;
        if let Some(key) = self.known(id, algorithm) {
            return Ok(Some(key));
        }
        self.ask_again().await;
        drop(asking);
        let found = self.known(id, algorithm);
        if found.is_none() && self.read().fault.is_some() {
            let mut failure = Failure::new(
                Code::Unavailable,
                "the keys that JWTs are checked with cannot be read at the moment; try again shortly",
            );
            failure.retry_after = u32::try_from(LOOK_AGAIN / 1000).ok();
            return Err(failure);
        }
        Ok(found)
    }

    /// Looks at the source, and says whether anybody can be let in by what it has.
    ///
    /// # Errors
    /// Why not.
    pub async fn look(&self) -> Result<usize, Unusable> {
        let asking = self.asking.lock().await;
        self.ask().await;
        drop(asking);
        let seen = self.read();
        let why = match &seen.fault {
            Some(fault) => fault.clone(),
            None => match self.why_useless(&seen.keys) {
                None => return Ok(seen.keys.iter().filter(|key| self.takes(key)).count()),
                Some(why) => why,
            },
        };
        let others_only = seen.fault.is_none() && !seen.keys.is_empty();
        let is_file = matches!(*self.source, Source::File(_));
        Err(Unusable { source_name: self.source.to_string(), is_file, why, others_only })
    }

    /// Whether a signature that this key can check is taken.
    fn takes(&self, key: &Key) -> bool {
        key.algorithms.iter().any(|algorithm| self.taken.contains(algorithm))
    }

    /// Why nobody can be let in by keys that were read; `None` where somebody can.
    fn why_useless(&self, keys: &[Arc<Key>]) -> Option<String> {
        if keys.is_empty() {
            return Some(NO_KEY.to_owned());
        }
        if keys.iter().any(|key| self.takes(key)) {
            return None;
        }
        let known: BTreeSet<String> = keys.iter().flat_map(|key| names(&key.algorithms)).collect();
        let (known, taken): (Vec<String>, _) = (known.into_iter().collect(), names(&self.taken).collect::<Vec<_>>());
        Some(format!(
            "its keys are for {}, and of these auth_jwt_algorithms takes none: it says {}",
            known.join(", "),
            taken.join(", ")
        ))
    }

    /// Reads the keys at once and then again and again, for as long as this is awaited.
    pub async fn keep_fresh(&self) {
        let mut rounds = tokio::time::interval(RENEW);
        rounds.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            rounds.tick().await;
            let _asking = self.asking.lock().await;
            self.ask_again().await;
        }
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, Seen> {
        self.seen.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self, id: Option<&str>, algorithm: Algorithm) -> Option<Arc<Key>> {
        let seen = self.read();
        let fits = |key: &&Arc<Key>| key.algorithms.contains(&algorithm);
        let mut fitting = seen.keys.iter().filter(|key| id.is_none() || key.id.as_deref() == id).filter(fits);
        match (fitting.next(), fitting.next()) {
            (Some(key), None) => Some(key.clone()),
            // Of several keys that fit none is the one that is meant.
            _ => None,
        }
    }

    /// Looks at the source, unless it was looked at just now.
    async fn ask_again(&self) {
        let asked_at = self.read().asked_at;
        // Either way from the last time, in case the clock was set back.
        if asked_at.is_none_or(|at| at.abs_diff(self.clock.now()) >= LOOK_AGAIN.abs_diff(0)) {
            self.ask().await;
            let seen = self.read();
            let (keys, source) = (seen.keys.len(), &self.source);
            match (&seen.fault, self.why_useless(&seen.keys)) {
                (Some(fault), _) => {
                    tracing::warn!(kept = keys, "the keys for JWTs cannot be read from {source}: {fault}");
                }
                (None, Some(why)) => tracing::warn!("{source}: {why}; nobody with a JWT is let in"),
                (None, None) => {}
            }
        }
    }

    /// Looks at the source. What was seen before stays when that fails.
    async fn ask(&self) {
        let source = self.source.clone();
        let read = tokio::task::spawn_blocking(move || source.read().and_then(|text| parse(&text)));
        let read = read.await.unwrap_or_else(|error| Err(error.to_string()));
        let mut seen = self.seen.write().unwrap_or_else(PoisonError::into_inner);
        seen.asked_at = Some(self.clock.now());
        seen.fault = match read {
            Ok(keys) => {
                seen.keys = keys;
                None
            }
            Err(fault) => Some(fault),
        };
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Source::File(path) => path.display().fmt(f),
            Source::Url(url, _) => f.write_str(url),
        }
    }
}

impl Source {
    fn read(&self) -> Result<String, String> {
        use std::io::Read;
        match self {
            Source::File(path) => {
                let mut text = String::new();
                let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
                file.take(FETCH_SIZE).read_to_string(&mut text).map_err(|error| error.to_string())?;
                Ok(text)
            }
            Source::Url(url, agent) => {
                let mut response = agent.get(url).call().map_err(|error| error.to_string())?;
                let body = response.body_mut().with_config().limit(FETCH_SIZE);
                body.read_to_string().map_err(|error| error.to_string())
            }
        }
    }
}

/// The keys of a set by which signatures can be checked; others in it are passed over (RFC 7517, section 5).
fn parse(text: &str) -> Result<Vec<Arc<Key>>, String> {
    let set: Json = serde_json::from_str(text.trim_start_matches('\u{feff}'))
        .map_err(|error| format!("this is not JSON: {error}"))?;
    let keys = set.get("keys").and_then(Json::as_array).ok_or("this is no set of keys: \"keys\" is missing")?;
    Ok(keys.iter().filter_map(usable).map(Arc::new).collect())
}

fn usable(key: &Json) -> Option<Key> {
    let jwk: Jwk = serde_json::from_value(key.clone()).ok()?;
    let signs = !matches!(jwk.common.public_key_use, Some(PublicKeyUse::Encryption));
    let verifies =
        jwk.common.key_operations.as_ref().is_none_or(|operations| operations.contains(&KeyOperations::Verify));
    let mut algorithms = possible(&jwk.algorithm);
    if let Some(only) = jwk.common.key_algorithm {
        let only = Algorithm::try_from(only).ok()?;
        algorithms.retain(|algorithm| *algorithm == only);
    }
    let key = DecodingKey::from_jwk(&jwk).ok()?;
    (signs && verifies && !algorithms.is_empty()).then_some(Key { id: jwk.common.key_id, algorithms, key })
}

/// The signatures that a key of this kind can check (RFC 7518, section 3.1; RFC 8037); none where it proves nothing.
fn possible(kind: &AlgorithmParameters) -> Vec<Algorithm> {
    if let AlgorithmParameters::RSA(key) = kind
        && key.n.len() >= RSA_LEAST
    {
        AlgorithmFamily::Rsa.algorithms().to_vec()
    } else if let AlgorithmParameters::EllipticCurve(key) = kind {
        let curves = [(EllipticCurve::P256, Algorithm::ES256), (EllipticCurve::P384, Algorithm::ES384)];
        curves.into_iter().filter(|(curve, _)| *curve == key.curve).map(|(_, algorithm)| algorithm).collect()
    } else if let AlgorithmParameters::OctetKeyPair(key) = kind
        && key.curve == EllipticCurve::Ed25519
    {
        vec![Algorithm::EdDSA]
    } else {
        Vec::new()
    }
}

/// As the settings and RFC 7518 name them.
fn names(algorithms: &[Algorithm]) -> impl Iterator<Item = String> {
    algorithms.iter().map(|algorithm| format!("{algorithm:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn kept(key: Json) -> usize {
        parse(&json!({ "keys": [key] }).to_string()).unwrap().len()
    }

    #[test]
    fn keys_that_check_no_signature_are_passed_over() {
        let x = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";
        assert_eq!(kept(json!({ "kty": "OKP", "crv": "Ed25519", "x": x })), 1);
        assert_eq!(kept(json!({ "kty": "OKP", "crv": "Ed25519", "x": x, "use": "sig", "alg": "EdDSA" })), 1);
        assert_eq!(kept(json!({ "kty": "OKP", "crv": "Ed25519", "x": x, "use": "enc" })), 0);
        assert_eq!(kept(json!({ "kty": "OKP", "crv": "Ed25519", "x": x, "key_ops": ["sign"] })), 0);
        assert_eq!(kept(json!({ "kty": "oct", "k": "c2VjcmV0" })), 0, "a shared secret");
        assert_eq!(kept(json!({ "kty": "RSA", "n": "AQAB", "e": "AQAB" })), 0, "a short key");
        assert_eq!(
            kept(json!({ "kty": "RSA", "n": "AQAB".repeat(86), "e": "AQAB", "alg": "ES256" })),
            0,
            "of another kind"
        );
        assert_eq!(kept(json!({ "kty": "new", "what": 1 })), 0);
        assert_eq!(kept(json!("nothing")), 0);
    }

    #[test]
    fn what_is_no_set_of_keys_is_refused() {
        assert!(parse("<html>").is_err());
        assert!(parse("{}").err().unwrap().contains("\"keys\" is missing"));
    }
}
