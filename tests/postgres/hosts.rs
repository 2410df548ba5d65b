//! Hosts that share a database: together they keep what each promises alone.

use std::sync::Barrier;
use std::time::Duration;

use super::host;
use crate::support::host::{Answer, Host};
use crate::support::{long, postgres};

fn pair() -> [Host; 2] {
    let url = postgres::database();
    [host(&url, |_| {}), host(&url, |_| {})]
}

/// The same moment on both hosts, `callers` times on each; `call` gets the host and the caller's number.
fn at_once(hosts: &[Host; 2], callers: usize, call: impl Fn(&Host, usize) -> Answer + Sync) -> Vec<Answer> {
    let barrier = Barrier::new(2 * callers);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..2 * callers)
            .map(|number| {
                let (barrier, call, host) = (&barrier, &call, &hosts[number % 2]);
                scope.spawn(move || {
                    barrier.wait();
                    call(host, number)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn first_tries_of_one_key_on_two_hosts_run_once_and_replay() {
    let hosts = pair();
    for round in 0..long(20, 300) {
        let (key, body) = (format!("k{round}"), format!(r#"{{"code":"c{round}"}}"#));
        let answers = at_once(&hosts, 3, |host, _| host.post("shop", "add", &key, &body));
        assert!(answers.iter().all(|answer| answer.status == 200 && answer.body == answers[0].body), "{answers:?}");
        assert_eq!(answers.iter().filter(|answer| !answer.replayed).count(), 1);
    }
    let rounds = long(20, 300);
    for table in ["item", "_oncehost_keys", "_oncehost_events"] {
        assert_eq!(hosts[0].count("shop", table), rounds, "{table}");
    }
}

#[test]
fn other_input_under_a_key_that_runs_on_another_host_is_reused() {
    let hosts = pair();
    for round in 0..long(20, 300) {
        let key = format!("k{round}");
        let call = |host: &Host, number: usize| {
            host.post("shop", "add", &key, &format!(r#"{{"code":"{}-{round}"}}"#, number % 2))
        };
        let answers = at_once(&hosts, 1, call);
        let statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
        assert!(statuses == [200, 422] || statuses == [422, 200], "{answers:?}");
    }
    assert_eq!(hosts[1].count("shop", "item"), long(20, 300));
}

#[test]
fn looking_before_writing_claims_a_name_once_whatever_host_looks() {
    let hosts = pair();
    for round in 0..long(20, 300) {
        let body = format!(r#"{{"name":"n{round}"}}"#);
        let call = |host: &Host, number: usize| host.post("shop", "claim", &format!("{round}-{number}"), &body);
        let answers = at_once(&hosts, 2, call);
        let claimed = answers.iter().filter(|answer| answer.status == 200 && answer.data()["claimed"] == true).count();
        assert_eq!(claimed, 1, "{answers:?}");
    }
    assert_eq!(hosts[0].count("shop", "loose"), long(20, 300));
}

#[test]
fn sums_from_two_hosts_lose_nothing() {
    let hosts = pair();
    hosts[0].post("shop", "add", "k", r#"{"code":"a"}"#).data();
    let rounds = long(10, 100);
    for round in 0..rounds {
        let call =
            |host: &Host, number: usize| host.post("shop", "raise", &format!("{round}-{number}"), r#"{"code":"a"}"#);
        for answer in at_once(&hosts, 4, call) {
            assert_eq!(answer.data()["affected"], 1);
        }
    }
    assert_eq!(hosts[1].rows("shop", "SELECT n FROM item")[0][0], rounds * 8);
}

#[test]
fn a_try_that_another_host_still_runs_is_waited_for_up_to_the_limit() {
    let url = postgres::database();
    let slow = host(&url, |settings| settings.handler_time = Duration::from_secs(3));
    let quick = host(&url, |settings| settings.key_wait = Duration::from_millis(50));
    let body = r#"{"code":"a"}"#;
    std::thread::scope(|scope| {
        let spins = scope.spawn(|| slow.post("shop", "spin", "k", body));
        // Until the slow host has the key's lock.
        let held = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1 AND database = \
                    (SELECT oid FROM pg_database WHERE datname = current_database())";
        while slow.rows("shop", held)[0][0] == 0 {
            std::thread::yield_now();
        }
        let answer = quick.post("shop", "spin", "k", body);
        assert_eq!((answer.status, answer.error().as_str()), (409, "KEY_IN_PROGRESS"), "{}", answer.body);
        assert!(answer.retry_after.is_some());
        assert_eq!(spins.join().unwrap().error(), "LIMIT");
    });
    // The first one failed, and so its key is free.
    assert_eq!(quick.post("shop", "quiet", "k", body).data()["created"], true);
}

#[test]
fn a_failed_call_leaves_the_transaction_usable() {
    let host = host(&postgres::database(), |_| {});
    let answer = host.post("shop", "forgive", "k", r#"{"code":"a"}"#);
    assert_eq!(answer.data()["second"], "DUPLICATE");
    assert_eq!(answer.data()["third"], true);
    assert_eq!(host.rows("shop", "SELECT code FROM item ORDER BY code"), [["a"], ["a?"]]);
}

#[test]
fn event_whose_key_was_published_before_is_already_there_whoever_publishes_it() {
    let hosts = pair();
    for round in 0..3 {
        let body = format!(r#"{{"code":"c{round}"}}"#);
        let told = |host: &Host, key: &str| host.post("shop", "tell", key, &body).data()["already"].clone();
        assert_eq!(told(&hosts[0], &format!("{round}-a")), false);
        // Each runs into it at first, and then looks before it publishes.
        assert_eq!(told(&hosts[1], &format!("{round}-b")), true);
        assert_eq!(told(&hosts[1], &format!("{round}-c")), true);
    }
    assert_eq!(hosts[0].count("shop", "_oncehost_events"), 3);
}

#[test]
fn tables_that_two_hosts_apply_at_once_are_applied_once() {
    let url = postgres::database();
    std::thread::scope(|scope| {
        let hosts: Vec<_> = (0..3).map(|_| scope.spawn(|| host(&url, |_| {}))).collect();
        let hosts: Vec<Host> = hosts.into_iter().map(|host| host.join().unwrap()).collect();
        assert_eq!(hosts[0].rows("shop", "SELECT version FROM _oncehost_schema"), [[1]]);
        assert_eq!(hosts[2].post("shop", "add", "k", r#"{"code":"a"}"#).data()["created"], true);
    });
}

#[test]
fn tokens_made_and_revoked_on_one_host_count_on_the_other() {
    use oncehost::auth::token::NewToken;
    use oncehost::clock::ManualClock;
    use oncehost::ids::SystemIds;
    let hosts = pair();
    let new = NewToken {
        tenant: "acme".to_owned(),
        subject: "ann".to_owned(),
        scopes: vec!["operator".to_owned()],
        expires: None,
    };
    let clock = ManualClock::at(crate::support::host::START);
    let (_, row) = hosts[0].app.auth.tokens.create(new, &clock, &SystemIds::default()).unwrap();
    hosts[1].app.auth.tokens.refresh().unwrap();
    assert!(hosts[1].app.auth.tokens.any(crate::support::host::START));
    hosts[1].app.auth.tokens.revoke(&row.id, &clock).unwrap();
    hosts[0].app.auth.tokens.refresh().unwrap();
    assert!(!hosts[0].app.auth.tokens.any(crate::support::host::START));
}
