//! Tokens: credentials that the host makes itself.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::{Caller, User, is_tenant, scope};
use crate::clock::{Clock, Millis, millis};
use crate::failure::{Code, Failure};
use crate::ids::Ids;
use crate::store::StoreError;
use crate::store::host_db::{HostDb, TokenRow};

/// What every secret begins with, so that people and scanners for leaked secrets know one when they see it.
pub const PREFIX: &str = "oncehost_";
/// Hexadecimal digits of 256 random bits, and of the checksum after them.
const RANDOM: usize = 64;
const CHECK: usize = 8;

/// A new secret from the machine's randomness.
fn new_secret() -> Result<String, Failure> {
    let mut random = [0_u8; RANDOM / 2];
    getrandom::fill(&mut random).map_err(|error| {
        Failure::new(Code::Unavailable, format!("the machine gave no random numbers for a token: {error}"))
    })?;
    let mut secret = PREFIX.to_owned();
    secret.push_str(&hex(&random));
    let check = checksum(&secret);
    secret.push_str(&check);
    Ok(secret)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut out, byte| {
        let _infallible = write!(out, "{byte:02x}");
        out
    })
}

fn checksum(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes())[..CHECK / 2])
}

/// Whether a text has the form of a secret, its checksum included: what a slip of the pen or of the clipboard breaks.
fn is_well_formed(secret: &str) -> bool {
    let lower_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    secret.len() == PREFIX.len() + RANDOM + CHECK
        && secret.strip_prefix(PREFIX).is_some_and(|rest| rest.bytes().all(lower_hex))
        && checksum(&secret[..PREFIX.len() + RANDOM]) == secret[PREFIX.len() + RANDOM..]
}

/// What is kept of a secret. A slow hash is for secrets that can be guessed; nobody goes through 256 random bits, so
/// one round of SHA-256 is enough, and cheap at each request.
fn hash_of(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

/// What a token is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewToken {
    pub tenant: String,
    pub subject: String,
    pub scopes: Vec<String>,
    /// How long it is good for; `None`: until it is revoked.
    pub expires: Option<Duration>,
}

/// All tokens. The database holds them for good; the ones that still count are in memory too, for each request.
pub struct Tokens {
    db: Arc<HostDb>,
    /// By the hash of the secret. A lookup's time may depend on the hash, but a caller cannot choose the hash of what
    /// he sends, so it tells him nothing about a secret: no comparison here needs constant time.
    live: RwLock<HashMap<[u8; 32], Arc<TokenRow>>>,
}

impl Tokens {
    /// The tokens of a database.
    ///
    /// # Errors
    /// When the database fails.
    pub fn open(db: Arc<HostDb>) -> Result<Self, StoreError> {
        let live = db.tokens()?.into_iter().filter(|token| token.revoked_at.is_none());
        let live = live.map(|token| (token.hash, Arc::new(token))).collect();
        Ok(Self { db, live: RwLock::new(live) })
    }

    /// Makes a token and gives its secret, which is kept nowhere.
    ///
    /// # Errors
    /// `VALIDATION` for a tenant, subject or scope that has not the right form; when the database fails.
    pub fn create(&self, new: NewToken, clock: &dyn Clock, ids: &dyn Ids) -> Result<(String, TokenRow), Failure> {
        check(&new).map_err(|why| Failure::new(Code::Validation, why))?;
        let (secret, now) = (new_secret()?, clock.now());
        let row = TokenRow {
            id: ids.rising(now).to_string(),
            hash: hash_of(&secret),
            tail: secret[secret.len() - 4..].to_owned(),
            tenant: new.tenant,
            subject: new.subject,
            scopes: new.scopes,
            created_at: now,
            expires_at: new.expires.map(|expires| now.saturating_add(millis(expires))),
            revoked_at: None,
        };
        self.db.add_token(&row)?;
        self.live.write().unwrap_or_else(PoisonError::into_inner).insert(row.hash, Arc::new(row.clone()));
        Ok((secret, row))
    }

    /// Every token there is, the oldest first; also those that are over.
    ///
    /// # Errors
    /// When the database fails.
    pub fn list(&self) -> Result<Vec<TokenRow>, Failure> {
        Ok(self.db.tokens()?)
    }

    /// Ends a token: no request that comes in after this is let in by it. Revoking it again changes nothing.
    ///
    /// # Errors
    /// `NOT_FOUND`; when the database fails.
    pub fn revoke(&self, id: &str, clock: &dyn Clock) -> Result<TokenRow, Failure> {
        let row = self.db.revoke_token(id, clock.now())?.ok_or_else(|| {
            let id: String = id.chars().take(80).collect();
            Failure::new(Code::NotFound, format!("there is no token {id}; `oncehost token list` shows their ids"))
        })?;
        self.live.write().unwrap_or_else(PoisonError::into_inner).remove(&row.hash);
        Ok(row)
    }

    /// Forgets tokens that were over before `before`.
    ///
    /// # Errors
    /// When the database fails.
    pub fn clear(&self, before: Millis) -> Result<usize, Failure> {
        let cleared = self.db.clear_tokens(before)?;
        let kept = |token: &TokenRow| token.expires_at.is_none_or(|at| at >= before);
        self.live.write().unwrap_or_else(PoisonError::into_inner).retain(|_, token| kept(token));
        Ok(cleared)
    }

    /// Whether one of them lets anybody in at the moment.
    pub fn any(&self, now: Millis) -> bool {
        let live = self.live.read().unwrap_or_else(PoisonError::into_inner);
        live.values().any(|token| !is_over(token, now))
    }

    /// Whose secret this is.
    ///
    /// # Errors
    /// `UNAUTHENTICATED`; it never repeats the secret.
    pub fn caller(&self, secret: &str, now: Millis) -> Result<Caller, Failure> {
        if !is_well_formed(secret) {
            return Err(super::invalid("the token is mistyped or cut off; send all of it"));
        }
        let found = self.live.read().unwrap_or_else(PoisonError::into_inner).get(&hash_of(secret)).cloned();
        let token = found.ok_or_else(|| super::invalid("the token is not known here, or was revoked"))?;
        if is_over(&token, now) {
            return Err(super::invalid("the token has expired; `oncehost token create` makes a new one"));
        }
        let user = User {
            subject: token.subject.clone(),
            scopes: token.scopes.clone(),
            claims: serde_json::Value::Object(serde_json::Map::new()),
        };
        Ok(Caller { tenant: token.tenant.clone(), user: Some(user) })
    }
}

fn is_over(token: &TokenRow, now: Millis) -> bool {
    token.revoked_at.is_some() || token.expires_at.is_some_and(|at| now >= at)
}

/// `active`, `expired` or `revoked`.
pub fn status(token: &TokenRow, now: Millis) -> &'static str {
    match token.revoked_at {
        Some(_) => "revoked",
        None if is_over(token, now) => "expired",
        None => "active",
    }
}

fn check(new: &NewToken) -> Result<(), String> {
    if !is_tenant(new.tenant.as_bytes()) {
        return Err("the tenant must be 1 to 64 letters, digits, dots, underscores or hyphens".to_owned());
    }
    if !(1..=255).contains(&new.subject.len()) || new.subject.chars().any(char::is_control) {
        return Err("the subject must be 1 to 255 bytes without control characters".to_owned());
    }
    if new.scopes.is_empty() {
        return Err("a token without a scope may do nothing; give it one, such as invoke:PLUGIN".to_owned());
    }
    if new.expires.is_some_and(|expires| expires.is_zero()) {
        return Err("the token would be over at once; let it last longer, such as 90d".to_owned());
    }
    new.scopes.iter().try_for_each(|scope| scope::check(scope))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;
    use crate::ids::SystemIds;

    fn tokens() -> (tempfile::TempDir, Tokens) {
        let folder = tempfile::tempdir().unwrap();
        let db = Arc::new(HostDb::open(folder.path()).unwrap());
        (folder, Tokens::open(db).unwrap())
    }

    fn new(expires: Option<Duration>) -> NewToken {
        let scopes = vec!["invoke:orders".to_owned()];
        NewToken { tenant: "acme".to_owned(), subject: "till-3".to_owned(), scopes, expires }
    }

    #[test]
    fn secret_is_recognisable_and_any_changed_character_shows() {
        let secret = new_secret().unwrap();
        assert!(secret.starts_with(PREFIX) && is_well_formed(&secret));
        for place in 0..secret.len() {
            let mut other = secret.clone().into_bytes();
            other[place] = if other[place] == b'a' { b'b' } else { b'a' };
            assert!(!is_well_formed(std::str::from_utf8(&other).unwrap()), "{place}");
            assert!(!is_well_formed(&secret[..place]), "{place}");
        }
        assert_ne!(secret, new_secret().unwrap());
        assert!(!is_well_formed(&secret.to_uppercase()) && !is_well_formed(&format!("{secret}0")));
        assert!(!is_well_formed(&format!("{PREFIX}{}", "é".repeat(36))));
    }

    #[test]
    fn secret_is_kept_nowhere() {
        let (folder, tokens) = tokens();
        let (secret, row) = tokens.create(new(None), &ManualClock::at(0), &SystemIds::default()).unwrap();
        assert!(!format!("{row:?}").contains(&secret[PREFIX.len()..PREFIX.len() + 20]));
        drop(tokens);
        for file in std::fs::read_dir(folder.path()).unwrap() {
            let bytes = std::fs::read(file.unwrap().path()).unwrap();
            let random = &secret.as_bytes()[PREFIX.len()..PREFIX.len() + RANDOM];
            assert!(!bytes.windows(random.len()).any(|window| window == random));
        }
    }

    #[test]
    fn token_tells_tenant_subject_and_scopes_until_it_expires() {
        let (_folder, tokens) = tokens();
        let (secret, _) =
            tokens.create(new(Some(Duration::from_millis(10))), &ManualClock::at(5), &SystemIds::default()).unwrap();
        let caller = tokens.caller(&secret, 14).unwrap();
        let user = caller.user.unwrap();
        assert_eq!((caller.tenant.as_str(), user.subject.as_str()), ("acme", "till-3"));
        assert_eq!(user.scopes, ["invoke:orders"]);
        let failure = tokens.caller(&secret, 15).unwrap_err();
        assert_eq!(failure.code, Code::Unauthenticated);
        assert!(failure.detail.contains("expired") && !failure.detail.contains(&secret));
        assert!(tokens.any(14) && !tokens.any(15));
    }

    #[test]
    fn revoked_token_counts_no_more_also_after_a_restart() {
        let (folder, tokens) = tokens();
        let clock = ManualClock::at(0);
        let (secret, row) = tokens.create(new(None), &clock, &SystemIds::default()).unwrap();
        assert!(tokens.caller(&secret, 0).is_ok());
        tokens.revoke(&row.id, &clock).unwrap();
        assert!(tokens.caller(&secret, 0).unwrap_err().detail.contains("revoked"));
        drop(tokens);
        let tokens = Tokens::open(Arc::new(HostDb::open(folder.path()).unwrap())).unwrap();
        assert!(tokens.caller(&secret, 0).is_err() && !tokens.any(0));
        assert_eq!(status(&tokens.list().unwrap()[0], 0), "revoked");
        assert_eq!(tokens.revoke("none", &clock).unwrap_err().code, Code::NotFound);
    }

    #[test]
    fn token_in_a_wrong_form_is_refused_with_the_right_one() {
        let why = |new: NewToken| check(&new).unwrap_err();
        assert!(why(NewToken { tenant: "a/b".to_owned(), ..new(None) }).contains("1 to 64 letters"));
        assert!(why(NewToken { subject: String::new(), ..new(None) }).contains("1 to 255 bytes"));
        assert!(why(NewToken { subject: "a\nb".to_owned(), ..new(None) }).contains("control characters"));
        assert!(why(NewToken { scopes: Vec::new(), ..new(None) }).contains("invoke:PLUGIN"));
        assert!(why(NewToken { scopes: vec!["all".to_owned()], ..new(None) }).contains("the scopes are"));
        assert!(why(new(Some(Duration::ZERO))).contains("90d"));
    }
}
