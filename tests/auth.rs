//! Who is let in by `serve`, and what he may do (spec, §5 and §8).

use std::time::Duration;

use oncehost::auth::token::NewToken;
use oncehost::config::Rate;
use serde_json::{Value as Json, json};

use crate::support::host::{Host, ureq_agent};
use crate::support::process::Folders;
use crate::support::scenario::files;
use crate::support::shop::SHOP;

mod events;
mod jwt;
mod tls;

/// The plugin that says who calls, beside the shop.
const WHO: &str = r#"
//- /who/plugin.json
{ "id": "who", "version": "1.0.0" }
//- /who/handlers/am-i.ts
export function handle(_input: unknown, ctx: any) { return { tenant: ctx.tenantId, user: ctx.user } }
"#;

/// An answer with its headers.
struct Heard {
    status: u16,
    headers: ureq::http::HeaderMap,
    body: String,
}

impl Heard {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    fn json(&self) -> Json {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    fn error(&self) -> String {
        self.json()["error"].as_str().unwrap_or_else(|| panic!("no failure: {}", self.body)).to_owned()
    }
}

fn serve(change: impl FnOnce(&mut oncehost::config::Settings)) -> Host {
    let mut all = files(SHOP);
    all.extend(files(WHO));
    Host::with(all, |settings| {
        settings.dev = false;
        change(settings);
    })
}

fn ask(host: &Host, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Heard {
    let mut request = ureq::http::Request::builder().method(method).uri(format!("{}{path}", host.url));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let mut response = ureq_agent().run(request.body(body.to_owned()).unwrap()).unwrap();
    let body = response.body_mut().read_to_string().unwrap();
    Heard { status: response.status().as_u16(), headers: response.headers().clone(), body }
}

fn call(host: &Host, token: &str, action: &str, more: &[(&str, &str)], body: &str) -> Heard {
    let bearer = format!("Bearer {token}");
    let mut headers = vec![("authorization", bearer.as_str()), ("content-type", "application/json")];
    headers.extend(more);
    let (plugin, action) = action.split_once('/').unwrap();
    ask(host, "POST", &format!("/plugins/{plugin}/invoke/{action}"), &headers, body)
}

/// A new token: its secret and its id.
fn token(host: &Host, tenant: &str, scopes: &[&str], expires: Option<Duration>) -> (String, String) {
    let scopes = scopes.iter().map(|scope| (*scope).to_owned()).collect();
    let new = NewToken { tenant: tenant.to_owned(), subject: "till-3".to_owned(), scopes, expires };
    let (secret, row) = host.app.auth.tokens.create(new, host.app.clock.as_ref(), host.app.ids.as_ref()).unwrap();
    (secret, row.id)
}

#[test]
fn call_without_or_with_bad_credentials_is_unauthenticated() {
    let host = serve(|_| {});
    let json = [("content-type", "application/json")];
    let heard = ask(&host, "POST", "/plugins/shop/invoke/add", &json, "{}");
    assert_eq!((heard.status, heard.error().as_str()), (401, "UNAUTHENTICATED"));
    assert_eq!(heard.header("www-authenticate"), Some("Bearer realm=\"oncehost\""));
    assert!(heard.body.contains("Authorization: Bearer"), "{}", heard.body);
    for bad in ["x", "oncehost_", "a.b.c"] {
        let heard = call(&host, bad, "shop/add", &[], "{}");
        assert_eq!((heard.status, heard.error().as_str()), (401, "UNAUTHENTICATED"), "{bad}");
        assert_eq!(heard.header("www-authenticate"), Some("Bearer realm=\"oncehost\", error=\"invalid_token\""));
    }
}

#[test]
fn token_says_who_calls_and_nothing_else_does() {
    let host = serve(|_| {});
    let (secret, _) = token(&host, "acme", &["invoke:who"], None);
    let heard =
        call(&host, &secret, "who/am-i", &[("x-tenant-id", "other")], r#"{"tenantId":"other","tenant":"other"}"#);
    assert_eq!(
        heard.json()["data"],
        json!({ "tenant": "acme", "user": { "subject": "till-3", "scopes": ["invoke:who"], "claims": {} } })
    );
}

#[test]
fn tenants_of_tokens_do_not_meet() {
    let host = serve(|_| {});
    let (red, _) = token(&host, "red", &["invoke:*"], None);
    let (blue, _) = token(&host, "blue", &["invoke:*"], None);
    let key = [("idempotency-key", "k")];
    let first = call(&host, &red, "shop/add", &key, r#"{"code":"a"}"#);
    let second = call(&host, &blue, "shop/add", &key, r#"{"code":"a"}"#);
    assert_eq!((first.status, second.status), (200, 200));
    assert_ne!(first.json()["data"]["id"], second.json()["data"]["id"]);
    assert_eq!(second.header("idempotent-replayed"), None);
    let again = call(&host, &blue, "shop/add", &key, r#"{"code":"a"}"#);
    assert_eq!((again.body.as_str(), again.header("idempotent-replayed")), (second.body.as_str(), Some("true")));
}

#[test]
fn key_of_another_subject_is_reused_not_replayed() {
    let host = serve(|_| {});
    let (till, _) = token(&host, "acme", &["invoke:shop"], None);
    let new = NewToken {
        tenant: "acme".to_owned(),
        subject: "till-4".to_owned(),
        scopes: vec!["invoke:shop".to_owned()],
        expires: None,
    };
    let (other, _) = host.app.auth.tokens.create(new, host.app.clock.as_ref(), host.app.ids.as_ref()).unwrap();
    let key = [("idempotency-key", "k")];
    assert_eq!(call(&host, &till, "shop/add", &key, r#"{"code":"a"}"#).status, 200);
    let heard = call(&host, &other, "shop/add", &key, r#"{"code":"a"}"#);
    assert_eq!(heard.error(), "KEY_REUSED");
    assert!(heard.body.contains("the caller is another"), "{}", heard.body);
}

#[test]
fn scope_that_is_missing_is_named() {
    let host = serve(|_| {});
    let (secret, _) = token(&host, "acme", &["invoke:who", "operator"], None);
    let heard = call(&host, &secret, "shop/add", &[], r#"{"code":"a"}"#);
    assert_eq!((heard.status, heard.error().as_str()), (403, "FORBIDDEN"));
    assert!(heard.body.contains("invoke:shop"), "{}", heard.body);
    assert_eq!(
        heard.header("www-authenticate"),
        Some("Bearer realm=\"oncehost\", error=\"insufficient_scope\", scope=\"invoke:shop\"")
    );
    assert_eq!(host.count("shop", "item"), 0);
}

#[test]
fn checks_come_in_the_order_of_the_contract() {
    let host = serve(|_| {});
    let (none, _) = token(&host, "acme", &["events:write"], None);
    let (all, _) = token(&host, "acme", &["invoke:*"], None);
    let bad_key = [("idempotency-key", "")];
    assert_eq!(call(&host, "x", "none/none", &bad_key, "{").error(), "VALIDATION");
    assert_eq!(call(&host, "x", "none/none", &bad_key, "{}").error(), "UNAUTHENTICATED");
    assert_eq!(call(&host, &none, "shop/none", &bad_key, "{}").error(), "NOT_FOUND");
    assert_eq!(call(&host, &none, "shop/add", &bad_key, "{}").error(), "FORBIDDEN");
    assert_eq!(call(&host, &all, "shop/must-have-key", &bad_key, "{}").error(), "KEY_INVALID");
    let key = [("idempotency-key", "k")];
    assert_eq!(call(&host, &all, "shop/must-have-key", &key, "{}").error(), "VALIDATION");
}

#[test]
fn expired_token_lets_nobody_in() {
    let host = serve(|_| {});
    let (secret, _) = token(&host, "acme", &["invoke:who"], Some(Duration::from_secs(60)));
    host.clock.advance(59_999);
    assert_eq!(call(&host, &secret, "who/am-i", &[], "{}").status, 200);
    host.clock.advance(1);
    let heard = call(&host, &secret, "who/am-i", &[], "{}");
    assert_eq!(heard.error(), "UNAUTHENTICATED");
    assert!(heard.body.contains("expired") && !heard.body.contains(&secret), "{}", heard.body);
}

#[test]
fn operator_makes_lists_and_revokes_tokens() {
    let host = serve(|_| {});
    let (operator, _) = token(&host, "acme", &["operator"], None);
    let bearer = format!("Bearer {operator}");
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
    let asked = r#"{"tenant":"blue","subject":"bob","scopes":["invoke:who"],"expires":"1h"}"#;
    let made = ask(&host, "POST", "/admin/tokens", &headers, asked);
    assert_eq!(made.status, 201, "{}", made.body);
    let (secret, id) =
        (made.json()["token"].as_str().unwrap().to_owned(), made.json()["id"].as_str().unwrap().to_owned());
    assert_eq!(call(&host, &secret, "who/am-i", &[], "{}").json()["data"]["tenant"], "blue");
    let listed = ask(&host, "GET", "/admin/tokens", &headers, "");
    let row = listed.json()["tokens"].as_array().unwrap().iter().find(|row| row["id"] == id.as_str()).unwrap().clone();
    assert_eq!(
        (row["tail"].as_str(), row["status"].as_str(), row["expires"].as_str()),
        (Some(&secret[secret.len() - 4..]), Some("active"), Some("2026-01-01T01:00:00.000Z"))
    );
    assert!(!listed.body.contains(&secret));
    let ended = ask(&host, "DELETE", &format!("/admin/tokens/{id}"), &headers, "");
    assert_eq!((ended.status, ended.json()["status"].as_str()), (200, Some("revoked")));
    assert_eq!(call(&host, &secret, "who/am-i", &[], "{}").error(), "UNAUTHENTICATED");
    let wrong = ask(&host, "POST", "/admin/tokens", &headers, r#"{"tenant":"blue","subjekt":"x","scopes":"operator"}"#);
    assert_eq!((wrong.status, wrong.error().as_str()), (400, "VALIDATION"));
    let fields: Vec<String> = wrong.json()["fields"].as_array().unwrap().iter().map(Json::to_string).collect();
    let named = |pointer: &str, text: &str| fields.iter().any(|it| it.contains(pointer) && it.contains(text));
    assert!(named("\"/subjekt\"", "did you mean") && named("\"/subject\"", "is missing"), "{fields:?}");
    assert!(named("\"/scopes\"", "must be an array of texts") && fields.len() == 3, "{fields:?}");
    assert_eq!(ask(&host, "DELETE", "/admin/tokens/none", &headers, "").error(), "NOT_FOUND");
}

#[test]
fn admin_paths_need_the_scope_operator() {
    let host = serve(|_| {});
    let (secret, _) = token(&host, "acme", &["invoke:*"], None);
    let bearer = format!("Bearer {secret}");
    for (method, path) in [("GET", "/admin/plugins"), ("GET", "/admin/tokens"), ("DELETE", "/admin/tokens/x")] {
        assert_eq!(ask(&host, method, path, &[], "").error(), "UNAUTHENTICATED", "{path}");
        let heard = ask(&host, method, path, &[("authorization", &bearer)], "");
        assert_eq!(heard.error(), "FORBIDDEN", "{path}");
        assert!(heard.body.contains("operator"), "{}", heard.body);
    }
    assert_eq!(ask(&host, "POST", "/admin/schema/apply", &[], "{}").error(), "NOT_FOUND");
    for open in ["/healthz", "/readyz"] {
        assert_eq!(ask(&host, "GET", open, &[], "").status, 200);
    }
}

#[test]
fn tokens_cannot_be_made_over_the_port_of_dev() {
    let all = files(SHOP);
    let host = Host::new(all);
    assert_eq!(ask(&host, "GET", "/admin/tokens", &[], "").error(), "NOT_FOUND");
}

#[test]
fn page_of_a_listed_origin_may_call_with_a_token() {
    let page = "https://app.example";
    let host = serve(|settings| settings.origins = vec![page.to_owned()]);
    let asked = [
        ("origin", page),
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "authorization,idempotency-key"),
    ];
    let preflight = ask(&host, "OPTIONS", "/plugins/who/invoke/am-i", &asked, "");
    assert_eq!((preflight.status, preflight.header("access-control-allow-origin")), (204, Some(page)));
    let allowed = preflight.header("access-control-allow-headers").unwrap();
    assert!(allowed.contains("authorization") && allowed.contains("idempotency-key"), "{allowed}");
    assert_eq!(preflight.header("access-control-allow-credentials"), None);
    let (secret, _) = token(&host, "acme", &["invoke:who"], None);
    let heard = call(&host, &secret, "who/am-i", &[("origin", page)], "{}");
    assert_eq!((heard.status, heard.header("access-control-allow-origin")), (200, Some(page)));
    assert_eq!(
        heard.header("access-control-expose-headers"),
        Some("idempotent-replayed, idempotency-expires, retry-after, x-request-id")
    );
    let refused = call(&host, "x", "who/am-i", &[("origin", page)], "{}");
    assert_eq!((refused.status, refused.header("access-control-allow-origin")), (401, Some(page)));
}

#[test]
fn page_of_another_origin_cannot_read_a_reply() {
    let host = serve(|settings| settings.origins = vec!["https://app.example".to_owned()]);
    let (secret, _) = token(&host, "acme", &["invoke:who"], None);
    for origin in ["https://evil.example", "null", "https://app.example.evil.example", "http://app.example"] {
        let asked = [("origin", origin), ("access-control-request-method", "POST")];
        let preflight = ask(&host, "OPTIONS", "/plugins/who/invoke/am-i", &asked, "");
        assert_eq!(preflight.header("access-control-allow-origin"), None, "{origin}");
        let heard = call(&host, &secret, "who/am-i", &[("origin", origin)], "{}");
        assert_eq!((heard.header("access-control-allow-origin"), heard.header("vary")), (None, Some("Origin")));
    }
}

#[test]
fn tenant_over_its_rate_waits_and_others_do_not() {
    let host = serve(|settings| {
        settings.rate = Some(Rate { count: 2, per: Duration::from_secs(60) });
        settings.rate_burst = Some(3);
    });
    let (red, _) = token(&host, "red", &["invoke:*", "operator"], None);
    let (blue, _) = token(&host, "blue", &["invoke:*"], None);
    let key = [("idempotency-key", "k")];
    for _ in 0..3 {
        // Replays count too.
        assert_eq!(call(&host, &red, "shop/add", &key, r#"{"code":"a"}"#).status, 200);
    }
    let heard = call(&host, &red, "shop/add", &key, r#"{"code":"a"}"#);
    assert_eq!((heard.status, heard.error().as_str(), heard.header("retry-after")), (429, "RATE_LIMITED", Some("30")));
    assert_eq!(heard.json()["retryable"], true);
    assert_eq!(call(&host, &blue, "who/am-i", &[], "{}").status, 200);
    let bearer = format!("Bearer {red}");
    assert_eq!(ask(&host, "GET", "/admin/plugins", &[("authorization", &bearer)], "").status, 200);
    host.clock.advance(30_000);
    assert_eq!(call(&host, &red, "shop/add", &key, r#"{"code":"a"}"#).status, 200);
    assert_eq!(call(&host, &red, "shop/add", &key, r#"{"code":"a"}"#).error(), "RATE_LIMITED");
}

#[test]
fn serve_starts_without_the_keys_for_jwts_only_where_they_may_come_back() {
    let folders = Folders::empty();
    std::fs::create_dir_all(folders.plugins()).unwrap();
    let with = |jwks: &str, args: &[&str]| {
        let mut command = folders.command(&[&["serve"], args].concat());
        let issuer = [("ISSUER", "https://id.example"), ("AUDIENCE", "x"), ("JWKS", jwks)];
        command.envs(issuer.map(|(name, value)| (format!("ONCEHOST_AUTH_JWT_{name}"), value)));
        command
    };
    let refused = |jwks: &str, args: &[&str], why: &str| {
        let ended = with(jwks, args).output().unwrap();
        let said = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(1), "{said}");
        let start = format!("oncehost: the keys for JWTs cannot be had from {jwks} (auth_jwt_jwks): ");
        assert!(said.lines().any(|line| line.starts_with(&start)) && said.contains(why), "{said}");
    };
    let file = folders.data().with_file_name("keys.json");
    refused(file.to_str().unwrap(), &[], "name another file or URL");
    std::fs::write(&file, "<html>").unwrap();
    refused(file.to_str().unwrap(), &[], "this is not JSON");
    std::fs::write(&file, r#"{"keys":[{"kty":"oct","k":"c2VjcmV0"}]}"#).unwrap();
    refused(file.to_str().unwrap(), &[], "none of the keys in it can check a signature");
    let key = r#"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;
    std::fs::write(&file, key).unwrap();
    let mut command = with(file.to_str().unwrap(), &[]);
    command.env("ONCEHOST_AUTH_JWT_ALGORITHMS", "RS256, ES256");
    let said = String::from_utf8(command.output().unwrap().stderr).unwrap();
    assert!(
        said.contains("its keys are for EdDSA, and of these auth_jwt_algorithms takes none: it says RS256, ES256"),
        "{said}"
    );
    assert!(said.contains("name what the issuer signs with in auth_jwt_algorithms"), "{said}");
    let away = "http://127.0.0.1:1/keys";
    let beyond = ["--listen", "0.0.0.0:0"];
    refused(away, &beyond, "a host that has tokens");
    let starts = |args: &[&str]| {
        let log = folders.data().with_file_name("log");
        let mut command = with(away, args);
        command.stdout(std::process::Stdio::piped()).stderr(std::fs::File::create(&log).unwrap());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut line).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let told = std::fs::read_to_string(&log).unwrap();
        assert!(line.contains("serving on"), "{line}{told}");
        assert!(told.contains("nobody is let in with a JWT until that answers"), "{told}");
    };
    starts(&[]);
    let made = folders.command(&["token", "create", "--tenant", "acme", "--subject", "a", "--scope", "operator"]);
    assert!({ made }.output().unwrap().status.success());
    starts(&beyond);
}

#[test]
fn serve_listens_beyond_loopback_only_with_credentials() {
    let folders = Folders::empty();
    std::fs::create_dir_all(folders.plugins()).unwrap();
    let refused = folders.command(&["serve", "--listen", "0.0.0.0:0"]).output().unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("oncehost token create") && said.contains("auth_jwt_jwks"), "{said}");
    let made = folders.command(&["token", "create", "--tenant", "acme", "--subject", "a", "--scope", "operator"]);
    let made = { made }.output().unwrap();
    assert_eq!(made.status.code(), Some(0), "{}", String::from_utf8_lossy(&made.stderr));
    let host = crate::support::process::Process::start(folders.command(&["serve"]));
    let secret = String::from_utf8(made.stdout).unwrap().lines().next().unwrap().to_owned();
    let list = |secret: &str| {
        let asked = ureq_agent().get(format!("{}/admin/tokens", host.url));
        let mut heard = asked.header("authorization", format!("Bearer {secret}")).call().unwrap();
        (heard.status().as_u16(), heard.body_mut().read_json::<Json>().unwrap())
    };
    let (status, listed) = list(&secret);
    assert_eq!(status, 200, "{listed}");
    // The command reaches the running host, where it counts at once.
    let id = listed["tokens"][0]["id"].as_str().unwrap();
    let revoked = folders.command(&["token", "revoke", id]).output().unwrap();
    assert_eq!(revoked.status.code(), Some(0), "{}", String::from_utf8_lossy(&revoked.stderr));
    assert_eq!(list(&secret).0, 401);
    let shown = folders.command(&["token", "list"]).output().unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("revoked") && shown.contains(&secret[secret.len() - 4..]), "{shown}");
    assert!(!shown.contains(&secret));
    assert!(host.terminate().success());
}
