//! What a workflow does, step by step, as a transcript.

use crate::support::scenario::check;

/// A plugin that counts how often each of its steps took effect.
const COUNTER: &str = r#"
//- /tally/plugin.json
{ "id": "tally", "version": "1.0.0", "permissions": ["data:read", "data:write", "flow:start"] }
//- /tally/schema.sql
CREATE TABLE mark (id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, n INTEGER NOT NULL, key TEXT);
//- /tally/lib/mark.ts
export function mark(name: string, key?: string) {
  const made = store.createIfAbsent('mark', { name, n: 1, key }, ['name'])
  if (!made.ok) throw made.error
  if (!made.data.created) {
    const more = store.update('mark', { name: { eq: name } }, { n: { inc: 1 } })
    if (!more.ok) throw more.error
  }
  return made.data.created
}
//- /tally/handlers/mark.ts
import { mark } from '../lib/mark.ts'
export function handle(input: { name: string, fail?: string, after?: number }, ctx: any) {
  const first = mark(input.name, ctx.idempotencyKey)
  if (input.fail === 'always') throw new Error('it never works')
  if (input.fail === 'refuse') throw new BizError('CLOSED', 'closed today')
  if (input.fail === 'discard') throw new Discard('no such thing')
  return { name: input.name, first }
}
//- /tally/handlers/start.ts
export function handle(input: { flow: string, id: string, seed?: any }) {
  const started = flow.start(input.flow, input.id, input.seed)
  if (!started.ok) throw started.error
  return started.data
}
//- /tally/handlers/look.ts
export const config = { kind: 'read' }
export function handle(input: { id: string }) {
  const found = flow.get(input.id)
  if (!found.ok) throw found.error
  if (found.data === null) return null
  const { status, attempts, error, steps } = found.data
  return { status, attempts, error, steps: Object.fromEntries(Object.entries(steps).map(([id, s]: any) => [id, s.error ?? s.result ?? s.state])) }
}
//- /tally/handlers/cancel.ts
export function handle(input: { id: string }) {
  const done = flow.cancel(input.id, 'enough')
  if (!done.ok) throw done.error
  return done.data && done.data.status
}
"#;

fn tally(flows: &str, steps: &str, expected: &str) {
    check(&format!("{COUNTER}{flows}\n//- steps\n{steps}"), expected);
}

#[test]
fn steps_run_in_order_each_with_its_own_key_and_once() {
    tally(
        r#"
        //- /tally/flows/three.json
        { "name": "three", "job": { "seed": ["first_name"] }, "steps": [
          { "id": "a", "uses": "action", "inputs": { "action": { "const": "mark" }, "name": { "from": "trigger.firstName" } } },
          { "id": "b", "uses": "action", "inputs": { "action": { "const": "mark" }, "name": { "from": "run.workflowId" } } },
          { "id": "c", "uses": "action", "inputs": { "action": { "const": "mark" }, "name": { "from": "run.scopedKey" } } } ] }
        "#,
        r#"
        > POST tally/start {"flow":"three","id":"7","seed":{"first_name":"x"}}
        > drain
        > POST tally/look {"id":"three-7"}
        > sql tally SELECT name, n, key FROM mark ORDER BY key
        > POST tally/start {"flow":"three","id":"7","seed":{"first_name":"y"}}
        "#,
        r#"
        > POST tally/start {"flow":"three","id":"7","seed":{"first_name":"x"}}
        200 {"workflowId":"three-7","already":false,"status":"running","sameSeed":true}
        > drain
        > POST tally/look {"id":"three-7"}
        200 {"status":"completed","attempts":0,"error":null,"steps":{"a":{"name":"x","first":true},"b":{"name":"three-7","first":true},"c":{"name":"dev/tally/three-7:c","first":true}}}
        > sql tally SELECT name, n, key FROM mark ORDER BY key
        ["x",1,"three-7:a"]
        ["three-7",1,"three-7:b"]
        ["dev/tally/three-7:c",1,"three-7:c"]
        > POST tally/start {"flow":"three","id":"7","seed":{"first_name":"y"}}
        200 {"workflowId":"three-7","already":true,"status":"completed","sameSeed":false}
        "#,
    );
}

#[test]
fn script_sees_its_step_and_each_store_call_is_kept() {
    tally(
        r#"
        //- /tally/scripts/work.ts
        import { mark } from '../lib/mark.ts'
        let calls = 0
        export async function handle(input: any, ctx: any) {
          calls += 1
          await Promise.resolve()
          mark('one', ctx.idempotencyKey)
          if (run.attempt === 1) throw new Error('after the first call')
          mark('two', run.scopedKey)
          return { input, run: { ...run, signal: run.signal.aborted }, same: ctx.idempotencyKey === run.idempotencyKey, calls,
            stable: ctx.stableId('x') === ctx.stableId('x'), frozen: Object.isFrozen(run) }
        }
        //- /tally/flows/f.json
        { "name": "f", "job": { "seed": ["who"] }, "steps": [
          { "id": "s", "uses": "script", "inputs": { "script": { "const": "work" }, "who": { "from": "trigger.who" }, "n": { "const": [1] } } } ] }
        "#,
        r#"
        > POST tally/start {"flow":"f","id":"1","seed":{"who":"you"}}
        > drain
        > POST tally/look {"id":"f-1"}
        > advance 1s
        > drain
        > POST tally/look {"id":"f-1"}
        > sql tally SELECT name, n, key FROM mark ORDER BY name
        "#,
        r#"
        > POST tally/start {"flow":"f","id":"1","seed":{"who":"you"}}
        200 {"workflowId":"f-1","already":false,"status":"running","sameSeed":true}
        > drain
        > POST tally/look {"id":"f-1"}
        200 {"status":"failing","attempts":1,"error":"step \"s\": try 1 of 8: SCRIPT: Error: after the first call (tally/scripts/work.ts:7:44)","steps":{"s":"try 1 of 8: SCRIPT: Error: after the first call (tally/scripts/work.ts:7:44)"}}
        > advance 1s
        > drain
        > POST tally/look {"id":"f-1"}
        200 {"status":"completed","attempts":0,"error":null,"steps":{"s":{"input":{"n":[1],"who":"you"},"run":{"workflowId":"f-1","stepId":"s","idempotencyKey":"f-1:s","scopedKey":"dev/tally/f-1:s","attempt":2,"signal":false},"same":true,"calls":1,"stable":true,"frozen":true}}}
        > sql tally SELECT name, n, key FROM mark ORDER BY name
        ["one",2,"f-1:s"]
        ["two",1,"dev/tally/f-1:s"]
        "#,
    );
}

#[test]
fn action_step_that_fails_leaves_nothing_and_is_tried_until_its_tries_are_used_up() {
    tally(
        r#"
        //- /tally/flows/f.json
        { "name": "f", "steps": [
          { "id": "s", "uses": "action", "inputs": { "action": { "const": "mark" }, "name": { "const": "x" }, "fail": { "const": "always" } },
            "retry": { "maxAttempts": 2, "initial": "10s", "max": "10s" } },
          { "id": "t", "uses": "action", "inputs": { "action": { "const": "mark" }, "name": { "const": "y" } } } ] }
        "#,
        r#"
        > POST tally/start {"flow":"f","id":"1"}
        > drain
        > POST tally/look {"id":"f-1"}
        > advance 10s
        > drain
        > POST tally/look {"id":"f-1"}
        > advance 1d
        > drain
        > POST tally/look {"id":"f-1"}
        > rows tally
        "#,
        r#"
        > POST tally/start {"flow":"f","id":"1"}
        200 {"workflowId":"f-1","already":false,"status":"running","sameSeed":true}
        > drain
        > POST tally/look {"id":"f-1"}
        200 {"status":"failing","attempts":1,"error":"step \"s\": try 1 of 2: SCRIPT: Error: it never works (tally/handlers/mark.ts:4:42)","steps":{"s":"try 1 of 2: SCRIPT: Error: it never works (tally/handlers/mark.ts:4:42)"}}
        > advance 10s
        > drain
        > POST tally/look {"id":"f-1"}
        200 {"status":"failed","attempts":2,"error":"step \"s\": try 2 of 2: SCRIPT: Error: it never works (tally/handlers/mark.ts:4:42)","steps":{"s":"try 2 of 2: SCRIPT: Error: it never works (tally/handlers/mark.ts:4:42)"}}
        > advance 1d
        > drain
        > POST tally/look {"id":"f-1"}
        200 {"status":"failed","attempts":2,"error":"step \"s\": try 2 of 2: SCRIPT: Error: it never works (tally/handlers/mark.ts:4:42)","steps":{"s":"try 2 of 2: SCRIPT: Error: it never works (tally/handlers/mark.ts:4:42)"}}
        > rows tally
        events 0, keys 0, workflows 1, mark 0
        "#,
    );
}

#[test]
fn discard_fails_at_once() {
    tally(
        r#"
        //- /tally/flows/f.json
        { "name": "f", "steps": [
          { "id": "s", "uses": "action", "inputs": { "action": { "const": "mark" }, "name": { "const": "x" }, "fail": { "const": "discard" } } } ] }
        "#,
        r#"
        > POST tally/start {"flow":"f","id":"1"}
        > drain
        > POST tally/look {"id":"f-1"}
        "#,
        r#"
        > POST tally/start {"flow":"f","id":"1"}
        200 {"workflowId":"f-1","already":false,"status":"running","sameSeed":true}
        > drain
        > POST tally/look {"id":"f-1"}
        200 {"status":"failed","attempts":1,"error":"step \"s\": try 1 of 8: given up by its script: no such thing","steps":{"s":"try 1 of 8: given up by its script: no such thing"}}
        "#,
    );
}

#[test]
fn sleep_lasts_as_long_as_it_says_over_restarts() {
    tally(
        r#"
        //- /tally/flows/f.json
        { "name": "f", "job": { "seed": ["at"] }, "steps": [
          { "id": "nap", "uses": "sleep", "for": "30d" },
          { "id": "mark", "uses": "action", "inputs": { "action": { "const": "mark" }, "name": { "from": "trigger.at" } } },
          { "id": "until", "uses": "sleep", "until": { "from": "trigger.at" } } ] }
        "#,
        r#"
        > POST tally/start {"flow":"f","id":"1","seed":{"at":"2026-02-05T00:00:00Z"}}
        > POST tally/start {"flow":"f","id":"2","seed":{"at":"soon"}}
        > advance 29d
        > restart
        > drain
        > POST tally/look {"id":"f-1"}
        > advance 1d
        > drain
        > POST tally/look {"id":"f-1"}
        > POST tally/look {"id":"f-2"}
        > advance 5d
        > drain
        > POST tally/look {"id":"f-1"}
        "#,
        r#"
        > POST tally/start {"flow":"f","id":"1","seed":{"at":"2026-02-05T00:00:00Z"}}
        200 {"workflowId":"f-1","already":false,"status":"waiting","sameSeed":true}
        > POST tally/start {"flow":"f","id":"2","seed":{"at":"soon"}}
        200 {"workflowId":"f-2","already":false,"status":"waiting","sameSeed":true}
        > advance 29d
        > restart
        > drain
        > POST tally/look {"id":"f-1"}
        200 {"status":"waiting","attempts":0,"error":null,"steps":{"nap":"waiting"}}
        > advance 1d
        > drain
        > POST tally/look {"id":"f-1"}
        200 {"status":"waiting","attempts":0,"error":null,"steps":{"mark":{"name":"2026-02-05T00:00:00Z","first":true},"nap":"done","until":"waiting"}}
        > POST tally/look {"id":"f-2"}
        200 {"status":"failed","attempts":0,"error":"step \"until\": `until` of the step \"until\" comes to \"soon\", which is no instant: it needs a date, a time and a zone, such as \"2026-01-31T08:00:00Z\"","steps":{"mark":{"name":"soon","first":true},"nap":"done","until":"`until` of the step \"until\" comes to \"soon\", which is no instant: it needs a date, a time and a zone, such as \"2026-01-31T08:00:00Z\""}}
        > advance 5d
        > drain
        > POST tally/look {"id":"f-1"}
        200 {"status":"completed","attempts":0,"error":null,"steps":{"mark":{"name":"2026-02-05T00:00:00Z","first":true},"nap":"done","until":"done"}}
        "#,
    );
}

#[test]
fn graph_joins_its_branches_and_skips_what_does_not_hold() {
    tally(
        r#"
        //- /tally/flows/f.json
        { "name": "f", "job": { "seed": ["n"] }, "steps": [
          { "id": "left", "uses": "action", "after": [], "inputs": { "action": { "const": "mark" }, "name": { "const": "left" } } },
          { "id": "right", "uses": "sleep", "after": [], "for": "1h" },
          { "id": "big", "uses": "action", "after": ["left"], "when": { "from": "trigger.n", "gt": 10 }, "inputs": { "action": { "const": "mark" }, "name": { "const": "big" } } },
          { "id": "first", "uses": "action", "after": ["left"], "when": { "from": "steps.left.first" }, "inputs": { "action": { "const": "mark" }, "name": { "from": "steps.left.name" } } },
          { "id": "join", "uses": "action", "after": ["big", "first", "right"], "inputs": { "action": { "const": "mark" }, "name": { "const": "join" }, "nothing": { "from": "steps.big.name" } } } ] }
        "#,
        r#"
        > POST tally/start {"flow":"f","id":"1","seed":{"n":3}}
        > drain
        > POST tally/look {"id":"f-1"}
        > advance 1h
        > drain
        > POST tally/look {"id":"f-1"}
        > sql tally SELECT name, n FROM mark ORDER BY name
        "#,
        r#"
        > POST tally/start {"flow":"f","id":"1","seed":{"n":3}}
        200 {"workflowId":"f-1","already":false,"status":"running","sameSeed":true}
        > drain
        > POST tally/look {"id":"f-1"}
        200 {"status":"waiting","attempts":0,"error":null,"steps":{"big":"skipped","first":{"name":"left","first":false},"left":{"name":"left","first":true},"right":"waiting"}}
        > advance 1h
        > drain
        > POST tally/look {"id":"f-1"}
        200 {"status":"completed","attempts":0,"error":null,"steps":{"big":"skipped","first":{"name":"left","first":false},"join":{"name":"join","first":true},"left":{"name":"left","first":true},"right":"done"}}
        > sql tally SELECT name, n FROM mark ORDER BY name
        ["join",1]
        ["left",2]
        "#,
    );
}

#[test]
fn cancel_stops_what_has_not_begun() {
    tally(
        r#"
        //- /tally/flows/f.json
        { "name": "f", "steps": [
          { "id": "nap", "uses": "sleep", "for": "1h" },
          { "id": "mark", "uses": "action", "inputs": { "action": { "const": "mark" }, "name": { "const": "x" } } } ] }
        "#,
        r#"
        > POST tally/start {"flow":"f","id":"1"}
        > POST tally/cancel {"id":"f-1"}
        > POST tally/cancel {"id":"f-9"}
        > advance 2h
        > drain
        > POST tally/look {"id":"f-1"}
        > POST tally/start {"flow":"f","id":"1"}
        > rows tally
        "#,
        r#"
        > POST tally/start {"flow":"f","id":"1"}
        200 {"workflowId":"f-1","already":false,"status":"waiting","sameSeed":true}
        > POST tally/cancel {"id":"f-1"}
        200 "cancelled"
        > POST tally/cancel {"id":"f-9"}
        200 null
        > advance 2h
        > drain
        > POST tally/look {"id":"f-1"}
        200 {"status":"cancelled","attempts":0,"error":"enough","steps":{"nap":"cancelled"}}
        > POST tally/start {"flow":"f","id":"1"}
        200 {"workflowId":"f-1","already":true,"status":"cancelled","sameSeed":true}
        > rows tally
        events 0, keys 0, workflows 1, mark 0
        "#,
    );
}

#[test]
fn ids_of_any_letters_work_and_one_that_is_too_long_is_refused() {
    let long = "x".repeat(10_000);
    let plugin = r#"
        //- /tally/flows/f.json
        { "name": "f", "steps": [ { "id": "s", "uses": "action", "inputs": { "action": { "const": "mark" }, "name": { "from": "run.idempotencyKey" } } } ] }
        "#;
    let odd = r#"a/b%20'"?#🚗\\"#;
    let quoted = serde_json::to_string(odd).unwrap();
    let id = serde_json::to_string(&format!("f-{odd}")).unwrap();
    let key = serde_json::to_string(&format!("f-{odd}:s")).unwrap();
    tally(
        plugin,
        &format!(
            "> POST tally/start {{\"flow\":\"f\",\"id\":{quoted}}}\n> drain\n> POST tally/look {{\"id\":{id}}}\n\
             > POST tally/start {{\"flow\":\"f\",\"id\":\"{long}\"}}\n> rows tally"
        ),
        &format!(
            "> POST tally/start {{\"flow\":\"f\",\"id\":{quoted}}}\n\
             200 {{\"workflowId\":{id},\"already\":false,\"status\":\"running\",\"sameSeed\":true}}\n> drain\n\
             > POST tally/look {{\"id\":{id}}}\n\
             200 {{\"status\":\"completed\",\"attempts\":0,\"error\":null,\"steps\":{{\"s\":{{\"name\":{key},\"first\":true}}}}}}\n\
             > POST tally/start {{\"flow\":\"f\",\"id\":\"{long}\"}}\n\
             500 CONTRACT: flow.start(name, bizId, seed): the bizId has 10000 bytes, which makes the step keys longer than 255 \
             bytes; use a shorter id, for example ctx.stableId of it (tally/handlers/start.ts:2:52)\n\
             > rows tally\nevents 0, keys 0, workflows 1, mark 1"
        ),
    );
}
