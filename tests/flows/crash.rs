//! `kill -9` while workflows run: each ends, each action took effect once, each script saw one key.

use std::collections::{BTreeMap, BTreeSet};

use oncehost::config::Store;
use serde_json::{Value as Json, json};

use super::{files, until};
use crate::support::process::{Folders, Process};
use crate::support::server::Server;
use crate::support::{is_met, long, stores};

/// Action, script, action; the script charges a service that deduplicates on the key it is sent.
const PAYER: &str = r#"
//- /payer/plugin.json
{ "id": "payer", "version": "1.0.0", "permissions": ["data:read", "data:write", "flow:start", "http:127.0.0.1:PORT"] }
//- /payer/schema.sql
CREATE TABLE mark (id TEXT PRIMARY KEY, name TEXT NOT NULL, key TEXT NOT NULL);
CREATE INDEX mark_name ON mark (name);
//- /payer/handlers/start.ts
export const config = { key: 'required' }
export function handle(input: any) {
  const started = flow.start('pay', input.id, { who: input.id })
  if (!started.ok) throw started.error
  return started.data.workflowId
}
//- /payer/handlers/mark.ts
export function handle(input: any, ctx: any) {
  // No unique index holds a second row back: only the step's record does.
  const made = store.createIfAbsent('mark', { name: input.name, key: ctx.idempotencyKey }, ['id'])
  if (!made.ok && made.error.code !== 'CONTRACT') throw made.error
  const row = store.createIfAbsent('mark', { id: `${ctx.invocationId}`, name: input.name, key: ctx.idempotencyKey }, ['id'])
  if (!row.ok) throw row.error
  return row.data.record.id
}
//- /payer/scripts/charge.ts
export async function handle(input: any) {
  const answer = await fetch('http://127.0.0.1:PORT/charge', { method: 'POST', headers: { 'idempotency-key': run.scopedKey }, body: input.who })
  if (!answer.ok) throw new Error(`the service answered ${answer.status}`)
  return { charge: (await answer.json()).charge, attempt: run.attempt }
}
//- /payer/flows/pay.json
{ "name": "pay", "job": { "seed": ["who"] }, "steps": [
  { "id": "before", "uses": "action", "inputs": { "action": { "const": "mark" }, "name": { "from": "trigger.who" } } },
  { "id": "charge", "uses": "script", "inputs": { "script": { "const": "charge" }, "who": { "from": "trigger.who" } },
    "retry": { "maxAttempts": 100, "initial": "10ms", "max": "50ms" } },
  { "id": "after", "uses": "action", "inputs": { "action": { "const": "mark" }, "name": { "from": "trigger.who" } } } ] }
"#;

/// A service that charges once for each key.
fn service() -> Server {
    let charged = std::sync::Mutex::new(BTreeMap::<String, usize>::new());
    Server::new(move |seen| {
        let mut charged = charged.lock().unwrap();
        let next = charged.len() + 1;
        let key = seen.header("idempotency-key").to_owned();
        let new = !charged.contains_key(&key);
        let charge = *charged.entry(key).or_insert(next);
        // Now and then the answer is lost after the charge, so that steps are tried again.
        if new && charge.is_multiple_of(3) {
            return (500, Vec::new(), String::new());
        }
        (200, Vec::new(), json!({ "charge": charge }).to_string())
    })
}

/// The first workflow with this status.
fn first(host: &Process, status: &str) -> Option<Json> {
    let answer = host.get(&format!("/admin/flows?limit=1&status={status}"));
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.json()["workflows"].as_array().unwrap().first().cloned()
}

/// Starts a workflow; `None` where the host is gone. A database that is too slow at the moment is asked again.
fn start(host: &Process, id: &str) -> Option<()> {
    loop {
        let answer = host.try_post("payer", "start", id, &format!(r#"{{"id":"{id}"}}"#))?;
        if answer.status == 200 {
            return Some(());
        }
        assert_eq!(answer.status, 503, "{}", answer.body);
    }
}

/// Workflows that one caller starts in a round: more would only wait.
const MOST: usize = 32;

/// Starts workflows until the host stops answering; gives the ids that may have been started.
fn start_until_gone(host: &Process, round: usize) -> Vec<String> {
    let ids = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for caller in 0..4 {
            let ids = &ids;
            scope.spawn(move || {
                for number in 0..MOST {
                    let id = format!("r{round}c{caller}n{number}");
                    ids.lock().unwrap().push(id.clone());
                    if start(host, &id).is_none() {
                        return;
                    }
                }
            });
        }
    });
    ids.into_inner().unwrap()
}

/// How many workflows have come to their end. Whoever asks again and again leaves the host some time.
fn completed(folders: &Folders) -> usize {
    crate::postgres::three::pause(std::time::Duration::from_millis(100));
    let ended = folders.rows("payer", "SELECT count(*) FROM _oncehost_workflows WHERE status = 'completed'");
    usize::try_from(ended[0][0].as_i64().unwrap()).unwrap()
}

/// Has everything end, and looks at what came of it.
fn examine(folders: &Folders, server: &Server, ids: &[String]) {
    let host = folders.dev();
    for id in ids {
        start(&host, id).unwrap();
    }
    // However many were left over: some more of them have to end each time.
    let mut ended = 0;
    while ended < ids.len() {
        ended = until(|| completed(folders), |now| *now > ended);
    }
    assert_eq!(["running", "waiting", "failing", "failed"].map(|status| first(&host, status)), [const { None }; 4]);
    assert_eq!(host.terminate().code(), Some(0));
    assert_eq!(completed(folders), ids.len(), "every workflow ends");
    let marks = folders.rows("payer", "SELECT key, count(*) FROM mark GROUP BY key");
    assert_eq!(marks.len(), ids.len() * 2, "every action took effect");
    assert!(marks.iter().all(|row| row[1] == 1), "and once: {marks:?}");
    let mut keys: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for seen in server.seen() {
        keys.entry(seen.body.clone()).or_default().insert(seen.header("idempotency-key").to_owned());
    }
    assert_eq!(keys.len(), ids.len(), "every script ran");
    assert!(keys.values().all(|keys| keys.len() == 1), "under one key: {keys:?}");
}

#[test]
fn workflows_survive_kill_at_named_points() {
    let points = [
        "in-invocation",
        "before-commit",
        "before-commit-is-sent",
        "after-commit",
        "before-replies",
        "steps-claimed",
        "script-begins",
        "script-ended",
    ];
    for point in points {
        for nth in long(&["2"][..], &["1", "2", "3", "5", "8", "13", "21", "34"][..]) {
            for store in stores().iter().filter(|store| is_met(point, store)) {
                let server = service();
                let folders = Folders::on(store, files(PAYER, server.port));
                drop(folders.dev());
                let mut command = folders.command(&["dev"]);
                command.env("ONCEHOST_CRASH_AT", format!("{point}:{nth}"));
                let mut host = Process::start(command);
                let ids = start_until_gone(&host, 0);
                assert!(!host.wait().success(), "{point} kills");
                examine(&folders, &server, &ids);
            }
        }
    }
}

#[test]
fn workflows_survive_kill_at_random_moments_under_load() {
    stores().iter().for_each(kill_at_random);
}

fn kill_at_random(store: &Store) {
    let server = service();
    let folders = Folders::on(store, files(PAYER, server.port));
    let mut random = 0x2545_f491_u32;
    let mut ids = Vec::new();
    for round in 0..long(5, 200) {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let kill_after = 1 + usize::try_from(random >> 25).unwrap();
        let host = std::sync::Mutex::new(folders.dev());
        let caller = Process::calling(&host.lock().unwrap().url);
        let before = server.seen().len();
        std::thread::scope(|scope| {
            let started = scope.spawn(|| start_until_gone(&caller, round));
            until(|| server.seen().len(), |seen| *seen >= before + kill_after);
            host.lock().unwrap().kill();
            ids.extend(started.join().unwrap());
        });
    }
    examine(&folders, &server, &ids);
}
