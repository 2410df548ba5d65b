//! What goes wrong in a group, and on the machine below: neighbours succeed, and nobody gets a yes that is not on
//! disk.

use std::process::Command;

use oncehost::store::{Shared, sqlite};

use crate::support::host::{Answer, Host};
use crate::support::process::{Folders, Process, binary};
use crate::support::scenario::files;
use crate::support::shop::SHOP;

/// The shop, and an action that writes as much as it is told.
const FILLER: &str = r"
//- /shop/handlers/fill.ts
export function handle(input: { code: string, bytes: number }) {
  const made = store.createIfAbsent('item', { code: input.code, state: 'x'.repeat(input.bytes) }, ['code'])
  if (!made.ok) throw made.error
  return made.data.created
}
";

fn sqlite(shared: &Shared) -> &sqlite::Shared {
    let Shared::Sqlite(shared) = shared;
    shared
}

fn fixture() -> Vec<(String, String)> {
    files(&format!("{SHOP}{FILLER}"))
}

/// Sends, at the same moment, small calls and one that writes `bytes`; gives the small ones' answers and the large
/// one's.
fn small_beside_large(
    round: usize,
    bytes: usize,
    call: impl Fn(&str, &str, &str) -> Answer + Sync,
) -> (Vec<Answer>, Answer) {
    let call = &call;
    std::thread::scope(|scope| {
        let small: Vec<_> = (0..12)
            .map(|number| {
                let code = format!("s{round}-{number}");
                scope.spawn(move || call("add", &code, &format!(r#"{{"code":"{code}"}}"#)))
            })
            .collect();
        let large = format!("l{round}");
        let large = scope.spawn(move || call("fill", &large, &format!(r#"{{"code":"{large}","bytes":{bytes}}}"#)));
        let small = small.into_iter().map(|thread| thread.join().unwrap()).collect();
        (small, large.join().unwrap())
    })
}

#[test]
fn neighbours_of_a_call_that_fills_the_database_commit() {
    let host = Host::new(fixture());
    host.block_on(host.app.lane("shop").exclusive(|shared| {
        // 100 pages of 4 KiB: little rows fit for a while, 600,000 bytes never do.
        sqlite(shared).lock().pragma_update(None, "max_page_count", 100).unwrap();
    }))
    .unwrap();
    for round in 0..10 {
        let (small, large) =
            small_beside_large(round, 600_000, |action, key, body| host.post("shop", action, key, body));
        assert_eq!((large.status, large.error().as_str()), (503, "UNAVAILABLE"), "{}", large.body);
        assert!(large.retry_after.is_some());
        for answer in small {
            assert_eq!(answer.data()["created"], true);
        }
    }
    assert_eq!(host.count("shop", "item"), 120);
    assert_eq!(host.count("shop", "_oncehost_keys"), 120);
    assert_eq!(host.count("shop", "_oncehost_events"), 120);
}

#[test]
fn key_of_a_call_that_found_the_disk_full_works_when_there_is_room() {
    let host = Host::new(fixture());
    let limit = |pages: i64| {
        let set = move |shared: &Shared| {
            sqlite(shared).lock().pragma_update(None, "max_page_count", pages).unwrap();
        };
        host.block_on(host.app.lane("shop").exclusive(set)).unwrap();
    };
    limit(100);
    let body = r#"{"code":"big","bytes":600000}"#;
    assert_eq!(host.post("shop", "fill", "k", body).status, 503);
    limit(100_000);
    assert_eq!(host.post("shop", "fill", "k", body).data(), true);
    assert!(host.post("shop", "fill", "k", body).replayed);
}

/// A host whose files may not grow past `kib`: writes beyond fail with an I/O error.
fn limited(folders: &Folders, kib: u32) -> Process {
    drop(folders.dev());
    let mut shell = Command::new("bash");
    shell.arg("-c").arg(format!("trap '' XFSZ; ulimit -f {kib}; exec '{}' dev", binary().display()));
    Process::start(folders.onto(shell))
}

/// Every yes is on disk after a kill, whatever the disk did meanwhile.
fn yes_means_on_disk(folders: &Folders, mut host: Process, rounds: usize) {
    let mut acknowledged = Vec::new();
    let mut refused = 0;
    for round in 0..rounds {
        let (small, large) =
            small_beside_large(round, 40_000, |action, key, body| host.post("shop", action, key, body));
        for (number, answer) in small.iter().enumerate() {
            match answer.status {
                200 => acknowledged.push(format!("s{round}-{number}")),
                503 => refused += 1,
                other => panic!("{other}: {}", answer.body),
            }
        }
        match large.status {
            200 => acknowledged.push(format!("l{round}")),
            503 => refused += 1,
            other => panic!("{other}: {}", large.body),
        }
    }
    assert!(!acknowledged.is_empty() && refused > 0, "{} done, {refused} refused", acknowledged.len());
    host.kill();
    let host = folders.dev();
    let database = folders.database("shop");
    for code in &acknowledged {
        let rows: i64 =
            database.query_row("SELECT count(*) FROM item WHERE code = ?1", [code], |row| row.get(0)).unwrap();
        assert_eq!(rows, 1, "{code} was acknowledged");
        let (action, body) = if code.starts_with('s') {
            ("add", format!(r#"{{"code":"{code}"}}"#))
        } else {
            ("fill", format!(r#"{{"code":"{code}","bytes":40000}}"#))
        };
        assert!(host.post("shop", action, code, &body).replayed, "{code} replays");
    }
    for number in 0..12 {
        let code = format!("after-{number}");
        host.post("shop", "add", &code, &format!(r#"{{"code":"{code}"}}"#)).data();
    }
}

#[test]
fn yes_means_on_disk_when_writes_fail_with_an_io_error() {
    let folders = Folders::new(fixture());
    let host = limited(&folders, 700);
    yes_means_on_disk(&folders, host, 40);
}
