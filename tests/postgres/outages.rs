//! The database restarts, refuses, and loses connections: nobody hears a yes that is not kept, and the host comes back
//! by itself.

use std::collections::BTreeSet;

use super::host;
use super::proxy::{Cut, Proxy};
use crate::support::host::Host;
use crate::support::postgres::{self, Cluster};
use crate::support::{long, process};

impl Cluster {
    /// Ends the server without a word to its clients; the shell that watches starts it anew. Waits until it answers.
    pub fn crash(&self) {
        self.end(rustix::process::Signal::QUIT);
    }

    /// The same, in good order.
    pub fn restart(&self) {
        self.end(rustix::process::Signal::INT);
    }

    fn end(&self, signal: rustix::process::Signal) {
        let pid = std::fs::read_to_string(self.folder.join("data/postmaster.pid")).unwrap();
        let pid = rustix::process::Pid::from_raw(pid.lines().next().unwrap().parse().unwrap()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
        while rustix::process::test_kill_process(pid).is_ok() {
            std::thread::yield_now();
        }
        self.await_answer();
    }
}

/// Calls with this key until an answer that is final.
fn insist(host: &Host, key: &str) -> bool {
    let body = format!(r#"{{"code":"{key}"}}"#);
    loop {
        let answer = host.post("shop", "add", key, &body);
        match answer.status {
            200 => return answer.data()["created"] == true,
            503 => assert!(answer.retry_after.is_some(), "{}", answer.body),
            other => panic!("{other}: {}", answer.body),
        }
    }
}

#[test]
fn commit_whose_answer_is_lost_is_found_by_its_key_before_the_caller_hears() {
    let direct = postgres::database();
    let proxy = Proxy::new(&postgres::cluster().folder);
    let host = host(&proxy.url(&direct), |_| {});
    host.post("shop", "add", "warm", r#"{"code":"warm"}"#).data();
    for (round, how) in [Cut::After, Cut::Before, Cut::After, Cut::Before].into_iter().enumerate() {
        // No id or hash that another transaction sends has such a text in it.
        let (key, code) = (format!("k{round}"), format!("round-{round}"));
        let body = format!(r#"{{"code":"{code}"}}"#);
        proxy.cut(how, &code);
        let answer = host.post("shop", "add", &key, &body);
        assert!(proxy.has_cut());
        assert_eq!(answer.data()["created"], true, "round {round}");
        // Where it had committed, the answer is the record's.
        assert_eq!(answer.replayed, how == Cut::After, "round {round}");
        assert!(host.post("shop", "add", &key, &body).replayed);
    }
    for table in ["item", "_oncehost_keys", "_oncehost_events"] {
        assert_eq!(host.count("shop", table), 5, "{table}");
    }
}

#[test]
fn commit_without_a_key_whose_answer_is_lost_is_told_as_unknown_and_not_run_again() {
    let direct = postgres::database();
    let proxy = Proxy::new(&postgres::cluster().folder);
    let host = host(&proxy.url(&direct), |_| {});
    host.post("shop", "add", "warm", r#"{"code":"warm"}"#).data();
    for how in [Cut::After, Cut::Before] {
        let name = format!("name-{how:?}");
        proxy.cut(how, &name);
        let answer = host.read("shop", "claim", &format!(r#"{{"name":"{name}"}}"#));
        assert_eq!((answer.status, answer.error().as_str()), (503, "UNAVAILABLE"), "{}", answer.body);
        assert!(answer.json()["detail"].as_str().unwrap().contains("unknown"), "{}", answer.body);
    }
    assert_eq!(host.rows("shop", "SELECT name FROM loose"), [["name-After"]]);
}

#[test]
fn restarts_of_the_database_lose_and_double_nothing() {
    // This one waits for the disk, as a real one does.
    let cluster = Cluster::start(&[]);
    let url = cluster.database();
    let hosts = [host(&url, |_| {}), host(&url, |_| {})];
    let (restarts, callers) = (long(2, 8), 4);
    let stop = std::sync::atomic::AtomicBool::new(false);
    let done: Vec<BTreeSet<String>> = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..callers)
            .map(|caller| {
                let (host, stop) = (&hosts[caller % 2], &stop);
                scope.spawn(move || {
                    let mut done = BTreeSet::new();
                    for number in 0.. {
                        if stop.load(std::sync::atomic::Ordering::SeqCst) {
                            return done;
                        }
                        let key = format!("{caller}-{number}");
                        assert!(insist(host, &key), "{key} is its own first");
                        done.insert(key);
                    }
                    done
                })
            })
            .collect();
        for _ in 0..restarts {
            let before = hosts[0].count("shop", "item");
            while hosts[0].count("shop", "item") < before + 20 {
                std::thread::yield_now();
            }
            cluster.crash();
        }
        stop.store(true, std::sync::atomic::Ordering::SeqCst);
        callers.into_iter().map(|caller| caller.join().unwrap()).collect()
    });
    let acknowledged: BTreeSet<String> = done.into_iter().flatten().collect();
    let rows = hosts[1].rows("shop", "SELECT code FROM item");
    let there: BTreeSet<String> = rows.iter().map(|row| row[0].as_str().unwrap().to_owned()).collect();
    assert_eq!(there.len(), rows.len(), "nothing twice");
    assert_eq!(there, acknowledged);
    assert_eq!(hosts[1].count("shop", "_oncehost_keys"), hosts[1].count("shop", "_oncehost_events"));
}

#[test]
fn host_without_its_database_is_not_ready_and_comes_back_by_itself() {
    let cluster = Cluster::start(&["fsync=off"]);
    let host = host(&cluster.database(), |_| {});
    host.post("shop", "add", "k", r#"{"code":"a"}"#).data();
    // Nobody gets in any more, and nobody stays.
    let shut = "ALTER DATABASE t0 ALLOW_CONNECTIONS false";
    let name = |sql: &str| {
        let database = host.app.settings.store.clone();
        let oncehost::config::Store::Postgres(url) = database else { panic!() };
        sql.replace("t0", url.rsplit('/').next().unwrap())
    };
    assert!(cluster.psql("postgres", &name(shut)).status.success());
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 't0'";
    assert!(cluster.psql("postgres", &name(end)).status.success());
    let answer = host.post("shop", "add", "k2", r#"{"code":"b"}"#);
    assert_eq!((answer.status, answer.error().as_str()), (503, "UNAVAILABLE"), "{}", answer.body);
    assert!(answer.retry_after.is_some());
    while host.app.ready().is_ok() {
        std::thread::yield_now();
    }
    assert!(cluster.psql("postgres", &name("ALTER DATABASE t0 ALLOW_CONNECTIONS true")).status.success());
    while host.app.ready().is_err() {
        std::thread::yield_now();
    }
    assert!(insist(&host, "k2"));
    assert!(host.post("shop", "add", "k", r#"{"code":"a"}"#).replayed);
}

#[test]
fn host_does_not_start_without_its_database() {
    let folders = process::Folders::empty();
    std::fs::create_dir_all(folders.plugins()).unwrap();
    let mut command = folders.command(&["dev", "--store", "postgres://nobody:secret@127.0.0.1:1/none"]);
    let output = command.output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("database cannot be reached") && !told.contains("secret"), "{told}");
}
