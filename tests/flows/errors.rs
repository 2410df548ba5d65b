//! What is kept of the errors of steps and deliveries.

use serde_json::{Value as Json, json};

use crate::support::host::Host;
use crate::support::scenario::files;
use crate::support::stores;

/// Each throws with what a database may not like.
const THROWER: &str = r#"
//- /thrower/plugin.json
{ "id": "thrower", "version": "1.0.0", "permissions": ["data:read", "flow:start", "events:odd"],
  "subscriptions": [ { "type": "odd", "handler": "events/odd", "retry": { "maxAttempts": 1 } } ] }
//- /thrower/lib/odd.ts
export function fail(kind: string): never {
  if (kind === 'business') throw new BizError('NO_STOCK', 'none of \u0000 \ud800 left', { details: { sku: 'a\u0000b', left: 0 } })
  if (kind === 'plain') throw new Error('lone \udc00 and \u0000')
  if (kind === 'discard') throw new Discard('not \u0000 \ud800')
  throw kind
}
//- /thrower/events/odd.ts
import { fail } from '../lib/odd.ts'
export function handle(event: any) { fail(event.data.kind) }
//- /thrower/handlers/fail.ts
import { fail } from '../lib/odd.ts'
export function handle(input: any) { fail(input.kind) }
//- /thrower/scripts/fail.ts
import { fail } from '../lib/odd.ts'
export function handle(input: any) { fail(input.kind) }
//- /thrower/handlers/start.ts
export function handle(input: any) {
  const started = flow.start(input.flow, input.kind, { kind: input.kind })
  if (!started.ok) throw started.error
}
//- /thrower/flows/acts.json
{ "name": "acts", "job": { "seed": ["kind"] }, "steps": [
  { "id": "s", "uses": "action", "inputs": { "action": { "const": "fail" }, "kind": { "from": "trigger.kind" } }, "retry": { "maxAttempts": 1 } } ] }
//- /thrower/flows/scripts.json
{ "name": "scripts", "job": { "seed": ["kind"] }, "steps": [
  { "id": "s", "uses": "script", "inputs": { "script": { "const": "fail" }, "kind": { "from": "trigger.kind" } }, "retry": { "maxAttempts": 1 } } ] }
"#;

/// Of each kind the text, and what it says for programs.
fn wanted() -> [(&'static str, &'static str, Json); 3] {
    [
        ("business", "NO_STOCK: none of \u{fffd} \u{fffd} left", json!({ "sku": "a\u{0}b", "left": 0 })),
        ("plain", "SCRIPT: Error: lone \u{fffd} and \u{fffd}", Json::Null),
        ("discard", "not \u{fffd} \u{fffd}", Json::Null),
    ]
}

fn host(store: oncehost::config::Store) -> Host {
    Host::with(files(THROWER), |settings| settings.store = store)
}

#[test]
fn failed_step_keeps_its_error_and_details_whatever_is_in_them() {
    for store in stores() {
        let host = host(store);
        for (kind, text, details) in wanted() {
            for flow in ["acts", "scripts"] {
                let body = json!({ "flow": flow, "kind": kind }).to_string();
                host.post("thrower", "start", &format!("{flow} {kind}"), &body).data();
                host.drain();
                let named =
                    oncehost::flow::operate::Named { workflow_id: format!("{flow}-{kind}"), ..Default::default() };
                let found = host.block_on(oncehost::flow::operate::show(&host.app, named)).unwrap();
                let step = &found["steps"][0];
                assert_eq!((&found["status"], &step["details"]), (&json!("failed"), &details), "{found}");
                assert!(step["error"].as_str().unwrap().contains(text), "{found}");
            }
        }
    }
}

#[test]
fn dead_letter_keeps_its_error_and_details_whatever_is_in_them() {
    for store in stores() {
        let host = host(store);
        for (kind, text, details) in wanted() {
            let event =
                json!({ "specversion": "1.0", "type": "odd", "source": "s", "id": kind, "data": { "kind": kind } });
            let id = host.send_event("dev", &event).json()["eventId"].as_str().unwrap().to_owned();
            host.drain();
            let found = host.block_on(oncehost::events::admin::show(&host.app, &id)).unwrap();
            let delivery = &found["deliveries"][0];
            assert_eq!((&delivery["state"], &delivery["details"]), (&json!("dead"), &details), "{found}");
            assert!(delivery["error"].as_str().unwrap().contains(text), "{found}");
        }
    }
}
