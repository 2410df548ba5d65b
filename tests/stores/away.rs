//! A database that is away: whose data are there wait, the others go on.

use oncehost::config::Store;
use serde_json::json;

use super::place;
use crate::events::EAR;
use crate::flows::until;
use crate::support::host::{Host, START, answer, ureq_agent};
use crate::support::postgres;
use crate::support::process::Folders;
use crate::support::scenario::files;
use crate::support::shop::SHOP;

/// Nobody listens there.
const NOWHERE: &str = "postgres://me:s3cret@127.0.0.1:1/none";

#[test]
fn host_serves_the_others_while_a_database_is_away() {
    let host = Host::with(files(&format!("{SHOP}{EAR}")), |settings| place(settings, "shop", NOWHERE));
    let refused = host.post("shop", "add", "k", r#"{"code":"a"}"#);
    assert_eq!((refused.status, refused.error().as_str()), (503, "UNAVAILABLE"), "{}", refused.body);
    let event = json!({ "specversion": "1.0", "type": "heard", "source": "s", "id": "1", "data": { "text": "x" } });
    assert_eq!(host.send_event("dev", &event).status, 202);
    // Workflows of the shop may wait for it: it is kept until they were asked.
    let waits = host.block_on(oncehost::events::drain(&host.app)).unwrap_err();
    assert!(waits.detail.starts_with("shop: "), "{}", waits.detail);
    until(|| host.count("ear", "heard"), |heard| *heard == 1);
    let ready = answer(ureq_agent().get(format!("{}/readyz", host.url)).call().unwrap());
    assert_eq!(ready.status, 503);
    let why = ready.json()["reasons"][0].as_str().unwrap().to_owned();
    assert!(why.starts_with("postgres://127.0.0.1:1/none, where shop is: "), "{why}");
    assert!(!why.contains("s3cret"));
}

#[test]
fn event_that_commits_late_goes_before_what_is_published_after_it_while_a_database_is_away() {
    let url = postgres::database();
    let host = Host::with(files(&format!("{SHOP}{EAR}")), |settings| {
        settings.store = Store::Postgres(url.clone());
        place(settings, "shop", NOWHERE);
    });
    let mut connected = tokio::task::JoinSet::new();
    let late = host.block_on(async {
        let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
        connected.spawn(connection);
        let row = format!(
            "INSERT INTO ear._oncehost_events (event_id, tenant, topic, event_key, payload, published_at) \
             VALUES ('late', 'dev', 'heard', 'late', '{{\"text\":\"late\"}}', {START})"
        );
        client.batch_execute(&format!("BEGIN; {row}")).await.unwrap();
        client
    });
    let say = |text: &str| host.post("ear", "say-two", text, &json!({ "text": text }).to_string()).data();
    say("x");
    until(|| host.count("ear", "heard"), |heard| *heard == 2);
    host.block_on(late.batch_execute("COMMIT")).unwrap();
    say("y");
    until(|| host.count("ear", "heard"), |heard| *heard == 5);
    let arrived = "SELECT event::json -> 'data' ->> 'text' FROM _oncehost_deliveries \
                   WHERE subscription = 'heard events/keep' ORDER BY id";
    assert_eq!(host.rows("ear", arrived), [["xa"], ["xb"], ["late"], ["ya"], ["yb"]]);
}

#[test]
fn lists_tell_what_there_is_and_name_the_database_that_is_away() {
    let host = Host::with(files(&format!("{SHOP}{EAR}")), |settings| place(settings, "shop", NOWHERE));
    let event = json!({ "specversion": "1.0", "type": "heard", "source": "s", "id": "1", "data": { "text": "x" } });
    assert_eq!(host.send_event("dev", &event).status, 202);
    until(|| host.count("ear", "heard"), |heard| *heard == 1);
    let get = |path: &str| answer(ureq_agent().get(format!("{}{path}", host.url)).call().unwrap());
    let events = get("/admin/events").json();
    assert_eq!(events["events"][0]["plugin"], "ear", "{events}");
    let event = events["events"][0]["eventId"].as_str().unwrap().to_owned();
    for path in ["/admin/events", "/admin/flows", "/admin/events?limit=1", &format!("/admin/events/{event}")] {
        let told = get(path);
        assert_eq!((told.status, &told.json()["missing"][0]["plugin"]), (200, &json!("shop")), "{path}: {}", told.body);
        assert!(!told.body.contains("s3cret"));
    }
    // Whoever asks for this one only is not told that it has nothing, nor that what may be there is not.
    for path in ["/admin/events?plugin=shop", "/admin/flows?plugin=shop", "/admin/flows/f-1", "/admin/events/none"] {
        assert_eq!(get(path).status, 503, "{path}");
    }
    assert_eq!(get("/admin/events?plugin=ear").json()["events"][0]["eventId"], event.as_str());
}

#[test]
fn commands_that_had_to_leave_a_database_out_say_so_and_fail() {
    let folders = Folders::new(files(&format!("{SHOP}{EAR}")));
    assert!(folders.dev().terminate().success());
    for args in [["events", "list"], ["flow", "list"]] {
        let output = folders.command(&args).env("ONCEHOST_STORES_SHOP", NOWHERE).output().unwrap();
        let told = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(told.contains("not asked: shop (") && !told.contains("s3cret"), "{told}");
    }
}
