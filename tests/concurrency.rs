//! Many callers at once.

use std::collections::HashSet;
use std::sync::Barrier;

use crate::support::host::{Answer, Host};
use crate::support::shop::{host, hosts};

/// `callers` threads that begin together; `call` gets each one's number.
fn at_once(callers: usize, call: impl Fn(usize) -> Answer + Sync) -> Vec<Answer> {
    let barrier = Barrier::new(callers);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..callers)
            .map(|number| {
                let (barrier, call) = (&barrier, &call);
                scope.spawn(move || {
                    barrier.wait();
                    call(number)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn callers_with_one_key_share_one_run_and_one_reply() {
    for host in hosts() {
        let answers = at_once(64, |_| host.post("shop", "add", "k", r#"{"code":"a"}"#));
        let bodies: HashSet<_> = answers.iter().map(|answer| answer.body.as_str()).collect();
        assert_eq!(bodies.len(), 1, "{bodies:?}");
        assert_eq!(answers.iter().filter(|answer| !answer.replayed).count(), 1);
        assert!(answers.iter().all(|answer| answer.status == 200));
        assert_eq!((host.count("shop", "item"), host.count("shop", "_oncehost_events")), (1, 1));
    }
}

#[test]
fn keys_with_one_fact_create_one_row() {
    for host in hosts() {
        let answers = at_once(64, |number| host.post("shop", "add", &format!("k{number}"), r#"{"code":"a"}"#));
        assert_eq!(answers.iter().filter(|answer| answer.data()["created"] == true).count(), 1);
        let ids: HashSet<_> = answers.iter().map(|answer| answer.data()["id"].to_string()).collect();
        assert_eq!((ids.len(), host.count("shop", "item")), (1, 1));
    }
}

#[test]
fn racing_updates_from_one_state_affect_one() {
    for host in hosts() {
        host.post("shop", "add", "k", r#"{"code":"a"}"#).data();
        let body = r#"{"code":"a","from":"new","to":"done"}"#;
        let answers = at_once(50, |number| host.post("shop", "advance", &format!("k{number}"), body));
        let affected: Vec<_> = answers.iter().map(|answer| answer.data()["affected"].as_i64().unwrap()).collect();
        assert_eq!(affected.iter().sum::<i64>(), 1, "{affected:?}");
    }
}

#[test]
fn other_input_under_a_key_in_flight_never_gets_the_first_ones_reply() {
    for host in hosts() {
        for round in 0..20 {
            let key = format!("k{round}");
            let answers = at_once(8, |number| {
                let code = if number % 2 == 0 { "even" } else { "odd" };
                host.post("shop", "add", &key, &format!(r#"{{"code":"{code}{round}"}}"#))
            });
            let (won, reused): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status == 200);
            assert_eq!((won.len(), reused.len()), (4, 4));
            assert!(reused.iter().all(|answer| answer.error() == "KEY_REUSED"));
            let bodies: HashSet<_> = won.iter().map(|answer| answer.body.as_str()).collect();
            assert_eq!(bodies.len(), 1);
        }
        assert_eq!(host.count("shop", "item"), 20);
    }
}

#[test]
fn read_that_begins_after_a_reply_sees_what_it_wrote() {
    for host in hosts() {
        let _ = at_once(8, |number| {
            for round in 0..25 {
                let code = format!("c{number}-{round}");
                host.post("shop", "add", &code, &format!(r#"{{"code":"{code}"}}"#)).data();
                let read = host.read("shop", "get", &format!(r#"{{"code":"{code}"}}"#));
                assert_eq!(read.data()["found"], code.as_str());
            }
            host.read("shop", "get", r#"{"code":"none"}"#)
        });
    }
}

/// Calls that fail before and after they wrote, among others that do well; all are told apart by `round`.
fn mixed(host: &Host, round: u32) -> Vec<Answer> {
    at_once(48, |number| {
        let key = format!("k{round}-{number}");
        match number % 4 {
            0 => host.post("shop", "fail-late", &key, &format!(r#"{{"code":"f{key}","fail":true}}"#)),
            1 => host.post("shop", "refuse", &key, &format!(r#"{{"code":"r{key}"}}"#)),
            _ => host.post("shop", "add", &key, &format!(r#"{{"code":"a{key}"}}"#)),
        }
    })
}

#[test]
fn neighbours_of_a_failing_call_commit() {
    for host in hosts() {
        let answers = mixed(&host, 0);
        assert_eq!(answers.iter().filter(|answer| answer.status == 200).count(), 24);
        assert_eq!(host.count("shop", "item"), 24);
        assert_eq!(host.count("shop", "_oncehost_keys"), 24);
        assert_eq!(host.count("shop", "_oncehost_workflows"), 0);
    }
}

#[test]
fn neighbours_of_a_failing_call_commit_also_after_a_long_calm() {
    let host = host();
    // One after the other: as many transactions.
    for number in 0..300 {
        host.post("shop", "add", &format!("calm{number}"), &format!(r#"{{"code":"calm{number}"}}"#)).data();
    }
    for round in 0..3 {
        let answers = mixed(&host, round);
        assert_eq!(answers.iter().filter(|answer| answer.status == 200).count(), 24);
        let kept = i64::from(300 + (round + 1) * 24);
        assert_eq!(host.count("shop", "item"), kept);
        assert_eq!(host.count("shop", "_oncehost_keys"), kept);
        assert_eq!(host.count("shop", "_oncehost_workflows"), 0);
    }
}
