//! Hosts that have different plugins, or different versions of one: work waits for those that know it. What one brings,
//! another one takes up, told or not.

use std::time::{Duration, Instant};

use oncehost::config::{Settings, Store};
use serde_json::json;

use super::proxy::{Mode, Proxy};
use crate::support::host::{Host, answer, ureq_agent};
use crate::support::postgres;
use crate::support::scenario::files;

/// `say` publishes; `hear` keeps what it hears.
const TALK: &str = r#"
//- /say/plugin.json
{ "id": "say", "version": "1.0.0", "permissions": ["data:write", "notify:publish"] }
//- /say/handlers/say.ts
export function handle(input: { what: string }) {
  const sent = notify.publish('said', { what: input.what })
  if (!sent.ok) throw sent.error
}
//- /hear/plugin.json
{ "id": "hear", "version": "1.0.0", "permissions": ["data:write", "events:said"],
  "subscriptions": [ { "type": "said", "handler": "events/keep" } ] }
//- /hear/schema.sql
CREATE TABLE heard (id TEXT PRIMARY KEY, what TEXT NOT NULL);
//- /hear/events/keep.ts
export function handle(event: any, ctx: any) {
  const made = store.createIfAbsent('heard', { id: ctx.invocationId, what: event.data.what }, ['id'])
  if (!made.ok) throw made.error
}
"#;

/// A host on this database with the files of `fixture` whose paths begin so.
fn host_with(url: &str, fixture: &str, begins: &str, change: impl FnOnce(&mut Settings)) -> Host {
    let files = files(fixture).into_iter().filter(|(path, _)| path.starts_with(begins));
    Host::with(files, |settings| {
        settings.store = Store::Postgres(url.to_owned());
        change(settings);
    })
}

const NEVER: Duration = Duration::from_secs(100_000);

/// Waits until `host` has so many rows in a table.
#[track_caller]
fn await_rows(host: &Host, plugin: &str, table: &str, rows: i64) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while host.count(plugin, table) < rows {
        assert!(Instant::now() < deadline, "{table} has {} rows", host.count(plugin, table));
    }
    assert_eq!(host.count(plugin, table), rows);
}

#[test]
fn event_for_a_plugin_of_another_host_is_taken_up_there_as_soon_as_it_is_told() {
    let url = postgres::database();
    // Neither would find anything by looking.
    let hears = host_with(&url, TALK, "hear", |settings| settings.look_every = NEVER);
    let says = host_with(&url, TALK, "say", |settings| settings.look_every = NEVER);
    for number in 1..=3 {
        assert_eq!(says.post("say", "say", &format!("k{number}"), r#"{"what":"x"}"#).status, 200);
        await_rows(&hears, "hear", "heard", number);
    }
}

#[test]
fn event_for_a_plugin_of_another_host_is_found_by_looking_where_nobody_is_told() {
    let url = postgres::database();
    let proxy = Proxy::new(&postgres::cluster().folder);
    proxy.set(Mode::Deaf);
    let often = Duration::from_millis(50);
    let hears = host_with(&proxy.url(&url), TALK, "hear", |settings| settings.look_every = often);
    let says = host_with(&url, TALK, "say", |settings| settings.look_every = NEVER);
    for number in 1..=3 {
        assert_eq!(says.post("say", "say", &format!("k{number}"), r#"{"what":"x"}"#).status, 200);
        await_rows(&hears, "hear", "heard", number);
    }
}

#[test]
fn plugin_that_one_host_lacks_stays_subscribed_and_its_events_wait_for_it() {
    let url = postgres::database();
    drop(host_with(&url, TALK, "hear", |_| {}));
    // The only host that runs does not have it, from its start on and also when it reloads.
    let mut says = host_with(&url, TALK, "say", |_| {});
    says.block_on(oncehost::reload::reload_named(&says.app, None)).unwrap();
    says.restart();
    assert_eq!(says.post("say", "say", "k", r#"{"what":"x"}"#).status, 200);
    says.drain();
    let listed = answer(ureq_agent().get(format!("{}/admin/events?state=waiting", says.url)).call().unwrap());
    let waiting = listed.json()["events"][0]["waitingFor"].as_str().unwrap().to_owned();
    assert!(waiting.contains("hear"), "{waiting}");
    let hears = host_with(&url, TALK, "hear", |_| {});
    await_rows(&hears, "hear", "heard", 1);
}

/// Types that the plugin `hear` is subscribed to.
fn subscribed(host: &Host) -> Vec<String> {
    let rows = host.rows(
        "host",
        "SELECT type || ' ' || coalesce(filter, '') FROM subscriptions WHERE ended_at IS NULL ORDER BY type",
    );
    rows.iter().map(|row| row[0].as_str().unwrap().to_owned()).collect()
}

/// The second version of `hear`: another filter, and one more subscription.
fn second() -> String {
    TALK.replace(r#""hear", "version": "1.0.0""#, r#""hear", "version": "1.1.0""#)
        .replace(
            r#"{ "type": "said", "handler": "events/keep" }"#,
            r#"{ "type": "said", "handler": "events/keep", "filter": { "subject": { "startsWith": "a" } } },
           { "type": "more", "handler": "events/keep" }"#,
        )
        .replace(r#""events:said""#, r#""events:said", "events:more""#)
}

#[test]
fn host_with_the_newer_version_decides_who_subscribes() {
    let url = postgres::database();
    let mut old = host_with(&url, TALK, "hear", |_| {});
    assert_eq!(subscribed(&old), ["said "]);
    let new = host_with(&url, &second(), "hear", |_| {});
    let wanted = ["more ", r#"said {"subject":{"startsWith":"a"}}"#];
    assert_eq!(subscribed(&old), wanted);
    old.restart();
    old.block_on(oncehost::reload::reload_named(&old.app, None)).unwrap();
    old.block_on(oncehost::events::beat(&old.app)).unwrap();
    assert_eq!(subscribed(&old), wanted, "the older one has no say beside it");
    drop(new);
    old.restart();
    assert_eq!(subscribed(&old), ["said "], "it went back to the older version");
}

#[test]
fn delivery_that_only_the_newer_version_knows_is_left_to_its_hosts_when_it_is_lost() {
    use crate::support::host::START;
    let url = postgres::database();
    let new = host_with(&url, &second(), "hear", |_| {});
    let old = host_with(&url, TALK, "hear", |_| {});
    let claimed = format!(
        "INSERT INTO _oncehost_deliveries (event_id, subscription, operation, handler, tenant, source, sender_id, type, \
         event, state, attempts, lost, due_at, owner, lease_until, created_at) VALUES ('e', 'more events/keep', \
         'hear/event:keep', 'keep', 'dev', 's', 'e', 'more', '{{\"id\":\"e\",\"data\":{{\"what\":\"x\"}}}}', 'running', 20, 0, {START}, \
         'gone', {START} + 1000, {START})"
    );
    new.rows("hear", &claimed);
    let state = || new.rows("hear", "SELECT state FROM _oncehost_deliveries")[0][0].clone();
    // By the older version's count it would be dead.
    old.clock.advance(2_000);
    old.drain();
    assert_eq!(state(), "running");
    old.clock.advance(60_000);
    old.drain();
    assert_eq!(state(), "waiting", "nobody came for it: it waits, and is not given up");
    new.clock.advance(62_000);
    new.drain();
    assert_eq!((state(), new.count("hear", "heard")), (json!("done"), 1));
}

#[test]
fn newer_version_takes_its_say_back_from_an_older_one_that_did_not_see_it() {
    let url = postgres::database();
    let new = host_with(&url, &second(), "hear", |_| {});
    let wanted = subscribed(&new);
    new.rows("host", "WITH gone AS (DELETE FROM hosts RETURNING id) SELECT count(*) FROM gone");
    let old = host_with(&url, TALK, "hear", |_| {});
    new.block_on(oncehost::events::beat(&new.app)).unwrap();
    assert_eq!(subscribed(&old), wanted);
}

#[test]
fn plugin_that_is_taken_away_ends_its_subscriptions_with_the_last_host_that_had_it() {
    let url = postgres::database();
    let hosts = [(); 2].map(|()| host_with(&url, TALK, "hear", |_| {}));
    for (host, left) in hosts.iter().zip([1, 0]) {
        std::fs::remove_dir_all(host.plugins().join("hear")).unwrap();
        host.block_on(oncehost::reload::reload_named(&host.app, None)).unwrap();
        host.block_on(oncehost::events::beat(&host.app)).unwrap();
        assert_eq!(subscribed(host).len(), left);
    }
}

/// A flow that sleeps, and then does what only the second version can.
const GROW: &str = r#"
//- /farm/plugin.json
{ "id": "farm", "version": "1.0.0", "permissions": ["data:read", "data:write", "flow:start"] }
//- /farm/schema.sql
CREATE TABLE grown (id TEXT PRIMARY KEY);
//- /farm/handlers/start.ts
export function handle(input: { id: string }) {
  const started = flow.start('grow', input.id)
  if (!started.ok) throw started.error
}
//- /farm/flows/grow.json
{ "name": "grow", "steps": [
  { "id": "rest", "uses": "sleep", "inputs": { "for": { "const": "1h" } } },
  { "id": "grow", "uses": "action", "inputs": { "action": { "const": "grow" } } } ] }
//- /farm/handlers/grow.ts
export function handle(input: unknown, ctx: any) {
  const made = store.createIfAbsent('grown', { id: ctx.invocationId }, ['id'])
  if (!made.ok) throw made.error
}
"#;

#[test]
fn step_that_only_the_newer_version_knows_waits_for_its_host() {
    let url = postgres::database();
    let new = host_with(&url, GROW, "farm", |settings| settings.look_every = NEVER);
    let lacks: Vec<(String, String)> = files(GROW).into_iter().filter(|(path, _)| !path.contains("grow.")).collect();
    let old = Host::with(lacks, |settings| settings.store = Store::Postgres(url.clone()));
    new.post("farm", "start", "k", r#"{"id":"a"}"#).data();
    let state = || {
        old.rows("farm", "SELECT s.state, w.status FROM _oncehost_steps s, _oncehost_workflows w WHERE step = 'grow'")
    };
    // The older one is the first to see that the sleep is over, and leaves what comes then to others.
    old.clock.advance(3_600_000);
    old.drain();
    assert_eq!(state(), [[json!("ready"), json!("running")]]);
    old.clock.advance(9_000);
    old.drain();
    assert_eq!(state(), [[json!("ready"), json!("running")]]);
    // Nobody came for it: that is shown, and it is looked at again soon.
    old.clock.advance(1_000);
    old.drain();
    assert_eq!(state(), [[json!("blocked"), json!("failing")]]);
    new.clock.advance(3_600_000 + 20_000);
    new.drain();
    assert_eq!(state(), [[json!("done"), json!("completed")]]);
    assert_eq!(new.count("farm", "grown"), 1);
}

#[test]
fn workflows_of_a_plugin_that_is_not_loaded_are_listed_as_waiting_for_it() {
    let url = postgres::database();
    let farm = host_with(&url, GROW, "farm", |_| {});
    farm.post("farm", "start", "k", r#"{"id":"a"}"#).data();
    drop(farm);
    let other = host_with(&url, TALK, "say", |_| {});
    let listed = answer(ureq_agent().get(format!("{}/admin/flows", other.url)).call().unwrap()).json();
    let workflow = &listed["workflows"][0];
    assert_eq!((&workflow["workflowId"], &workflow["status"]), (&json!("grow-a"), &json!("waiting")), "{listed}");
    assert!(workflow["error"].as_str().unwrap().contains("farm is not loaded"), "{listed}");
}

#[test]
fn what_expired_is_cleared_once_by_hosts_that_clear_at_the_same_time() {
    let url = postgres::database();
    let hosts = [(); 2].map(|()| host_with(&url, TALK, "", |_| {}));
    let kept = "INSERT INTO _oncehost_keys (tenant, operation, key, request_hash, committed_at, reply) \
                SELECT 'dev', 'say/say', 'k' || n, '\\x00', 0, '1' FROM generate_series(1, 1000) AS n";
    hosts[0].rows("say", kept);
    let cleared: usize = std::thread::scope(|scope| {
        let clears = hosts.each_ref().map(|host| scope.spawn(|| host.block_on(host.app.clear_expired()).unwrap().1));
        clears.map(|clear| clear.join().unwrap()).into_iter().sum()
    });
    assert_eq!((cleared, hosts[0].count("say", "_oncehost_keys")), (1000, 0));
}

#[test]
fn host_that_waits_for_a_key_goes_on_when_the_other_one_has_ended() {
    let url = postgres::database();
    let spin = "//- /spin/plugin.json\n{ \"id\": \"spin\", \"version\": \"1.0.0\", \"permissions\": [] }\n\
                //- /spin/handlers/spin.ts\nexport function handle() { while (true) {} }\n";
    let quick = spin.replace("while (true) {}", "return 'quick'");
    let slow = host_with(&url, spin, "", |settings| settings.handler_time = Duration::from_secs(2));
    let quick = host_with(&url, &quick, "", |settings| settings.key_wait = NEVER);
    std::thread::scope(|scope| {
        let first = scope.spawn(|| slow.post("spin", "spin", "k", "{}"));
        let held = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1 AND database = \
                    (SELECT oid FROM pg_database WHERE datname = current_database())";
        while slow.rows("spin", held)[0][0] == 0 {
            std::thread::yield_now();
        }
        // It would wait for more than a day.
        assert_eq!(quick.post("spin", "spin", "k", "{}").data(), "quick");
        assert_eq!(first.join().unwrap().error(), "LIMIT");
    });
}

#[test]
fn key_is_waited_for_no_longer_than_the_limit_on_this_host_and_others_together() {
    let url = postgres::database();
    let spin = "//- /spin/plugin.json\n{ \"id\": \"spin\", \"version\": \"1.0.0\", \"permissions\": [] }\n\
                //- /spin/handlers/spin.ts\nexport function handle() { while (true) {} }\n";
    let slow = host_with(&url, spin, "", |settings| settings.handler_time = Duration::from_secs(5));
    let quick = host_with(&url, spin, "", |settings| settings.key_wait = Duration::from_secs(3));
    std::thread::scope(|scope| {
        let first = scope.spawn(|| slow.post("spin", "spin", "k", "{}"));
        let held = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1 AND database = \
                    (SELECT oid FROM pg_database WHERE datname = current_database())";
        while slow.rows("spin", held)[0][0] == 0 {
            std::thread::yield_now();
        }
        // The second waits for the first of this host, and would have to wait for the other host after that.
        let calls = [(); 2].map(|()| scope.spawn(|| quick.post("spin", "spin", "k", "{}")));
        for call in calls {
            let answer = call.join().unwrap();
            assert_eq!((answer.status, answer.error().as_str()), (409, "KEY_IN_PROGRESS"), "{}", answer.body);
        }
        assert!(!first.is_finished(), "both answers came before the other host's call had ended");
        assert_eq!(first.join().unwrap().error(), "LIMIT");
    });
}

#[test]
fn nul_characters_are_told_or_replaced_before_they_reach_the_database() {
    let url = postgres::database();
    let nul = r#"
//- /nul/plugin.json
{ "id": "nul", "version": "1.0.0", "permissions": ["data:read", "data:write", "flow:start", "events:sent"],
  "subscriptions": [ { "type": "sent", "handler": "events/fail", "retry": { "maxAttempts": 1 } } ] }
//- /nul/events/fail.ts
export function handle() { throw new Error('a\0b') }
//- /nul/handlers/cancel.ts
export function handle() {
  const cancelled = flow.cancel('none', 'a\0b')
  return { code: cancelled.error?.code, none: flow.get('no\0ne').data }
}
"#;
    let host = host_with(&url, nul, "", |_| {});
    assert_eq!(host.post("nul", "cancel", "k", "{}").data(), json!({ "code": "CONTRACT", "none": null }));
    host.send_event("dev", &json!({ "specversion": "1.0", "type": "sent", "source": "s", "id": "1" }));
    host.drain();
    let states = host.rows("nul", "SELECT state, error FROM _oncehost_deliveries");
    assert_eq!(states[0][0], "dead", "{states:?}");
}
