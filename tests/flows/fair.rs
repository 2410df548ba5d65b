//! Places are shared: whoever has many scripts that wait keeps nobody else waiting.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use serde_json::json;

use super::{files, until};
use crate::support::host::{Call, Host};
use crate::support::server::Server;
use crate::support::stores;

/// More than a host claims at a time, and looks at.
const MANY: usize = 900;

/// Fewer than are kept for such.
const QUIET: usize = 3;

const WAITER: &str = r#"
//- /waiter/plugin.json
{ "id": "waiter", "version": "1.0.0", "permissions": ["data:read", "flow:start", "http:127.0.0.1:PORT"], "limits": { "handler": "300s" } }
//- /waiter/handlers/start.ts
export function handle(input: { from: number, count: number }) {
  for (let n = input.from; n < input.from + input.count; n += 1) {
    const started = flow.start('wait', String(n))
    if (!started.ok) throw started.error
  }
}
//- /waiter/handlers/look.ts
export const config = { kind: 'read' }
export function handle(input: any) {
  const found = flow.get(`wait-${input.n}`)
  if (!found.ok) throw found.error
  return found.data?.status
}
//- /waiter/scripts/wait.ts
export async function handle(input: { tenant: string }) {
  const answer = await fetch(`http://127.0.0.1:PORT/${input.tenant}`)
  if (!answer.ok) throw new Error('not yet')
}
//- /waiter/flows/wait.json
{ "name": "wait", "steps": [
  { "id": "wait", "uses": "script", "inputs": { "script": { "const": "wait" }, "tenant": { "from": "run.tenantId" } }, "timeout": "600s",
    "retry": { "initial": "1s", "max": "1s" } } ] }
"#;

#[test]
fn tenant_whose_scripts_all_wait_keeps_no_other_waiting() {
    for store in stores() {
        let gate = Arc::new((Mutex::new(false), Condvar::new()));
        let (waits, asked) = (gate.clone(), AtomicUsize::new(0));
        // The busy one is kept waiting; the quiet one's first tries fail.
        let server = Server::new(move |seen| {
            if seen.path == "/busy" {
                let (open, opened) = &*waits;
                let _open = opened.wait_while(open.lock().unwrap(), |open| !*open).unwrap();
            } else if asked.fetch_add(1, Ordering::SeqCst) < QUIET {
                return (500, Vec::new(), String::new());
            }
            (200, Vec::new(), String::new())
        });
        let host = Host::with(files(WAITER, server.port), |settings| settings.store = store);
        let call = |tenant: &str, action: &str, input: serde_json::Value| {
            let body = input.to_string();
            let call = Call { key: Some("k"), tenant: Some(tenant), body: body.as_bytes() };
            host.call("waiter", action, &call).data()
        };
        let look = || host.block_on(host.app.flows.look(&host.app, "waiter"));
        let all_are = |tenant: &str, count: usize, wanted: &str| {
            for n in 0..count {
                until(|| call(tenant, "look", json!({ "n": n })), |status| *status == wanted);
            }
        };
        call("busy", "start", json!({ "from": 0, "count": MANY }));
        until(|| server.seen().len(), |seen| *seen >= 100);
        look();
        call("quiet", "start", json!({ "from": 0, "count": QUIET }));
        all_are("quiet", QUIET, "failing");
        // Now they stand behind the busy one's line.
        host.clock.advance(1000);
        look();
        all_are("quiet", QUIET, "completed");
        let (open, opened) = &*gate;
        *open.lock().unwrap() = true;
        opened.notify_all();
        host.drain();
        all_are("busy", MANY, "completed");
    }
}
