//! One host, plugins on several databases: events, workflows and what operators see go across.

use serde_json::{Value as Json, json};

use super::place;
use crate::events::stream::Stream;
use crate::support::host::{Host, answer, ureq_agent};
use crate::support::postgres;
use crate::support::scenario::files;

/// `near` asks, `far` answers; each hears the other.
const TALK: &str = r#"
//- /near/plugin.json
{ "id": "near", "version": "1.0.0", "permissions": ["data:read", "data:write", "flow:start", "notify:publish", "events:answer", "events:both"],
  "subscriptions": [ { "type": "answer", "handler": "events/keep" }, { "type": "both", "handler": "events/keep" } ] }
//- /near/schema.sql
CREATE TABLE kept (id TEXT PRIMARY KEY, event TEXT NOT NULL);
//- /near/handlers/ask.ts
export function handle(input: { n: number }) {
  const sent = notify.publish('ask', { n: input.n })
  if (!sent.ok) throw sent.error
  return { eventId: sent.data.eventId }
}
//- /near/events/keep.ts
export function handle(event: any, ctx: any) {
  const made = store.createIfAbsent('kept', { id: ctx.invocationId, event: ctx.idempotencyKey }, ['id'])
  if (!made.ok) throw made.error
}
//- /far/plugin.json
{ "id": "far", "version": "1.0.0", "permissions": ["data:read", "data:write", "flow:start", "notify:publish", "events:ask", "events:both", "events:bad"],
  "subscriptions": [ { "type": "ask", "handler": "events/reply" }, { "type": "both", "handler": "events/keep" },
    { "type": "bad", "handler": "events/bad" } ] }
//- /far/schema.sql
CREATE TABLE kept (id TEXT PRIMARY KEY, event TEXT NOT NULL);
//- /far/events/keep.ts
export function handle(event: any, ctx: any) {
  const made = store.createIfAbsent('kept', { id: ctx.invocationId, event: ctx.idempotencyKey }, ['id'])
  if (!made.ok) throw made.error
}
//- /far/events/reply.ts
import { handle as keep } from './keep'
export function handle(event: any, ctx: any) {
  keep(event, ctx)
  const sent = notify.publish('answer', { n: event.data.n })
  if (!sent.ok) throw sent.error
}
//- /far/events/bad.ts
export function handle() { throw new Discard('no') }
//- /far/handlers/wait.ts
export function handle(input: { n: number }) {
  const started = flow.start('wait', String(input.n), { n: input.n })
  if (!started.ok) throw started.error
  return started.data.status
}
//- /far/handlers/done.ts
export function handle() { return null }
//- /far/flows/wait.json
{ "name": "wait", "job": { "seed": ["n"] }, "steps": [
  { "id": "wait", "uses": "waitForEvent", "type": "ask", "match": { "n": { "from": "trigger.n" } }, "timeout": "1h" },
  { "id": "done", "uses": "action", "inputs": { "action": { "const": "done" } } } ] }
"#;

fn host() -> Host {
    let url = postgres::database();
    Host::with(files(TALK), |settings| place(settings, "far", &url))
}

fn get(host: &Host, path: &str) -> Json {
    answer(ureq_agent().get(format!("{}{path}", host.url)).call().unwrap()).json()
}

#[test]
fn events_go_from_one_database_to_the_other_and_back_once() {
    let host = host();
    let mut heard = Stream::open(&host, "topics=ask,answer", "");
    let mut asked = Vec::new();
    for n in 0..20 {
        let body = format!(r#"{{"n":{n}}}"#);
        let answer = host.post("near", "ask", &format!("k{n}"), &body);
        assert_eq!(host.post("near", "ask", &format!("k{n}"), &body).body, answer.body);
        asked.push(answer.data()["eventId"].as_str().unwrap().to_owned());
    }
    host.drain();
    host.drain();
    let mut there: Vec<Json> = host.rows("far", "SELECT event FROM kept").concat();
    there.sort_by_key(ToString::to_string);
    asked.sort();
    assert_eq!(there, asked, "each under the id it was published with");
    assert_eq!(host.count("near", "kept"), 20);
    assert_eq!(host.rows("near", "SELECT count(DISTINCT event) FROM kept"), [[20]]);
    assert_eq!(heard.topics(40).iter().filter(|topic| *topic == "answer").count(), 20);
}

#[test]
fn accepted_event_reaches_subscriptions_on_both_databases() {
    let host = host();
    let event = json!({ "specversion": "1.0", "type": "both", "source": "s", "id": "1" });
    let accepted = host.send_event("dev", &event).json();
    host.drain();
    for plugin in ["near", "far"] {
        assert_eq!(host.rows(plugin, "SELECT event FROM kept"), [[accepted["eventId"].clone()]], "{plugin}");
    }
}

#[test]
fn workflow_waits_on_its_plugins_database_for_what_another_publishes() {
    let host = host();
    assert_eq!(host.post("far", "wait", "k", r#"{"n":7}"#).data(), "waiting");
    host.post("near", "ask", "k", r#"{"n":7}"#).data();
    host.drain();
    assert_eq!(host.rows("far", "SELECT workflow_id, status FROM _oncehost_workflows"), [["wait-7", "completed"]]);
    let listed = get(&host, "/admin/flows");
    assert_eq!(listed["workflows"][0]["workflowId"], "wait-7", "{listed}");
}

#[test]
fn operators_see_the_deliveries_of_all_databases() {
    let host = host();
    host.send_event("dev", &json!({ "specversion": "1.0", "type": "bad", "source": "s", "id": "1" }));
    host.send_event("dev", &json!({ "specversion": "1.0", "type": "both", "source": "s", "id": "2" }));
    host.drain();
    let listed = get(&host, "/admin/events?limit=10");
    let mut of: Vec<&str> =
        listed["events"].as_array().unwrap().iter().map(|it| it["subscription"].as_str().unwrap()).collect();
    of.sort_unstable();
    assert_eq!(of, ["far/events/bad", "far/events/keep", "near/events/keep"]);
    assert_eq!(get(&host, "/readyz")["ready"], true);
}

#[test]
fn what_a_stopped_host_had_claimed_on_a_server_is_taken_up_after_the_next_start() {
    let mut host = host();
    host.send_event("dev", &json!({ "specversion": "1.0", "type": "both", "source": "s", "id": "1" }));
    host.drain();
    host.stop();
    let left = "UPDATE _oncehost_deliveries SET state = 'running', owner = 'gone', lease_until = 0, ended_at = NULL";
    host.rows("far", left);
    host.rows("far", "DELETE FROM _oncehost_keys");
    host.restart();
    host.clock.advance(3_600_000);
    host.drain();
    host.clock.advance(3_600_000);
    host.drain();
    assert_eq!(host.rows("far", "SELECT state FROM _oncehost_deliveries"), [["done"]]);
}

#[test]
fn databases_of_one_url_share_their_connections() {
    let url = postgres::database();
    let host = Host::with(files(TALK), |settings| {
        place(settings, "far", &url);
        place(settings, "near", &url);
        settings.store_connections = 3;
    });
    host.post("near", "ask", "k", r#"{"n":1}"#).data();
    host.drain();
    assert_eq!(host.rows("near", "SELECT count(*) FROM kept"), [[1]]);
    // And one that hears what other hosts tell, and one for locks.
    let connections = "SELECT count(*) <= 3 + 2 FROM pg_stat_activity WHERE application_name = 'oncehost' AND datname = current_database()";
    assert_eq!(host.rows("near", connections), [[true]]);
}
