//! Scopes of events: who may send, listen and operate, and for which tenant.

use std::time::Duration;

use serde_json::json;

use super::{Heard, ask, serve, token, ureq_agent};
use crate::support::host::Host;

fn send(host: &Host, secret: &str, id: &str) -> Heard {
    let event = json!({ "specversion": "1.0", "type": "heard", "source": "test", "id": id });
    let bearer = format!("Bearer {secret}");
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/cloudevents+json")];
    ask(host, "POST", "/events", &headers, &event.to_string())
}

fn get(host: &Host, secret: &str, path: &str) -> Heard {
    ask(host, "GET", path, &[("authorization", &format!("Bearer {secret}"))], "")
}

#[test]
fn sending_needs_its_scope_and_the_tenant_is_the_tokens() {
    let host = serve(|_| {});
    let (writer, _) = token(&host, "acme", &["events:write"], None);
    let (other, _) = token(&host, "umbrella", &["events:write"], None);
    let (caller, _) = token(&host, "acme", &["invoke:*", "operator"], None);
    assert_eq!(send(&host, "none", "1").status, 401);
    let refused = send(&host, &caller, "1");
    assert_eq!((refused.status, refused.error().as_str()), (403, "FORBIDDEN"));
    let (first, second) = (send(&host, &writer, "1"), send(&host, &other, "1"));
    assert_eq!((first.status, second.status), (202, 202), "{} {}", first.body, second.body);
    assert_ne!(first.json()["eventId"], second.json()["eventId"], "tenants do not share ids");
    let database = rusqlite::Connection::open(host.app.settings.data.join("host.db")).unwrap();
    let mut statement = database.prepare("SELECT tenant FROM events ORDER BY id").unwrap();
    let tenants: Vec<String> = statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    assert_eq!(tenants, ["acme", "umbrella"]);
}

#[test]
fn listening_needs_the_scope_of_each_topic() {
    let host = serve(|_| {});
    let (one, _) = token(&host, "acme", &["notifications:item.added"], None);
    assert_eq!(ask(&host, "GET", "/notifications?topics=item.added", &[], "").status, 401);
    let refused = get(&host, &one, "/notifications?topics=item.added,item.counted");
    assert_eq!((refused.status, refused.error().as_str()), (403, "FORBIDDEN"));
    assert!(refused.body.contains("notifications:item.counted"), "{}", refused.body);
}

#[test]
fn stream_ends_with_the_credentials_that_it_began_with() {
    let host = serve(|_| {});
    let (secret, _) = token(&host, "acme", &["notifications:item.added"], Some(Duration::from_secs(60)));
    let request = ureq::http::Request::builder()
        .uri(format!("{}/notifications?topics=item.added", host.url))
        .header("authorization", format!("Bearer {secret}"));
    let mut response = ureq_agent().run(request.body(()).unwrap()).unwrap();
    assert_eq!(response.status(), 200);
    host.clock.advance(60_000);
    let heard = response.body_mut().read_to_string().unwrap();
    assert!(heard.starts_with(": listening"), "it began, and came to its end: {heard}");
}

#[test]
fn deliveries_are_for_operators() {
    let host = serve(|_| {});
    let (caller, _) = token(&host, "acme", &["invoke:*", "events:write", "notifications:*"], None);
    let (operator, _) = token(&host, "acme", &["operator"], None);
    for path in ["/admin/events", "/admin/events/some-id"] {
        assert_eq!(get(&host, &caller, path).status, 403, "{path}");
    }
    assert_eq!(get(&host, &operator, "/admin/events?state=dead").json()["events"], json!([]));
    let replay = |secret: &str| {
        let bearer = format!("Bearer {secret}");
        let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
        ask(&host, "POST", "/admin/events/replay", &headers, r#"{ "all": true }"#)
    };
    assert_eq!((replay(&caller).status, replay(&operator).status), (403, 200));
}
