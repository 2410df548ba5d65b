//! Lines of deliveries on Postgres, where one end of a line is changed while the other ends: claims are no serializable
//! transactions and hide one from the other. Every order in which their steps can come is gone through, and each line has
//! to come to its end.

use std::time::Duration;

use super::*;
use crate::store::{Access, Database, Shared, StoreError, Tx, postgres};
use crate::test_postgres;

const NOW: Millis = 1_000_000;
const LEASE: Millis = NOW + 1_000;

/// What is done at the end of the line.
#[derive(Clone, Copy, Debug)]
enum Joins {
    /// Another delivery comes.
    New,
    /// The same, with the COMMIT.
    Deferred,
    /// One that was dead is tried again.
    Replayed,
}

/// How the first of the line ends.
#[derive(Clone, Copy, Debug)]
enum Ends {
    Done,
    Dead,
    Discarded,
}

/// A step of one of the two sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Join,
    End,
}

const JOIN_STEPS: usize = 3;
const END_STEPS: usize = 4;

/// All orders of the steps.
fn orders(joins: usize, ends: usize) -> Vec<Vec<Step>> {
    if joins == 0 && ends == 0 {
        return vec![Vec::new()];
    }
    let then = |step: Step, rest: Vec<Vec<Step>>| {
        rest.into_iter().map(move |rest| std::iter::once(step).chain(rest).collect::<Vec<_>>())
    };
    let join = if joins > 0 { orders(joins - 1, ends) } else { Vec::new() };
    let end = if ends > 0 { orders(joins, ends - 1) } else { Vec::new() };
    then(Step::Join, join).chain(then(Step::End, end)).collect()
}

/// A transaction, a step at a time: it begins and sees the state of that moment, does its work, and commits.
struct Side<'a> {
    shared: &'a Shared,
    tx: Option<Tx>,
    worked: bool,
    well: bool,
}

impl<'a> Side<'a> {
    fn new(shared: &'a Shared) -> Self {
        Self { shared, tx: None, worked: false, well: true }
    }

    fn step(&mut self, work: impl Fn(&Tx) -> Result<(), StoreError>) {
        let went = match &self.tx {
            None => self.shared.begin().and_then(|tx| self.tx.insert(tx).execute("SELECT 1")),
            Some(_) if !self.well => return,
            Some(tx) if self.worked => tx.commit(),
            Some(tx) => {
                self.worked = true;
                work(tx)
            }
        };
        self.well = went.is_ok();
    }

    fn settle(self, work: impl Fn(&Tx) -> Result<(), StoreError>) -> Result<(), StoreError> {
        if self.well { Ok(()) } else { self.shared.transact(|tx| work(tx)) }
    }
}

/// One line, and who works on it.
struct Line {
    name: String,
    joins: Joins,
    ends: Ends,
}

impl Line {
    fn new_delivery(&self, event: &str) -> NewDelivery {
        let text = |text: &str| text.to_owned();
        NewDelivery {
            event_id: format!("{} {event}", self.name),
            subscription: self.name.clone(),
            operation: text("p/event:h"),
            handler: text("h"),
            tenant: text("acme"),
            source: text("s"),
            sender_id: text(event),
            event_type: text("t"),
            subject: None,
            event: text("{}"),
            order_key: Some(text("key")),
        }
    }

    fn claim(&self, tx: &Tx) -> Result<Option<Hold>, StoreError> {
        let wanted =
            Wanted { subscription: &self.name, limit: 1, last: "", first: true, owner: "me", lease_until: LEASE };
        let (claimed, _) = claim(tx, wanted, NOW)?;
        let hold = |it: Claimed| Hold { id: it.id, owner: "me".to_owned(), attempt: it.attempt, in_turn: it.in_turn };
        Ok(claimed.into_iter().next().map(hold))
    }

    fn join(&self, tx: &Tx) -> Result<(), StoreError> {
        let new = self.new_delivery("next");
        match self.joins {
            Joins::New => add(tx, &new, NOW).map(drop),
            Joins::Deferred => add_all(tx, &[new], NOW),
            Joins::Replayed => {
                let dead = find(tx, &self.new_delivery("dead").event_id)?;
                replay(tx, &[(dead[0].0.id, NOW)]).map(drop)
            }
        }
    }

    /// `held`: the first of the line, where it was claimed.
    fn end(&self, tx: &Tx, held: Option<&Hold>) -> Result<(), StoreError> {
        match (self.ends, held) {
            (Ends::Done, Some(hold)) => done(tx, hold, NOW).map(drop),
            (Ends::Dead, Some(hold)) => failed(tx, hold, ("no", None), Next::Dead, NOW).map(drop),
            (Ends::Discarded, None) => {
                let first = find(tx, &self.new_delivery("first").event_id)?;
                discard(tx, &[first[0].0.id], NOW).map(drop)
            }
            (Ends::Done | Ends::Dead, None) | (Ends::Discarded, Some(_)) => Ok(()),
        }
    }

    /// Makes the line: what is replayed is there already, and over.
    fn make(&self, shared: &Shared) -> Result<(), StoreError> {
        shared.transact(|tx| {
            add(tx, &self.new_delivery("dead"), NOW)?;
            let dead = self.claim(tx)?.unwrap();
            failed(tx, &dead, ("no", None), Next::Dead, NOW)?;
            add(tx, &self.new_delivery("first"), NOW).map(drop)
        })
    }

    /// Takes the steps in this order. What ran into the other side, or had to wait for it, is done again behind it.
    fn run(&self, [joiner, ender]: &[Shared; 2], order: &[Step]) -> Result<(), StoreError> {
        let (mut joining, mut ending) = (Side::new(joiner), Side::new(ender));
        let (mut looked, mut held) = (false, None);
        for step in order {
            match step {
                Step::Join => joining.step(|tx| self.join(tx)),
                Step::End if !looked => {
                    looked = true;
                    if !matches!(self.ends, Ends::Discarded) {
                        held = ender.adjust(|tx| self.claim(tx))?;
                    }
                }
                Step::End => ending.step(|tx| self.end(tx, held.as_ref())),
            }
        }
        joining.settle(|tx| self.join(tx))?;
        ending.settle(|tx| self.end(tx, held.as_ref()))
    }

    /// Goes through the line, and gives what is left of it.
    fn left(&self, shared: &Shared) -> Result<Vec<String>, StoreError> {
        while let Some(hold) = shared.adjust(|tx| self.claim(tx))? {
            shared.transact(|tx| done(tx, &hold, NOW))?;
        }
        let selected = Selected { subscription: Some(self.name.clone()), ..Selected::default() };
        let all = shared.transact(|tx| list(tx, &selected, 0, 10))?;
        let open = all.into_iter().filter(|it| ["waiting", "behind", "running"].contains(&it.state.as_str()));
        Ok(open.map(|it| format!("{} is {}", it.sender_id, it.state)).collect())
    }
}

/// Goes through all orders of joining a line in one way and ending its first in another.
fn check(joins: Joins, ends: Ends) {
    // Who has to wait for the other side would do so for ever: both are on this thread.
    let limits =
        postgres::Limits { connections: 4, lock_wait: Duration::from_millis(30), answer: Duration::from_secs(30) };
    let server = postgres::Server::new(&test_postgres::database(), limits).unwrap();
    let database = Database::Postgres(server, "p".to_owned());
    let sides = [(); 2].map(|()| database.open(Access::Write).unwrap());
    for (number, order) in orders(JOIN_STEPS, END_STEPS).iter().enumerate() {
        let line = Line { name: format!("t events/{number}"), joins, ends };
        line.make(&sides[0]).unwrap();
        line.run(&sides, order).unwrap();
        let left = line.left(&sides[0]).unwrap();
        assert!(left.is_empty(), "{joins:?}, {ends:?}, {order:?}: {left:?}");
    }
}

#[test]
fn delivery_that_comes_while_the_first_of_its_line_ends_is_not_left_behind() {
    for ends in [Ends::Done, Ends::Dead, Ends::Discarded] {
        check(Joins::New, ends);
        check(Joins::Deferred, ends);
    }
}

#[test]
fn delivery_that_is_replayed_while_the_first_of_its_line_ends_is_not_left_behind() {
    for ends in [Ends::Done, Ends::Dead, Ends::Discarded] {
        check(Joins::Replayed, ends);
    }
}
