//! JWTs of an issuer whose keys come from a server of the test's own.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use oncehost::config::JwtSettings;
use serde_json::{Value as Json, json};

use super::{Heard, ask, call, serve};
use crate::support::host::{Host, START};

const ISSUER: &str = "https://id.example";
/// Seconds since 1970 when all tests begin.
const NOW: i64 = START / 1000;

/// An Ed25519 key that is made of one byte.
pub(super) fn signing(seed: u8) -> EncodingKey {
    let mut der = vec![0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
    der.extend([seed; 32]);
    EncodingKey::from_ed_der(&der)
}

/// The public half of [`signing`], under a key id.
pub(super) fn public(seed: u8, id: &str) -> Json {
    let mut jwk = Jwk::from_encoding_key(&signing(seed), Algorithm::EdDSA).unwrap();
    jwk.common.key_id = Some(id.to_owned());
    serde_json::to_value(jwk).unwrap()
}

/// Serves a set of keys.
struct Issuer {
    address: SocketAddr,
    /// What it answers; `None`: it is broken.
    set: Arc<Mutex<Option<String>>>,
    asked: Arc<AtomicUsize>,
}

impl Issuer {
    fn with(keys: &[Json]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (set, asked) = (Arc::new(Mutex::new(None::<String>)), Arc::new(AtomicUsize::new(0)));
        let (answer, count) = (set.clone(), asked.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                BufReader::new(&stream)
                    .lines()
                    .map_while(Result::ok)
                    .take_while(|line| !line.is_empty())
                    .for_each(drop);
                count.fetch_add(1, Ordering::SeqCst);
                let (status, body) = match answer.lock().unwrap().clone() {
                    Some(set) => ("200 OK", set),
                    None => ("500 Broken", String::new()),
                };
                let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
                let _gone = stream.write_all((head + &body).as_bytes());
            }
        });
        let issuer = Self { address, set, asked };
        issuer.publish(keys);
        issuer
    }

    fn publish(&self, keys: &[Json]) {
        *self.set.lock().unwrap() = Some(json!({ "keys": keys }).to_string());
    }

    fn break_down(&self) {
        *self.set.lock().unwrap() = None;
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    fn host(&self) -> Host {
        self.host_with(|_| {})
    }

    fn host_with(&self, change: impl FnOnce(&mut JwtSettings)) -> Host {
        serve(|settings| {
            settings.jwt = JwtSettings {
                jwks: Some(format!("http://{}/keys", self.address)),
                issuer: ISSUER.to_owned(),
                audience: vec!["oncehost".to_owned()],
                ..JwtSettings::default()
            };
            change(&mut settings.jwt);
        })
    }
}

fn claims() -> Json {
    json!({ "iss": ISSUER, "aud": "oncehost", "sub": "ann", "tenant": "acme", "scope": "openid invoke:who",
        "exp": NOW + 3600 })
}

/// The usual claims with some of them replaced.
fn claims_with(other: Json) -> Json {
    let mut all = claims();
    for (name, value) in other.as_object().unwrap() {
        all[name] = value.clone();
    }
    all
}

fn signed(seed: u8, id: Option<&str>, claims: &Json) -> String {
    let header = Header { kid: id.map(str::to_owned), ..Header::new(Algorithm::EdDSA) };
    encode(&header, claims, &signing(seed)).unwrap()
}

fn who(host: &Host, token: &str) -> Heard {
    call(host, token, "who/am-i", &[], "{}")
}

fn refused(host: &Host, token: &str) -> String {
    let heard = who(host, token);
    assert_eq!((heard.status, heard.error().as_str()), (401, "UNAUTHENTICATED"), "{}", heard.body);
    assert!(!heard.body.contains(token) && heard.header("www-authenticate").unwrap().contains("invalid_token"));
    heard.json()["detail"].as_str().unwrap().to_owned()
}

#[test]
fn claims_say_who_calls_and_what_he_may() {
    let host = Issuer::with(&[public(1, "a")]).host();
    let token = signed(1, Some("a"), &claims());
    let heard = call(&host, &token, "who/am-i", &[("x-tenant-id", "other")], r#"{"tenant":"other"}"#);
    let user = json!({ "subject": "ann", "scopes": ["openid", "invoke:who"], "claims": claims() });
    assert_eq!(heard.json()["data"], json!({ "tenant": "acme", "user": user }));
    let heard = call(&host, &token, "shop/add", &[], "{}");
    assert_eq!((heard.status, heard.error().as_str()), (403, "FORBIDDEN"));
}

#[test]
fn tenant_and_scopes_may_stand_anywhere_in_the_claims() {
    let host = Issuer::with(&[public(1, "a")]).host_with(|jwt| {
        jwt.tenant_claim = "https://example/tenant".to_owned();
        jwt.scope_claim = "/realm/roles".to_owned();
    });
    let extra = json!({ "https://example/tenant": "blue", "realm": { "roles": ["operator", "invoke:who"] } });
    let token = signed(1, Some("a"), &claims_with(extra));
    let heard = who(&host, &token).json();
    assert_eq!((&heard["data"]["tenant"], &heard["data"]["user"]["scopes"][0]), (&json!("blue"), &json!("operator")));
    let bearer = format!("Bearer {token}");
    assert_eq!(ask(&host, "GET", "/admin/plugins", &[("authorization", &bearer)], "").status, 200);
}

#[test]
fn claims_that_do_not_fit_are_refused() {
    let host = Issuer::with(&[public(1, "a")]).host();
    for (other, why) in [
        (json!({ "aud": "another" }), "aud"),
        (json!({ "aud": ["one", "two"] }), "aud"),
        (json!({ "aud": null }), "aud"),
        (json!({ "iss": "https://evil.example" }), "iss"),
        (json!({ "iss": null }), "iss"),
        (json!({ "iss": [ISSUER] }), "iss must be a text"),
        (json!({ "iss": { "name": ISSUER } }), "iss"),
        (json!({ "aud": ["oncehost", 7] }), "aud"),
        (json!({ "aud": { "oncehost": true } }), "aud"),
        (json!({ "sub": ["ann"] }), "sub"),
        (json!({ "sub": { "id": "ann" } }), "sub"),
        (json!({ "exp": [1] }), "exp"),
        (json!({ "nbf": "now" }), "nbf"),
        (json!({ "scope": 7 }), "scope is neither"),
        (json!({ "scope": ["invoke:who", 7] }), "scope is neither"),
        (json!({ "sub": "" }), "sub"),
        (json!({ "sub": 7 }), "sub"),
        (json!({ "exp": null }), "exp"),
        (json!({ "exp": "never" }), "exp"),
        (json!({ "tenant": null }), "tenant"),
        (json!({ "tenant": "a/b" }), "tenant"),
        (json!({ "tenant": "../acme" }), "tenant"),
        (json!({ "tenant": ["acme"] }), "tenant"),
        (json!({ "tenant": "" }), "tenant"),
    ] {
        let said = refused(&host, &signed(1, Some("a"), &claims_with(other.clone())));
        assert!(said.contains(why), "{other}: {said}");
    }
    let several = claims_with(json!({ "aud": ["another", "oncehost"] }));
    assert_eq!(who(&host, &signed(1, Some("a"), &several)).status, 200);
}

#[test]
fn times_are_told_by_the_hosts_clock_with_some_skew() {
    let host = Issuer::with(&[public(1, "a")]).host();
    let token = |other: Json| signed(1, Some("a"), &claims_with(other));
    assert_eq!(who(&host, &token(json!({ "exp": NOW - 59 }))).status, 200);
    assert!(refused(&host, &token(json!({ "exp": NOW - 60 }))).contains("expired"));
    assert_eq!(who(&host, &token(json!({ "nbf": NOW + 60 }))).status, 200);
    assert!(refused(&host, &token(json!({ "nbf": NOW + 61 }))).contains("not good yet"));
    assert!(refused(&host, &token(json!({ "nbf": "x" }))).contains("nbf"));
    let hour = token(json!({ "exp": NOW + 3600 }));
    host.clock.advance(3_659_999);
    assert_eq!(who(&host, &hour).status, 200);
    host.clock.advance(1);
    assert!(refused(&host, &hour).contains("expired"));
}

#[test]
fn signatures_that_prove_nothing_are_refused() {
    let issuer = Issuer::with(&[public(1, "a")]);
    let host = issuer.host();
    let part = |json: Json| URL_SAFE_NO_PAD.encode(json.to_string());
    for alg in ["none", "None", "NONE", ""] {
        let unsigned = format!("{}.{}.", part(json!({ "alg": alg, "kid": "a" })), part(claims()));
        refused(&host, &unsigned);
    }
    // The public key, taken for a shared secret, in the forms in which it is known.
    let jwk = public(1, "a");
    let x = jwk["x"].as_str().unwrap();
    for secret in [x.as_bytes().to_vec(), URL_SAFE_NO_PAD.decode(x).unwrap(), jwk.to_string().into_bytes()] {
        let header = Header { kid: Some("a".to_owned()), ..Header::new(Algorithm::HS256) };
        let forged = encode(&header, &claims(), &EncodingKey::from_secret(&secret).unwrap()).unwrap();
        assert!(refused(&host, &forged).contains("kind that is not taken"));
    }
    assert!(refused(&host, &signed(2, Some("a"), &claims())).contains("does not fit"), "another's key");
    let good = signed(1, Some("a"), &claims());
    let (head, rest) = good.split_once('.').unwrap();
    let signature = rest.split_once('.').unwrap().1;
    refused(&host, &format!("{head}.{}.{signature}", part(claims_with(json!({ "tenant": "blue" })))));
    for broken in ["a.b.c", "..", "a.b", &good[..good.len() - 4], &format!("{good}.x")] {
        refused(&host, broken);
    }
    // A key that comes with the JWT itself counts for nothing.
    let mut header = Header { kid: Some("own".to_owned()), ..Header::new(Algorithm::EdDSA) };
    header.jwk = Some(serde_json::from_value(public(2, "own")).unwrap());
    refused(&host, &encode(&header, &claims(), &signing(2)).unwrap());
}

#[test]
fn kind_of_signature_that_is_not_listed_is_refused() {
    let host = Issuer::with(&[public(1, "a")]).host_with(|jwt| jwt.algorithms = vec!["RS256".to_owned()]);
    assert!(refused(&host, &signed(1, Some("a"), &claims())).contains("kind that is not taken"));
}

#[test]
fn signatures_of_another_implementation_are_taken() {
    let made: Json = serde_json::from_str(include_str!("signed.json")).unwrap();
    let issuer = Issuer::with(made["keys"].as_array().unwrap());
    let host = issuer.host();
    let tokens = made["tokens"].as_object().unwrap();
    assert_eq!(tokens.len(), 5);
    for (algorithm, token) in tokens {
        let heard = who(&host, token.as_str().unwrap());
        assert_eq!(heard.json()["data"]["user"]["subject"], algorithm.as_str(), "{}", heard.body);
    }
    // One kind's signature under another kind's key.
    let mixed = made["keys"].as_array().unwrap();
    issuer.publish(
        &mixed
            .iter()
            .map(|key| {
                let mut key = key.clone();
                key["alg"] = json!(if key["kid"] == "RS256" { "PS256" } else { key["alg"].as_str().unwrap() });
                key
            })
            .collect::<Vec<_>>(),
    );
    let host = issuer.host();
    assert!(refused(&host, tokens["RS256"].as_str().unwrap()).contains("key set does not have"));
}

#[test]
fn new_key_of_the_issuer_is_found_and_an_old_one_forgotten() {
    let issuer = Issuer::with(&[public(1, "a")]);
    let host = issuer.host();
    assert_eq!(who(&host, &signed(1, Some("a"), &claims())).status, 200);
    issuer.publish(&[public(2, "b")]);
    // Not at once: the source was asked just now.
    assert!(refused(&host, &signed(2, Some("b"), &claims())).contains("key set does not have"));
    host.clock.advance(10_000);
    assert_eq!(who(&host, &signed(2, Some("b"), &claims())).status, 200);
    assert!(refused(&host, &signed(1, Some("a"), &claims())).contains("key set does not have"));
}

#[test]
fn unknown_keys_do_not_make_the_host_ask_all_the_time() {
    let issuer = Issuer::with(&[public(1, "a")]);
    let host = issuer.host();
    assert_eq!(who(&host, &signed(1, Some("a"), &claims())).status, 200);
    let before = issuer.asked();
    for number in 0..50 {
        refused(&host, &signed(1, Some(&format!("x{number}")), &claims()));
    }
    assert_eq!(issuer.asked(), before);
    host.clock.advance(10_000);
    for number in 0..50 {
        refused(&host, &signed(1, Some(&format!("x{number}")), &claims()));
    }
    assert_eq!(issuer.asked(), before + 1);
    // A clock that was set back an hour does not put off the next look for an hour.
    host.clock.advance(-3_600_000);
    refused(&host, &signed(1, Some("y"), &claims()));
    assert_eq!(issuer.asked(), before + 2);
}

#[test]
fn known_keys_count_while_the_issuer_is_away() {
    let issuer = Issuer::with(&[public(1, "a")]);
    let host = issuer.host();
    assert_eq!(who(&host, &signed(1, Some("a"), &claims())).status, 200);
    issuer.break_down();
    host.clock.advance(10_000);
    // Whether this key is the issuer's, nobody can say now.
    let heard = who(&host, &signed(2, Some("b"), &claims()));
    assert_eq!((heard.status, heard.error().as_str(), heard.header("retry-after")), (503, "UNAVAILABLE", Some("10")));
    assert_eq!(who(&host, &signed(1, Some("a"), &claims())).status, 200);
    issuer.publish(&[public(2, "b")]);
    host.clock.advance(10_000);
    assert_eq!(who(&host, &signed(2, Some("b"), &claims())).status, 200);
}

#[test]
fn jwt_without_a_key_id_is_taken_where_only_one_key_fits() {
    let issuer = Issuer::with(&[public(1, "a")]);
    assert_eq!(who(&issuer.host(), &signed(1, None, &claims())).status, 200);
    issuer.publish(&[public(1, "a"), public(2, "b")]);
    refused(&issuer.host(), &signed(1, None, &claims()));
}

#[test]
fn keys_come_from_a_file_too() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys.json");
    std::fs::write(&file, json!({ "keys": [public(1, "a")] }).to_string()).unwrap();
    let host = Issuer::with(&[]).host_with(|jwt| jwt.jwks = Some(file.to_str().unwrap().to_owned()));
    assert_eq!(who(&host, &signed(1, Some("a"), &claims())).status, 200);
    std::fs::write(&file, json!({ "keys": [public(2, "b")] }).to_string()).unwrap();
    host.clock.advance(10_000);
    assert_eq!(who(&host, &signed(2, Some("b"), &claims())).status, 200);
}

#[test]
fn jwts_are_refused_where_no_issuer_is_set() {
    let host = serve(|_| {});
    assert!(refused(&host, &signed(1, Some("a"), &claims())).contains("takes no JWTs"));
}
