//! Many at once: of starters, of sleepers.

use std::sync::Barrier;

use super::{drain, look, until};
use crate::support::host::Host;
use crate::support::scenario::files;

pub const SLEEPER: &str = r#"
//- /sleeper/plugin.json
{ "id": "sleeper", "version": "1.0.0", "permissions": ["data:write", "flow:start"] }
//- /sleeper/schema.sql
CREATE TABLE mark (id TEXT PRIMARY KEY, key TEXT NOT NULL UNIQUE);
//- /sleeper/handlers/start.ts
export function handle(input: any) {
  const started = flow.start(input.flow, input.id)
  if (!started.ok) throw started.error
  return started.data
}
//- /sleeper/handlers/many.ts
export function handle(input: any) {
  for (let n = input.from; n < input.from + 1000; n += 1) {
    const started = flow.start('nap', `${n}`)
    if (!started.ok) throw started.error
  }
}
//- /sleeper/handlers/mark.ts
export function handle(input: any, ctx: any) {
  const made = store.createIfAbsent('mark', { key: ctx.idempotencyKey }, ['key'])
  if (!made.ok) throw made.error
}
//- /sleeper/handlers/look.ts
export const config = { kind: 'read' }
export function handle(input: any) { const found = flow.get(input.id); return found.ok && found.data && found.data.status }
//- /sleeper/flows/nap.json
{ "name": "nap", "steps": [
  { "id": "nap", "uses": "sleep", "for": "1h" },
  { "id": "mark", "uses": "action", "inputs": { "action": { "const": "mark" } } } ] }
//- /sleeper/flows/once.json
{ "name": "once", "steps": [ { "id": "mark", "uses": "action", "inputs": { "action": { "const": "mark" } } } ] }
"#;

#[test]
fn thousand_starts_from_64_callers_make_one_workflow() {
    const STARTS: usize = 1000;
    const CALLERS: usize = 64;
    let host = Host::new(files(SLEEPER));
    let barrier = Barrier::new(CALLERS);
    let first: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..CALLERS)
            .map(|caller| {
                let (host, barrier) = (&host, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    let numbers = (caller..STARTS).step_by(CALLERS);
                    let started = numbers.map(|_| host.read("sleeper", "start", r#"{"flow":"once","id":"x"}"#).data());
                    started.filter(|data| data["already"] == false).count()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(first, 1);
    drain(&host);
    assert_eq!((host.count("sleeper", "_oncehost_workflows"), host.count("sleeper", "mark")), (1, 1));
}

#[test]
fn sleepers_whose_time_came_while_nobody_looked_all_wake_after_one_look() {
    const SLEEPERS: i64 = 1000;
    let host = Host::with(files(SLEEPER), |settings| settings.handler_time = std::time::Duration::from_secs(60));
    host.read("sleeper", "many", r#"{"from":0}"#).data();
    // Long past: more of them than one look takes, and none of them due from now on.
    host.clock.advance(2 * 60 * 60 * 1000);
    host.app.flows.nudge("sleeper");
    until(|| host.count("sleeper", "mark"), |marks| *marks == SLEEPERS);
}

#[test]
fn ten_thousand_sleepers_wake_when_it_is_time() {
    const SLEEPERS: i64 = 10_000;
    let mut host = Host::with(files(SLEEPER), |settings| settings.handler_time = std::time::Duration::from_secs(60));
    for from in (0..SLEEPERS).step_by(1000) {
        host.read("sleeper", "many", &format!(r#"{{"from":{from}}}"#)).data();
    }
    host.restart();
    drain(&host);
    assert_eq!(look(&host, "sleeper", "nap-4711").data(), "waiting");
    assert_eq!(host.app.flows.in_flight(), 0, "sleepers are rows and nothing else");
    host.clock.advance(60 * 60 * 1000);
    drain(&host);
    assert_eq!(host.count("sleeper", "mark"), SLEEPERS);
    assert_eq!(look(&host, "sleeper", "nap-9999").data(), "completed");
}
