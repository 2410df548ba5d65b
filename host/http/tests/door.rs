//! Who is let in.

use super::*;

const PAGE: &str = "http://localhost:5173";

#[test]
fn request_for_a_foreign_name_is_refused() {
    let site = Site::new();
    let port = site.address.port();
    for host in
        ["evil.example".to_owned(), format!("evil.example:{port}"), "127.0.0.1".to_owned(), "127.0.0.1:1".to_owned()]
    {
        let heard = site.say(&format!("GET /healthz HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"));
        assert_eq!((heard.status, heard.error().as_str()), (403, "FORBIDDEN"), "{host}");
    }
    let absent = site.say("GET /healthz HTTP/1.0\r\n\r\n");
    assert_eq!(absent.status, 403);
    let absolute = site.say("GET http://evil.example/healthz HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n");
    assert_eq!(absolute.status, 403);
    let doubled = site.say("GET /healthz HTTP/1.1\r\nHost: HOST\r\nHost: evil.example\r\nConnection: close\r\n\r\n");
    assert_eq!(doubled.status, 403);
    let own = site.say(&format!("GET /healthz HTTP/1.1\r\nHost: LocalHost:{port}\r\nConnection: close\r\n\r\n"));
    assert_eq!(own.status, 200);
}

#[test]
fn page_of_another_origin_is_refused_also_a_local_one_with_another_port() {
    let site = Site::new();
    let own = format!("Origin: http://{}\r\n", site.address);
    assert_eq!(site.call(&own, "{}").error(), "NOT_FOUND");
    for origin in ["http://evil.example", PAGE, "null", "https://HOST", ""] {
        let heard = site.call(&format!("Origin: {origin}\r\n"), "{}");
        assert_eq!((heard.status, heard.error().as_str()), (403, "FORBIDDEN"), "{origin}");
        assert_eq!(heard.header("access-control-allow-origin"), None);
    }
    let doubled = format!("{own}{own}");
    assert_eq!(site.call(&doubled, "{}").status, 403);
    assert_eq!(site.ask("OPTIONS", "/plugins/p/invoke/a", &format!("Origin: {PAGE}\r\n"), "").status, 403);
}

#[test]
fn page_of_a_listed_origin_may_call_and_read_the_reply() {
    let site = Site::with(|settings| settings.origins = vec![PAGE.to_owned()]);
    let asked = "Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: idempotency-key\r\n";
    let preflight = site.ask("OPTIONS", "/plugins/p/invoke/a", &format!("Origin: {PAGE}\r\n{asked}"), "");
    assert_eq!((preflight.status, preflight.header("access-control-allow-origin")), (204, Some(PAGE)));
    assert!(preflight.header("access-control-allow-headers").unwrap().contains("idempotency-key"));
    assert!(preflight.header("access-control-allow-methods").unwrap().contains("POST"));
    let heard = site.call(&format!("Origin: {PAGE}\r\n"), "{}");
    assert_eq!((heard.error().as_str(), heard.header("access-control-allow-origin")), ("NOT_FOUND", Some(PAGE)));
    let exposed = "idempotent-replayed, idempotency-expires, retry-after, x-request-id";
    assert_eq!(heard.header("access-control-expose-headers"), Some(exposed));
    assert_eq!(site.call("", "{}").header("vary"), Some("Origin"));
    assert_eq!(site.call("Origin: http://localhost:5174\r\n", "{}").status, 403);
}

#[test]
fn tables_are_changed_over_the_local_socket_only() {
    let lines = "Content-Type: application/json\r\nContent-Length: 2\r\n";
    let heard = Site::new().ask("POST", "/admin/schema/apply", lines, "{}");
    assert_eq!((heard.status, heard.error().as_str()), (404, "NOT_FOUND"));
}

#[test]
fn plugins_are_listed() {
    let heard = Site::new().ask("GET", "/admin/plugins", "", "");
    assert_eq!((heard.status, heard.body.as_str()), (200, r#"{"plugins":[],"broken":[]}"#));
}

#[test]
fn wrong_parameter_of_an_address_is_named_with_what_it_takes() {
    let site = Site::new();
    for (path, field, text) in [
        ("/admin/flows?limit=abc", "/limit", "a whole number from 1 to 1000, not \\\"abc\\\""),
        ("/admin/flows?limit=0", "/limit", "a whole number from 1 to 1000"),
        ("/admin/flows?status=foo", "/status", "must be one of running"),
        ("/admin/flows?cursor=x", "/cursor", "none that a page gave"),
        ("/admin/flows?plugin=a&plugin=b", "/plugin", "is there twice"),
        ("/admin/flows/f-1?tennant=a", "/tennant", "did you mean"),
        ("/admin/events?limit=1e3", "/limit", "a whole number from 1 to 1000"),
        ("/admin/events?state=foo", "/state", "waiting, running, done"),
        ("/admin/events?since=yesterday", "/since", "ISO 8601"),
        ("/admin/events?cursor=x", "/cursor", "none that a list gave"),
        ("/admin/events?stat=dead", "/stat", "did you mean"),
        ("/notifications?topics=a,,b", "/topics", "a topic without a name"),
        ("/notifications?topic=a", "/topic", "no parameter here"),
    ] {
        let heard = site.ask("GET", path, "", "");
        assert_eq!((heard.status, heard.error().as_str()), (400, "VALIDATION"), "{path}: {}", heard.body);
        assert!(
            heard.body.contains(&format!(r#""pointer":"{field}""#)) && heard.body.contains(text),
            "{path}: {}",
            heard.body
        );
    }
}
