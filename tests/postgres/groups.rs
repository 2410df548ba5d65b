//! Calls that come at the same time share a transaction, and succeed or fail each for itself.

use std::sync::Barrier;

use oncehost::config::Store;
use serde_json::{Value as Json, json};

use crate::support::host::{Answer, Host};
use crate::support::postgres;
use crate::support::scenario::files;

const CROWD: &str = r#"
//- /crowd/plugin.json
{ "id": "crowd", "version": "1.0.0", "permissions": ["data:read", "data:write", "notify:publish"] }
//- /crowd/schema.sql
CREATE TABLE thing (id TEXT PRIMARY KEY, code TEXT NOT NULL UNIQUE, size INTEGER CHECK (size > 0));
//- /crowd/handlers/put.ts
export function handle(input: { code: string, size?: number, then?: string }) {
  if (input.then === 'refuse') throw new BizError('NO', 'before anything is written', { status: 409 })
  const made = store.createIfAbsent('thing', { code: input.code, size: input.size }, ['code'])
  if (!made.ok) throw made.error
  if (input.then === 'claim') {
    if (!made.data.created) return { created: false }
    throw new BizError('CLAIMED', 'it was new', { status: 409 })
  }
  if (input.then === 'throw') throw new BizError('LATE', 'after it was written', { status: 409 })
  if (input.then === 'delete') {
    const gone = store.delete('thing', { code: { eq: input.code } })
    if (!gone.ok) throw gone.error
    throw new BizError('LATER', 'after it was deleted again', { status: 409 })
  }
  const sent = notify.publish('put', { code: input.code }, { eventKey: input.code })
  if (!sent.ok) throw sent.error
  return { created: made.data.created }
}
//- /crowd/handlers/first.ts
// Only transactions that are serializable let one of many be the first.
export function handle(input: { code: string }, ctx: any) {
  const seen = store.count('thing', { code: { startsWith: input.code } })
  if (!seen.ok) throw seen.error
  if (seen.data.count > 0) return { first: false }
  const made = store.createIfAbsent('thing', { code: input.code + ctx.invocationId }, ['code'])
  if (!made.ok) throw made.error
  return { first: true }
}
"#;

const CALLS: usize = 48;

fn crowd(url: &str) -> Host {
    Host::with(files(CROWD), |settings| settings.store = Store::Postgres(url.to_owned()))
}

/// Makes calls that begin at the same time.
fn at_once(calls: usize, call: impl Fn(usize) -> Answer + Sync) -> Vec<Answer> {
    let start = Barrier::new(calls);
    std::thread::scope(|scope| {
        let begun = |number: usize| {
            let (start, call) = (&start, &call);
            scope.spawn(move || {
                start.wait();
                call(number)
            })
        };
        let all: Vec<_> = (0..calls).map(begun).collect();
        all.into_iter().map(|call| call.join().unwrap()).collect()
    })
}

fn told(answer: &Answer) -> Json {
    if answer.status == 200 { answer.data() } else { json!(answer.error()) }
}

#[test]
fn calls_that_come_at_once_share_commits() {
    let host = crowd(&postgres::database());
    for round in 0.. {
        let answers = at_once(CALLS, |number| {
            let code = format!("{round}-{number}");
            host.post("crowd", "put", &code, &json!({ "code": code }).to_string())
        });
        assert!(answers.iter().all(|answer| answer.data()["created"] == true));
        let (commits, invocations) = host.commits();
        if commits < invocations {
            break;
        }
        assert!(round < 50, "{commits} commits of {invocations} invocations");
    }
}

#[test]
fn call_that_fails_takes_nothing_of_its_neighbours_with_it() {
    let host = crowd(&postgres::database());
    let ends = [
        ("", json!({ "created": true })),
        ("refuse", json!("NO")),
        ("throw", json!("LATE")),
        ("delete", json!("LATER")),
    ];
    let body = |number: usize, then: &str| json!({ "code": format!("c{number}"), "then": then }).to_string();
    // Most succeed.
    let end = |number: usize| if number % 4 == 3 { &ends[1 + number / 4 % 3] } else { &ends[0] };
    let answers =
        at_once(CALLS, |number| host.post("crowd", "put", &format!("k{number}"), &body(number, end(number).0)));
    for (number, answer) in answers.iter().enumerate() {
        assert_eq!(told(answer), end(number).1, "{number}: {}", answer.body);
        let there = host.rows("crowd", &format!("SELECT count(*) FROM thing WHERE code = 'c{number}'"));
        let published =
            host.rows("crowd", &format!("SELECT count(*) FROM _oncehost_events WHERE event_key = 'c{number}'"));
        let expected = json!([[i64::from(answer.status == 200)]]);
        assert_eq!((json!(there), json!(published)), (expected.clone(), expected), "{number}");
    }
    // What failed can be tried again under its key, what succeeded is replayed.
    let again = at_once(CALLS, |number| host.post("crowd", "put", &format!("k{number}"), &body(number, end(number).0)));
    for (number, answer) in again.iter().enumerate() {
        assert_eq!((told(answer), answer.replayed), (end(number).1.clone(), answers[number].status == 200), "{number}");
    }
}

#[test]
fn failure_that_rests_on_a_row_being_new_is_told_only_where_it_is() {
    let host = crowd(&postgres::database());
    let call = |key: &str, code: &str, then: &str| {
        told(&host.post("crowd", "put", key, &json!({ "code": code, "then": then }).to_string()))
    };
    assert_eq!(call("k1", "there", ""), json!({ "created": true }));
    for round in 0..3 {
        assert_eq!(call(&format!("a{round}"), "there", "claim"), json!({ "created": false }));
        assert_eq!(call(&format!("b{round}"), "new", "claim"), json!("CLAIMED"));
    }
    let answers = at_once(CALLS, |number| {
        let code = if number % 2 == 0 { "there" } else { "new" };
        host.post("crowd", "put", &format!("c{number}"), &json!({ "code": code, "then": "claim" }).to_string())
    });
    for (number, answer) in answers.iter().enumerate() {
        let expected = if number % 2 == 0 { json!({ "created": false }) } else { json!("CLAIMED") };
        assert_eq!(told(answer), expected, "{number}: {}", answer.body);
    }
    assert_eq!(host.count("crowd", "thing"), 1);
}

#[test]
fn rows_that_are_there_already_are_given_to_each_that_asks() {
    let host = crowd(&postgres::database());
    let answers = at_once(CALLS, |number| {
        let code = format!("c{}", number % 5);
        host.post("crowd", "put", &format!("k{number}"), &json!({ "code": code }).to_string())
    });
    let created = answers.iter().filter(|answer| answer.data()["created"] == true).count();
    assert_eq!((created, host.count("crowd", "thing"), host.count("crowd", "_oncehost_events")), (5, 5, 5));
}

#[test]
fn row_that_breaks_a_constraint_fails_its_own_call_only() {
    let host = crowd(&postgres::database());
    let answers = at_once(CALLS, |number| {
        let size = if number % 6 == 0 { 0 } else { 1 };
        host.post(
            "crowd",
            "put",
            &format!("k{number}"),
            &json!({ "code": format!("c{number}"), "size": size }).to_string(),
        )
    });
    for (number, answer) in answers.iter().enumerate() {
        let expected = if number % 6 == 0 { json!("CONSTRAINT") } else { json!({ "created": true }) };
        assert_eq!(told(answer), expected, "{number}: {}", answer.body);
    }
    assert_eq!(host.count("crowd", "thing"), 40);
}

#[test]
fn one_of_many_that_look_before_they_write_is_the_first() {
    let url = postgres::database();
    let hosts = [crowd(&url), crowd(&url)];
    let answers = at_once(CALLS, |number| {
        let body = json!({ "code": format!("c{}-", number / 2 % 4) }).to_string();
        let key = format!("k{number}");
        let mut answer = hosts[number % 2].post("crowd", "first", &key, &body);
        // So many that run into each other may be told to come again.
        while answer.status == 503 {
            answer = hosts[number % 2].post("crowd", "first", &key, &body);
        }
        answer
    });
    assert_eq!(answers.iter().filter(|answer| answer.data()["first"] == true).count(), 4);
    assert_eq!(hosts[0].count("crowd", "thing"), 4);
}

#[test]
fn key_that_comes_to_two_hosts_at_once_runs_on_one() {
    let url = postgres::database();
    let hosts = [crowd(&url), crowd(&url)];
    for round in 0..4 {
        let answers = at_once(CALLS, |number| {
            let key = format!("{round}-{}", number / 2);
            hosts[number % 2].post("crowd", "put", &key, &json!({ "code": key }).to_string())
        });
        for pair in answers.chunks(2) {
            assert!(pair.iter().all(|answer| answer.status == 200 && answer.body == pair[0].body), "{pair:?}");
            assert_eq!(pair.iter().filter(|answer| answer.replayed).count(), 1);
        }
    }
    assert_eq!(hosts[0].count("crowd", "thing"), 4 * 24);
}
