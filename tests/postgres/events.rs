//! Events on hosts that share a database: each is handled once, whoever accepts, relays and delivers it.

use oncehost::config::Store;
use serde_json::json;

use crate::events::EAR;
use crate::events::order::LINE;
use crate::events::stream::Stream;
use crate::support::host::{Host, START};
use crate::support::postgres;
use crate::support::scenario::files;

fn pair() -> [Host; 2] {
    let url = postgres::database();
    [(); 2].map(|()| Host::with(files(EAR), |settings| settings.store = Store::Postgres(url.clone())))
}

#[test]
fn event_that_both_hosts_are_sent_is_handled_once() {
    let hosts = pair();
    let rounds = 20;
    std::thread::scope(|scope| {
        for number in 0..4 {
            let host = &hosts[number % 2];
            scope.spawn(move || {
                for round in 0..rounds {
                    let event =
                        json!({ "specversion": "1.0", "type": "heard", "source": "s", "id": round.to_string() });
                    assert_eq!(host.send_event("dev", &event).status, 202);
                }
            });
        }
    });
    std::thread::scope(|scope| {
        for host in &hosts {
            scope.spawn(move || host.drain());
        }
    });
    // What one left to the other, because it had claimed it.
    hosts.iter().for_each(Host::drain);
    for table in ["heard", "also"] {
        assert_eq!(hosts[1].count("ear", table), rounds, "{table}");
        let once = hosts[0].rows("ear", &format!("SELECT count(DISTINCT event) FROM {table}"));
        assert_eq!(once[0][0], rounds, "{table}");
    }
    let open = hosts[0].rows("ear", "SELECT state, error FROM _oncehost_deliveries WHERE state <> 'done'");
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn event_published_on_one_host_is_heard_by_a_listener_of_the_other() {
    let [one, other] = pair();
    let mut stream = Stream::open(&other, "topics=heard", "");
    assert_eq!(one.post("ear", "say-two", "k", r#"{"text":"x"}"#).status, 200);
    assert_eq!(stream.texts(2), ["xa", "xb"]);
}

#[test]
fn claim_of_another_host_stands_until_its_lease_runs_out() {
    let [host, _other] = pair();
    let claimed = format!(
        "INSERT INTO _oncehost_deliveries (event_id, subscription, operation, handler, tenant, source, sender_id, type, \
         event, state, attempts, lost, due_at, owner, lease_until, created_at) VALUES ('e', 'heard events/keep', \
         'ear/event:keep', 'keep', 'dev', 's', 'e', 'heard', '{{\"id\":\"e\"}}', 'running', 1, 0, {START}, 'gone', \
         {START} + 1000, {START})"
    );
    host.rows("ear", &claimed);
    let state = || host.rows("ear", "SELECT state, attempts, lost FROM _oncehost_deliveries")[0].clone();
    host.drain();
    assert_eq!(state(), [json!("running"), json!(1), json!(0)]);
    host.clock.advance(1000);
    host.drain();
    assert_eq!(state(), [json!("waiting"), json!(1), json!(1)]);
    host.clock.advance(3_600_000);
    host.drain();
    assert_eq!(state(), [json!("done"), json!(2), json!(1)]);
    assert_eq!(host.count("ear", "heard"), 1);
}

#[test]
fn event_sent_a_hundred_times_at_once_to_two_hosts_has_one_effect() {
    let hosts = pair();
    let event = json!({ "specversion": "1.0", "type": "heard", "source": "s", "id": "1" });
    let barrier = std::sync::Barrier::new(20);
    std::thread::scope(|scope| {
        for caller in 0..20 {
            let (host, event, barrier) = (&hosts[caller % 2], &event, &barrier);
            scope.spawn(move || {
                barrier.wait();
                for _ in 0..5 {
                    assert_eq!(host.send_event("dev", event).status, 202);
                }
            });
        }
    });
    std::thread::scope(|scope| hosts.iter().for_each(|host| drop(scope.spawn(|| host.drain()))));
    hosts.iter().for_each(Host::drain);
    let counts = ["heard", "also"].map(|table| hosts[0].count("ear", table));
    assert_eq!(counts, [1, 1], "one effect of each subscription");
}

#[test]
fn events_of_a_subject_are_handled_in_their_order_whichever_host_took_them() {
    let url = postgres::database();
    let hosts = [(); 2].map(|()| {
        Host::with(files(LINE), |settings| {
            settings.store = Store::Postgres(url.clone());
            // On a busy machine a statement may take as long as a handler has otherwise.
            settings.handler_time = std::time::Duration::from_secs(60);
        })
    });
    let events = 40;
    std::thread::scope(|scope| {
        for subject in ["a", "b", "c"] {
            let hosts = &hosts;
            scope.spawn(move || {
                for number in 0..events {
                    let event = json!({ "specversion": "1.0", "type": "step", "source": "s", "subject": subject,
                        "id": format!("{subject}{number:02}") });
                    assert_eq!(hosts[number % 2].send_event("dev", &event).status, 202);
                }
            });
        }
    });
    for _ in 0..3 {
        hosts.iter().for_each(Host::drain);
    }
    let open = hosts[0].rows("line", "SELECT sender_id, state, error FROM _oncehost_deliveries WHERE state <> 'done'");
    assert_eq!((hosts[0].count("line", "noted"), open), (120, Vec::new()));
    // The rows of deliveries are made as events arrive, and handled one after the other.
    let turns = "SELECT sender_id FROM _oncehost_deliveries ORDER BY subject, id";
    let arrived: Vec<String> =
        hosts[0].rows("line", turns).iter().map(|row| row[0].as_str().unwrap().to_owned()).collect();
    assert!(arrived.is_sorted(), "{arrived:?}");
}

#[test]
fn concurrency_of_a_subscription_counts_what_runs_on_all_hosts() {
    let url = postgres::database();
    let host = Host::with(files(LINE), |settings| settings.store = Store::Postgres(url));
    // The subscription has two at a time, and another host has claimed as many.
    for id in ["x", "y"] {
        host.rows(
            "line",
            &format!(
                "INSERT INTO _oncehost_deliveries (event_id, subscription, operation, handler, tenant, source, sender_id, \
                 type, event, state, attempts, lost, due_at, owner, lease_until, created_at) VALUES ('{id}', \
                 'step events/note', 'line/event:note', 'note', 'dev', 's', '{id}', 'step', '{{\"id\":\"{id}\"}}', \
                 'running', 1, 0, {START}, 'other', {START} + 1000, {START})"
            ),
        );
    }
    let event = json!({ "specversion": "1.0", "type": "step", "source": "s", "id": "1" });
    assert_eq!(host.send_event("dev", &event).status, 202);
    let state = || host.rows("line", "SELECT state FROM _oncehost_deliveries WHERE sender_id = '1'")[0][0].clone();
    host.drain();
    assert_eq!(state(), "waiting");
    host.clock.advance(1000);
    host.drain();
    assert_eq!(state(), "done", "their leases ran out");
}

/// `slow` waits for a row that somebody else has locked.
const SLOW: &str = r#"
//- /slow/plugin.json
{ "id": "slow", "version": "1.0.0", "permissions": ["data:write", "events:heard"], "limits": { "handler": "300s" },
  "subscriptions": [ { "type": "heard", "handler": "events/note" } ] }
//- /slow/schema.sql
CREATE TABLE gate (id TEXT PRIMARY KEY, n INTEGER NOT NULL);
CREATE TABLE noted (id TEXT PRIMARY KEY);
//- /slow/events/note.ts
export function handle(event: any, ctx: any) {
  const made = event.id === 'slow'
    ? store.update('gate', { id: { eq: 'g' } }, { n: { inc: 1 } })
    : store.createIfAbsent('noted', { id: ctx.invocationId }, ['id'])
  if (!made.ok) throw made.error
}
"#;

#[test]
fn delivery_that_takes_long_keeps_no_later_one_waiting() {
    let url = postgres::database();
    let host = Host::with(files(SLOW), |settings| {
        settings.store = Store::Postgres(url.clone());
        settings.key_wait = std::time::Duration::from_secs(300);
        settings.store_timeout = std::time::Duration::from_secs(300);
    });
    host.rows("slow", "INSERT INTO gate (tenant_id, id, n) VALUES ('dev', 'g', 0)");
    let mut connected = tokio::task::JoinSet::new();
    let lock = host.block_on(async {
        let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
        connected.spawn(connection);
        client.batch_execute("BEGIN; SELECT 1 FROM slow.gate FOR UPDATE").await.unwrap();
        client
    });
    let send = |id: &str| {
        let event = json!({ "specversion": "1.0", "type": "heard", "source": "s", "id": id });
        assert_eq!(host.send_event("dev", &event).status, 202);
    };
    send("slow");
    (0..300).for_each(|number| send(&number.to_string()));
    let count = |state: &str| {
        host.rows("slow", &format!("SELECT count(*) FROM _oncehost_deliveries WHERE state = '{state}'"))[0][0].clone()
    };
    std::thread::scope(|scope| {
        scope.spawn(|| host.drain());
        crate::flows::until(|| count("done"), |done| *done == 300);
        assert_eq!(count("running"), 1);
        host.block_on(lock.batch_execute("COMMIT")).unwrap();
    });
}
