//! Workflows as they rest in the database: claims, leases, definitions, over reloads and other hosts.

use std::fs;

use serde_json::{Value as Json, json};

use super::{drain, files, look, until};
use crate::support::host::Host;
use crate::support::server::Server;
use crate::support::stores;

pub const SLOW: &str = r#"
//- /slow/plugin.json
{ "id": "slow", "version": "1.0.0", "permissions": ["data:read", "data:write", "flow:start", "http:127.0.0.1:PORT"] }
//- /slow/handlers/start.ts
export function handle(input: any) {
  const started = flow.start(input.flow ?? 'slow', input.id)
  if (!started.ok) throw started.error
  return started.data
}
//- /slow/handlers/look.ts
export const config = { kind: 'read' }
export function handle(input: any) {
  const found = flow.get(input.id)
  if (!found.ok) throw found.error
  if (found.data === null) return null
  const { status, error, steps } = found.data
  return { status, error, steps: Object.fromEntries(Object.entries(steps).map(([id, s]: any) => [id, s.result])) }
}
//- /slow/scripts/ask.ts
export async function handle(input: any) {
  const answer = await fetch(`http://127.0.0.1:PORT/${run.attempt}`)
  return { attempt: run.attempt, said: await answer.text(), version: 1 }
}
//- /slow/flows/slow.json
{ "name": "slow", "steps": [ { "id": "ask", "uses": "script", "inputs": { "script": { "const": "ask" } }, "timeout": "600s" } ] }
//- /slow/flows/nap.json
{ "name": "nap", "steps": [
  { "id": "nap", "uses": "sleep", "for": "1h" },
  { "id": "ask", "uses": "script", "inputs": { "script": { "const": "ask" } } } ] }
"#;

/// A host on each database, one after the other.
fn hosts(files: Vec<(String, String)>) -> impl Iterator<Item = Host> {
    stores().into_iter().map(move |store| Host::with(files.clone(), |settings| settings.store = store))
}

#[test]
fn workflow_goes_on_with_the_definition_it_began_with() {
    let server = Server::new(|_| (200, Vec::new(), String::new()));
    for host in hosts(files(SLOW, server.port)) {
        host.post("slow", "start", "k", r#"{"id":"1","flow":"nap"}"#).data();
        let other = r#"{ "name": "nap", "steps": [ { "id": "other", "uses": "sleep", "for": "2h" } ] }"#;
        fs::write(host.plugins().join("slow/flows/nap.json"), other).unwrap();
        host.block_on(oncehost::reload::reload_named(&host.app, None)).unwrap();
        host.post("slow", "start", "k2", r#"{"id":"2","flow":"nap"}"#).data();
        drain(&host);
        host.clock.advance(60 * 60 * 1000);
        drain(&host);
        let keys = |id: &str| -> Vec<String> {
            look(&host, "slow", id).data()["steps"].as_object().unwrap().keys().cloned().collect()
        };
        assert_eq!(
            (keys("nap-1"), keys("nap-2")),
            (vec!["ask".to_owned(), "nap".to_owned()], vec!["other".to_owned()])
        );
        assert_eq!(look(&host, "slow", "nap-1").data()["status"], "completed");
        assert_eq!(host.count("slow", "_oncehost_definitions"), 2);
        host.clock.advance(60 * 60 * 1000);
        drain(&host);
        host.block_on(host.app.clear_expired()).unwrap();
        let left = host.count("slow", "_oncehost_definitions");
        assert_eq!(left, 0, "definitions that no workflow goes on with are cleared away");
    }
}

#[test]
fn step_whose_script_is_gone_waits_for_it_as_failing_and_goes_on_when_it_is_back() {
    let server = Server::new(|_| (200, Vec::new(), "x".to_owned()));
    for host in hosts(files(SLOW, server.port)) {
        host.post("slow", "start", "k", r#"{"id":"1","flow":"nap"}"#).data();
        let (script, flows) = (host.plugins().join("slow/scripts/ask.ts"), host.plugins().join("slow/flows"));
        let source = fs::read_to_string(&script).unwrap();
        let kept: Vec<(_, String)> = ["slow.json", "nap.json"]
            .map(|name| (flows.join(name), fs::read_to_string(flows.join(name)).unwrap()))
            .into();
        fs::remove_file(&script).unwrap();
        kept.iter().for_each(|(path, _)| fs::remove_file(path).unwrap());
        let reload = || host.block_on(oncehost::reload::reload_named(&host.app, None)).unwrap();
        assert!(!reload().is_broken());
        host.clock.advance(60 * 60 * 1000);
        drain(&host);
        // Where other hosts may have the script, they have a lease's time to take it.
        let found = (0..20).map(|_| {
            host.clock.advance(11_000);
            drain(&host);
            look(&host, "slow", "nap-1").data()
        });
        let found = found.into_iter().find(|found| found["status"] == "failing").expect("it is told as failing");
        let error = found["error"].as_str().unwrap();
        assert!(error.contains("the script \"ask\" is not there (slow/scripts/ask.ts)"), "{error}");
        fs::write(&script, source).unwrap();
        reload();
        // The host's own loop may be at it as well.
        let status = || {
            drain(&host);
            look(&host, "slow", "nap-1").data()["status"].clone()
        };
        until(status, |status| status == "completed");
        let found = look(&host, "slow", "nap-1").data();
        assert_eq!((&found["status"], &found["error"]), (&json!("completed"), &Json::Null), "{found}");
        assert_eq!(found["steps"]["ask"]["attempt"], 1);
    }
}

const WAITER: &str = r#"
//- /waiter/plugin.json
{ "id": "waiter", "version": "1.0.0", "permissions": ["data:read", "flow:start"] }
//- /waiter/handlers/start.ts
export function handle(input: any) {
  const started = flow.start('wait', input.id, { clip: input.clip })
  if (!started.ok) throw started.error
  return started.data
}
//- /waiter/handlers/echo.ts
export function handle(input: any) { return input }
//- /waiter/handlers/look.ts
export const config = { kind: 'read' }
export function handle(input: any) {
  const found = flow.get(input.id)
  if (!found.ok || found.data === null) return null
  return [found.data.status, found.data.steps.wait.result, found.data.steps.late?.state, found.data.steps.then?.result]
}
//- /waiter/flows/wait.json
{ "name": "wait", "job": { "seed": ["clip"] }, "steps": [
  { "id": "wait", "uses": "waitForEvent", "type": "video.uploaded", "match": { "clip": { "from": "trigger.clip" }, "subject": "s" }, "timeout": "1h" },
  { "id": "late", "uses": "action", "when": { "from": "steps.wait.id", "isNull": true }, "inputs": { "action": { "const": "echo" } } },
  { "id": "then", "uses": "action", "when": { "from": "steps.wait.id" }, "inputs": { "action": { "const": "echo" }, "size": { "from": "steps.wait.data.size" } } } ] }
"#;

/// Has an event given to the workflows that wait for it, as the delivery of events does.
fn event(host: &Host, tenant: &str, data: &Json) {
    let event = json!({ "id": "e1", "source": "camera", "type": "video.uploaded", "subject": "s", "data": data });
    let (app, tenant) = (host.app.clone(), tenant.to_owned());
    let lane = host.app.lane("waiter");
    let done = lane.exclusive({
        let app = app.clone();
        move |shared| {
            let plugin = app.registry().plugins["waiter"].clone();
            let tx = shared.begin().unwrap();
            let now = oncehost::clock::Clock::now(app.clock.as_ref());
            let wakes = app.flows.satisfy(&tx, &plugin, &tenant, &event, now).unwrap();
            tx.commit().unwrap();
            oncehost::lane::AfterCommit::committed(&oncehost::flow::Committed(app.flows.clone()), "waiter", wakes);
        }
    });
    host.block_on(done).unwrap();
    drain(host);
}

#[test]
fn waiting_step_takes_the_event_that_matches_or_ends_with_null_at_its_timeout() {
    for host in hosts(crate::support::scenario::files(WAITER)) {
        for (id, clip) in [("1", "a"), ("2", "b"), ("3", "c")] {
            host.post("waiter", "start", id, &format!(r#"{{"id":"{id}","clip":"{clip}"}}"#)).data();
        }
        let found = |id: &str| look(&host, "waiter", &format!("wait-{id}")).data();
        event(&host, "other", &json!({ "clip": "a" }));
        assert_eq!(found("1")[0], "waiting", "another tenant's event");
        event(&host, "dev", &json!({ "clip": "a", "size": 7 }));
        let got = found("1");
        assert_eq!(
            (&got[0], &got[1]["data"]["size"], &got[2], &got[3]["size"]),
            (&json!("completed"), &json!(7), &json!("skipped"), &json!(7))
        );
        assert_eq!(found("2")[0], "waiting", "another clip");
        event(&host, "dev", &json!({ "clip": "a", "size": 8 }));
        assert_eq!(found("1")[1]["data"]["size"], 7, "it waits no more");
        host.clock.advance(60 * 60 * 1000);
        drain(&host);
        assert_eq!(found("2"), json!(["completed", null, "done", null]));
    }
}
