//! `store copy` within this process: what was there goes on, and there and back is the same.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use oncehost::clock::ManualClock;
use oncehost::ids::SystemIds;
use oncehost::store::host_db::HostDb;
use oncehost::store::postgres::{Limits, Server};
use oncehost::store::{Database, moving};
use oncehost::transfer::{Copy, Report};
use serde_json::{Value as Json, json};

use super::{EDGE, place};
use crate::flows::until;
use crate::support::host::{Host, START, answer, ureq_agent};
use crate::support::postgres;
use crate::support::scenario::files;

fn server(url: &str) -> Arc<Server> {
    Server::for_moving(
        url,
        Limits { connections: 4, lock_wait: Duration::from_secs(5), answer: Duration::from_secs(60) },
    )
    .unwrap()
}

fn on(server: &Arc<Server>, plugin: &str) -> Database {
    Database::Postgres(server.clone(), plugin.to_owned())
}

fn file(data: &Path, plugin: &str) -> Database {
    Database::Sqlite(data.join(format!("{plugin}.db")))
}

fn copy(plugin: &str, from: Database, to: Database) -> Report {
    let clock = ManualClock::at(START);
    let mut last = (0, 0);
    let mut tell = |progress: oncehost::transfer::Progress| {
        assert!(progress.done >= last.0, "progress rises");
        last = (progress.done, progress.total);
    };
    let done = Copy { plugin: plugin.to_owned(), from, to }.run(&clock, &SystemIds::default(), &mut tell);
    assert_eq!(last.0, last.1, "progress ends at the total");
    done.unwrap()
}

fn filled(lines: usize) -> Host {
    let host = Host::new(files(EDGE));
    host.post("edge", "fill", "fill", &json!({ "lines": lines }).to_string()).data();
    host.post("edge", "sleep", "nap", r#"{"id":"1"}"#).data();
    let shaky = json!({ "specversion": "1.0", "type": "shaky", "source": "s", "id": "event" });
    assert_eq!(host.send_event("dev", &shaky).status, 202);
    host.drain();
    host
}

fn replay_dead(host: &Host) {
    let request =
        ureq_agent().post(format!("{}/admin/events/replay", host.url)).header("Content-Type", "application/json");
    let told = answer(request.send(r#"{"all":true}"#).unwrap());
    assert_eq!(told.status, 200, "{}", told.body);
    host.drain();
}

fn word(host: &Host, word: &str) -> bool {
    !host.rows("edge", &format!("SELECT 1 FROM word WHERE word = '{word}'")).is_empty()
}

const THINGS: &str = "SELECT id, big, rate, name, raw, extra, parent FROM thing ORDER BY id";

#[test]
fn copied_plugin_goes_on_on_the_other_database_and_back() {
    let mut host = filled(700);
    let fill = host.post("edge", "fill", "fill", r#"{"lines":700}"#);
    let things = host.rows("edge", THINGS);
    let (url, mut data) = (postgres::database(), std::path::PathBuf::new());
    host.restart_with(|settings| {
        data.clone_from(&settings.data);
        let done = copy("edge", file(&data, "edge"), on(&server(&url), "edge"));
        let rows = |table: &str| done.tables.iter().find(|it| it.table == table).map(|it| it.rows);
        assert_eq!((rows("line"), rows("thing"), rows("_oncehost_keys")), (Some(700), Some(4), Some(2)));
        assert_eq!(
            (rows("_oncehost_workflows"), rows("_oncehost_steps"), rows("_oncehost_deliveries")),
            (Some(1), Some(1), Some(1))
        );
        place(settings, "edge", &url);
    });
    assert_eq!(host.rows("edge", THINGS), things);
    // Keys replay, byte for byte, and are compared.
    let again = host.post("edge", "fill", "fill", r#"{"lines":700}"#);
    assert_eq!((again.replayed, &again.body), (true, &fill.body));
    assert_eq!(host.post("edge", "fill", "fill", r#"{"lines":1}"#).error(), "KEY_REUSED");
    // The dead letter is there, and delivered once what kept it from that is mended.
    host.post("edge", "fix", "fix", "{}").data();
    replay_dead(&host);
    assert!(word(&host, "event"));
    // The workflow sleeps on, and wakes.
    assert_eq!(host.post("edge", "sleep", "other", r#"{"id":"1"}"#).data()["already"], true);
    host.post("edge", "sleep", "nap2", r#"{"id":"2"}"#).data();
    host.clock.advance(3_600_000);
    host.drain();
    assert!(word(&host, "nap-1:wake") && word(&host, "nap-2:wake"));
    // Its schedule goes on from where it was.
    host.clock.advance(2 * 3_600_000);
    host.drain();
    assert!(word(&host, "tick 2026-01-01T03:00:00.000Z"));
    let before = host.rows("edge", "SELECT word FROM word ORDER BY word COLLATE \"C\"");
    host.restart_with(|settings| {
        let there = file(&data, "edge");
        // The server hears of closed connections a moment later.
        until(|| moving::hosts(&on(&server(&url), "edge")).unwrap(), Vec::is_empty);
        let back = Copy { plugin: "edge".to_owned(), from: on(&server(&url), "edge"), to: there.clone() };
        let refused = back.run(&ManualClock::at(START), &SystemIds::default(), &mut |_| {}).unwrap_err().0;
        assert!(refused.contains("that were copied from it to postgres://"), "{refused}");
        moving::remove(&there).unwrap();
        copy("edge", on(&server(&url), "edge"), there);
        // As the command does.
        HostDb::open(&data).unwrap().forget_place("edge").unwrap();
        settings.stores.clear();
    });
    assert_eq!(host.rows("edge", "SELECT word FROM word ORDER BY word"), before);
    let again = host.post("edge", "fill", "fill", r#"{"lines":700}"#);
    assert_eq!((again.replayed, &again.body), (true, &fill.body));
    assert_eq!(host.post("edge", "sleep", "third", r#"{"id":"3"}"#).data()["already"], false);
    let workflows = host.rows("edge", "SELECT id, workflow_id FROM _oncehost_workflows ORDER BY id");
    assert_eq!(workflows.iter().map(|row| row[1].clone()).collect::<Vec<_>>(), ["nap-1", "nap-2", "nap-3"]);
}

#[test]
fn copying_there_and_back_gives_the_same_hashes() {
    let mut host = filled(300);
    let (first, second) = (server(&postgres::database()), server(&postgres::database()));
    let other = tempfile::tempdir().unwrap();
    for plugin in ["edge", "host"] {
        host.restart();
        let mut data = std::path::PathBuf::new();
        host.stop();
        data.push(host.plugins().parent().unwrap().join("data"));
        let there = copy(plugin, file(&data, plugin), on(&first, plugin));
        let back = copy(plugin, on(&first, plugin), file(other.path(), plugin));
        let across = copy(plugin, file(other.path(), plugin), on(&second, plugin));
        assert_eq!(there.tables, back.tables, "{plugin}");
        assert_eq!(there.tables, across.tables, "{plugin}");
        assert!(there.tables.iter().any(|table| table.rows > 0), "{there:?}");
        if plugin == "edge" {
            // So that the host starts again for the next: as if never copied.
            let connection = rusqlite::Connection::open(data.join("edge.db")).unwrap();
            connection.execute_batch("DROP TABLE _oncehost_copy").unwrap();
        }
    }
}

#[test]
fn what_belongs_to_no_plugin_goes_with_its_numbers() {
    let mut host = filled(1);
    let positions = |host: &Host| -> i64 { host.app.host_db.last_position().unwrap() };
    let last = positions(&host);
    assert!(last > 0);
    host.clock.advance(10 * 24 * 3_600_000);
    host.block_on(oncehost::events::clear(&host.app)).unwrap();
    let url = postgres::database();
    host.restart_with(|settings| {
        let to = server(&url);
        copy("host", file(&settings.data, "host"), on(&to, "host"));
        copy("edge", file(&settings.data, "edge"), on(&to, "edge"));
        settings.store = oncehost::config::Store::Postgres(url.clone());
    });
    host.post("edge", "fill", "more", r#"{"lines":1}"#).data();
    host.drain();
    assert!(positions(&host) > last, "no position is given a second time");
    // The accepted event is known there too.
    let shaky = json!({ "specversion": "1.0", "type": "shaky", "source": "s", "id": "event" });
    assert_eq!(host.send_event("dev", &shaky).json()["already"], Json::Bool(true));
}

#[test]
fn page_of_any_table_is_found_by_an_index_in_both_databases() {
    let mut host = filled(1);
    host.stop();
    let (data, url) = (host.plugins().parent().unwrap().join("data"), postgres::database());
    let there = server(&url);
    for plugin in ["edge", "host"] {
        copy(plugin, file(&data, plugin), on(&there, plugin));
        let target = moving::open(&on(&there, plugin), plugin).unwrap();
        let source = moving::open(&file(&data, plugin), plugin).unwrap();
        let connection = rusqlite::Connection::open(data.join(format!("{plugin}.db"))).unwrap();
        let shapes = target.look(|tx| moving::tables(tx, plugin == "host")).unwrap();
        // Which files there were, and which hosts share a server, stays where it is.
        for shape in shapes.iter().filter(|shape| shape.name != "hosts") {
            let page = source.look(|tx| moving::page(tx, shape, true, 9)).unwrap();
            let mut explained = connection.prepare(&format!("EXPLAIN QUERY PLAN {page}")).unwrap();
            let plan: Vec<String> = explained.raw_query().mapped(|row| row.get(3)).collect::<Result<_, _>>().unwrap();
            assert!(plan.iter().all(|step| step.starts_with("SEARCH")), "{}: {plan:?}", shape.name);
            let key = shape.key.join(",");
            let unique = format!(
                "SELECT 1 FROM pg_index x WHERE x.indrelid = '{plugin}.{}'::regclass AND x.indisunique AND x.indpred IS NULL \
                 AND '{key}' = (SELECT string_agg(a.attname, ',' ORDER BY k.place) \
                 FROM unnest(x.indkey::int[]) WITH ORDINALITY AS k (attnum, place) \
                 JOIN pg_attribute a ON a.attrelid = x.indrelid AND a.attnum = k.attnum)",
                shape.name
            );
            let name = url.rsplit('/').next().unwrap();
            let found = postgres::cluster().psql(name, &unique);
            assert_eq!(String::from_utf8_lossy(&found.stdout).trim(), "1", "{}: {key}", shape.name);
        }
    }
}
