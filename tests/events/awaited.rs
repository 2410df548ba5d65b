//! Workflows that wait for an event.

use crate::support::scenario::check;

#[test]
fn accepted_event_ends_the_step_that_waits_for_it_once() {
    check(
        r#"
//- /wait/plugin.json
{ "id": "wait", "version": "1.0.0", "permissions": ["data:read", "data:write", "flow:start"] }
//- /wait/schema.sql
CREATE TABLE got (id TEXT PRIMARY KEY, size INTEGER NOT NULL);
//- /wait/flows/wait.json
{ "name": "wait", "job": { "seed": ["clip"] }, "steps": [
  { "id": "wait", "uses": "waitForEvent", "type": "clip.ready", "match": { "clip": { "from": "trigger.clip" } }, "timeout": "1h" },
  { "id": "keep", "uses": "action", "inputs": { "action": { "const": "keep" }, "size": { "from": "steps.wait.data.size" } } } ] }
//- /wait/handlers/start.ts
export function handle(input: { clip: string }) {
  const started = flow.start('wait', input.clip, { clip: input.clip })
  if (!started.ok) throw started.error
  return started.data.status
}
//- /wait/handlers/keep.ts
export function handle(input: { size: number }, ctx: any) {
  const made = store.createIfAbsent('got', { id: ctx.invocationId, size: input.size }, ['id'])
  if (!made.ok) throw made.error
}
//- steps
> event clip.ready id=0 {"clip":"a","size":1}
> drain
> POST wait/start key=1 {"clip":"a"}
> drain
> sql wait SELECT count(*) FROM got
> event clip.ready id=1 tenant=acme {"clip":"a","size":2}
> event clip.ready id=2 {"clip":"b","size":3}
> event clip.ready id=3 {"clip":"a","size":4}
> event clip.ready id=3 {"clip":"a","size":4}
> drain
> sql wait SELECT size FROM got
> sql wait SELECT status FROM _oncehost_workflows
> sql wait SELECT sender_id, subscription, state FROM _oncehost_deliveries ORDER BY id
"#,
        r#"> event clip.ready id=0 {"clip":"a","size":1}
202 {"eventId":"<1>","already":false}
> drain
> POST wait/start key=1 {"clip":"a"}
200 "waiting"
> drain
> sql wait SELECT count(*) FROM got
[0]
> event clip.ready id=1 tenant=acme {"clip":"a","size":2}
202 {"eventId":"<2>","already":false}
> event clip.ready id=2 {"clip":"b","size":3}
202 {"eventId":"<3>","already":false}
> event clip.ready id=3 {"clip":"a","size":4}
202 {"eventId":"<4>","already":false}
> event clip.ready id=3 {"clip":"a","size":4}
202 {"eventId":"<4>","already":true}
> drain
> sql wait SELECT size FROM got
[4]
> sql wait SELECT status FROM _oncehost_workflows
["completed"]
> sql wait SELECT sender_id, subscription, state FROM _oncehost_deliveries ORDER BY id
["1","flows","done"]
["2","flows","done"]
["3","flows","done"]"#,
    );
}
