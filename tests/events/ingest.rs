//! `POST /events`: the three modes of CloudEvents over HTTP, and what is refused.

use serde_json::{Value as Json, json};

use super::EAR;
use crate::support::host::{Answer, Host, answer, ureq_agent};
use crate::support::scenario::files;

fn host() -> Host {
    Host::with(files(EAR), |settings| settings.body_limit = 10_000)
}

/// Sends a body with these headers.
fn send(host: &Host, headers: &[(&str, &str)], body: &[u8]) -> Answer {
    let mut request = ureq_agent().post(format!("{}/events", host.url));
    for (name, value) in headers {
        request = request.header(*name, ureq::http::HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    answer(request.send(body).unwrap())
}

/// The events that rest in the host's database.
fn stored(host: &Host) -> Vec<Json> {
    let database = rusqlite::Connection::open(host.app.settings.data.join("host.db")).unwrap();
    let mut statement = database.prepare("SELECT event FROM events ORDER BY id").unwrap();
    let texts = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
    texts.map(|text| serde_json::from_str(&text.unwrap()).unwrap()).collect()
}

const STRUCTURED: (&str, &str) = ("Content-Type", "application/cloudevents+json");
const BATCH: (&str, &str) = ("Content-Type", "application/cloudevents-batch+json; charset=UTF-8");
const BINARY: [(&str, &str); 4] =
    [("ce-specversion", "1.0"), ("ce-id", "b1"), ("ce-source", "/cam/1"), ("ce-type", "heard")];

#[test]
fn structured_binary_and_batch_say_the_same() {
    let host = host();
    let whole = json!({ "specversion": "1.0", "id": "b1", "source": "/cam/1", "type": "heard", "subject": "Zoë 50%",
        "time": "2026-01-31T08:30:00+08:00", "severity": "3", "datacontenttype": "application/json", "data": { "n": 1.0 } });
    let first = send(&host, &[STRUCTURED], whole.to_string().as_bytes());
    assert_eq!(first.status, 202, "{}", first.body);
    let binary = [
        &BINARY[..],
        &[
            ("ce-subject", "Zo%C3%AB%2050%25"),
            ("ce-time", "\"2026-01-31T08:30:00+08:00\""),
            ("ce-severity", "3"),
            ("Content-Type", "application/json"),
        ],
    ]
    .concat();
    let second = send(&host, &binary, br#"{"n":1}"#);
    assert_eq!((second.status, second.json()["already"].clone()), (202, json!(true)), "{}", second.body);
    assert_eq!(second.json()["eventId"], first.json()["eventId"]);
    let third = send(&host, &[BATCH], json!([whole]).to_string().as_bytes());
    assert_eq!(third.status, 200);
    assert_eq!(
        third.json()["results"][0],
        json!({ "eventId": first.json()["eventId"], "already": true, "status": 202 })
    );
    assert_eq!(stored(&host), [whole]);
}

#[test]
fn binary_data_is_json_text_or_bytes_by_its_media_type() {
    let host = host();
    for (number, (media, body, member, value)) in [
        ("text/plain", &b"h\xc3\xa9"[..], "data", json!("hé")),
        ("image/png", &b"\x89PNG"[..], "data_base64", json!("iVBORw==")),
        ("application/vnd.shop+json", &b"[1]"[..], "data", json!([1])),
        ("application/json", &b""[..], "data", Json::Null),
    ]
    .into_iter()
    .enumerate()
    {
        let id = number.to_string();
        let headers = [&[BINARY[0], BINARY[2], BINARY[3]][..], &[("ce-id", &id), ("Content-Type", media)]].concat();
        let answer = send(&host, &headers, body);
        assert_eq!(answer.status, 202, "{media}: {}", answer.body);
        let event = stored(&host).pop().unwrap();
        assert_eq!((&event[member], &event["datacontenttype"]), (&value, &json!(media)));
    }
}

#[test]
fn batch_has_a_result_for_each_event_and_keeps_the_good_ones() {
    let host = host();
    let good = |id: &str, n: i32| json!({ "specversion": "1.0", "id": id, "source": "s", "type": "heard", "data": n });
    let body = json!([good("1", 1), { "specversion": "1.0", "id": "2", "source": "s" }, good("1", 1), good("1", 2), 7]);
    let answer = send(&host, &[BATCH], body.to_string().as_bytes());
    assert_eq!(answer.status, 200);
    let results = answer.json()["results"].as_array().unwrap().clone();
    let statuses: Vec<i64> = results.iter().map(|result| result["status"].as_i64().unwrap()).collect();
    assert_eq!(statuses, [202, 400, 202, 422, 400]);
    assert_eq!(results[1]["fields"], json!([{ "pointer": "/type", "message": "is missing" }]));
    assert_eq!(stored(&host), [good("1", 1)]);
    assert_eq!(send(&host, &[BATCH], b"[]").json(), json!({ "results": [] }));
}

#[test]
fn what_is_no_event_has_a_clear_status_and_leaves_nothing() {
    let host = host();
    let event = |change: &dyn Fn(&mut Json)| {
        let mut event = json!({ "specversion": "1.0", "id": "1", "source": "s", "type": "heard" });
        change(&mut event);
        event.to_string().into_bytes()
    };
    let bad: Vec<(Vec<u8>, &str)> = vec![
        (event(&|it| it["specversion"] = json!("0.3")), "specversion is \"0.3\""),
        (event(&|it| it["id"] = json!("")), "id must not be empty"),
        (event(&|it| it["id"] = json!(5)), "id must be a string"),
        (event(&|it| drop(it.as_object_mut().unwrap().remove("source"))), "source is missing"),
        (event(&|it| it["source"] = json!("URN:oncehost:plugin:ear")), "for the host's own events"),
        (event(&|it| it["type"] = json!("a b")), "type must have no spaces"),
        (event(&|it| it["time"] = json!("yesterday")), "time must be a time"),
        (event(&|it| it["time"] = json!("2026-01-31T08:30:00")), "time must be a time"),
        (event(&|it| it["Upper"] = json!("x")), "Upper is no name"),
        (event(&|it| it["ext"] = json!({})), "ext must be a string, a boolean or an integer"),
        (event(&|it| it["ext"] = json!(1.5)), "ext must be a string, a boolean or an integer"),
        (event(&|it| it["subject"] = json!("a\u{7}")), "control character"),
        (event(&|it| it["subject"] = json!("s".repeat(1025))), "subject has 1025 bytes"),
        (event(&|it| it["data_base64"] = json!("*")), "data_base64 must be base64"),
        (
            event(&|it| {
                it["data"] = json!(1);
                it["data_base64"] = json!("AA==");
            }),
            "cannot stand beside data",
        ),
        (b"[]".to_vec(), "an event is a JSON object"),
        (b"{\"specversion\":\"1.0\",\"id\":\"1\",\"id\":\"2\"}".to_vec(), "stands twice"),
        (b"{\"id\":\"\xff\"}".to_vec(), "not UTF-8"),
        (b"{".to_vec(), "not I-JSON"),
        (b"".to_vec(), "the body is empty"),
    ];
    for (body, says) in bad {
        let answer = send(&host, &[STRUCTURED], &body);
        assert_eq!((answer.status, answer.error().as_str()), (400, "VALIDATION"), "{says}: {}", answer.body);
        assert!(answer.json()["detail"].as_str().unwrap().contains(says), "{says}: {}", answer.body);
    }
    let big = event(&|it| it["data"] = json!("x".repeat(10_000)));
    assert_eq!(send(&host, &[STRUCTURED], &big).error(), "TOO_LARGE");
    assert_eq!(send(&host, &[BATCH], b"{}").error(), "VALIDATION");
    assert_eq!(stored(&host), [] as [Json; 0]);
}

#[test]
fn headers_that_cannot_be_read_are_refused() {
    let host = host();
    for (value, says) in [
        ("%FF%FE", "is not UTF-8 after percent-decoding"),
        ("\u{e9}%ff", "is not UTF-8 after percent-decoding"),
        ("100%", "write it as %25"),
        ("\"a\\\"", "ends in a backslash"),
        ("a%0Ab", "control character"),
    ] {
        let headers = [&BINARY[..], &[("ce-subject", value)]].concat();
        let answer = send(&host, &headers, b"");
        assert_eq!((answer.status, answer.error().as_str()), (400, "VALIDATION"), "{value}");
        assert!(answer.json()["detail"].as_str().unwrap().contains(says), "{value}: {}", answer.body);
    }
    for (headers, says) in [
        (&[("ce-subject", "a"), ("ce-subject", "b")][..], "is sent twice"),
        (&[("ce-datacontenttype", "text/plain")][..], "is no header in binary mode"),
        (&[("ce-my-ext", "a")][..], "is no name of an attribute"),
    ] {
        let answer = send(&host, &[&BINARY[..], headers].concat(), b"");
        assert!(answer.json()["detail"].as_str().unwrap().contains(says), "{says}: {}", answer.body);
    }
    assert_eq!(stored(&host), [] as [Json; 0]);
}

#[test]
fn other_content_types_are_refused_with_the_three_forms() {
    let host = host();
    let event = br#"{"specversion":"1.0","id":"1","source":"s","type":"heard"}"#;
    for headers in [
        &[("Content-Type", "application/json")][..],
        &[("Content-Type", "application/cloudevents+xml")],
        &[("Content-Type", "application/cloudevents+avro"), ("ce-id", "1")],
        &[("Content-Type", "application/cloudevents+json; charset=utf-16")],
        &[STRUCTURED, STRUCTURED],
        &[],
    ] {
        let answer = send(&host, headers, event);
        assert_eq!((answer.status, answer.error().as_str()), (415, "MEDIA_TYPE"), "{headers:?}: {}", answer.body);
        assert!(answer.body.contains("application/cloudevents-batch+json"), "{}", answer.body);
    }
    let zipped = send(&host, &[STRUCTURED, ("Content-Encoding", "gzip")], event);
    assert_eq!((zipped.status, zipped.error().as_str()), (415, "MEDIA_TYPE"));
    let untyped = send(&host, &BINARY, b"data");
    assert_eq!((untyped.status, untyped.error().as_str()), (415, "MEDIA_TYPE"));
    assert_eq!(stored(&host), [] as [Json; 0]);
}

#[test]
fn hundred_senders_of_the_same_event_have_one_effect() {
    let host = host();
    let body = br#"{"specversion":"1.0","id":"same","source":"s","type":"heard","data":{"text":"x"}}"#;
    let ids: Vec<(Json, bool)> = std::thread::scope(|scope| {
        let senders: Vec<_> = (0..100)
            .map(|_| {
                scope.spawn(|| {
                    let answer = send(&host, &[STRUCTURED], body);
                    assert_eq!(answer.status, 202, "{}", answer.body);
                    (answer.json()["eventId"].clone(), answer.json()["already"] == true)
                })
            })
            .collect();
        senders.into_iter().map(|sender| sender.join().unwrap()).collect()
    });
    assert!(ids.iter().all(|(id, _)| *id == ids[0].0));
    assert_eq!(ids.iter().filter(|(_, already)| !already).count(), 1, "one was new");
    host.block_on(oncehost::events::drain(&host.app)).unwrap();
    assert_eq!((host.count("ear", "heard"), host.count("ear", "also")), (1, 1));
}
