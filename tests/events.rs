//! Events: delivered at least once, effective once (spec, G8 and §7).

use crate::support::scenario::check;

mod awaited;
#[cfg(feature = "crash-points")]
mod backups;
mod commands;
#[cfg(feature = "crash-points")]
pub mod crash;
mod dead;
mod ingest;
pub mod order;
mod retention;
pub mod schedules;
mod shipped;
pub mod stream;
mod waiting;

/// A plugin that keeps what it hears, in the ways its tests need.
pub const EAR: &str = r#"
//- /ear/plugin.json
{ "id": "ear", "version": "1.0.0", "permissions": ["data:read", "data:write", "notify:publish", "events:heard", "events:shaky", "events:refused", "events:filtered", "events:item.added"],
  "subscriptions": [
    { "type": "heard", "handler": "events/keep" },
    { "type": "item.added", "handler": "events/keep" },
    { "type": "heard", "handler": "events/also" },
    { "type": "shaky", "handler": "events/shaky", "retry": { "maxAttempts": 3, "initial": "1s", "factor": 2, "max": "1m" } },
    { "type": "refused", "handler": "events/refuse" },
    { "type": "filtered", "handler": "events/keep", "filter": { "data.region": { "in": ["north", "east"] }, "subject": { "startsWith": "a" } } }
  ] }
//- /ear/schema.sql
CREATE TABLE heard (id TEXT PRIMARY KEY, event TEXT NOT NULL, key TEXT NOT NULL, text TEXT);
CREATE TABLE also (id TEXT PRIMARY KEY, event TEXT NOT NULL);
CREATE TABLE switch (id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE);
//- /ear/events/keep.ts
export function handle(event: any, ctx: any) {
  // Not createIfAbsent: a second run would show.
  const made = store.createIfAbsent('heard', { id: crypto.randomUUID() + ctx.invocationId, event: event.id, key: ctx.idempotencyKey, text: event.data?.text ?? null }, ['id'])
  if (!made.ok) throw made.error
}
//- /ear/events/also.ts
export function handle(event: any, ctx: any) {
  const made = store.createIfAbsent('also', { id: ctx.invocationId, event: event.id }, ['id'])
  if (!made.ok) throw made.error
}
//- /ear/events/shaky.ts
export function handle(event: any, ctx: any) {
  store.createIfAbsent('heard', { id: ctx.invocationId, event: event.id, key: ctx.idempotencyKey }, ['id'])
  const on = store.get('switch', { name: { eq: 'on' } })
  if (!on.ok) throw on.error
  if (on.data === null) throw new Error('the lamp is off')
}
//- /ear/events/refuse.ts
export function handle() { throw new Discard('nobody wants this') }
//- /ear/handlers/turn-on.ts
export function handle() {
  const made = store.createIfAbsent('switch', { name: 'on' }, ['name'])
  if (!made.ok) throw made.error
  return null
}
//- /ear/handlers/say-two.ts
export function handle(input: { text: string }) {
  for (const part of ['a', 'b']) {
    const sent = notify.publish('heard', { text: input.text + part })
    if (!sent.ok) throw sent.error
  }
  return null
}
"#;

fn scenario(steps: &str, expected: &str) {
    check(&format!("{EAR}\n//- steps\n{steps}"), expected);
}

#[test]
fn event_is_handled_by_each_subscription_under_its_event_id() {
    scenario(
        r#"> event heard id=1 {"text":"hello"}
        > drain
        > sql ear SELECT event, key, text FROM heard
        > sql ear SELECT event FROM also"#,
        r#"> event heard id=1 {"text":"hello"}
        202 {"eventId":"<1>","already":false}
        > drain
        > sql ear SELECT event, key, text FROM heard
        ["1","<1>","hello"]
        > sql ear SELECT event FROM also
        ["1"]"#,
    );
}

#[test]
fn same_event_again_is_accepted_and_has_no_effect() {
    scenario(
        r#"> event heard id=1 {"text":"hello"}
        > event heard id=1 {"text":"hello"}
        > drain
        > event heard id=1 {"text":"hello"}
        > drain
        > sql ear SELECT event FROM heard"#,
        r#"> event heard id=1 {"text":"hello"}
        202 {"eventId":"<1>","already":false}
        > event heard id=1 {"text":"hello"}
        202 {"eventId":"<1>","already":true}
        > drain
        > event heard id=1 {"text":"hello"}
        202 {"eventId":"<1>","already":true}
        > drain
        > sql ear SELECT event FROM heard
        ["1"]"#,
    );
}

#[test]
fn same_id_with_another_type_subject_or_data_is_refused() {
    scenario(
        r#"> event heard id=1 subject=s {"text":"hello"}
        > event heard id=1 subject=s {"text":"other"}
        > event heard id=1 subject=t {"text":"hello"}
        > event unheard id=1 subject=s {"text":"hello"}
        > drain
        > sql ear SELECT text FROM heard"#,
        r#"> event heard id=1 subject=s {"text":"hello"}
        202 {"eventId":"<1>","already":false}
        > event heard id=1 subject=s {"text":"other"}
        422 KEY_REUSED: another event with this source and id was accepted before, and it differs in type, subject or data; give a new event a new id
        > event heard id=1 subject=t {"text":"hello"}
        422 KEY_REUSED: another event with this source and id was accepted before, and it differs in type, subject or data; give a new event a new id
        > event unheard id=1 subject=s {"text":"hello"}
        422 KEY_REUSED: another event with this source and id was accepted before, and it differs in type, subject or data; give a new event a new id
        > drain
        > sql ear SELECT text FROM heard
        ["hello"]"#,
    );
}

#[test]
fn same_id_of_another_source_or_tenant_is_another_event() {
    scenario(
        r"> event heard id=1 source=a
        > event heard id=1 source=b
        > event heard id=1 source=a tenant=acme
        > drain
        > sql ear SELECT tenant_id, count(DISTINCT key), count(*) FROM heard GROUP BY 1",
        r#"> event heard id=1 source=a
        202 {"eventId":"<1>","already":false}
        > event heard id=1 source=b
        202 {"eventId":"<2>","already":false}
        > event heard id=1 source=a tenant=acme
        202 {"eventId":"<3>","already":false}
        > drain
        > sql ear SELECT tenant_id, count(DISTINCT key), count(*) FROM heard GROUP BY 1
        ["acme",1,1]
        ["dev",2,2]"#,
    );
}

#[test]
fn request_that_publishes_two_events_gives_two_events_however_often_it_is_sent() {
    scenario(
        r#"> POST ear/say-two key=k {"text":"x"}
        > drain
        > POST ear/say-two key=k {"text":"x"}
        > drain
        > sql ear SELECT text FROM heard ORDER BY text"#,
        r#"> POST ear/say-two key=k {"text":"x"}
        200 null
        > drain
        > POST ear/say-two key=k {"text":"x"}
        200 (replayed) null
        > drain
        > sql ear SELECT text FROM heard ORDER BY text
        ["xa"]
        ["xb"]"#,
    );
}

#[test]
fn filter_lets_through_what_it_names() {
    scenario(
        r#"> event filtered id=1 subject=a1 {"region":"north"}
        > event filtered id=2 subject=b1 {"region":"north"}
        > event filtered id=3 subject=a1 {"region":"south"}
        > event filtered id=4 {"region":"north"}
        > drain
        > sql ear SELECT event FROM heard"#,
        r#"> event filtered id=1 subject=a1 {"region":"north"}
        202 {"eventId":"<1>","already":false}
        > event filtered id=2 subject=b1 {"region":"north"}
        202 {"eventId":"<2>","already":false}
        > event filtered id=3 subject=a1 {"region":"south"}
        202 {"eventId":"<3>","already":false}
        > event filtered id=4 {"region":"north"}
        202 {"eventId":"<4>","already":false}
        > drain
        > sql ear SELECT event FROM heard
        ["1"]"#,
    );
}

#[test]
fn failing_handler_is_tried_with_growing_pauses_and_leaves_nothing_behind() {
    scenario(
        r"> event shaky id=1
        > drain
        > sql ear SELECT state, attempts, CASE WHEN due_at - created_at BETWEEN 500 AND 1000 THEN 'yes' END, error FROM _oncehost_deliveries
        > advance 400ms
        > drain
        > sql ear SELECT state, attempts FROM _oncehost_deliveries
        > advance 600ms
        > drain
        > sql ear SELECT state, attempts, CASE WHEN due_at - tried_at BETWEEN 1000 AND 2000 THEN 'yes' END FROM _oncehost_deliveries
        > advance 2s
        > drain
        > sql ear SELECT state, attempts FROM _oncehost_deliveries
        > advance 1h
        > drain
        > sql ear SELECT state, attempts FROM _oncehost_deliveries
        > rows ear",
        r#"> event shaky id=1
        202 {"eventId":"<1>","already":false}
        > drain
        > sql ear SELECT state, attempts, CASE WHEN due_at - created_at BETWEEN 500 AND 1000 THEN 'yes' END, error FROM _oncehost_deliveries
        ["waiting",1,"yes","SCRIPT: Error: the lamp is off (ear/events/shaky.ts:5:35)"]
        > advance 400ms
        > drain
        > sql ear SELECT state, attempts FROM _oncehost_deliveries
        ["waiting",1]
        > advance 600ms
        > drain
        > sql ear SELECT state, attempts, CASE WHEN due_at - tried_at BETWEEN 1000 AND 2000 THEN 'yes' END FROM _oncehost_deliveries
        ["waiting",2,"yes"]
        > advance 2s
        > drain
        > sql ear SELECT state, attempts FROM _oncehost_deliveries
        ["dead",3]
        > advance 1h
        > drain
        > sql ear SELECT state, attempts FROM _oncehost_deliveries
        ["dead",3]
        > rows ear
        events 0, keys 0, workflows 0, also 0, heard 0, switch 0"#,
    );
}

#[test]
fn discard_makes_a_dead_letter_at_once() {
    scenario(
        r"> event refused id=1
        > drain
        > sql ear SELECT state, attempts, error FROM _oncehost_deliveries",
        r#"> event refused id=1
        202 {"eventId":"<1>","already":false}
        > drain
        > sql ear SELECT state, attempts, error FROM _oncehost_deliveries
        ["dead",1,"discarded by the handler: nobody wants this"]"#,
    );
}
