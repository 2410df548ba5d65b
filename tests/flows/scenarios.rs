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
