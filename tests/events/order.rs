//! `orderBy: "subject"` and `concurrency`.

use super::EAR;
use crate::support::host::{Host, START};
use crate::support::scenario::{check, files};
use crate::support::stores;

pub const LINE: &str = r#"
//- /line/plugin.json
{ "id": "line", "version": "1.0.0", "permissions": ["data:read", "data:write", "events:step"],
  "subscriptions": [ { "type": "step", "handler": "events/note", "orderBy": "subject", "concurrency": 2,
    "retry": { "maxAttempts": 2, "initial": "1m", "max": "1m" } } ] }
//- /line/schema.sql
CREATE TABLE noted (id TEXT PRIMARY KEY, what TEXT NOT NULL, at TIMESTAMP NOT NULL);
//- /line/events/note.ts
export function handle(event: any, ctx: any) {
  if (event.data?.fail) throw new Error('not this one')
  const made = store.createIfAbsent('noted', { id: ctx.invocationId, what: event.id, at: ctx.now }, ['id'])
  if (!made.ok) throw made.error
}
"#;

#[test]
fn events_of_one_subject_wait_for_the_one_that_fails_and_others_do_not() {
    check(
        &format!(
            r#"{LINE}
            //- steps
            > event step id=a1 subject=a {{"fail":true}}
            > event step id=a2 subject=a
            > event step id=a3 subject=a
            > event step id=b1 subject=b
            > event step id=n1
            > event step id=a4 subject=a tenant=acme
            > drain
            > sql line SELECT what FROM noted ORDER BY what
            > sql line SELECT sender_id, state, attempts FROM _oncehost_deliveries WHERE subject = 'a' ORDER BY id
            > advance 2m
            > drain
            > sql line SELECT what FROM noted ORDER BY id DESC LIMIT 2
            > sql line SELECT sender_id, state, attempts FROM _oncehost_deliveries WHERE subject = 'a' ORDER BY id"#
        ),
        r#"> event step id=a1 subject=a {"fail":true}
        202 {"eventId":"<1>","already":false}
        > event step id=a2 subject=a
        202 {"eventId":"<2>","already":false}
        > event step id=a3 subject=a
        202 {"eventId":"<3>","already":false}
        > event step id=b1 subject=b
        202 {"eventId":"<4>","already":false}
        > event step id=n1
        202 {"eventId":"<5>","already":false}
        > event step id=a4 subject=a tenant=acme
        202 {"eventId":"<6>","already":false}
        > drain
        > sql line SELECT what FROM noted ORDER BY what
        ["a4"]
        ["b1"]
        ["n1"]
        > sql line SELECT sender_id, state, attempts FROM _oncehost_deliveries WHERE subject = 'a' ORDER BY id
        ["a1","waiting",1]
        ["a2","behind",0]
        ["a3","behind",0]
        ["a4","done",1]
        > advance 2m
        > drain
        > sql line SELECT what FROM noted ORDER BY id DESC LIMIT 2
        ["a3"]
        ["a2"]
        > sql line SELECT sender_id, state, attempts FROM _oncehost_deliveries WHERE subject = 'a' ORDER BY id
        ["a1","dead",2]
        ["a2","done",1]
        ["a3","done",1]
        ["a4","done",1]"#,
    );
}

#[test]
fn line_that_stands_still_is_set_going_when_what_is_old_is_cleared() {
    check(
        &format!(
            r#"{LINE}
            //- steps
            > event step id=a1 subject=a
            > event step id=a2 subject=a
            > drain
            > sql line UPDATE _oncehost_deliveries SET state = 'behind'
            > sql line DELETE FROM noted
            > sql line DELETE FROM _oncehost_keys
            > drain
            > sql line SELECT what FROM noted ORDER BY id
            > clear-events
            > drain
            > sql line SELECT what FROM noted ORDER BY id"#
        ),
        r#"> event step id=a1 subject=a
        202 {"eventId":"<1>","already":false}
        > event step id=a2 subject=a
        202 {"eventId":"<2>","already":false}
        > drain
        > sql line UPDATE _oncehost_deliveries SET state = 'behind'
        no rows
        > sql line DELETE FROM noted
        no rows
        > sql line DELETE FROM _oncehost_keys
        no rows
        > drain
        > sql line SELECT what FROM noted ORDER BY id
        no rows
        > clear-events
        0 rows
        > drain
        > sql line SELECT what FROM noted ORDER BY id
        ["a1"]
        ["a2"]"#,
    );
}

#[test]
fn tenant_with_a_long_line_of_deliveries_keeps_no_other_waiting() {
    for store in stores() {
        let host = Host::with(files(EAR), |settings| {
            settings.store = store;
            // The machine may be busy.
            settings.handler_time = std::time::Duration::from_secs(60);
        });
        // Of one tenant many have been due for a while, in each subscription, and then one of another's. In one go: rounds may
        // begin in between.
        for handler in ["keep", "also"] {
            let line = format!(
                "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 401) \
                 INSERT INTO _oncehost_deliveries (event_id, subscription, operation, handler, tenant, source, sender_id, \
                 type, event, state, attempts, lost, due_at, created_at) SELECT 'busy' || n, 'heard events/{handler}', \
                 'ear/event:{handler}', '{handler}', CASE n WHEN 401 THEN 'acme' ELSE 'busy' END, 's', 'busy' || n, 'heard', '{{\"id\":\"busy\"}}', 'waiting', 0, 0, \
                 {START} - 1000, {START} - 1000 FROM n"
            );
            host.rows("ear", &line);
        }
        host.drain();
        let open = || host.rows("ear", "SELECT event_id, state, error FROM _oncehost_deliveries WHERE state <> 'done'");
        // What ran into the others for too long is tried again a little later.
        for _ in 0..20 {
            if open().is_empty() {
                break;
            }
            host.clock.advance(60_000);
            host.drain();
        }
        assert!(open().is_empty(), "{:?}", open());
        for (table, by) in [("heard", "substr(id, 37)"), ("also", "id")] {
            let order = host.rows("ear", &format!("SELECT tenant_id FROM {table} ORDER BY {by}"));
            assert_eq!(order.len(), 401, "{table}");
            let at = order.iter().position(|row| row[0] == "acme").unwrap();
            assert!(at < 200, "{table}: the {at}th of {}", order.len());
        }
    }
}
