//! A proxy between host and database cuts, delays and keeps silent; the database is slow, full, or takes no writes. Nobody
//! hears a yes that is not kept, nothing happens twice, and the host comes back by itself.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::host;
use super::proxy::{From, KEYED, Mode, Proxy};
use crate::support::host::{Answer, Host};
use crate::support::long;
use crate::support::postgres::{self, Cluster};

fn behind_proxy(change: impl FnOnce(&mut oncehost::config::Settings)) -> (Proxy, Host) {
    let direct = postgres::database();
    let proxy = Proxy::new(&postgres::cluster().folder);
    let host = host(&proxy.url(&direct), change);
    (proxy, host)
}

/// Whether a call got the answer of a database that is away for a while.
fn is_away(answer: &Answer) -> bool {
    answer.status == 503 && answer.error() == "UNAVAILABLE" && answer.retry_after.is_some()
}

/// What calls without a key begin with.
const BEGIN: &str = "BEGIN ISOLATION LEVEL SERIALIZABLE";

#[test]
fn keyed_call_cut_at_any_message_takes_effect_once_and_is_answered() {
    let (proxy, host) = behind_proxy(|_| {});
    let mut calls = 0;
    for side in [From::Host, From::Database] {
        let mut number = 0;
        loop {
            number += 1;
            host.post("shop", "add", &format!("warm-{calls}"), &format!(r#"{{"code":"warm-{calls}"}}"#)).data();
            let (key, body) = (format!("k{calls}"), format!(r#"{{"code":"c{calls}"}}"#));
            proxy.cut_at(side, number, KEYED);
            let answer = host.post("shop", "add", &key, &body);
            let cut = proxy.has_cut();
            calls += 1;
            assert_eq!(answer.data()["created"], true, "{side:?} {number}");
            let again = host.post("shop", "add", &key, &body);
            assert!(again.replayed && again.body == answer.body, "{side:?} {number}: {again:?}");
            if !cut {
                break;
            }
        }
        assert!(number > 12, "{number} messages from {side:?} are not all of a call");
    }
    for table in ["item", "_oncehost_keys", "_oncehost_events"] {
        assert_eq!(host.count("shop", table), calls * 2, "{table}");
    }
}

#[test]
fn keyless_call_cut_at_any_message_never_takes_effect_twice() {
    let (proxy, host) = behind_proxy(|_| {});
    let mut unknown = 0;
    for side in [From::Host, From::Database] {
        let mut number = 0;
        loop {
            number += 1;
            let name = format!("{side:?}-{number}");
            proxy.cut_at(side, number, BEGIN);
            let answer = host.read("shop", "claim", &format!(r#"{{"name":"{name}"}}"#));
            let cut = proxy.has_cut();
            let rows = host.rows("shop", &format!("SELECT count(*) FROM loose WHERE name = '{name}'"))[0][0].clone();
            if answer.status == 200 {
                assert_eq!((&answer.data()["claimed"], rows), (&true.into(), 1.into()), "{name}");
            } else {
                unknown += 1;
                assert!(is_away(&answer) && answer.body.contains("unknown"), "{name}: {}", answer.body);
                assert!(rows == 0 || rows == 1, "{name}: {rows}");
            }
            if !cut {
                break;
            }
        }
        assert!(number > 6, "{number} messages from {side:?} are not all of a call");
    }
    assert!(unknown > 0, "some were cut in the middle of a COMMIT");
}

#[test]
fn new_row_takes_two_turns() {
    let (proxy, host) = behind_proxy(|_| {});
    // Statements are prepared by then, on each connection that is used by turns.
    for action in ["add", "tell"] {
        let call = |number: usize| {
            host.post("shop", action, &format!("{action}{number}"), &format!(r#"{{"code":"{action}{number}"}}"#))
                .data();
        };
        (0..60).for_each(call);
        proxy.set(Mode::Turns(Duration::from_millis(60)));
        (60..65).for_each(call);
        // A connection that is new, or has not seen these statements, takes more.
        let turns = proxy.turns();
        assert!(turns.len() >= 5, "{turns:?}");
        assert_eq!(turns.iter().min(), Some(&2), "{action}: {turns:?}");
        proxy.set(Mode::Pass);
    }
}

#[test]
fn delays_lose_and_double_nothing() {
    let direct = postgres::database();
    let proxy = Proxy::new(&postgres::cluster().folder);
    let hosts = [host(&proxy.url(&direct), |_| {}), host(&direct, |_| {})];
    proxy.set(Mode::Delay(Duration::from_millis(15)));
    for round in 0..long(8, 100) {
        let (key, body) = (format!("k{round}"), format!(r#"{{"code":"c{round}"}}"#));
        let answers: Vec<Answer> = std::thread::scope(|scope| {
            let calls: Vec<_> =
                hosts.iter().map(|host| scope.spawn(|| host.post("shop", "add", &key, &body))).collect();
            calls.into_iter().map(|call| call.join().unwrap()).collect()
        });
        assert!(answers.iter().all(|answer| answer.status == 200 && answer.body == answers[0].body), "{answers:?}");
    }
    assert_eq!(hosts[1].count("shop", "item"), long(8, 100));
}

#[test]
fn silent_database_is_unavailable_until_it_speaks_again() {
    let (proxy, host) = behind_proxy(|settings| settings.store_timeout = Duration::from_millis(500));
    host.post("shop", "add", "warm", r#"{"code":"warm"}"#).data();
    proxy.set(Mode::Silent);
    let answer = host.post("shop", "add", "k", r#"{"code":"a"}"#);
    assert!(is_away(&answer), "{}", answer.body);
    while host.app.ready().is_ok() {
        std::thread::yield_now();
    }
    proxy.set(Mode::Pass);
    while host.app.ready().is_err() {
        std::thread::yield_now();
    }
    insist(&host, "k", r#"{"code":"a"}"#);
    assert!(host.post("shop", "add", "k", r#"{"code":"a"}"#).replayed);
    assert_eq!(host.count("shop", "item"), 2);
}

/// Calls until the answer is final, which must be a yes.
fn insist(host: &Host, key: &str, body: &str) {
    loop {
        let answer = host.post("shop", "add", key, body);
        match answer.status {
            200 => return,
            409 | 503 => assert!(answer.retry_after.is_some(), "{}", answer.body),
            other => panic!("{other}: {}", answer.body),
        }
    }
}

#[test]
fn database_that_keeps_a_write_waiting_is_unavailable() {
    let cluster = postgres::cluster();
    let url = postgres::database();
    let host = host(&url, |_| {});
    host.post("shop", "add", "warm", r#"{"code":"warm"}"#).data();
    let database = url.rsplit('/').next().unwrap().to_owned();
    std::thread::scope(|scope| {
        let locked = scope.spawn(move || {
            let hold = "BEGIN; LOCK TABLE shop.item IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(60)";
            cluster.psql(&database, hold)
        });
        let held = "SELECT count(*) FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND granted AND relation = \
                    'shop.item'::regclass";
        while host.rows("shop", held)[0][0] == 0 {
            std::thread::yield_now();
        }
        let answer = host.post("shop", "add", "k", r#"{"code":"a"}"#);
        assert!(is_away(&answer), "{}", answer.body);
        host.rows("shop", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(60)' AND pid <> pg_backend_pid()");
        assert!(!locked.join().unwrap().status.success());
    });
    insist(&host, "k", r#"{"code":"a"}"#);
}

#[test]
fn connections_that_are_ended_at_any_moment_double_nothing() {
    let url = postgres::database();
    let host = host(&url, |_| {});
    let calls = long(150, 3000);
    let (stop, next) = (AtomicBool::new(false), std::sync::atomic::AtomicUsize::new(0));
    let (stop, next, host) = (&stop, &next, &host);
    std::thread::scope(|scope| {
        let ends = scope.spawn(move || {
            let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() \
                       AND pid <> pg_backend_pid()";
            let mut ended = 0;
            while !stop.load(Ordering::SeqCst) {
                ended += host.rows("shop", end)[0][0].as_i64().unwrap();
            }
            ended
        });
        let callers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(move || {
                    loop {
                        let number = next.fetch_add(1, Ordering::SeqCst);
                        if number >= calls {
                            return;
                        }
                        // Without a key, so that nothing but the host's care keeps it from running twice.
                        let answer = host.read("shop", "put", &format!(r#"{{"name":"n{number}"}}"#));
                        assert!(answer.status == 200 || is_away(&answer), "{}", answer.body);
                    }
                })
            })
            .collect();
        callers.into_iter().for_each(|caller| caller.join().unwrap());
        stop.store(true, Ordering::SeqCst);
        assert!(ends.join().unwrap() > 0);
    });
    let twice = host.rows("shop", "SELECT name FROM loose GROUP BY name HAVING count(*) > 1");
    assert!(twice.is_empty(), "{twice:?}");
}

#[test]
fn database_that_takes_no_writes_is_left_until_it_does() {
    let cluster = Cluster::start(&["fsync=off"]);
    let url = cluster.database();
    let host = host(&url, |_| {});
    host.post("shop", "add", "warm", r#"{"code":"warm"}"#).data();
    let database = url.rsplit('/').next().unwrap();
    let set = |on: &str| {
        // As after a failover to one that only follows.
        let set = format!("ALTER DATABASE {database} SET default_transaction_read_only = {on}");
        let end = format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{database}'");
        assert!(cluster.psql("postgres", &set).status.success());
        assert!(cluster.psql("postgres", &end).status.success());
    };
    set("on");
    let answer = host.post("shop", "add", "k", r#"{"code":"a"}"#);
    assert!(is_away(&answer), "{}", answer.body);
    while host.app.ready().is_ok() {
        std::thread::yield_now();
    }
    set("off");
    while host.app.ready().is_err() {
        std::thread::yield_now();
    }
    insist(&host, "k", r#"{"code":"a"}"#);
}

/// A cluster with a database on a disk of 24 MiB.
struct Small {
    cluster: Cluster,
    url: String,
    disk: std::path::PathBuf,
}

impl Small {
    fn new() -> Self {
        let cluster = Cluster::start(&["fsync=off"]);
        let disk = cluster.folder.join("small");
        std::fs::create_dir(&disk).unwrap();
        let run = |program: &str, args: &[&str]| {
            let done = std::process::Command::new(program).args(args).arg(&disk).status().unwrap();
            assert!(done.success(), "a full disk is made as root, in a container that may mount: {program} {args:?}");
        };
        run("mount", &["-t", "tmpfs", "-o", "size=24m", "tmpfs"]);
        run("chown", &["--reference", cluster.folder.join("data").to_str().unwrap()]);
        run("chmod", &["700"]);
        let space = format!("CREATE TABLESPACE small LOCATION '{}'", disk.display());
        for sql in [space.as_str(), "CREATE DATABASE small TABLESPACE small"] {
            let made = cluster.psql("postgres", sql);
            assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        }
        let url = cluster.url("small");
        Self { cluster, url, disk }
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").args(["-l"]).arg(&self.disk).status();
    }
}

#[test]
fn full_database_is_unavailable_until_there_is_room() {
    let small = Small::new();
    let host = host(&small.url, |_| {});
    host.post("shop", "add", "warm", r#"{"code":"warm"}"#).data();
    let fill = "CREATE TABLE IF NOT EXISTS filler (x TEXT); ALTER TABLE filler ALTER x SET STORAGE PLAIN; \
                INSERT INTO filler SELECT repeat('x', 7000) FROM generate_series(1, 200)";
    let mut refused = 0;
    let mut number = 0;
    // Pages that are begun take small rows for a while.
    while refused < 3 {
        small.cluster.psql("small", fill);
        number += 1;
        let answer =
            host.post("shop", "fill", &format!("k{number}"), &format!(r#"{{"code":"c{number}","bytes":4000}}"#));
        if answer.status != 200 {
            assert!(is_away(&answer) && answer.body.contains("full"), "{}", answer.body);
            assert!(host.app.ready().is_err(), "it is not ready while its database is full");
            refused += 1;
        }
    }
    let freed = small.cluster.psql("small", "DROP TABLE filler");
    assert!(freed.status.success(), "{}", String::from_utf8_lossy(&freed.stderr));
    let body = format!(r#"{{"code":"c{number}","bytes":4000}}"#);
    assert_eq!(host.post("shop", "fill", &format!("k{number}"), &body).data(), true);
    assert!(host.post("shop", "fill", &format!("k{number}"), &body).replayed);
    while host.app.ready().is_err() {
        std::thread::yield_now();
    }
}
