//! Dead letters: listed, read, replayed, given up.

use serde_json::{Value as Json, json};

use super::{EAR, scenario};
use crate::support::host::{Answer, Host, answer, ureq_agent};
use crate::support::scenario::files;

fn host() -> Host {
    Host::new(files(EAR))
}

fn send(host: &Host, event_type: &str, id: &str) -> String {
    let event = json!({ "specversion": "1.0", "type": event_type, "source": "test", "id": id, "data": { "text": id } });
    let answer = host.send_event("dev", &event);
    assert_eq!(answer.status, 202, "{}", answer.body);
    answer.json()["eventId"].as_str().unwrap().to_owned()
}

fn drain(host: &Host) {
    host.block_on(oncehost::events::drain(&host.app)).unwrap();
}

fn get(host: &Host, path: &str) -> Answer {
    answer(ureq_agent().get(format!("{}{path}", host.url)).call().unwrap())
}

fn post(host: &Host, path: &str, body: &Json) -> Answer {
    let request = ureq_agent().post(format!("{}{path}", host.url)).header("Content-Type", "application/json");
    answer(request.send(body.to_string()).unwrap())
}

fn listed(host: &Host, query: &str) -> Vec<Json> {
    let answer = get(host, &format!("/admin/events?{query}"));
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.json()["events"].as_array().unwrap().clone()
}

/// A host with one shaky event that used up its tries.
fn host_with_dead_letter() -> (Host, String) {
    let host = host();
    let event_id = send(&host, "shaky", "s1");
    for _ in 0..3 {
        drain(&host);
        host.clock.advance(60_000);
    }
    (host, event_id)
}

#[test]
fn dead_letter_has_all_that_a_person_needs() {
    let (host, event_id) = host_with_dead_letter();
    let dead = listed(&host, "state=dead");
    let [dead] = dead.as_slice() else { panic!("{dead:?}") };
    assert_eq!(dead["eventId"], event_id);
    assert_eq!((&dead["id"], &dead["source"], &dead["type"]), (&json!("s1"), &json!("test"), &json!("shaky")));
    assert_eq!((&dead["tenant"], &dead["tries"]), (&json!("dev"), &json!(3)));
    assert_eq!(dead["subscription"], "ear/events/shaky");
    assert!(dead["error"].as_str().unwrap().contains("the lamp is off (ear/events/shaky.ts:5:35)"), "{dead}");
    let shown = get(&host, &format!("/admin/events/{event_id}")).json();
    assert_eq!(shown["event"]["data"], json!({ "text": "s1" }));
    assert_eq!(shown["deliveries"][0]["state"], "dead");
}

#[test]
fn mended_handler_and_a_replay_end_well_under_the_same_event_id() {
    let (host, event_id) = host_with_dead_letter();
    assert_eq!(host.post("ear", "turn-on", "k", "{}").status, 200);
    let thrice = json!({ "eventIds": [event_id, event_id, event_id] });
    let done = post(&host, "/admin/events/replay", &thrice).json();
    assert_eq!(done, json!({ "replayed": 1, "skipped": [], "missing": [] }), "one delivery, however often it is named");
    drain(&host);
    assert_eq!(listed(&host, "state=dead"), [] as [Json; 0]);
    let key: String = host.database("ear").query_row("SELECT key FROM heard", [], |row| row.get(0)).unwrap();
    assert_eq!(key, event_id);
}

#[test]
fn replaying_what_is_done_needs_force_and_has_no_second_effect() {
    let host = host();
    let event_id = send(&host, "heard", "1");
    drain(&host);
    let done = post(&host, "/admin/events/replay", &json!({ "eventIds": [event_id] })).json();
    assert_eq!(done["replayed"], 0);
    assert!(done["skipped"][0]["why"].as_str().unwrap().contains("force"), "{done}");
    let done = post(&host, "/admin/events/replay", &json!({ "eventIds": [event_id], "force": true })).json();
    assert_eq!(done["replayed"], 2, "two subscriptions");
    host.clock.advance(1000);
    drain(&host);
    assert_eq!((host.count("ear", "heard"), host.count("ear", "also")), (1, 1));
    assert_eq!(listed(&host, "state=done").len(), 2);
}

#[test]
fn dry_run_tells_what_would_change_and_keeps_nothing() {
    let (host, event_id) = host_with_dead_letter();
    let dry = json!({ "eventIds": [event_id], "dryRun": true });
    let told = post(&host, "/admin/events/replay", &dry).json();
    assert_eq!(told["dryRun"][0]["outcome"], "failed");
    assert!(told["dryRun"][0]["error"].as_str().unwrap().contains("the lamp is off"), "{told}");
    host.post("ear", "turn-on", "k", "{}");
    let told = post(&host, "/admin/events/replay", &dry).json();
    assert_eq!(told["dryRun"][0]["outcome"], "ok", "{told}");
    let change = &told["dryRun"][0]["changes"][0];
    assert_eq!((&change["call"], &change["args"][0]), (&json!("store.createIfAbsent"), &json!("heard")));
    assert_eq!(change["args"][1]["event"], "s1");
    assert_eq!(host.count("ear", "heard"), 0);
    assert_eq!(listed(&host, "state=dead").len(), 1);
}

#[test]
fn filters_find_what_they_name_and_pages_follow_one_another() {
    let host = host();
    for id in ["1", "2", "3"] {
        send(&host, "refused", id);
    }
    send(&host, "heard", "4");
    drain(&host);
    assert_eq!(listed(&host, "state=dead&type=refused").len(), 3);
    assert_eq!(listed(&host, "subscription=events/also").len(), 1);
    assert_eq!(listed(&host, "subscription=ear/events/refuse").len(), 3);
    assert_eq!(listed(&host, "error=nobody%20wants").len(), 3);
    for nothing in ["plugin=other", "tenant=acme", "source=x", "until=2025-01-01T00:00:00Z", "error=100%25"] {
        assert_eq!(listed(&host, nothing).len(), 0, "{nothing}");
    }
    let first = get(&host, "/admin/events?type=refused&limit=2").json();
    assert_eq!(first["events"].as_array().unwrap().len(), 2);
    let cursor = first["nextCursor"].as_str().unwrap();
    let rest = get(&host, &format!("/admin/events?type=refused&limit=2&cursor={cursor}")).json();
    assert_eq!((rest["events"].as_array().unwrap().len(), &rest["nextCursor"]), (1, &Json::Null));
    assert_eq!(rest["events"][0]["id"], "3");
}

#[test]
fn replays_in_bulk_go_at_a_bounded_rate() {
    let host = host();
    for id in 0..30 {
        send(&host, "refused", &id.to_string());
    }
    drain(&host);
    let done = post(&host, "/admin/events/replay", &json!({ "type": "refused", "rate": 10 })).json();
    assert_eq!(done["replayed"], 30);
    for second in 0..3 {
        drain(&host);
        // Ten in each second, the first of it at its beginning.
        assert_eq!(listed(&host, "state=dead").len(), 1 + 10 * second, "after {second} s");
        host.clock.advance(1000);
    }
    drain(&host);
    assert_eq!(listed(&host, "state=dead").len(), 30);
}

#[test]
fn replay_that_names_nothing_is_refused() {
    let host = host();
    for path in ["/admin/events/replay", "/admin/events/discard"] {
        let answer = post(&host, path, &json!({}));
        assert_eq!((answer.status, answer.error().as_str()), (400, "VALIDATION"));
    }
    assert_eq!(post(&host, "/admin/events/replay", &json!({ "plugins": "ear" })).status, 400);
    for path in ["/admin/events/replay", "/admin/events/discard"] {
        assert_eq!(post(&host, path, &json!({ "eventIds": ["none"] })).error(), "NOT_FOUND");
    }
    assert_eq!(get(&host, "/admin/events/none").error(), "NOT_FOUND");
}

#[test]
fn discarded_letters_are_no_longer_dead_and_can_be_fetched_back_by_force() {
    let (host, event_id) = host_with_dead_letter();
    let done = post(&host, "/admin/events/discard", &json!({ "type": "shaky" })).json();
    assert_eq!(done, json!({ "discarded": 1, "skipped": [], "missing": [] }));
    assert_eq!(listed(&host, "state=dead").len(), 0);
    assert_eq!(listed(&host, "state=discarded").len(), 1);
    host.post("ear", "turn-on", "k", "{}");
    let replay = json!({ "eventIds": [event_id], "force": true });
    assert_eq!(post(&host, "/admin/events/replay", &replay).json()["replayed"], 1);
    drain(&host);
    assert_eq!(host.count("ear", "heard"), 1);
}

#[test]
fn published_event_is_shown_with_its_plugin_as_source() {
    scenario(
        r#"> POST ear/say-two key=k {"text":"x"}
        > drain
        > sql ear SELECT source, type FROM _oncehost_deliveries GROUP BY 1, 2"#,
        r#"> POST ear/say-two key=k {"text":"x"}
        200 null
        > drain
        > sql ear SELECT source, type FROM _oncehost_deliveries GROUP BY 1, 2
        ["urn:oncehost:plugin:ear","heard"]"#,
    );
}

#[test]
fn discarding_what_is_done_leaves_it_and_says_so() {
    let host = host();
    let event_id = send(&host, "heard", "1");
    drain(&host);
    let told = post(&host, "/admin/events/discard", &json!({ "eventIds": [event_id] })).json();
    assert_eq!(told["discarded"], 0);
    assert_eq!((&told["skipped"][0]["state"], &told["skipped"][0]["why"]), (&json!("done"), &json!("it is done")));
    assert_eq!(listed(&host, "state=discarded").len(), 0);
}
