//! What holds for all work that is claimed, deliveries and steps alike, on both databases: one claims it, its lease shows
//! that he lives, and who has lost it changes nothing any more.

use std::collections::BTreeSet;
use std::time::Duration;

use super::deliveries::{self, Hold, NewDelivery, Next};
use super::steps::{self, New, Try};
use super::{Access, Database, Shared, StoreError, Stores, Tx, postgres};
use crate::clock::Millis;
use crate::test_postgres;

const NOW: Millis = 1_000_000;
const LEASE: Millis = 10_000;

/// A piece of claimed work: its number, and which try it is.
type Claim = (i64, u32);

/// One kind of work that is claimed.
trait Work {
    /// Makes as many pieces, due at `NOW`.
    fn make(tx: &Tx, pieces: i64) -> Result<(), StoreError>;
    /// Claims at most `most` pieces, as the loop over them does.
    fn claim(tx: &Tx, owner: &str, most: usize, now: Millis) -> Result<Vec<Claim>, StoreError>;
    fn renew(tx: &Tx, owner: &str, claim: Claim, now: Millis) -> Result<(), StoreError>;
    fn is_held(tx: &Tx, owner: &str, claim: Claim) -> Result<bool, StoreError>;
    /// Gives whether it counted.
    fn done(tx: &Tx, owner: &str, claim: Claim, now: Millis) -> Result<bool, StoreError>;
    fn failed(tx: &Tx, owner: &str, claim: Claim, now: Millis) -> Result<bool, StoreError>;
}

struct Deliveries;
struct Steps;

const SUBSCRIPTION: &str = "t events/h";

fn hold(owner: &str, (id, attempt): Claim) -> Hold {
    Hold { id, owner: owner.to_owned(), attempt, in_turn: false }
}

impl Work for Deliveries {
    fn make(tx: &Tx, pieces: i64) -> Result<(), StoreError> {
        for number in 0..pieces {
            let text = |text: &str| text.to_owned();
            let new = NewDelivery {
                event_id: number.to_string(),
                subscription: text(SUBSCRIPTION),
                operation: text("p/event:h"),
                handler: text("h"),
                tenant: text("acme"),
                source: text("s"),
                sender_id: number.to_string(),
                event_type: text("t"),
                subject: None,
                event: text("{}"),
                order_key: None,
            };
            assert!(deliveries::add(tx, &new, NOW)?);
        }
        Ok(())
    }

    fn claim(tx: &Tx, owner: &str, most: usize, now: Millis) -> Result<Vec<Claim>, StoreError> {
        for lost in deliveries::lost(tx, owner, now)? {
            deliveries::recover(tx, &lost, "gone", Next::Again(now), now)?;
        }
        let (claimed, _) = deliveries::claim(
            tx,
            deliveries::Wanted {
                subscription: SUBSCRIPTION,
                limit: most,
                last: "",
                first: true,
                owner,
                lease_until: now + LEASE,
            },
            now,
        )?;
        Ok(claimed.into_iter().map(|it| (it.id, it.attempt)).collect())
    }

    fn renew(tx: &Tx, owner: &str, claim: Claim, now: Millis) -> Result<(), StoreError> {
        deliveries::extend(tx, &[hold(owner, claim)], now + LEASE)
    }

    fn is_held(tx: &Tx, owner: &str, claim: Claim) -> Result<bool, StoreError> {
        deliveries::is_held(tx, &hold(owner, claim))
    }

    fn done(tx: &Tx, owner: &str, claim: Claim, now: Millis) -> Result<bool, StoreError> {
        deliveries::done(tx, &hold(owner, claim), now)
    }

    fn failed(tx: &Tx, owner: &str, claim: Claim, now: Millis) -> Result<bool, StoreError> {
        deliveries::failed(tx, &hold(owner, claim), ("late", None), Next::Dead, now)
    }
}

fn tried(owner: &str, (workflow, attempt): Claim) -> Try<'_> {
    Try { workflow, step: "one", owner, attempt }
}

impl Work for Steps {
    fn make(tx: &Tx, pieces: i64) -> Result<(), StoreError> {
        for workflow in 0..pieces {
            let new = New {
                workflow,
                tenant: "acme",
                step: "one",
                state: "ready",
                due: Some(NOW),
                owner: None,
                attempt: 0,
                event: None,
                result: None,
                error: None,
                ended: false,
            };
            steps::insert(tx, &new, NOW)?;
        }
        Ok(())
    }

    fn claim(tx: &Tx, owner: &str, most: usize, now: Millis) -> Result<Vec<Claim>, StoreError> {
        let mut claimed = Vec::new();
        for row in steps::due(tx, now, most)? {
            if steps::claim(tx, &row, owner, now + LEASE, now)? {
                claimed.push((row.workflow, row.attempt + 1));
            }
        }
        Ok(claimed)
    }

    fn renew(tx: &Tx, owner: &str, claim: Claim, now: Millis) -> Result<(), StoreError> {
        steps::renew(tx, tried(owner, claim), now + LEASE).map(drop)
    }

    fn is_held(tx: &Tx, owner: &str, claim: Claim) -> Result<bool, StoreError> {
        steps::is_claimed(tx, tried(owner, claim))
    }

    fn done(tx: &Tx, owner: &str, claim: Claim, now: Millis) -> Result<bool, StoreError> {
        steps::done(tx, tried(owner, claim), "null", now)
    }

    fn failed(tx: &Tx, owner: &str, claim: Claim, now: Millis) -> Result<bool, StoreError> {
        steps::failed(tx, tried(owner, claim), "failed", None, ("late", None), now)
    }
}

/// A database with some pieces of work, on SQLite and on Postgres.
fn with<W: Work>(pieces: i64, test: impl Fn(&Database)) {
    let folder = tempfile::tempdir().unwrap();
    let limits =
        postgres::Limits { connections: 16, lock_wait: Duration::from_secs(5), answer: Duration::from_secs(30) };
    let server = postgres::Server::new(&test_postgres::database(), limits).unwrap();
    for stores in [Stores::files(folder.path().to_owned()), Stores::server(server)] {
        let database = stores.plugin("p");
        open(&database).transact(|tx| W::make(tx, pieces)).unwrap();
        test(&database);
    }
}

fn open(database: &Database) -> Shared {
    database.open(Access::Write).unwrap()
}

fn does<R>(database: &Database, work: impl FnMut(&Tx) -> Result<R, StoreError>) -> R {
    open(database).transact(work).unwrap()
}

fn who_asks_at_once_gets_none_that_another_has<W: Work>() {
    with::<W>(40, |database| {
        let claims: Vec<Claim> = std::thread::scope(|scope| {
            let hosts: Vec<_> = (0..4)
                .map(|host| {
                    scope.spawn(move || {
                        let shared = open(database);
                        let owner = if is_shared(database) { format!("host {host}") } else { "host".to_owned() };
                        let mut mine = Vec::new();
                        loop {
                            let more = shared.transact(|tx| W::claim(tx, &owner, 3, NOW));
                            match more {
                                Ok(more) if more.is_empty() => return mine,
                                Ok(more) => mine.extend(more),
                                // It ran into the others too often; the loops try again as well.
                                Err(StoreError::Gone(_) | StoreError::Unavailable(_)) => {}
                                Err(error) => panic!("{error}"),
                            }
                        }
                    })
                })
                .collect();
            hosts.into_iter().flat_map(|host| host.join().unwrap()).collect()
        });
        let once: BTreeSet<i64> = claims.iter().map(|(id, _)| *id).collect();
        assert_eq!((claims.len(), once.len()), (40, 40));
        assert!(claims.iter().all(|(_, attempt)| *attempt == 1), "each is the first try");
    });
}

fn who_lost_its_lease_is_fenced<W: Work>() {
    with::<W>(1, |database| {
        let slow = does(database, |tx| W::claim(tx, "slow", 9, NOW))[0];
        assert!(does(database, |tx| W::claim(tx, "quick", 9, NOW + LEASE - 1)).is_empty() || !is_shared(database));
        let late = NOW + LEASE;
        let quick = does(database, |tx| W::claim(tx, "quick", 9, late));
        let quick = quick.first().copied().unwrap_or((slow.0, slow.1 + 1));
        assert_eq!(quick, (slow.0, slow.1 + 1), "the next try of the same");
        assert!(!does(database, |tx| W::is_held(tx, "slow", slow)));
        assert!(!does(database, |tx| W::done(tx, "slow", slow, late)));
        assert!(!does(database, |tx| W::failed(tx, "slow", slow, late)));
        does(database, |tx| W::renew(tx, "slow", slow, late));
        // The same owner in another try is another one, too.
        assert!(!does(database, |tx| W::done(tx, "quick", slow, late)));
        assert!(does(database, |tx| W::is_held(tx, "quick", quick)));
        assert!(does(database, |tx| W::done(tx, "quick", quick, late)));
        assert!(!does(database, |tx| W::done(tx, "quick", quick, late)), "once");
        assert!(does(database, |tx| W::claim(tx, "slow", 9, late + LEASE)).is_empty());
    });
}

/// On SQLite one host has the database: whatever another process had claimed is lost from its start on.
fn is_shared(database: &Database) -> bool {
    matches!(database, Database::Postgres(..))
}

fn lease_that_is_renewed_holds<W: Work>() {
    with::<W>(1, |database| {
        let mine = does(database, |tx| W::claim(tx, "mine", 9, NOW))[0];
        does(database, |tx| W::renew(tx, "mine", mine, NOW + LEASE - 1));
        assert!(does(database, |tx| W::claim(tx, "mine", 9, NOW + LEASE)).is_empty());
        assert!(does(database, |tx| W::done(tx, "mine", mine, NOW + LEASE)));
    });
}

fn claims_that_have_not_committed_are_passed_over<W: Work>() {
    with::<W>(4, |database| {
        if !is_shared(database) {
            // It has one transaction that writes at a time.
            return;
        }
        let (first, second) = (open(database).begin().unwrap(), open(database).begin().unwrap());
        let ids = |tx: &Tx| -> Vec<i64> { W::claim(tx, "x", 2, NOW).unwrap().into_iter().map(|(id, _)| id).collect() };
        let (first_ids, second_ids) = (ids(&first), ids(&second));
        assert_eq!((first_ids.len(), second_ids.len()), (2, 2));
        assert!(first_ids.iter().all(|id| !second_ids.contains(id)));
    });
}

macro_rules! on_all_work {
    ($($rule:ident)+) => {
        mod deliveries_and_their_leases {
            $(#[test] fn $rule() { super::$rule::<super::Deliveries>(); })+
        }
        mod steps_and_their_leases {
            $(#[test] fn $rule() { super::$rule::<super::Steps>(); })+
        }
    };
}

on_all_work! {
    who_asks_at_once_gets_none_that_another_has
    who_lost_its_lease_is_fenced
    lease_that_is_renewed_holds
    claims_that_have_not_committed_are_passed_over
}
