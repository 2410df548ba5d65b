//! A host that is stopped for a while, as a frozen container is, and goes on.

use std::fs::File;
use std::time::Duration;

use rustix::process::Signal;

use crate::postgres::three::pause;
use crate::support::process::{Folders, Process};
use crate::support::scenario::files;

const SPIN: &str = r#"
//- /spin/plugin.json
{ "id": "spin", "version": "1.0.0", "permissions": [], "limits": { "handler": "3s" } }
//- /spin/handlers/spin.ts
export function handle() {
  console.info('it spins')
  for (;;) {}
}
"#;

#[test]
fn handler_whose_host_was_stopped_past_its_limit_may_be_tried_again() {
    let folders = Folders::new(files(SPIN));
    let path = folders.data().with_file_name("log");
    let log = File::create(&path).unwrap().into();
    let mut host = Process::logging(folders.command(&["dev", "--log", "script=info"]), log);
    let url = host.url.clone();
    let answer = std::thread::scope(|scope| {
        let call = scope.spawn(|| Process::calling(&url).post("spin", "spin", "k", "{}"));
        while !std::fs::read_to_string(&path).unwrap().contains("it spins") {
            assert!(!call.is_finished(), "it did not say that it runs");
        }
        host.send(Signal::STOP);
        pause(Duration::from_secs(5));
        host.send(Signal::CONT);
        call.join().unwrap()
    });
    assert_eq!((answer.status, answer.error().as_str()), (503, "UNAVAILABLE"), "{}", answer.body);
    assert!(answer.retry_after.is_some() && answer.body.contains("the host was stopped"), "{}", answer.body);
}

const SCRIPT: &str = r#"
//- /spin/plugin.json
{ "id": "spin", "version": "1.0.0", "permissions": ["data:write", "data:read", "flow:start"], "limits": { "script": "3s" } }
//- /spin/schema.sql
CREATE TABLE begun (id TEXT PRIMARY KEY);
//- /spin/handlers/start.ts
export function handle() {
  const started = flow.start('spin', '1')
  if (!started.ok) throw started.error
}
//- /spin/handlers/look.ts
export const config = { kind: 'read' }
export function handle() {
  const found = flow.get('spin-1')
  if (!found.ok) throw found.error
  return [found.data?.status, found.data?.steps.spin.result, found.data?.error]
}
//- /spin/scripts/spin.ts
export function handle(input: any, ctx: any) {
  const made = store.createIfAbsent('begun', { id: ctx.idempotencyKey }, ['id'])
  if (!made.ok) throw made.error
  if (!made.data.created) return run.attempt
  console.info('it spins')
  for (;;) {}
}
//- /spin/flows/spin.json
{ "name": "spin", "steps": [
  { "id": "spin", "uses": "script", "inputs": { "script": { "const": "spin" } }, "retry": { "maxAttempts": 1 } } ] }
"#;

#[test]
fn script_whose_host_was_stopped_past_its_limit_runs_again_and_the_try_does_not_count() {
    let folders = Folders::new(files(SCRIPT));
    let path = folders.data().with_file_name("log");
    let log = File::create(&path).unwrap().into();
    let mut host = Process::logging(folders.command(&["dev", "--apply-schema", "--log", "script=info"]), log);
    assert_eq!(host.post("spin", "start", "k", "{}").status, 200);
    crate::flows::until(|| std::fs::read_to_string(&path).unwrap(), |log| log.contains("it spins"));
    host.send(Signal::STOP);
    pause(Duration::from_secs(5));
    host.send(Signal::CONT);
    let found = crate::flows::until(
        || host.post("spin", "look", "look", "{}").data(),
        |found| found[0] == "completed" || found[0] == "failed",
    );
    assert_eq!(found, serde_json::json!(["completed", 1, null]));
}
