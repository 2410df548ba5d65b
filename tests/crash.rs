//! `kill -9` at any moment: nothing acknowledged is missing, nothing is there twice (spec, G3 and G4).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::support::long;
use crate::support::process::{Folders, Process};
use crate::support::shop::{all_folders, folders as shop};

/// Callers that send beside each other.
const CALLERS: usize = 8;

/// What callers know: each key that was sent, with the body of its reply where one came.
type Ledger = BTreeMap<String, Option<String>>;

fn body(key: &str) -> String {
    format!(r#"{{"code":"{key}"}}"#)
}

/// Sends calls with fresh keys until the host stops answering. `acknowledged` is called after each reply with
/// their number.
fn load(host: &Process, round: usize, ledger: &Mutex<Ledger>, acknowledged: impl Fn(usize) + Sync) {
    let (gone, count) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for caller in 0..CALLERS {
            let (gone, count, acknowledged) = (&gone, &count, &acknowledged);
            scope.spawn(move || {
                for number in 0.. {
                    if gone.load(Ordering::SeqCst) {
                        return;
                    }
                    let key = format!("r{round}-c{caller}-n{number}");
                    ledger.lock().unwrap().insert(key.clone(), None);
                    let Some(answer) = host.try_post("shop", "add", &key, &body(&key)) else {
                        gone.store(true, Ordering::SeqCst);
                        return;
                    };
                    assert_eq!(answer.status, 200, "{}", answer.body);
                    ledger.lock().unwrap().insert(key, Some(answer.body));
                    acknowledged(count.fetch_add(1, Ordering::SeqCst) + 1);
                }
            });
        }
    });
}

/// After a restart: what was acknowledged is there once, and retrying every key changes nothing of it.
fn examine(folders: &Folders, ledger: &Ledger) {
    let column = |sql: &str| -> Vec<String> {
        folders.rows("shop", sql).iter().map(|row| row[0].as_str().unwrap().to_owned()).collect()
    };
    let payload = if folders.is_on_postgres() { "payload::json" } else { "payload" };
    if !folders.is_on_postgres() {
        assert_eq!(column("PRAGMA integrity_check"), ["ok"]);
    }
    let (rows, keys) = (column("SELECT code FROM item"), column("SELECT key FROM _oncehost_keys"));
    let events = column(&format!("SELECT {payload} ->> 'code' FROM _oncehost_events"));
    let set: BTreeSet<_> = rows.iter().collect();
    assert_eq!(set.len(), rows.len(), "no row twice");
    assert_eq!(set, keys.iter().collect(), "rows and keys commit together");
    assert_eq!(set, events.iter().collect(), "rows and events commit together");
    assert_eq!(events.len(), rows.len(), "no event twice");
    for (key, _) in ledger.iter().filter(|(_, reply)| reply.is_some()) {
        assert!(set.contains(key), "{key} was acknowledged and is gone");
    }
}

fn retry_all(host: &Process, ledger: &mut Ledger) {
    for (key, reply) in ledger {
        let answer = host.post("shop", "add", key, &body(key));
        assert_eq!(answer.status, 200, "{key}: {}", answer.body);
        match reply {
            Some(first) => assert_eq!((answer.body.as_str(), answer.replayed), (first.as_str(), true), "{key}"),
            None => *reply = Some(answer.body),
        }
    }
}

#[test]
fn acknowledged_calls_survive_kill_at_random_moments_under_load() {
    all_folders().iter().for_each(kill_at_random_moments);
}

fn kill_at_random_moments(folders: &Folders) {
    let rounds = long(6, 200);
    let mut ledger = Ledger::new();
    let mut random = 0x9e37_79b9_u32;
    for round in 0..rounds {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let kill_after = 1 + usize::try_from(random >> 24).unwrap();
        let host = Mutex::new(folders.dev());
        let url = host.lock().unwrap().url.clone();
        let caller = Process::calling(&url);
        let now = Mutex::new(std::mem::take(&mut ledger));
        load(&caller, round, &now, |count| {
            if count == kill_after {
                host.lock().unwrap().kill();
            }
        });
        ledger = now.into_inner().unwrap();
        examine(folders, &ledger);
        if round % 10 == 9 || round + 1 == rounds {
            let host = folders.dev();
            retry_all(&host, &mut ledger);
            retry_all(&host, &mut ledger);
            assert_eq!(host.terminate().code(), Some(0));
            examine(folders, &ledger);
            assert_eq!(folders.rows("shop", "SELECT count(*) FROM item")[0][0], ledger.len());
        }
    }
}

#[test]
fn acknowledged_calls_survive_kill_at_named_points() {
    for point in ["in-invocation", "before-commit", "after-commit", "before-replies"] {
        let nths = long(&["1", "7"][..], &["1", "2", "3", "5", "8", "13", "21", "34"][..]);
        for (nth, folders) in nths.iter().flat_map(|nth| all_folders().map(|folders| (nth, folders))) {
            // The tables first: the point is to be met by calls.
            drop(folders.dev());
            let mut command = folders.command(&["dev"]);
            command.env("ONCEHOST_CRASH_AT", format!("{point}:{nth}"));
            let mut host = Process::start(command);
            let ledger = Mutex::new(Ledger::new());
            load(&host, 0, &ledger, |_| {});
            assert!(!host.wait().success(), "{point} kills");
            let mut ledger = ledger.into_inner().unwrap();
            examine(&folders, &ledger);
            let host = folders.dev();
            retry_all(&host, &mut ledger);
            retry_all(&host, &mut ledger);
            examine(&folders, &ledger);
        }
    }
}

#[test]
fn read_forces_what_a_killed_writer_left_before_it_answers() {
    let folders = shop();
    let mut host = folders.dev();
    assert_eq!(host.post("shop", "add", "k", &body("k")).status, 200);
    host.kill();
    assert!(folders.data().join("shop.db-wal").metadata().unwrap().len() > 0, "the kill left a log");
    let read = |point: &str| {
        let mut command = folders.command(&["invoke", "shop", "get", "--input", &body("k")]);
        command.env("ONCEHOST_CRASH_AT", point).output().unwrap()
    };
    // The logs that are forced one after the other: those of host.db at the start, and that of the reader's database.
    let mut tries = (1..20).map(|nth| read(&format!("log-forced:{nth}")));
    let mut killed = 0;
    let answered = tries.find(|answer| {
        let gone = answer.status.code().is_none();
        assert!(!gone || answer.stdout.is_empty(), "no answer before the log is on disk");
        killed += usize::from(gone);
        !gone
    });
    let answered = answered.expect("an answer once all logs are on disk");
    assert!(killed >= 2, "the reader's database forces its log");
    assert!(answered.status.success(), "{answered:?}");
    assert!(String::from_utf8_lossy(&answered.stdout).contains(r#""found":"k""#), "{answered:?}");
}
