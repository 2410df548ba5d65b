//! One host changes a plugin's tables while another, which has seen the older form, writes to them.

use std::sync::Arc;
use std::time::Duration;

use super::super::{Limits, Server, Shared};
use super::*;
use crate::schema::parse;
use crate::store::{self, Fate, tables};
use crate::test_postgres;

const OLD: &str = "CREATE TABLE t (id TEXT PRIMARY KEY, x TEXT);";
const NEW: &str = "CREATE TABLE t (id TEXT PRIMARY KEY,\n  -- was: x\n  z TEXT);";
const INSERT: &str = "INSERT INTO shop.t (tenant_id, id) VALUES ('acme', '1')";

/// Two hosts on one database.
fn hosts() -> [Arc<Shared>; 2] {
    let url = test_postgres::database();
    let limits = Limits { connections: 4, lock_wait: Duration::from_secs(60), answer: Duration::from_secs(60) };
    [(); 2].map(|()| Shared::open(&Server::new(&url, limits).unwrap(), "shop", Access::Write).unwrap())
}

fn bring(host: &Arc<Shared>, sql: &str) {
    let schema = parse(sql, &[]).unwrap();
    assert!(tables::apply(&store::Shared::Postgres(host.clone()), &schema, &["t.x".to_owned()], 5).is_ok());
}

/// Begins a transaction that takes the tables for those of this version, as a host does that saw it a moment ago.
fn assuming(host: &Arc<Shared>, version: i64, again: bool) -> Tx {
    let tx = Tx::begin(host, again);
    host.server.saw_tables("shop", Some(version));
    assert_eq!(tx.tables_version().unwrap(), version);
    tx
}

/// How many locks of this kind there are on what hosts name themselves.
fn locks(host: &Arc<Shared>, condition: &str) -> i64 {
    let sql = format!(
        "SELECT count(*) FROM pg_locks JOIN pg_database ON pg_database.oid = database \
         WHERE datname = current_database() AND locktype = 'advisory' AND {condition}"
    );
    let server = &host.server;
    let row = server.wait(async { server.connect().await.unwrap().query_one(&sql, &[]).await.unwrap() });
    row.get(0)
}

#[test]
fn who_knows_only_the_older_form_of_tables_writes_nothing_into_the_newer() {
    let [one, other] = hosts();
    bring(&one, OLD);
    let tx = assuming(&one, 1, false);
    bring(&other, NEW);
    assert!(tx.execute(INSERT).is_err());
    assert_eq!(tx.fate(), Fate::Again);
    // The next try sees what there is.
    let tx = Tx::begin(&one, true);
    assert_eq!(tx.tables_version().unwrap(), 2);
    tx.execute(INSERT).unwrap();
    tx.commit().unwrap();
    assert_eq!(Tx::begin(&other, false).query("SELECT id FROM shop.t", &[]).unwrap().len(), 1);
}

#[test]
fn what_waits_for_the_commit_is_not_written_into_the_newer_form_either() {
    let [one, other] = hosts();
    bring(&one, OLD);
    let tx = assuming(&one, 1, false);
    tx.defer(INSERT.to_owned(), Vec::new()).unwrap();
    bring(&other, NEW);
    assert!(tx.commit().is_err());
    assert_eq!(tx.fate(), Fate::Again);
    assert!(Tx::begin(&other, false).query("SELECT id FROM shop.t", &[]).unwrap().is_empty());
}

#[test]
fn tables_are_not_changed_while_somebody_writes_by_their_form() {
    let [one, other] = hosts();
    bring(&one, OLD);
    let tx = assuming(&one, 1, false);
    // It has touched no table yet.
    tx.execute("SELECT 1").unwrap();
    std::thread::scope(|scope| {
        let changing = scope.spawn(|| bring(&other, NEW));
        while locks(&one, "NOT granted") == 0 {
            assert!(!changing.is_finished(), "the change did not wait");
        }
        tx.execute(INSERT).unwrap();
        tx.commit().unwrap();
    });
    assert_eq!(Tx::begin(&other, false).query("SELECT z FROM shop.t", &[]).unwrap().len(), 1);
}
