//! Backups that are taken while events are on their way: what a backup has published or accepted, it delivers.

use std::collections::BTreeSet;

use rusqlite::Connection;

use super::crash::{TALK, load, settle};
use crate::support::long;
use crate::support::process::{Folders, Process};
use crate::support::scenario::files;

fn column(database: &Connection, sql: &str) -> Vec<String> {
    let mut statement = database.prepare(sql).unwrap();
    statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

#[test]
fn restored_backup_loses_no_event_and_repeats_none() {
    let folders = Folders::new(files(TALK));
    let host = folders.dev();
    let rounds: usize = long(4, 40);
    std::thread::scope(|scope| {
        let talking = scope.spawn(|| load(&host, 0, 60 * rounds, |_| {}));
        for round in 0..rounds {
            let taken = folders.command(&["backup", &format!("copy-{round}")]).output().unwrap();
            assert!(taken.status.success(), "{}", String::from_utf8_lossy(&taken.stderr));
        }
        talking.join().unwrap();
    });
    assert!(host.terminate().success());
    for round in 0..rounds {
        let data = format!("restored-{round}");
        let restored = folders.command(&["restore", &format!("copy-{round}"), "--data", &data]).output().unwrap();
        assert!(restored.status.success(), "{}", String::from_utf8_lossy(&restored.stderr));
        let host = Process::start(folders.command(&["dev", "--data", &data]));
        settle(&host);
        assert!(host.terminate().success());
        let open = |name: &str| Connection::open(folders.data().with_file_name(&data).join(name)).unwrap();
        let heard = column(&open("hear.db"), "SELECT what FROM heard");
        let once: BTreeSet<String> = heard.iter().cloned().collect();
        assert_eq!(once.len(), heard.len(), "no effect twice");
        let said = column(&open("say.db"), "SELECT what FROM said");
        let sent = column(&open("host.db"), "SELECT sender_id FROM events");
        let missing: Vec<&String> = said.iter().chain(&sent).filter(|what| !once.contains(*what)).collect();
        assert!(missing.is_empty(), "in backup {round} and never heard: {missing:?}");
    }
}

#[test]
fn events_of_a_file_that_is_put_back_are_not_heard_again() {
    let folders = Folders::new(files(TALK));
    let open = |name: &str| Connection::open(folders.data().join(name)).unwrap();
    let heard = || column(&open("host.db"), "SELECT event_id FROM notifications");
    let host = folders.dev();
    load(&host, 0, 30, |_| {});
    settle(&host);
    assert!(host.terminate().success());
    let before = heard().len();
    // As a backup has them that was taken before they were relayed.
    let waiting = open("say.db").execute("UPDATE _oncehost_events SET relayed_at = NULL", []).unwrap();
    assert!(waiting > 0 && before >= waiting);
    let host = folders.dev();
    load(&host, 30, 60, |_| {});
    settle(&host);
    assert!(host.terminate().success());
    let (heard, published) = (heard(), column(&open("say.db"), "SELECT event_id FROM _oncehost_events"));
    let once: BTreeSet<&String> = heard.iter().collect();
    assert_eq!(once.len(), heard.len(), "no message twice");
    assert!(heard.len() > before && published.iter().all(|event| once.contains(event)));
}
