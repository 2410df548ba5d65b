//! Bodies, methods, paths, ids.

use super::*;

#[test]
fn call_reaches_the_lookup_of_its_plugin() {
    let heard = Site::new().call("", "{}");
    assert_eq!((heard.status, heard.error().as_str()), (404, "NOT_FOUND"));
    assert!(heard.body.contains(r#"no plugin \"p\""#), "{heard:?}");
    assert_eq!(heard.header("cache-control"), Some("no-store"));
}

#[test]
fn body_is_parsed_before_anything_is_looked_up() {
    let site = Site::new();
    assert_eq!(site.call("", "{").error(), "VALIDATION");
    assert_eq!(site.call("", "").error(), "VALIDATION");
    assert_eq!(site.call("", r#"{"a":1,"a":2}"#).error(), "VALIDATION");
    assert_eq!(site.call("X-Tenant-Id: a/b\r\n", "{").error(), "VALIDATION");
}

#[test]
fn body_over_the_limit_is_refused_whatever_length_it_declares() {
    let site = Site::new();
    let large = "9".repeat(1001);
    let declared = site.call("", &large);
    assert_eq!((declared.status, declared.error().as_str()), (413, "TOO_LARGE"));
    let json = "Content-Type: application/json\r\n";
    let chunked = format!("{json}Transfer-Encoding: chunked\r\n");
    let in_chunks = "1f4\r\n".to_owned() + &"9".repeat(500) + "\r\n";
    let absent = site.ask("POST", "/plugins/p/invoke/a", &chunked, &(in_chunks.repeat(3) + "0\r\n\r\n"));
    assert_eq!(absent.error(), "TOO_LARGE");
    let at_limit = site.ask("POST", "/plugins/p/invoke/a", &chunked, &(in_chunks.repeat(2) + "0\r\n\r\n"));
    assert_ne!(at_limit.error(), "TOO_LARGE");
    assert_eq!(site.call("", &large[1..]).status, 400, "a number of 1000 digits fits the body but not I-JSON");
}

#[test]
fn large_body_is_refused_before_it_is_sent_when_the_client_asks_first() {
    let site = Site::new();
    let lines = "Content-Type: application/json\r\nContent-Length: 5000000\r\nExpect: 100-continue\r\n";
    let heard = site.ask("POST", "/plugins/p/invoke/a", lines, "");
    assert_eq!((heard.status, heard.error().as_str()), (413, "TOO_LARGE"));
}

#[test]
fn bytes_past_the_declared_length_are_no_part_of_the_body() {
    let lines = "Content-Type: application/json\r\nContent-Length: 2\r\n";
    let heard = Site::new().ask("POST", "/plugins/p/invoke/a", lines, "{}garbage");
    assert_eq!(heard.error(), "NOT_FOUND");
}

#[test]
fn length_that_two_headers_state_differently_is_refused() {
    let lines = "Content-Type: application/json\r\nContent-Length: 2\r\nContent-Length: 3\r\n";
    assert_eq!(Site::new().ask("POST", "/plugins/p/invoke/a", lines, "{} ").status, 400);
}

#[test]
fn body_that_is_not_declared_as_json_is_refused() {
    let site = Site::new();
    let heard = site.ask("POST", "/plugins/p/invoke/a", "Content-Type: text/plain\r\nContent-Length: 2\r\n", "{}");
    assert_eq!((heard.status, heard.error().as_str()), (415, "MEDIA_TYPE"));
}

#[test]
fn wrong_method_says_which_ones_there_are() {
    let site = Site::new();
    for method in ["GET", "HEAD", "PUT", "DELETE", "BREW"] {
        let heard = site.ask(method, "/plugins/p/invoke/a", "", "");
        assert_eq!((heard.status, heard.header("allow")), (405, Some("POST")), "{method}");
        if method == "HEAD" {
            assert_eq!(heard.body, "");
        } else {
            assert_eq!(heard.error(), "METHOD");
        }
    }
    let heard = site.ask("POST", "/healthz", "Content-Length: 0\r\n", "");
    assert_eq!((heard.status, heard.header("allow")), (405, Some("GET,HEAD")));
}

#[test]
fn options_says_which_methods_there_are() {
    let site = Site::new();
    let heard = site.ask("OPTIONS", "/plugins/p/invoke/a", "", "");
    assert_eq!((heard.status, heard.header("allow"), heard.body.as_str()), (204, Some("POST,OPTIONS"), ""));
    assert_eq!(site.ask("OPTIONS", "/nope", "", "").status, 404);
    assert_eq!(site.ask("OPTIONS", "*", "", "").status, 404);
}

#[test]
fn unknown_path_is_not_found() {
    let site = Site::new();
    for path in
        ["/", "/nope", "/plugins/p/invoke/", "/plugins/p/invoke/a/", "/plugins//invoke/a", "/plugins/%ff/invoke/a"]
    {
        let lines = "Content-Type: application/json\r\nContent-Length: 2\r\n";
        let heard = site.ask("POST", path, lines, "{}");
        assert_eq!((heard.status, heard.error().as_str()), (404, "NOT_FOUND"), "{path}");
    }
}

#[test]
fn health_and_readiness_answer() {
    let site = Site::new();
    assert_eq!(site.ask("GET", "/healthz", "", "").status, 200);
    assert_eq!(site.ask("GET", "/readyz", "", "").body, r#"{"ready":true,"reasons":[]}"#);
    let head = site.ask("HEAD", "/healthz", "", "");
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    std::fs::remove_dir_all(&site.app.settings.data).unwrap();
    let heard = site.ask("GET", "/readyz", "", "");
    assert_eq!(heard.status, 503);
    assert!(heard.body.contains("data folder"), "{heard:?}");
    assert_eq!(site.ask("GET", "/healthz", "", "").status, 200);
}

#[test]
fn sane_request_id_is_taken_and_any_other_replaced() {
    let site = Site::new();
    let long = "x".repeat(128);
    for id in ["abc-1", long.as_str()] {
        let heard = site.call(&format!("X-Request-Id: {id}\r\n"), "{}");
        assert_eq!(heard.header("x-request-id"), Some(id));
    }
    let too_long = "x".repeat(129);
    for line in ["a b", "", too_long.as_str(), "é", "a\r\nX-Request-Id: b"] {
        let heard = site.call(&format!("X-Request-Id: {line}\r\n"), "{}");
        let made = heard.header("x-request-id").unwrap();
        assert_eq!(uuid::Uuid::parse_str(made).unwrap().get_version_num(), 7, "{line}");
        assert_eq!(heard.error(), "NOT_FOUND");
    }
}

#[test]
fn traceparent_does_no_harm() {
    let line = "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\ntracestate: a=b\r\n";
    assert_eq!(Site::new().call(line, "{}").error(), "NOT_FOUND");
}

#[test]
fn head_over_its_limit_is_refused() {
    let line = format!("X-Long: {}\r\n", "x".repeat(70_000));
    assert_eq!(Site::new().call(&line, "{}").status, 431);
}

#[test]
fn connection_goes_on_after_a_failure() {
    let site = Site::new();
    let one = format!(
        "POST /plugins/p/invoke/a HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: 2\r\n",
        site.address
    );
    let mut stream = site.connect();
    stream.write_all(format!("{one}\r\n{{}}{one}Connection: close\r\n\r\n{{}}").as_bytes()).unwrap();
    let mut all = String::new();
    stream.read_to_string(&mut all).unwrap();
    assert_eq!(all.matches("HTTP/1.1 404").count(), 2, "{all}");
}

#[test]
fn client_that_closed_its_sending_half_gets_its_answer() {
    let site = Site::new();
    let mut stream = site.connect();
    let head = format!("GET /healthz HTTP/1.1\r\nHost: {}\r\n\r\n", site.address);
    stream.write_all(head.as_bytes()).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(hear(&mut stream).status, 200);
}

#[test]
fn connection_past_the_limit_is_served_when_a_place_is_free() {
    let site = Site::new();
    let mut open: Vec<TcpStream> = (0..5).map(|_| site.connect()).collect();
    let head = format!("GET /healthz HTTP/1.1\r\nHost: {}\r\n\r\n", site.address);
    for stream in &mut open {
        stream.write_all(head.as_bytes()).unwrap();
    }
    // Four places: whichever connection waits is served when one of the others has gone.
    let mut last = open.pop().unwrap();
    drop(open);
    let mut first = [0; 12];
    last.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
}
