//! Consumers that are not there just now: their deliveries wait, and are shown as waiting for them.

use serde_json::{Value as Json, json};

use super::EAR;
use crate::support::host::{Host, answer, ureq_agent, write};
use crate::support::scenario::files;

fn send(host: &Host, id: &str) {
    let event = json!({ "specversion": "1.0", "type": "heard", "source": "test", "id": id });
    assert_eq!(host.send_event("dev", &event).status, 202);
}

fn drain(host: &Host) {
    host.block_on(oncehost::events::drain(&host.app)).unwrap();
}

fn reload(host: &Host) {
    host.block_on(oncehost::reload::reload_named(&host.app, None)).unwrap();
}

fn waiting(host: &Host) -> Vec<Json> {
    let listed = answer(ureq_agent().get(format!("{}/admin/events?state=waiting", host.url)).call().unwrap());
    listed.json()["events"].as_array().unwrap().clone()
}

#[test]
fn events_wait_for_a_plugin_that_does_not_load_and_go_on_when_it_does() {
    let mut host = Host::new(files(EAR));
    let manifest = host.plugins().join("ear/plugin.json");
    let good = std::fs::read_to_string(&manifest).unwrap();
    write(&manifest, "{");
    host.restart();
    send(&host, "1");
    drain(&host);
    let found = waiting(&host);
    assert_eq!(found.len(), 2, "{found:?}");
    assert_eq!(found[0]["waitingFor"], "the plugin ear, which does not load");
    assert_eq!(found[0]["tries"], 0);
    write(&manifest, &good);
    reload(&host);
    drain(&host);
    assert_eq!((host.count("ear", "heard"), host.count("ear", "also")), (1, 1));
    assert_eq!(waiting(&host), [] as [Json; 0]);
}

#[test]
fn broken_plugin_that_still_serves_goes_on_with_the_version_it_has() {
    let host = Host::new(files(EAR));
    write(&host.plugins().join("ear/events/keep.ts"), "export function handle( {");
    reload(&host);
    send(&host, "1");
    drain(&host);
    assert_eq!(host.count("ear", "heard"), 1);
}

#[test]
fn event_that_came_before_a_subscription_ended_waits_for_it() {
    let host = Host::new(files(EAR));
    send(&host, "1");
    drain(&host);
    let manifest = host.plugins().join("ear/plugin.json");
    let good = std::fs::read_to_string(&manifest).unwrap();
    let without = good.replace(r#"{ "type": "heard", "handler": "events/also" },"#, "");
    assert_ne!(good, without);
    write(&manifest, &without);
    host.clock.advance(1);
    reload(&host);
    // As if it had not been delivered before the subscription ended.
    host.database("ear").execute("UPDATE _oncehost_deliveries SET state = 'waiting'", []).unwrap();
    drain(&host);
    let found = waiting(&host);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0]["waitingFor"].as_str().unwrap().starts_with("a version of the plugin ear"), "{found:?}");
    host.clock.advance(1);
    send(&host, "2");
    drain(&host);
    assert_eq!(host.count("ear", "also"), 1, "ended subscriptions get nothing new");
}

#[test]
fn subscription_outlives_a_restart_in_which_its_plugin_is_gone_only_for_events_before() {
    let mut host = Host::new(files(EAR));
    let (folder, aside) = (host.plugins().join("ear"), host.plugins().parent().unwrap().join("aside"));
    std::fs::rename(&folder, &aside).unwrap();
    host.clock.advance(10);
    host.restart();
    host.clock.advance(10);
    send(&host, "1");
    drain(&host);
    assert_eq!(waiting(&host), [] as [Json; 0], "removed plugins subscribe to nothing");
    std::fs::rename(&aside, &folder).unwrap();
    reload(&host);
    send(&host, "2");
    drain(&host);
    assert_eq!(host.count("ear", "heard"), 1);
}
