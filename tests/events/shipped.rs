//! The shipped plugins, together.

use std::path::Path;

use serde_json::{Value as Json, json};

use crate::support::host::Host;

fn host() -> Host {
    Host::with([("", ""); 0], |settings| {
        settings.plugins = Path::new(env!("CARGO_MANIFEST_DIR")).join("plugins");
    })
}

fn drain(host: &Host) {
    host.block_on(oncehost::events::drain(&host.app)).unwrap();
}

fn lines(host: &Host, subject: &str) -> Vec<(String, Json)> {
    let found = host.read("audit", "audit.list-lines", &json!({ "subject": subject }).to_string()).data();
    let lines = found["lines"].as_array().unwrap();
    lines.iter().map(|line| (line["what"].as_str().unwrap().to_owned(), line["details"].clone())).collect()
}

#[test]
fn uploaded_video_is_bound_to_its_crossing_and_the_audit_hears_of_it() {
    let host = host();
    let crossing = json!({ "event_key": "k", "crossed_at": "2026-01-01T08:00:00Z", "obj_id": "o", "region_id": "r" });
    let made = host.post("lane-change", "lane-change.create-event", "k", &crossing.to_string()).data();
    let event_id = made["event_id"].as_str().unwrap();
    let uploaded = json!({ "specversion": "1.0", "type": "video.uploaded", "source": "recorder", "id": "u1",
        "data": { "event_id": event_id, "video_file_id": "v1" } });
    for _ in 0..2 {
        assert_eq!(host.send_event("dev", &uploaded).status, 202);
        drain(&host);
    }
    let event = host.read("lane-change", "lane-change.get-event", &json!({ "event_id": event_id }).to_string()).data();
    assert_eq!((&event["status"], &event["video_file_id"]), (&json!("video_bound"), &json!("v1")));
    assert_eq!(host.count("lane-change", "_oncehost_workflows"), 1);
    let details = json!({ "event_id": event_id, "status": "video_bound", "video_file_id": "v1" });
    assert_eq!(lines(&host, event_id), [("lane-change.status-changed".to_owned(), details)]);
}

#[test]
fn video_of_a_crossing_that_is_not_there_yet_is_bound_when_it_is() {
    let host = host();
    let uploaded = |id: &str, data: Json| json!({ "specversion": "1.0", "type": "video.uploaded", "source": "recorder", "id": id, "data": data });
    let early = uploaded("u1", json!({ "event_id": "00000000-0000-7000-8000-000000000000", "video_file_id": "v1" }));
    host.send_event("dev", &early);
    host.send_event("dev", &uploaded("u2", json!({ "video_file_id": "v1" })));
    drain(&host);
    let states: Vec<String> = {
        let database = host.database("lane-change");
        let mut statement = database.prepare("SELECT state FROM _oncehost_deliveries ORDER BY id").unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    assert_eq!(states, ["waiting", "dead"], "one may come, the other stays malformed");
}

#[test]
fn each_change_of_an_order_is_one_line_of_the_audit_in_order() {
    let host = host();
    let post = |action: &str, key: &str, input: Json| host.post("orders", action, key, &input.to_string()).data();
    post("orders.stock-product", "s", json!({ "sku": "a", "name": "A", "price_cents": 100, "quantity": 5 }));
    let order = json!({ "order_number": "1", "customer": "ann", "lines": [{ "sku": "a", "quantity": 2 }] });
    let order_id = post("orders.create-order", "c", order.clone())["order_id"].clone();
    post("orders.create-order", "c", order);
    post("orders.pay", "p", json!({ "order_id": order_id, "amount_cents": 200 }));
    drain(&host);
    drain(&host);
    let what: Vec<String> = lines(&host, order_id.as_str().unwrap()).into_iter().map(|(what, _)| what).collect();
    assert_eq!(what, ["orders.order-created", "orders.order-paid"]);
}
