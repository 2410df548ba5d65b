//! Group commit: what is queued runs in one transaction, each invocation in a savepoint, and one commit makes all
//! of it durable before the first reply leaves.
//!
//! Some errors roll back the *whole* transaction (a full disk, an I/O error), and some only show at the commit. Nobody
//! has been answered by then, so the others run again, each alone, and the culprit gets the error.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::watchdog::Desk;
use super::{Reply, unknown_outcome};
use crate::failure::{Code, Failure};
use crate::invoke::{Invocation, InvokeError};
use crate::store::StoreError;
use crate::store::sqlite::Tx;

/// When a group that is still running takes no further member, so that the first does not wait long for the last.
const SLICE: Duration = Duration::from_millis(20);

/// Does one invocation of a group, the one at this place, in the transaction that is open.
pub(super) type Run<'a> = &'a mut dyn FnMut(usize, &Invocation, &Tx) -> Reply;

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
    /// The commit failed: what these many invocations wrote may or may not be on disk.
    Commit {
        ran: usize,
    },
    Parted,
}

/// Runs `invocations`, or the first of them, as one group and gives a reply for each that ran, all of it on disk.
pub(super) fn commit_together(
    desk: &Desk,
    invocations: &[Arc<Invocation>],
    run: Run<'_>,
) -> Result<Vec<Reply>, Parted> {
    match attempt(desk, invocations, 0, run) {
        Ok(replies) => Ok(replies),
        Err(Lost::Parted) => Err(Parted),
        Err(Lost::Begin(error)) => Ok(vec![Err(InvokeError::from(error)); invocations.len()]),
        Err(Lost::With { before, reply }) => {
            tracing::warn!(before, "an invocation took its group's transaction with it; the others run again, alone");
            let mut replies = Vec::with_capacity(before + 1);
            for (index, invocation) in invocations.iter().enumerate().take(before) {
                replies.push(alone(desk, index, invocation, run)?);
            }
            replies.push(reply);
            Ok(replies)
        }
        Err(Lost::Commit { ran }) => after_failed_commit(desk, &invocations[..ran], run),
    }
}

/// Finds out for each invocation of a group whose commit failed what became of it. Where a record tells, its claim
/// finds it, or it runs again; where none does, nobody can know, and it must not run again.
fn after_failed_commit(desk: &Desk, invocations: &[Arc<Invocation>], run: Run<'_>) -> Result<Vec<Reply>, Parted> {
    if let Err(error) = desk.shared.reopen() {
        tracing::error!(%error, "the database cannot be opened again");
        return Ok(vec![Err(unknown_outcome().into()); invocations.len()]);
    }
    let each = invocations.iter().enumerate().map(|(index, invocation)| {
        if invocation.cause.is_recorded() {
            alone(desk, index, invocation, run)
        } else {
            Ok(Err(unknown_outcome().into()))
        }
    });
    each.collect()
}

fn alone(desk: &Desk, index: usize, invocation: &Arc<Invocation>, run: Run<'_>) -> Result<Reply, Parted> {
    match attempt(desk, std::slice::from_ref(invocation), index, run) {
        Ok(mut replies) => Ok(replies.pop().unwrap_or_else(|| Err(unknown_outcome().into()))),
        Err(Lost::With { reply, .. }) => Ok(reply),
        Err(Lost::Begin(error)) => Ok(Err(error.into())),
        Err(Lost::Commit { .. }) => {
            if let Err(error) = desk.shared.reopen() {
                tracing::error!(%error, "the database cannot be opened again");
            }
            Ok(Err(unknown_outcome().into()))
        }
        Err(Lost::Parted) => Err(Parted),
    }
}

fn attempt(desk: &Desk, invocations: &[Arc<Invocation>], first: usize, run: Run<'_>) -> Result<Vec<Reply>, Lost> {
    let tx = Tx::begin(&desk.shared).map_err(Lost::Begin)?;
    let started = Instant::now();
    let mut replies = Vec::with_capacity(invocations.len());
    for (offset, invocation) in invocations.iter().enumerate() {
        let reply = run(first + offset, invocation, &tx);
        // The lock first: whoever takes the transaction away holds it while doing so.
        let connection = desk.shared.lock();
        if !tx.is_current() {
            return Err(Lost::Parted);
        }
        if connection.is_autocommit() {
            return Err(Lost::With { before: offset, reply: reply.and_then(|_| Err(went().into())) });
        }
        drop(connection);
        replies.push(reply);
        if started.elapsed() > SLICE {
            break;
        }
    }
    crate::crash_point!("before-commit");
    let connection = desk.shared.lock();
    let committing = Instant::now();
    if let Err(error) = connection.execute_batch("COMMIT") {
        tracing::error!(%error, "COMMIT failed");
        if !connection.is_autocommit() {
            // Where this fails too, the connection is replaced all the same.
            let _ = connection.execute_batch("ROLLBACK");
        }
        return Err(Lost::Commit { ran: replies.len() });
    }
    desk.metrics.committed(replies.len(), committing.elapsed());
    crate::crash_point!("after-commit");
    Ok(replies)
}

fn went() -> Failure {
    Failure::new(Code::Unavailable, "the database rolled the transaction back; nothing was written, try again")
}
