//! Group commit: what is queued, and what comes in while that runs, runs in one transaction, in which each invocation can be
//! undone, and one commit makes all of it durable before the first reply leaves.
//!
//! Some errors roll back the *whole* transaction (a full disk, an I/O error), and some only show at the commit. Nobody
//! has been answered by then, so the others run again, each alone, and the culprit gets the error.
//!
//! Where the database serves many hosts, transactions can run into each other: the members of such a group run again, each
//! alone, and one that is alone runs again a few times before its caller is told. Elsewhere a group runs again as it is
//! where one of it could not be undone by itself.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::again::{Tries, given_up};
use super::turns::DEAR;
use super::watchdog::Desk;
use super::{Reply, unknown_outcome};
use crate::failure::{Code, Failure};
use crate::invoke::{Invocation, InvokeError};
use crate::store::{Fate, StoreError, Tx};
use crate::workflow::Wakes;

/// When a group that is still running takes no further member, so that the first does not wait long for the last.
const SLICE: Duration = Duration::from_millis(20);

/// Up to how many members a group that runs takes in what comes meanwhile: to each of so many a commit costs little, and
/// where all who call were in one group, nobody would read or send while it runs and commits. One whose runs others feel takes
/// in nothing: what they took counts before their tenants have another turn.
const GROWS: usize = 8;

/// Who does a group's work.
pub(super) trait Hand {
    /// Does one invocation of the group, the one at this place, in the transaction that is open. Breaks the group off where
    /// it is to take no further member.
    fn run(&mut self, index: usize, invocation: &Invocation, tx: &Tx) -> ControlFlow<Reply, Reply>;

    /// What came in meanwhile and goes with the `present` members of the group: its places are the next ones.
    fn more(&mut self, present: usize) -> Vec<Arc<Invocation>>;
}

/// The watchdog took the transaction away: nothing here belongs to this thread any more.
pub(super) struct Parted;

/// Why a group has to be taken apart.
enum Lost {
    /// The transaction went with the last invocation that ran, which gets this reply. `before` is how many ran well.
    With {
        before: usize,
        reply: Reply,
    },
    /// The transaction could not begin: nothing ran.
    Begin(StoreError),
    /// The commit failed. `undone` says why where the database rolled all of it back; without it, what these many
    /// invocations wrote may or may not be on disk.
    Commit {
        ran: usize,
        undone: Option<Failure>,
    },
    /// It has to run again.
    Again,
    /// The same, each of it alone.
    Apart,
    /// The database is away.
    Away,
    Parted,
}

/// What a turn came to.
#[derive(Default)]
pub(super) struct Turn {
    /// Replies for the jobs at these places, in rising order. Each is final: its job must not run again.
    pub replies: Vec<(usize, Reply)>,
    /// How many of the jobs that are left at the front must now run alone. Those behind them have not run.
    pub alone: usize,
    /// How long the commit took.
    pub commit: Duration,
    /// Why no transaction could begin; what waits behind these jobs would only meet the same.
    pub shut: Option<Failure>,
}

impl Turn {
    fn of(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self { replies: replies.into_iter().enumerate().collect(), ..Self::default() }
    }

    fn apart(alone: usize) -> Self {
        Self { alone, ..Self::default() }
    }

    /// What is to happen now that it has committed.
    pub fn wakes(&mut self) -> Option<Wakes> {
        let outcomes = self.replies.iter_mut().filter_map(|(_, reply)| reply.as_mut().ok());
        outcomes.filter_map(|outcome| outcome.wakes.take()).map(|wakes| *wakes).reduce(|mut all, wakes| {
            all.add(wakes);
            all
        })
    }
}

/// Runs `invocations`, or the first of them, as one group, and puts behind them what comes in meanwhile; gives a reply for
/// each whose fate is decided, all of it on disk. `again` says that a group was lost and this one runs alone: it takes in
/// nothing, and a failed commit is not tried once more.
pub(super) fn commit_together(
    desk: &Desk,
    invocations: &mut Vec<Arc<Invocation>>,
    again: bool,
    hand: &mut dyn Hand,
) -> Result<Turn, Parted> {
    match persist(desk, invocations, again, hand) {
        Ok(ran) => Ok(Turn { replies: ran.replies, alone: ran.left, commit: ran.commit, shut: None }),
        Err(Lost::Parted) => Err(Parted),
        Err(Lost::Begin(error)) => {
            let failure = Failure::from(error);
            let replies = vec![Err(InvokeError::from(failure.clone())); invocations.len()];
            Ok(Turn { shut: Some(failure), ..Turn::of(replies) })
        }
        Err(Lost::With { before, reply }) => {
            if before > 0 {
                tracing::warn!(
                    before,
                    "an invocation took its group's transaction with it; the others run again, alone"
                );
            }
            Ok(Turn { replies: vec![(before, reply)], ..Turn::apart(before) })
        }
        Err(Lost::Again) => Ok(Turn::of(vec![Err(given_up().into()); invocations.len()])),
        Err(Lost::Apart) => Ok(Turn::apart(invocations.len())),
        Err(Lost::Away) => Ok(Turn::of(vec![Err(away().into()); invocations.len()])),
        // The culprit may be one of them only, so each has its chance alone.
        Err(Lost::Commit { ran, undone: Some(_) }) if !again => Ok(Turn::apart(ran)),
        Err(Lost::Commit { ran, undone: Some(failure) }) => Ok(Turn::of(vec![Err(failure.into()); ran])),
        Err(Lost::Commit { ran, undone: None }) => Ok(after_failed_commit(desk, &invocations[..ran], again)),
    }
}

/// Decides about each invocation of a group whose commit failed. Where a record tells what became of it, it runs again,
/// alone, and its claim finds out; where none does, nobody can know, and it must not run again.
fn after_failed_commit(desk: &Desk, invocations: &[Arc<Invocation>], again: bool) -> Turn {
    let reopened = desk.shared.reopen();
    if let Err(error) = &reopened {
        tracing::error!(%error, "the database cannot be opened again");
    }
    let lost = |invocation: &Invocation| again || reopened.is_err() || !invocation.cause.is_recorded();
    let replies: Vec<(usize, Reply)> = invocations
        .iter()
        .enumerate()
        .filter(|(_, invocation)| lost(invocation))
        .map(|(index, _)| (index, Err(unknown_outcome().into())))
        .collect();
    let alone = invocations.len() - replies.len();
    Turn { replies, ..Turn::apart(alone) }
}

/// Attempts it until it does not run into another transaction.
fn persist(desk: &Desk, invocations: &mut Vec<Arc<Invocation>>, alone: bool, hand: &mut dyn Hand) -> Result<Ran, Lost> {
    let mut tries = Tries::new(&desk.turn);
    loop {
        let tx = if tries.again() { desk.shared.begin_again() } else { desk.shared.begin() };
        let attempted = attempt(desk, &tx.map_err(Lost::Begin)?, invocations, alone, hand);
        if !matches!(attempted, Err(Lost::Again)) {
            return attempted;
        }
        if invocations.len() > 1 && desk.shared.has_rivals() {
            desk.metrics.ran_again();
            return Err(Lost::Apart);
        }
        if !tries.next(&desk.metrics) {
            return attempted;
        }
    }
}

/// What ran in a transaction that has committed.
struct Ran {
    /// By their places.
    replies: Vec<(usize, Reply)>,
    /// How many of those before the last one have to run alone.
    left: usize,
    commit: Duration,
}

fn attempt(
    desk: &Desk,
    tx: &Tx,
    invocations: &mut Vec<Arc<Invocation>>,
    alone: bool,
    hand: &mut dyn Hand,
) -> Result<Ran, Lost> {
    let ready = gather(tx, invocations)?;
    let started = Instant::now();
    let mut replies = Vec::with_capacity(invocations.len());
    let mut passed = 0;
    let grows = !alone && !desk.shared.has_rivals();
    loop {
        let index = passed;
        if index == invocations.len() && grows && index < GROWS && started.elapsed() < DEAR {
            invocations.extend(hand.more(index));
        }
        let Some(invocation) = invocations.get(index) else { break };
        passed = index + 1;
        if !ready.get(index).copied().unwrap_or(true) {
            continue;
        }
        let ran = hand.run(index, invocation, tx);
        let last = ran.is_break();
        let (ControlFlow::Break(reply) | ControlFlow::Continue(reply)) = ran;
        match tx.fate() {
            Fate::Open => replies.push((index, reply)),
            Fate::Ended => return Err(Lost::With { before: index, reply: reply.and_then(|_| Err(went().into())) }),
            // Whatever the handler made of it.
            Fate::Away | Fate::Refused => return Err(Lost::With { before: index, reply: Err(away().into()) }),
            Fate::Again => return Err(Lost::Again),
            Fate::Parted => return Err(Lost::Parted),
        }
        if last || started.elapsed() > SLICE {
            break;
        }
    }
    crate::crash_point!("before-commit");
    let committing = Instant::now();
    if let Err(error) = tx.commit() {
        let fate = tx.fate();
        if fate == Fate::Again {
            return Err(Lost::Again);
        }
        tracing::error!(%error, "COMMIT failed");
        if fate == Fate::Refused {
            return Err(if passed > 1 { Lost::Apart } else { Lost::With { before: 0, reply: Err(error.into()) } });
        }
        let known = fate == Fate::Ended && matches!(error, StoreError::Gone(_));
        return Err(Lost::Commit { ran: passed, undone: known.then(|| error.into()) });
    }
    let commit = committing.elapsed();
    desk.metrics.committed(replies.len(), commit);
    crate::crash_point!("after-commit");
    let left = passed - replies.len();
    Ok(Ran { replies, left, commit })
}

/// Looks up what several have to know before the transaction begins; gives which of them may run in it.
fn gather(tx: &Tx, invocations: &[Arc<Invocation>]) -> Result<Vec<bool>, Lost> {
    if invocations.len() == 1 {
        return Ok(Vec::new());
    }
    let keys: Vec<_> = invocations.iter().map(|invocation| invocation.cause.key()).collect();
    tx.gather(&keys).map_err(|error| match tx.fate() {
        Fate::Away => Lost::Away,
        Fate::Parted => Lost::Parted,
        Fate::Open | Fate::Again | Fate::Ended | Fate::Refused => {
            tracing::debug!(%error, "a group could not begin; its members run alone");
            tx.rollback();
            Lost::Apart
        }
    })
}

fn away() -> Failure {
    Failure::new(Code::Unavailable, "the database is too slow, or away; nothing was written, try again shortly")
}

fn went() -> Failure {
    Failure::new(Code::Unavailable, "the database rolled the transaction back; nothing was written, try again")
}
