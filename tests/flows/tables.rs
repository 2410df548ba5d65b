//! Steps and deliveries of a version of a plugin whose tables are not there yet: they wait for them, and use up no tries.

use serde_json::{Value as Json, json};

use crate::support::host::{Host, write};
use crate::support::scenario::files;
use crate::support::stores;

/// Its second version, see [`second`], keeps in another column.
pub const KEEPER: &str = r#"
//- /keeper/plugin.json
{ "id": "keeper", "version": "1.0.0", "permissions": ["data:read", "data:write", "flow:start", "events:sent"],
  "subscriptions": [ { "type": "sent", "handler": "events/keep", "retry": { "maxAttempts": 1 } } ] }
//- /keeper/schema.sql
CREATE TABLE kept (id TEXT PRIMARY KEY, one TEXT);
//- /keeper/lib/keep.ts
export function keep(id: string) {
  const made = store.createIfAbsent('kept', { id, one: 'x' }, ['id'])
  if (!made.ok) throw made.error
}
//- /keeper/handlers/start.ts
export function handle(input: any) {
  const started = flow.start(input.flow, '1')
  if (!started.ok) throw started.error
}
//- /keeper/handlers/keep.ts
import { keep } from '../lib/keep.ts'
export function handle(input: any, ctx: any) { keep(ctx.idempotencyKey) }
//- /keeper/events/keep.ts
import { keep } from '../lib/keep.ts'
export function handle(event: any, ctx: any) { keep(ctx.idempotencyKey) }
//- /keeper/scripts/keep.ts
import { keep } from '../lib/keep.ts'
export function handle(input: any, ctx: any) { keep(ctx.idempotencyKey) }
//- /keeper/scripts/slip.ts
export function handle() {
  const found = store.count('keptt', {})
  if (!found.ok) throw found.error
}
//- /keeper/flows/acts.json
{ "name": "acts", "steps": [
  { "id": "s", "uses": "action", "inputs": { "action": { "const": "keep" } }, "retry": { "maxAttempts": 1 } } ] }
//- /keeper/flows/scripts.json
{ "name": "scripts", "steps": [
  { "id": "s", "uses": "script", "inputs": { "script": { "const": "keep" } }, "retry": { "maxAttempts": 1 } } ] }
//- /keeper/flows/slips.json
{ "name": "slips", "steps": [
  { "id": "s", "uses": "script", "inputs": { "script": { "const": "slip" } }, "retry": { "maxAttempts": 1 } } ] }
"#;

/// The second version, with this `schema.sql`.
pub fn second(schema: &str) -> String {
    KEEPER
        .replace("1.0.0", "2.0.0")
        .replace("CREATE TABLE kept (id TEXT PRIMARY KEY, one TEXT);", schema)
        .replace("one: 'x'", "two: 'x'")
}

/// Starts a workflow of each of these flows, and sends an event.
pub fn begin(host: &Host, flows: &[&str]) {
    for flow in flows {
        host.post("keeper", "start", flow, &json!({ "flow": flow }).to_string()).data();
    }
    host.send_event("dev", &json!({ "specversion": "1.0", "type": "sent", "source": "s", "id": "1" }));
    host.drain();
}

/// A workflow as operators see it.
pub fn shown(host: &Host, flow: &str) -> Json {
    let named = oncehost::flow::operate::Named { workflow_id: format!("{flow}-1"), ..Default::default() };
    host.block_on(oncehost::flow::operate::show(&host.app, named)).unwrap()
}

/// The event's delivery as operators see it.
pub fn delivery(host: &Host) -> Json {
    let selection = oncehost::events::admin::Selection::default();
    host.block_on(oncehost::events::admin::list(&host.app, &selection)).unwrap()["events"][0].clone()
}

/// Holds that all of it waits for other tables, with the reason, however long that takes.
#[track_caller]
pub fn waits(host: &Host) {
    for _ in 0..30 {
        host.clock.advance(60_000);
        host.drain();
    }
    let why = "waits, and no try is used up: the tables of keeper are not those of its version";
    for flow in ["acts", "scripts"] {
        let found = shown(host, flow);
        let step = &found["steps"][0];
        assert_eq!((&found["status"], &step["attempts"]), (&json!("failing"), &json!(0)), "{found}");
        assert!(step["error"].as_str().unwrap().contains(why), "{found}");
        assert!(found["error"].as_str().unwrap().contains(why), "{found}");
    }
    let found = delivery(host);
    assert_eq!((&found["state"], &found["tries"]), (&json!("waiting"), &json!(0)), "{found}");
    assert!(found["error"].as_str().unwrap().contains(why), "{found}");
}

/// Lets all of it go on, and holds that it did, in one try each.
#[track_caller]
pub fn goes_on(host: &Host) {
    for flow in ["acts", "scripts"] {
        let found = super::until(
            || {
                host.drain();
                shown(host, flow)
            },
            |found| found["status"] == "completed",
        );
        assert_eq!(found["steps"][0]["attempts"], 1, "{found}");
    }
    super::until(
        || {
            host.drain();
            delivery(host)
        },
        |found| found["state"] == "done",
    );
    assert_eq!(host.count("keeper", "kept"), 3);
}

#[test]
fn work_whose_tables_are_not_applied_yet_waits_for_them_and_uses_up_no_tries() {
    for store in stores() {
        let host = Host::with(files(KEEPER), |settings| settings.store = store);
        let added = "CREATE TABLE kept (id TEXT PRIMARY KEY, one TEXT, two TEXT);";
        files(&second(added)).iter().for_each(|(path, text)| write(&host.plugins().join(path), text));
        assert!(!host.block_on(oncehost::reload::reload_named(&host.app, None)).unwrap().is_broken());
        begin(&host, &["acts", "scripts"]);
        waits(&host);
        host.apply_schemas();
        goes_on(&host);
    }
}

#[test]
fn table_that_only_a_script_knows_uses_up_its_tries() {
    for store in stores() {
        let host = Host::with(files(KEEPER), |settings| settings.store = store);
        host.post("keeper", "start", "k", r#"{"flow":"slips"}"#).data();
        let found = super::until(
            || {
                host.drain();
                shown(&host, "slips")
            },
            |found| found["status"] == "failed",
        );
        assert!(found["error"].as_str().unwrap().contains("declares no table keptt"), "{found}");
    }
}
