//! Backups of a running host under load, restored elsewhere.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::Value as Json;

use super::{body, run, shop};
use crate::support::process::Process;

#[test]
fn restored_backup_has_every_write_that_was_acknowledged_before_it_and_replays_it() {
    let folders = shop();
    let host = folders.dev();
    let (acknowledged, stop, count) = (Mutex::new(BTreeMap::new()), AtomicBool::new(false), AtomicUsize::new(0));
    let (before, ended) = std::thread::scope(|scope| {
        for caller in 0..4 {
            let (host, acknowledged, stop, count) = (&host, &acknowledged, &stop, &count);
            scope.spawn(move || {
                for number in 0.. {
                    if stop.load(Ordering::SeqCst) {
                        return;
                    }
                    let key = format!("c{caller}-n{number}");
                    let answer = host.post("shop", "add", &key, &body(&key));
                    assert_eq!(answer.status, 200, "{}", answer.body);
                    acknowledged.lock().unwrap().insert(key, answer.body);
                    count.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        let wait_for = |target: usize| {
            while count.load(Ordering::SeqCst) < target {
                std::thread::yield_now();
            }
        };
        wait_for(200);
        let before = acknowledged.lock().unwrap().clone();
        let ended = run(folders.command(&["backup", "copy.tar", "--json"]));
        // The load went on behind the backup.
        wait_for(count.load(Ordering::SeqCst) + 20);
        stop.store(true, Ordering::SeqCst);
        (before, ended)
    });
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "no progress where nobody looks");
    let manifest: Json = serde_json::from_str(&ended.out).unwrap();
    let names: Vec<&str> =
        manifest["files"].as_array().unwrap().iter().filter_map(|file| file["name"].as_str()).collect();
    assert_eq!(names, ["host.db", "shop.db"]);
    drop(host);
    let ended = run(folders.command(&["restore", "copy.tar", "--data", "restored"]));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let mut command = folders.command(&["dev"]);
    command.env("ONCEHOST_DATA", folders.data().with_file_name("restored"));
    let host = Process::start(command);
    for (key, reply) in before {
        let again = host.post("shop", "add", &key, &body(&key));
        assert_eq!((again.status, again.body.as_str(), again.replayed), (200, reply.as_str(), true), "{key}");
    }
}

#[test]
fn backup_needs_no_host_and_restore_wants_an_empty_folder_without_one() {
    let folders = shop();
    let host = folders.dev();
    host.post("shop", "add", "k", &body("k")).data();
    assert!(host.terminate().success());
    assert_eq!(run(folders.command(&["backup", "copy"])).code, Some(0));
    let again = run(folders.command(&["backup", "copy"]));
    assert!(again.sentence(1).ends_with("copy is there already; choose another name"), "{again:?}");
    let full = run(folders.command(&["restore", "copy"]));
    assert!(full.sentence(1).contains("is not empty ("), "{full:?}");
    let _host = folders.dev();
    let running = run(folders.command(&["restore", "copy"]));
    let text = running.sentence(1);
    assert!(text.starts_with("a host is running on the data folder"), "{text}");
    assert!(text.ends_with("a restore wants an empty folder without one; name another with --data DIR"), "{text}");
    let nowhere = run(folders.command(&["backup", "other", "--data", "nowhere"]));
    assert!(nowhere.sentence(1).starts_with("there is no data folder nowhere"), "{nowhere:?}");
    assert!(!folders.data().with_file_name("nowhere").exists());
}

#[test]
fn running_host_says_why_a_backup_was_not_taken() {
    let folders = shop();
    let _host = folders.dev();
    std::fs::write(folders.data().with_file_name("file"), "").unwrap();
    let ended = run(folders.command(&["backup", "file/copy"]));
    assert!(ended.sentence(1).starts_with("cannot make the folder "), "{ended:?}");
    let made = run(folders.command(&["backup", "new/folder/copy.tar"]));
    assert_eq!(made.code, Some(0), "{made:?}");
}

#[test]
fn backup_into_the_data_folder_is_refused() {
    let folders = shop();
    let host = folders.dev();
    let refused = |to: &str| {
        let ended = run(folders.command(&["backup", to]));
        assert!(ended.sentence(1).contains(" is in the data folder itself"), "{to}: {ended:?}");
    };
    for to in
        ["data/copy.tar", "data/new/copy", "data/../data/copy", "none/../data/copy.tar", "none/a/../../data/new/copy"]
    {
        refused(to);
    }
    std::os::unix::fs::symlink(folders.data(), folders.data().with_file_name("link")).unwrap();
    refused("link/copy.tar");
    assert!(host.terminate().success());
    refused("data/copy.tar");
    let names = std::fs::read_dir(folders.data()).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(!names.into_iter().any(|name| ["copy", "copy.tar", "new"].iter().any(|made| name == *made)));
    assert!(!folders.data().with_file_name("none").exists(), "nothing was made on the way");
}

#[test]
fn restore_of_what_is_no_backup_says_so() {
    let folders = shop();
    let other = folders.data().with_file_name("notes.txt");
    for text in ["", "a line", &"root:x:0:0:root:/root:/bin/bash\n".repeat(100)] {
        std::fs::write(&other, text).unwrap();
        let ended = run(folders.command(&["restore", "notes.txt"]));
        assert!(ended.sentence(1).starts_with("notes.txt is no backup of oncehost: it "), "{ended:?}");
    }
    let ended = run(folders.command(&["restore", "plugins"]));
    assert!(ended.sentence(1).starts_with("plugins is no backup of oncehost: it has no manifest.json"), "{ended:?}");
    assert!(ended.err.contains("name the .tar file or the folder that `oncehost backup` made"), "{ended:?}");
    assert!(!folders.data().exists());
}

#[test]
fn host_does_not_start_on_half_a_restore() {
    let folders = shop();
    std::fs::create_dir_all(folders.data().join(".restoring")).unwrap();
    for command in [&["dev"][..], &["token", "list"], &["backup", "copy"]] {
        let ended = run(folders.command(command));
        assert!(ended.sentence(1).ends_with("run the same `oncehost restore` again"), "{ended:?}");
    }
    assert!(!folders.data().join("host.db").exists(), "the restore finds the folder as it left it");
}

#[test]
fn restore_that_fails_leaves_nothing_behind() {
    let folders = shop();
    drop(folders.dev());
    assert_eq!(run(folders.command(&["backup", "copy"])).code, Some(0));
    let beside = |name: &str| folders.data().with_file_name(name);
    let missing = run(folders.command(&["restore", "nowhere.tar", "--data", "new"]));
    assert_eq!(missing.code, Some(2), "{missing:?}");
    std::fs::write(beside("text.tar"), "this is no archive").unwrap();
    assert_eq!(run(folders.command(&["restore", "text.tar", "--data", "new"])).code, Some(1));
    std::fs::write(beside("copy").join("shop.db"), "changed").unwrap();
    let changed = run(folders.command(&["restore", "copy", "--data", "new"]));
    assert!(changed.sentence(1).contains("nothing was restored"), "{changed:?}");
    assert!(!beside("new").exists());
    std::fs::create_dir(beside("new")).unwrap();
    assert_eq!(run(folders.command(&["restore", "copy", "--data", "new"])).code, Some(1));
    assert_eq!(std::fs::read_dir(beside("new")).unwrap().count(), 0);
}
