//! A host that runs, and what others do with its files meanwhile; and reads beside each other.

use std::fs;

use super::lost::used;
use super::{body, run};
use crate::flows::until;
use crate::support::process::{Folders, Process};

#[test]
fn other_process_that_reads_a_database_takes_no_log_from_a_host_that_was_looked_at() {
    let folders = used();
    let mut host = folders.dev();
    host.post("shop", "add", "b", &body("b")).data();
    for path in ["/readyz", "/readyz", "/admin/plugins"] {
        assert_eq!(host.get(path).status, 200);
    }
    assert_eq!(run(folders.command(&["doctor"])).code, Some(0));
    // The last connection to be closed takes the log away, and this one would be the last where the host held no lock.
    let other = folders.database("shop");
    assert_eq!(other.query_row("SELECT count(*) FROM _oncehost_keys", [], |row| row.get(0)), Ok(2));
    drop(other);
    host.post("shop", "add", "c", &body("c")).data();
    host.kill();
    let host = folders.dev();
    assert!(host.post("shop", "add", "c", &body("c")).replayed, "what was acknowledged is there");
}

#[test]
fn host_whose_own_database_is_taken_away_takes_nothing_more_that_would_be_lost_with_it() {
    let folders = used();
    let host = folders.dev();
    let (place, aside) = (folders.data().join("host.db"), folders.data().with_file_name("host.db"));
    fs::rename(&place, &aside).unwrap();
    let token =
        || run(folders.command(&["token", "create", "--tenant", "acme", "--subject", "x", "--scope", "operator"]));
    let ended = token();
    let refused = ended.sentence(1);
    assert!(refused.contains("host.db was taken away"), "{refused}");
    let ready = host.get("/readyz");
    assert!(ready.status == 503 && ready.body.contains("host.db was taken away"), "{}", ready.body);
    fs::rename(&aside, &place).unwrap();
    assert_eq!(host.get("/readyz").status, 200);
    assert_eq!(token().code, Some(0));
}

#[test]
fn file_of_a_plugin_at_rest_is_whole_without_its_log() {
    let folders = used();
    let mut command = folders.command(&["dev", "--apply-schema"]);
    command.env("ONCEHOST_LANE_IDLE", "50ms");
    let host = Process::start(command);
    host.post("shop", "add", "b", &body("b")).data();
    let copy = folders.data().with_file_name("copy.db");
    let records = || {
        fs::copy(folders.data().join("shop.db"), &copy).unwrap();
        let copied = rusqlite::Connection::open(&copy).unwrap();
        copied.query_row("SELECT count(*) FROM _oncehost_keys", [], |row| row.get::<_, i64>(0)).unwrap()
    };
    until(records, |records| *records == 2);
    drop(host);
}

/// A read that goes on until it is ended, and one that is done at once.
const READS: [(&str, &str); 3] = [
    ("reads/plugin.json", r#"{ "id": "reads", "version": "1.0.0", "limits": { "read": "4s" } }"#),
    ("reads/handlers/long.ts", "export const config = { kind: 'read' }\nexport function handle() { while (true) {} }"),
    ("reads/handlers/short.ts", "export const config = { kind: 'read' }\nexport const handle = () => 1"),
];

#[test]
fn read_that_takes_long_holds_up_no_other() {
    let folders = Folders::new(READS);
    let host = folders.dev();
    let ended = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert_eq!(host.post_to("/plugins/reads/invoke/long", "{}").status, 500);
            ended.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        for _ in 0..100 {
            assert_eq!(host.post_to("/plugins/reads/invoke/short", "{}").data(), 1);
        }
        assert!(!ended.load(std::sync::atomic::Ordering::Relaxed), "one of them waited for the long one");
    });
}
