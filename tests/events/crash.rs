//! `kill -9` while events are on their way: nothing that was accepted or published is missing, and each effect is there
//! once.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use oncehost::config::Store;

use crate::support::host::{answer, ureq_agent};
use crate::support::process::{Folders, Process};
use crate::support::scenario::files;
use crate::support::{is_met, long, stores};

/// `say` publishes, `hear` keeps each event in a row of its own, so that a second effect would show.
pub const TALK: &str = r#"
//- /say/plugin.json
{ "id": "say", "version": "1.0.0", "permissions": ["data:write", "notify:publish"] }
//- /say/schema.sql
CREATE TABLE said (id TEXT PRIMARY KEY, what TEXT NOT NULL);
//- /say/handlers/say.ts
export function handle(input: { what: string }, ctx: any) {
  const made = store.createIfAbsent('said', { id: ctx.invocationId, what: input.what }, ['id'])
  if (!made.ok) throw made.error
  const sent = notify.publish('said', { what: input.what })
  if (!sent.ok) throw sent.error
  return null
}
//- /hear/plugin.json
{ "id": "hear", "version": "1.0.0", "permissions": ["data:write", "events:said", "events:sent", "events:deadly"],
  "subscriptions": [ { "type": "said", "handler": "events/keep" }, { "type": "sent", "handler": "events/keep" } ] }
//- /hear/schema.sql
CREATE TABLE heard (id TEXT PRIMARY KEY, what TEXT NOT NULL);
//- /hear/events/keep.ts
export function handle(event: any, ctx: any) {
  const made = store.createIfAbsent('heard', { id: ctx.invocationId, what: event.data.what }, ['id'])
  if (!made.ok) throw made.error
}
"#;

const SENDERS: usize = 4;

fn try_send(url: &str, what: &str) -> bool {
    let event = serde_json::json!({
        "specversion": "1.0", "type": "sent", "source": "test", "id": what, "data": { "what": what },
    });
    let request = ureq_agent().post(format!("{url}/events")).header("Content-Type", "application/cloudevents+json");
    request.send(event.to_string()).is_ok_and(|response| answer(response).status == 202)
}

/// Publishes and sends until the host is gone; gives what was acknowledged. `acknowledged` hears of each.
pub fn load(host: &Process, round: usize, most: usize, acknowledged: impl Fn(usize) + Sync) -> BTreeSet<String> {
    let (gone, count, known) = (AtomicBool::new(false), AtomicUsize::new(0), Mutex::new(BTreeSet::new()));
    std::thread::scope(|scope| {
        for sender in 0..SENDERS {
            let (gone, count, known, acknowledged) = (&gone, &count, &known, &acknowledged);
            scope.spawn(move || {
                for number in 0..most {
                    if gone.load(Ordering::SeqCst) {
                        return;
                    }
                    let what = format!("{round}-{sender}-{number}");
                    let done = if sender % 2 == 0 {
                        let body = serde_json::json!({ "what": what }).to_string();
                        host.try_post("say", "say", &what, &body).is_some_and(|answer| answer.status == 200)
                    } else {
                        try_send(&host.url, &what)
                    };
                    if !done {
                        gone.store(true, Ordering::SeqCst);
                        return;
                    }
                    known.lock().unwrap().insert(what);
                    acknowledged(count.fetch_add(1, Ordering::SeqCst) + 1);
                }
            });
        }
    });
    known.into_inner().unwrap()
}

/// Waits until the host has nothing left to relay or deliver.
pub fn settle(host: &Process) {
    let deadline = Instant::now() + Duration::from_secs(120);
    let mut looks_at_rest = 0;
    // The looks are not one: what goes from one state to another between them can be missed, but not each time.
    while looks_at_rest < 5 {
        let open = |state: &str| host.get(&format!("/admin/events?state={state}&limit=1")).json();
        let (waiting, running) = (open("waiting"), open("running"));
        let rests = |listed: &serde_json::Value| listed["events"].as_array().unwrap().is_empty();
        let at_rest = rests(&waiting) && rests(&running) && waiting["waitingForRelay"] == 0;
        looks_at_rest = if at_rest { looks_at_rest + 1 } else { 0 };
        assert!(Instant::now() < deadline, "it does not come to rest: {waiting} {running}");
    }
}

/// What was acknowledged was heard, once each, and nothing is dead.
fn examine(folders: &Folders, known: &BTreeSet<String>) {
    let heard = folders.column("hear", "SELECT what FROM heard");
    let once: BTreeSet<String> = heard.iter().cloned().collect();
    assert_eq!(once.len(), heard.len(), "no effect twice");
    let missing: Vec<_> = known.difference(&once).collect();
    assert!(missing.is_empty(), "acknowledged and not heard: {missing:?}");
    let said = folders.column("say", "SELECT what FROM said");
    assert!(said.iter().all(|what| once.contains(what)), "what committed was heard, acknowledged or not");
    let open = folders.column("hear", "SELECT sender_id FROM _oncehost_deliveries WHERE state <> 'done'");
    assert_eq!(open, [""; 0]);
}

#[test]
fn events_survive_kill_at_named_points() {
    let points = [
        "event-accepted",
        "relay-delivered",
        "relay-before-mark",
        "relay-after-mark",
        "delivery-claimed",
        "in-invocation",
        "before-commit",
        "before-commit-is-sent",
        "after-commit",
    ];
    for point in points {
        for nth in long(&["2"][..], &["1", "2", "3", "5", "8", "13"][..]) {
            for store in stores().iter().filter(|store| is_met(point, store)) {
                let folders = Folders::on(store, files(TALK));
                drop(folders.dev());
                let mut command = folders.command(&["dev"]);
                command.env("ONCEHOST_CRASH_AT", format!("{point}:{nth}"));
                let mut host = Process::start(command);
                let known = load(&host, 0, usize::MAX, |_| {});
                assert!(!host.wait().success(), "{point} kills");
                let host = folders.dev();
                settle(&host);
                assert_eq!(host.terminate().code(), Some(0));
                examine(&folders, &known);
            }
        }
    }
}

#[test]
fn events_survive_kill_at_random_moments_under_load() {
    stores().iter().for_each(kill_at_random);
}

fn kill_at_random(store: &Store) {
    let folders = Folders::on(store, files(TALK));
    let mut known = BTreeSet::new();
    let mut random = 0x51f1_5eed_u32;
    for round in 0..long(5, 200) {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let kill_after = 1 + usize::try_from(random >> 25).unwrap();
        let host = Mutex::new(folders.dev());
        let caller = Process::calling(&host.lock().unwrap().url.clone());
        known.extend(load(&caller, round, usize::MAX, |count| {
            if count == kill_after {
                host.lock().unwrap().kill();
            }
        }));
    }
    let host = folders.dev();
    settle(&host);
    assert_eq!(host.terminate().code(), Some(0));
    examine(&folders, &known);
}

#[test]
fn delivery_that_kills_its_host_each_time_ends_as_a_dead_letter_and_takes_no_other_with_it() {
    let manifest = r#"{ "id": "hear", "version": "1.0.0", "permissions": ["data:write", "events:sent"],
      "subscriptions": [ { "type": "sent", "handler": "events/keep", "retry": { "maxAttempts": 2, "initial": "1ms" } } ] }"#;
    let plugin = files(TALK).into_iter().map(|(path, text)| {
        let text = if path == "hear/plugin.json" { manifest.to_owned() } else { text };
        (path, text)
    });
    let folders = Folders::new(plugin);
    let host = folders.dev();
    assert!(try_send(&host.url, "deadly"));
    settle(&host);
    assert_eq!(host.terminate().code(), Some(0));
    // As if it had never run.
    folders.database("hear").execute_batch("UPDATE _oncehost_deliveries SET state = 'waiting', attempts = 0; DELETE FROM _oncehost_keys; DELETE FROM heard").unwrap();
    for _ in 0..2 {
        let mut command = folders.command(&["dev"]);
        command.env("ONCEHOST_CRASH_AT", "in-invocation");
        let mut host = Process::start(command);
        assert!(!host.wait().success());
    }
    let host = folders.dev();
    assert!(try_send(&host.url, "harmless"));
    let deadline = Instant::now() + Duration::from_secs(60);
    let dead = loop {
        let dead = host.get("/admin/events?state=dead").json()["events"].as_array().unwrap().clone();
        if !dead.is_empty() || Instant::now() > deadline {
            break dead;
        }
    };
    assert_eq!((&dead[0]["id"], &dead[0]["tries"]), (&serde_json::json!("deadly"), &serde_json::json!(2)), "{dead:?}");
    assert!(dead[0]["error"].as_str().unwrap().contains("the host ended while try 2 ran"), "{dead:?}");
    settle(&host);
    assert_eq!(folders.column("hear", "SELECT what FROM heard"), ["harmless"]);
}
