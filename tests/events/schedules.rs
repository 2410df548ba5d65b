//! Schedules: each tick once.

use crate::support::scenario::check;

pub fn clock(cron: &str, zone: &str, missed: &str, steps: &str) -> String {
    format!(
        r#"
//- /clock/plugin.json
{{ "id": "clock", "version": "1.0.0", "permissions": ["data:write"],
  "schedules": [ {{ "name": "round", "cron": "{cron}", "timezone": "{zone}", "tenants": ["acme", "dev"],
    "handler": "events/tick", "missed": "{missed}" }} ] }}
//- /clock/schema.sql
CREATE TABLE tick (id TEXT PRIMARY KEY, at TEXT NOT NULL, event TEXT NOT NULL);
//- /clock/events/tick.ts
export function handle(event: any, ctx: any) {{
  const made = store.createIfAbsent('tick', {{ id: ctx.invocationId, at: event.data.tick, event: event.id }}, ['id'])
  if (!made.ok) throw made.error
}}
//- steps
{steps}"#
    )
}

#[test]
fn tick_comes_once_for_each_tenant_however_often_it_is_looked_for() {
    check(
        &clock(
            "0 3 * * *",
            "Asia/Shanghai",
            "once",
            "> drain
            > advance 18h
            > drain
            > rows clock
            > advance 1h
            > drain
            > drain
            > restart
            > drain
            > sql clock SELECT tenant_id, at, event FROM tick ORDER BY 1",
        ),
        r#"> drain
        > advance 18h
        > drain
        > rows clock
        events 0, keys 0, workflows 0, tick 0
        > advance 1h
        > drain
        > drain
        > restart
        > drain
        > sql clock SELECT tenant_id, at, event FROM tick ORDER BY 1
        ["acme","2026-01-01T19:00:00.000Z","round/acme/2026-01-01T19:00:00.000Z"]
        ["dev","2026-01-01T19:00:00.000Z","round/dev/2026-01-01T19:00:00.000Z"]"#,
    );
}

#[test]
fn of_ticks_that_nobody_was_there_for_the_last_is_made_up_for() {
    check(
        &clock(
            "0 * * * *",
            "UTC",
            "once",
            "> drain\n> advance 5h\n> restart\n> drain\n> sql clock SELECT at FROM tick",
        ),
        r#"> drain
        > advance 5h
        > restart
        > drain
        > sql clock SELECT at FROM tick
        ["2026-01-01T05:00:00.000Z"]
        ["2026-01-01T05:00:00.000Z"]"#,
    );
}

#[test]
fn missed_ticks_are_skipped_where_that_is_asked_for() {
    check(
        &clock(
            "30 * * * *",
            "UTC",
            "skip",
            "> drain
            > advance 5h
            > drain
            > rows clock
            > advance 30m
            > drain
            > rows clock",
        ),
        r"> drain
        > advance 5h
        > drain
        > rows clock
        events 0, keys 0, workflows 0, tick 0
        > advance 30m
        > drain
        > rows clock
        events 0, keys 2, workflows 0, tick 2",
    );
}

#[test]
fn clock_that_is_set_back_ticks_no_instant_a_second_time() {
    check(
        &clock(
            "0 * * * *",
            "UTC",
            "once",
            "> drain
            > advance 1h
            > drain
            > set-back 50m
            > drain
            > advance 50m
            > drain
            > sql clock SELECT at FROM tick WHERE tenant_id = 'dev'
            > advance 1h
            > drain
            > sql clock SELECT at FROM tick WHERE tenant_id = 'dev'",
        ),
        r#"> drain
        > advance 1h
        > drain
        > set-back 50m
        > drain
        > advance 50m
        > drain
        > sql clock SELECT at FROM tick WHERE tenant_id = 'dev'
        ["2026-01-01T01:00:00.000Z"]
        > advance 1h
        > drain
        > sql clock SELECT at FROM tick WHERE tenant_id = 'dev'
        ["2026-01-01T01:00:00.000Z"]
        ["2026-01-01T02:00:00.000Z"]"#,
    );
}

#[test]
fn clock_changes_of_a_zone_give_each_night_one_tick() {
    // From 2026-01-01 to behind 2026-03-29 (skipped hour), then behind 2026-10-25 (doubled hour).
    check(
        &clock(
            "30 2 * * *",
            "Europe/Berlin",
            "once",
            "> drain
            > advance 86d
            > drain
            > advance 24h
            > drain
            > advance 24h
            > drain
            > sql clock SELECT at FROM tick WHERE tenant_id = 'dev'
            > advance 208d
            > drain
            > advance 24h
            > drain
            > advance 2h
            > drain
            > advance 24h
            > drain
            > sql clock SELECT at FROM tick WHERE tenant_id = 'dev' AND at > '2026-10'",
        ),
        r#"> drain
        > advance 86d
        > drain
        > advance 24h
        > drain
        > advance 24h
        > drain
        > sql clock SELECT at FROM tick WHERE tenant_id = 'dev'
        ["2026-03-27T01:30:00.000Z"]
        ["2026-03-28T01:30:00.000Z"]
        ["2026-03-29T01:00:00.000Z"]
        > advance 208d
        > drain
        > advance 24h
        > drain
        > advance 2h
        > drain
        > advance 24h
        > drain
        > sql clock SELECT at FROM tick WHERE tenant_id = 'dev' AND at > '2026-10'
        ["2026-10-23T00:30:00.000Z"]
        ["2026-10-24T00:30:00.000Z"]
        ["2026-10-25T00:30:00.000Z"]
        ["2026-10-26T01:30:00.000Z"]"#,
    );
}
