//! Hosts with an older and a newer version of a plugin: what only the newer can do waits for it.

use oncehost::config::Store;
use serde_json::json;

use crate::flows::tables::{KEEPER, begin, delivery, goes_on, second, shown, waits};
use crate::flows::until;
use crate::support::host::Host;
use crate::support::postgres;
use crate::support::scenario::files;

fn host(url: &str, fixture: &str) -> Host {
    Host::with(files(fixture), |settings| settings.store = Store::Postgres(url.to_owned()))
}

#[test]
fn work_that_the_tables_of_a_newer_version_keep_from_an_older_host_waits_for_the_newer() {
    let url = postgres::database();
    let newer = second("CREATE TABLE kept (id TEXT PRIMARY KEY, two TEXT);");
    // Its tables are there first, and the older one changes nothing of them.
    drop(host(&url, &newer));
    let old = host(&url, KEEPER);
    begin(&old, &["acts", "scripts"]);
    waits(&old);
    let new = host(&url, &newer);
    // What waited for long is looked at seldom.
    new.clock.advance(120 * 60_000);
    goes_on(&new);
    // The older one looks at it as well.
    assert_eq!(shown(&old, "acts")["status"], "completed");
    assert_eq!(delivery(&old)["state"], "done");
}

/// The second version's workflows tell their action what the first's do not.
const SHIFT: &str = r#"
//- /shift/plugin.json
{ "id": "shift", "version": "1.0.0", "permissions": ["data:read", "data:write", "flow:start"] }
//- /shift/handlers/start.ts
export function handle(input: any) {
  const started = flow.start('shift', '1')
  if (!started.ok) throw started.error
}
//- /shift/handlers/act.ts
export function handle(input: any) { return 'done by 1.0.0' }
//- /shift/flows/shift.json
{ "name": "shift", "steps": [
  { "id": "rest", "uses": "sleep", "for": "1h" },
  { "id": "act", "uses": "action", "inputs": { "action": { "const": "act" }, "of": { "const": "1.0.0" } } } ] }
"#;

#[test]
fn workflow_of_a_newer_version_is_left_to_its_hosts_as_long_as_there_are_some() {
    for newer_lives in [true, false] {
        let url = postgres::database();
        let new = host(&url, &SHIFT.replace("1.0.0", "2.0.0"));
        // As long as a host counts as one that lives, and as a step is left to others.
        let old = Host::with(files(SHIFT), |settings| {
            settings.store = Store::Postgres(url.clone());
            settings.lease = std::time::Duration::from_secs(2 * 60 * 60);
        });
        new.post("shift", "start", "k", "{}").data();
        let beat = |host: &Host| host.block_on(oncehost::events::beat(&host.app)).unwrap();
        let act = || old.rows("shift", "SELECT state, result FROM _oncehost_steps WHERE step = 'act'");
        if newer_lives {
            beat(&new);
        } else {
            drop(new);
        }
        beat(&old);
        old.clock.advance(60 * 60 * 1000);
        until(
            || {
                old.drain();
                act()
            },
            |rows| !rows.is_empty(),
        );
        if newer_lives {
            assert_eq!(act(), [[json!("ready"), json!(null)]]);
            old.clock.advance(2 * 60 * 60 * 1000);
            old.drain();
            let error = &old.rows("shift", "SELECT error FROM _oncehost_workflows")[0][0];
            assert!(error.as_str().unwrap().contains("waits for a host with the newer version"), "{error}");
        } else {
            until(
                || {
                    old.drain();
                    act()
                },
                |rows| rows == &[[json!("done"), json!("\"done by 1.0.0\"")]],
            );
        }
    }
}

#[test]
fn host_that_leaves_all_that_is_due_to_others_looks_again_only_when_they_have_had_their_time() {
    use oncehost::workflow::{Going, Mine, take_due};
    let host = host(&postgres::database(), &SHIFT.replace("flow.start('shift', '1')", "flow.start('shift', input.id)"));
    // More than a look takes at a time.
    for id in 0..300 {
        let body = json!({ "id": id.to_string() }).to_string();
        host.post("shift", "start", &format!("k{id}"), &body).data();
    }
    let (app, now) = (host.app.clone(), crate::support::host::START + 60 * 60 * 1000);
    let lane = host.app.lane("shift");
    let looked = lane.exclusive(move |shared| {
        let tx = shared.begin().unwrap();
        let lacks = |_: &_, _: &_| Some("it is not here".to_owned());
        let going = Going { desk: &app.flows.desk, plugin: "shift", lacks: &lacks, claimed: 0, now };
        let look = || take_due(&tx, &going, &app.flows.round, &Mine::default()).unwrap();
        // The first is at sleeps that are over, the second finds what came then before the rest of them.
        let next = [look(), look(), look()].map(|taken| taken.next);
        let sleeping = oncehost::store::steps::timers(&tx, now, 10).unwrap().len();
        tx.rollback();
        (next, sleeping)
    });
    let later = Some(now + host.app.flows.desk.patience);
    assert_eq!(host.block_on(looked).unwrap(), ([Some(now), later, later], 0));
}
