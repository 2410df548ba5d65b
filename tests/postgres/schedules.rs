//! Schedules on hosts that share a database: each tick once, over changes of the clocks and while one of them is down.

use oncehost::config::Store;
use serde_json::json;

use crate::events::schedules::clock;
use crate::support::host::Host;
use crate::support::postgres;
use crate::support::scenario::files;

const HOUR: i64 = 3_600_000;

#[test]
fn two_hosts_make_each_tick_once_over_both_changes_of_the_clocks() {
    let url = postgres::database();
    let text = clock("30 2 * * *", "Europe/Berlin", "once", "");
    let text = text.split("//- steps").next().unwrap();
    let mut hosts = [(); 2].map(|()| Host::with(files(text), |settings| settings.store = Store::Postgres(url.clone())));
    let round = |hosts: &[Host; 2]| {
        std::thread::scope(|scope| {
            for host in hosts {
                scope.spawn(move || host.drain());
            }
        });
        // What one left to the other, because it had claimed it.
        hosts.iter().for_each(Host::drain);
    };
    // A little apart, as the clocks of two machines are.
    hosts[1].clock.advance(700);
    round(&hosts);
    // Behind 2026-03-29, where 02:30 is skipped, then behind 2026-10-25, where it comes twice.
    for hours in [86 * 24, 24, 24, 1, 24, 207 * 24, 24, 1, 1, 24, 24] {
        for host in &hosts {
            host.clock.advance(hours * HOUR);
        }
        // One of them is down at each tick, and back soon after.
        hosts[0].stop();
        hosts[1].drain();
        hosts[0].restart();
        round(&hosts);
    }
    let ticks =
        hosts[0].rows("clock", "SELECT at, count(*) FROM tick WHERE tenant_id = 'acme' GROUP BY at ORDER BY at");
    let each = [
        "2026-03-27T01:30:00.000Z",
        "2026-03-28T01:30:00.000Z",
        "2026-03-29T01:00:00.000Z",
        "2026-03-30T00:30:00.000Z",
        "2026-03-31T00:30:00.000Z",
        "2026-10-24T00:30:00.000Z",
        "2026-10-25T00:30:00.000Z",
        "2026-10-26T01:30:00.000Z",
        "2026-10-27T01:30:00.000Z",
    ];
    assert_eq!(ticks, each.map(|at| vec![json!(at), json!(1)]));
}
