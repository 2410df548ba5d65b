//! The end: what is under way is answered, what is idle is closed, nothing hangs.

use super::*;

#[test]
fn stop_answers_what_is_under_way_and_closes_what_is_idle() {
    let site = Site::new();
    let mut idle = site.connect();
    idle.write_all(format!("GET /healthz HTTP/1.1\r\nHost: {}\r\n\r\n", site.address).as_bytes()).unwrap();
    let mut first = [0; 12];
    idle.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
    let mut busy = site.connect();
    let head = format!(
        "POST /plugins/p/invoke/a HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\
         Expect: 100-continue\r\n\r\n",
        site.address
    );
    busy.write_all(head.as_bytes()).unwrap();
    let mut go_on = [0; 25];
    busy.read_exact(&mut go_on).unwrap();
    assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n", "the request is under way now");

    site.stop.send(true).unwrap();
    let mut rest = String::new();
    idle.read_to_string(&mut rest).unwrap();
    assert!(rest.ends_with("{\"status\":\"ok\"}"), "closed without another byte: {rest}");
    busy.write_all(b"{}").unwrap();
    let heard = hear(&mut busy);
    assert_eq!((heard.error().as_str(), heard.header("connection")), ("NOT_FOUND", Some("close")));
    site.runtime.block_on(site.serving).unwrap();
    assert!(TcpStream::connect(site.address).is_err());
}

#[test]
fn stop_ends_requests_that_outlast_the_grace() {
    let site = Site::with(|settings| settings.stop_grace = Duration::from_millis(1));
    let mut stuck = site.connect();
    let head = format!(
        "POST /plugins/p/invoke/a HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\
         Expect: 100-continue\r\n\r\n",
        site.address
    );
    stuck.write_all(head.as_bytes()).unwrap();
    let mut go_on = [0; 25];
    stuck.read_exact(&mut go_on).unwrap();
    site.stop.send(true).unwrap();
    site.runtime.block_on(site.serving).unwrap();
    let mut rest = Vec::new();
    let _reset = stuck.read_to_end(&mut rest);
    assert_eq!(rest, b"");
}

#[test]
fn head_that_cannot_be_read_gets_a_whole_problem() {
    let site = Site::new();
    let long = |length: usize| "a".repeat(length);
    for (head, status, error, says) in [
        ("nonsense\r\n\r\n".to_owned(), 400, "VALIDATION", "no HTTP/1.1 request"),
        ("GET / HTTP/1.1\r\nHost HOST\r\n\r\n".to_owned(), 400, "VALIDATION", "malformed"),
        ("GET /a b HTTP/1.1\r\nHost: HOST\r\n\r\n".to_owned(), 400, "VALIDATION", "first line"),
        ("POST / HTTP/1.1\r\nHost: HOST\r\nContent-Length: x\r\n\r\n".to_owned(), 400, "VALIDATION", "length"),
        (format!("GET / HTTP/1.1\r\nHost: HOST\r\nX: {}\r\n\r\n", long(70_000)), 431, "TOO_LARGE", "headers"),
        (format!("GET /{} HTTP/1.1\r\nHost: HOST\r\n\r\n", long(70_000)), 431, "TOO_LARGE", "too large"),
    ] {
        let heard = site.say(&head);
        assert_eq!((heard.status, heard.error().as_str()), (status, error), "{heard:?}");
        assert!(heard.body.contains(says), "{heard:?}");
        assert_eq!(heard.header("connection"), Some("close"));
        assert_eq!(heard.header("content-length"), Some(heard.body.len().to_string().as_str()));
    }
}

#[test]
fn length_beside_transfer_encoding_is_refused_in_either_order() {
    let site = Site::new();
    let json = "Content-Type: application/json\r\n";
    let chunked = "Transfer-Encoding: chunked\r\n";
    for lines in [format!("{json}Content-Length: 2\r\n{chunked}"), format!("{json}{chunked}content-length: 2\r\n")] {
        let heard = site.ask("POST", "/plugins/p/invoke/a", &lines, "2\r\n{}\r\n0\r\n\r\n");
        assert_eq!((heard.status, heard.error().as_str()), (400, "VALIDATION"), "{heard:?}");
        assert!(heard.body.contains("send one of them"), "{heard:?}");
    }
    let one = site.ask("POST", "/plugins/p/invoke/a", &format!("{json}{chunked}"), "2\r\n{}\r\n0\r\n\r\n");
    assert_eq!(one.error(), "NOT_FOUND");
}

#[test]
fn connections_on_which_nothing_is_asked_keep_nobody_out() {
    let site = Site::new();
    // One place each, and there are four: without a byte, with half a head, idle after an answer, and at something.
    let _silent = site.connect();
    let mut half = site.connect();
    half.write_all(b"GET /healthz HTTP/1.1\r\nHos").unwrap();
    let mut idle = site.connect();
    idle.write_all(format!("GET /healthz HTTP/1.1\r\nHost: {}\r\n\r\n", site.address).as_bytes()).unwrap();
    let mut first = [0; 12];
    idle.read_exact(&mut first).unwrap();
    let mut busy = site.connect();
    let head = format!(
        "POST /plugins/p/invoke/a HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\
         Connection: close\r\nExpect: 100-continue\r\n\r\n",
        site.address
    );
    busy.write_all(head.as_bytes()).unwrap();
    let mut go_on = [0; 25];
    busy.read_exact(&mut go_on).unwrap();
    let held: Vec<TcpStream> = (0..3)
        .map(|_| {
            let mut next = site.connect();
            let asked = format!("GET /healthz HTTP/1.1\r\nHost: {}\r\n\r\n", site.address);
            next.write_all(asked.as_bytes()).unwrap();
            let mut answer = [0; 12];
            next.read_exact(&mut answer).unwrap();
            assert_eq!(&answer, b"HTTP/1.1 200");
            next
        })
        .collect();
    assert_eq!(half.read(&mut [0; 1]).unwrap(), 0, "it was closed");
    busy.write_all(b"{}").unwrap();
    assert_eq!(hear(&mut busy).error(), "NOT_FOUND", "what was under way is answered");
    drop(held);
}
