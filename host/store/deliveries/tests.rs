use std::time::Duration;

use super::*;
use crate::store::{Access, Database, Tx, postgres};
use crate::test_postgres;

const NOW: Millis = 1_000_000;
/// When what was claimed at `NOW` is lost, on each database.
const LATE: Millis = NOW + 10;
const SUBSCRIPTION: &str = "t events/h";

struct Book {
    folder: tempfile::TempDir,
    tx: Tx,
}

/// One on each database.
fn books() -> [Book; 2] {
    let limits =
        postgres::Limits { connections: 4, lock_wait: Duration::from_secs(5), answer: Duration::from_secs(30) };
    let server = postgres::Server::new(&test_postgres::database(), limits).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = Database::Sqlite(folder.path().join("p.db"));
    [(file, folder), (Database::Postgres(server, "p".to_owned()), tempfile::tempdir().unwrap())]
        .map(|(database, folder)| Book { folder, tx: database.open(Access::Write).unwrap().begin().unwrap() })
}

impl Book {
    /// Whether other hosts may work on the same data, so that a claim of another owner stands until its lease ends.
    fn is_shared(&self) -> bool {
        !self.folder.path().join("p.db").exists()
    }

    fn add(&self, event_id: &str, order_key: Option<&str>) -> bool {
        self.add_of("acme", event_id, order_key)
    }

    fn add_of(&self, tenant: &str, event_id: &str, order_key: Option<&str>) -> bool {
        let text = |text: &str| text.to_owned();
        let new = NewDelivery {
            event_id: text(event_id),
            subscription: text(SUBSCRIPTION),
            operation: text("p/event:h"),
            handler: text("h"),
            tenant: text(tenant),
            source: text("s"),
            sender_id: text(event_id),
            event_type: text("t"),
            subject: None,
            event: text("{}"),
            order_key: order_key.map(text),
        };
        add(&self.tx, &new, NOW).unwrap()
    }

    fn claim(&self, owner: &str, limit: usize) -> Vec<Hold> {
        let (claimed, _) = claim(&self.tx, wanted(owner, limit, "", true), NOW).unwrap();
        let hold = |it: Claimed| Hold { id: it.id, owner: owner.to_owned(), attempt: it.attempt, in_turn: it.in_turn };
        claimed.into_iter().map(hold).collect()
    }

    fn states(&self) -> Vec<String> {
        list(&self.tx, &Selected::default(), 0, 100).unwrap().into_iter().map(|it| it.state).collect()
    }
}

fn wanted<'a>(owner: &'a str, limit: usize, last: &'a str, first: bool) -> Wanted<'a> {
    Wanted { subscription: SUBSCRIPTION, limit, last, first, owner, lease_until: NOW + 10 }
}

#[test]
fn delivery_is_there_once_for_each_event_and_subscription() {
    for book in books() {
        assert!(book.add("a", None) && book.add("b", None));
        assert!(!book.add("a", None));
        assert_eq!(book.states(), ["waiting", "waiting"]);
    }
}

#[test]
fn claim_counts_the_try_and_gives_no_delivery_to_two() {
    for book in books() {
        book.add("a", None);
        book.add("b", None);
        let first = book.claim("x", 1);
        assert_eq!((first.len(), first[0].attempt), (1, 1));
        assert_eq!(book.claim("y", 5).len(), 1);
        assert_eq!(book.claim("z", 5).len(), 0);
        assert_eq!(list(&book.tx, &Selected::default(), 0, 9).unwrap()[0].attempts, 1);
    }
}

#[test]
fn who_lost_a_delivery_changes_nothing_of_it() {
    for book in books() {
        book.add("a", None);
        let slow = book.claim("x", 1).remove(0);
        let lost = lost(&book.tx, "y", LATE).unwrap();
        recover(&book.tx, &lost[0], "gone", Next::Again(NOW), NOW).unwrap();
        let quick = book.claim("y", 1).remove(0);
        assert_eq!(quick.attempt, 2);
        assert!(!is_held(&book.tx, &slow).unwrap());
        assert!(!done(&book.tx, &slow, NOW).unwrap());
        assert!(!failed(&book.tx, &slow, ("late", None), Next::Dead, NOW).unwrap());
        // The same owner, in an earlier try.
        assert!(!done(&book.tx, &Hold { attempt: 1, ..quick.clone() }, NOW).unwrap());
        assert!(done(&book.tx, &quick, NOW).unwrap());
        assert_eq!(book.states(), ["done"]);
    }
}

#[test]
fn lost_are_those_of_others_and_those_whose_lease_ran_out() {
    for book in books() {
        book.add("a", None);
        let hold = book.claim("x", 1).remove(0);
        let count = |owner: &str, now: Millis| lost(&book.tx, owner, now).unwrap().len();
        let of_another = usize::from(!book.is_shared());
        assert_eq!((count("x", NOW), count("y", NOW), count("x", NOW + 10)), (0, of_another, 1));
        extend(&book.tx, std::slice::from_ref(&hold), NOW + 20).unwrap();
        assert_eq!(count("x", NOW + 10), 0);
    }
}

#[test]
fn delivery_that_lost_its_host_is_claimed_alone() {
    for book in books() {
        for event in ["a", "b", "c"] {
            book.add(event, None);
        }
        let held = book.claim("x", 2);
        for lost in lost(&book.tx, "y", LATE).unwrap() {
            recover(&book.tx, &lost, "gone", Next::Again(NOW), NOW).unwrap();
        }
        assert_eq!(book.claim("y", 5).len(), 1);
        let (more, alone) = claim(&book.tx, wanted("y", 5, "", false), NOW).unwrap();
        assert!(more.is_empty() && alone, "not beside others");
        assert_eq!(held.len(), 2);
    }
}

#[test]
fn one_of_each_turn_goes_at_a_time_in_the_order_of_coming() {
    for book in books() {
        for (event, key) in [("a1", "a"), ("a2", "a"), ("b1", "b"), ("a3", "a")] {
            book.add(event, Some(key));
        }
        assert_eq!(book.states(), ["waiting", "behind", "waiting", "behind"]);
        let held = book.claim("x", 9);
        assert_eq!(held.len(), 2);
        assert!(failed(&book.tx, &held[0], ("again", None), Next::Again(NOW + 5), NOW).unwrap());
        assert_eq!(book.states(), ["waiting", "behind", "running", "behind"], "its turn is not over");
        assert_eq!(discard(&book.tx, &[held[0].id], NOW).unwrap(), 1);
        assert_eq!(book.states(), ["discarded", "waiting", "running", "behind"]);
        // A dead one that comes back has lost its place.
        assert_eq!(replay(&book.tx, &[(held[0].id, NOW)]).unwrap(), 1);
        assert_eq!(book.states(), ["behind", "waiting", "running", "behind"]);
    }
}

#[test]
fn replay_of_what_still_waits_keeps_its_place_in_the_turn() {
    for book in books() {
        for event in ["a1", "a2"] {
            book.add(event, Some("a"));
        }
        let ids: Vec<i64> = list(&book.tx, &Selected::default(), 0, 9).unwrap().iter().map(|it| it.id).collect();
        // Behind the other one each would wait for ever.
        assert_eq!(replay(&book.tx, &[(ids[0], NOW), (ids[1], NOW)]).unwrap(), 2);
        assert_eq!(book.states(), ["waiting", "behind"]);
    }
}

#[test]
fn line_in_which_nobody_goes_is_set_going_and_no_other() {
    for book in books() {
        for (event, key) in [("a1", "a"), ("a2", "a"), ("a3", "a"), ("b1", "b"), ("b2", "b"), ("c1", "c"), ("c2", "c")]
        {
            book.add(event, Some(key));
        }
        let held = book.claim("x", 9);
        let [first, second, third] = [0, 1, 2].map(|at| held[at].clone());
        // The first of `a` ends without the next one, as it did where the two did not see each other; `b` fails for now.
        assert!(done(&book.tx, &Hold { in_turn: false, ..first }, NOW).unwrap());
        assert!(failed(&book.tx, &second, ("again", None), Next::Again(NOW + 5), NOW).unwrap());
        assert!(is_held(&book.tx, &third).unwrap());
        assert_eq!(book.states(), ["done", "behind", "behind", "waiting", "behind", "running", "behind"]);
        assert_eq!(move_on(&book.tx).unwrap(), 1);
        assert_eq!(book.states(), ["done", "waiting", "behind", "waiting", "behind", "running", "behind"]);
        assert_eq!(move_on(&book.tx).unwrap(), 0);
    }
}

#[test]
fn running_are_counted_whoever_has_claimed_them() {
    for book in books() {
        for event in ["a", "b", "c"] {
            book.add(event, None);
        }
        book.claim("x", 1);
        let held = book.claim("y", 1).remove(0);
        assert_eq!(running(&book.tx, SUBSCRIPTION).unwrap(), 2);
        assert_eq!(running(&book.tx, "t events/other").unwrap(), 0);
        done(&book.tx, &held, NOW).unwrap();
        assert_eq!(running(&book.tx, SUBSCRIPTION).unwrap(), 1);
    }
}

#[test]
fn tenants_have_turns_however_long_the_line_of_one_is() {
    for book in books() {
        for number in 0..20 {
            book.add_of("busy", &format!("b{number}"), None);
        }
        for tenant in ["acme", "zeta"] {
            book.add_of(tenant, tenant, None);
        }
        let tenants = |limit, last: &str| -> Vec<String> {
            let (claimed, _) = claim(&book.tx, wanted("x", limit, last, true), NOW).unwrap();
            claimed.into_iter().map(|it| it.tenant).collect()
        };
        assert_eq!(tenants(4, ""), ["acme", "busy", "zeta", "busy"]);
        assert_eq!(tenants(2, "zeta"), ["busy", "busy"], "behind the last it begins anew");
        book.add_of("zeta", "z2", None);
        assert_eq!(tenants(1, ""), ["busy"]);
        assert_eq!(tenants(1, "busy"), ["zeta"]);
    }
}

#[test]
fn try_that_never_ran_is_not_counted() {
    for book in books() {
        book.add("a", None);
        let hold = book.claim("x", 1).remove(0);
        assert!(failed(&book.tx, &hold, ("no room", None), Next::Uncounted(NOW), NOW).unwrap());
        assert_eq!(book.claim("x", 1)[0].attempt, 1);
    }
}
