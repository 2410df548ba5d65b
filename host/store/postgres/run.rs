//! One statement in a transaction: run, and what its failure does to the transaction.

use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::Poll;

use deadpool_postgres::Object;
use futures_util::future::{MaybeDone, maybe_done};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Error, Statement as Prepared};

use super::errors::{self, Kind};
use super::{CACHED_PARAMS, Deferred, Gave, Guess, Slot, Stage, StoreError, Tx, UNLOCK, WARY, Want, gone, server};
use crate::query::Cell;

impl Tx {
    /// Makes sure that there is a connection.
    pub(super) fn connected(&self, slot: &mut Slot) -> Result<(), StoreError> {
        if slot.client.is_none() {
            let connected = self.shared.server.wait(self.shared.server.connect());
            slot.client = Some(connected.inspect_err(|_| slot.stage = Stage::Away)?);
        }
        Ok(())
    }

    /// Runs one statement in the transaction, which begins with it. `explain` says what its error means.
    pub(super) fn run(
        &self,
        text: &str,
        params: &[Cell],
        want: Want,
        explain: impl Fn(&Error) -> StoreError,
    ) -> Result<Gave, StoreError> {
        let mut slot = self.slot()?;
        self.connected(&mut slot)?;
        self.enter_now(&mut slot)?;
        let begins = slot.stage == Stage::Wanted;
        let (careful, begin_text) = (slot.careful, self.begin_text(&slot));
        // What was guessed has to be seen.
        let flushes = slot.pending.iter().any(|it| it.guess == Some(Guess::Row));
        let kept = if flushes { std::mem::take(&mut slot.pending) } else { Vec::new() };
        slot.talked = true;
        if let Some(group) = &mut slot.group {
            group.runs(want == Want::Changed || !reads(text), flushes.then_some(kept.len()));
        }
        let Some(client) = &slot.client else { return Err(gone()) };
        let ran = self.wait(async {
            let mut first = if begins { begin_text.to_owned() } else { String::new() };
            if careful {
                first.push_str("; SAVEPOINT call");
                client.batch_execute(first.trim_start_matches("; ")).await?;
                first.clear();
            }
            let kept_prepared = prepare(client, &kept).await?;
            let prepared = if params.len() > CACHED_PARAMS {
                client.prepare(text).await?
            } else {
                client.prepare_cached(text).await?
            };
            let start = async { if first.is_empty() { Ok(()) } else { client.batch_execute(&first).await } };
            let (began, seen, gave) = tokio::join!(
                biased;
                start,
                give_all(client, &kept, &kept_prepared),
                give(client, &prepared, params, want)
            );
            began?;
            seen?;
            let gave = gave?;
            if careful {
                client.batch_execute("RELEASE call").await?;
            }
            Ok::<_, Failed>(gave)
        });
        match ran {
            Ok(Ok(gave)) => {
                slot.stage = Stage::Open;
                Ok(gave)
            }
            Ok(Err(failed)) => Err(self.failed(&mut slot, &failed, reads(text), explain)),
            Err(_) => {
                // The connection is given up; the server is told, so that it does not work for nobody.
                if let Some(client) = &slot.client {
                    let cancel = client.cancel_token();
                    self.shared.server.cancel(cancel);
                }
                slot.close();
                let (stage, error) = if reads(text) {
                    let error = "the database took too long; narrow the query, or try again";
                    (Stage::Over, StoreError::Slow(error.to_owned()))
                } else {
                    (Stage::Away, errors::away())
                };
                slot.stage = stage;
                Err(error)
            }
        }
    }

    /// Says what a failed statement means, and leaves the transaction usable or marks it as lost.
    /// `reads`: a statement that may be at fault itself where it takes long.
    pub(super) fn failed(
        &self,
        slot: &mut Slot,
        failed: &Failed,
        reads: bool,
        explain: impl Fn(&Error) -> StoreError,
    ) -> StoreError {
        let error = &failed.error;
        let kind = errors::kind(error);
        self.met_full(error);
        tracing::debug!(?kind, error = server::told(error), careful = slot.careful, "a statement failed");
        match kind {
            Kind::Again => {
                if let Some(client) =
                    slot.client.as_ref().filter(|_| error.code().is_some_and(|code| code.code() == "0A000"))
                {
                    client.statement_cache.clear();
                }
                slot.stage = Stage::Again;
            }
            Kind::Statement if !slot.careful => {
                self.learn(slot, failed);
                slot.stage = Stage::Again;
            }
            Kind::Statement => {
                let undone = slot
                    .client
                    .as_ref()
                    .map(|client| self.wait(async { client.batch_execute("ROLLBACK TO call; RELEASE call").await }));
                slot.stage = if matches!(undone, Some(Ok(Ok(())))) { Stage::Open } else { Stage::Again };
            }
            Kind::Late if reads && error.code() == Some(&SqlState::QUERY_CANCELED) => slot.stage = Stage::Over,
            Kind::Late => slot.stage = Stage::Away,
        }
        if slot.stage != Stage::Open {
            self.release(slot);
        }
        match slot.stage {
            Stage::Again => gone(),
            Stage::Away => errors::away(),
            Stage::Idle | Stage::Wanted | Stage::Open | Stage::Over | Stage::Refused => explain(error),
        }
    }

    /// Has the next try do otherwise what made this one fail: without guesses, or with savepoints.
    pub(super) fn learn(&self, slot: &mut Slot, failed: &Failed) {
        let code = failed.error.code();
        match failed.guess {
            Some(guess @ Guess::Row) if code == Some(&SqlState::DIVISION_BY_ZERO) => self.sober_up(slot, guess),
            Some(guess @ Guess::Event) if code == Some(&SqlState::UNIQUE_VIOLATION) => self.sober_up(slot, guess),
            Some(_) | None => slot.careful = true,
        }
    }

    fn sober_up(&self, slot: &mut Slot, wrong: Guess) {
        self.shared.wary(wrong).store(WARY, Ordering::Relaxed);
        slot.sober = true;
    }

    /// Whether the database has no room, which is noted.
    pub(super) fn met_full(&self, error: &Error) -> bool {
        let full = errors::is_full(error);
        if error.code() == Some(&SqlState::DISK_FULL) {
            self.shared.server.is_full();
        }
        full
    }

    /// Rolls back what is open and gives the connection back to the pool, or up where that fails.
    pub(super) fn release(&self, slot: &mut Slot) {
        slot.pending.clear();
        (slot.assumed, slot.entered) = (None, None);
        let Some(client) = &slot.client else { return };
        let clean = self.wait(async { client.batch_execute(&format!("ROLLBACK; {UNLOCK}")).await });
        match clean {
            Ok(Ok(())) => drop(slot.client.take()),
            Ok(Err(_)) | Err(_) => slot.close(),
        }
    }
}

/// An error, and the guess that it shows to be wrong.
pub(super) struct Failed {
    pub error: Error,
    pub guess: Option<Guess>,
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self { error, guess: None }
    }
}

/// Statements that were kept back, prepared.
pub(super) async fn prepare(client: &Object, kept: &[Deferred]) -> Result<Vec<Prepared>, Failed> {
    let mut prepared = Vec::with_capacity(kept.len());
    for it in kept {
        let ready = client.prepare_cached(&it.text).await;
        prepared.push(ready.map_err(|error| Failed { error, guess: it.guess })?);
    }
    Ok(prepared)
}

/// Sends statements that were kept back, one behind the other; gives the first error.
pub(super) async fn give_all(client: &Object, kept: &[Deferred], prepared: &[Prepared]) -> Result<(), Failed> {
    let each = kept.iter().zip(prepared).map(|(it, prepared)| async {
        let gave = give(client, prepared, &it.params, Want::Changed).await;
        gave.map(drop).map_err(|error| Failed { error, guess: it.guess })
    });
    in_order(each).await.into_iter().collect()
}

/// Does all of it at a time, begun in this order whatever their number: what is begun is sent.
async fn in_order<F: Future>(all: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut all: Vec<Pin<Box<MaybeDone<F>>>> = all.map(|one| Box::pin(maybe_done(one))).collect();
    std::future::poll_fn(|context| {
        let waits = all.iter_mut().map(|one| one.as_mut().poll(context)).filter(Poll::is_pending).count();
        if waits == 0 { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    all.iter_mut().filter_map(|one| one.as_mut().take_output()).collect()
}

pub(super) async fn give(client: &Object, prepared: &Prepared, params: &[Cell], want: Want) -> Result<Gave, Error> {
    let params: Vec<&(dyn tokio_postgres::types::ToSql + Sync)> = params.iter().map(|cell| cell as _).collect();
    match want {
        Want::Rows => client.query(prepared, &params).await.map(Gave::Rows),
        Want::Changed => client.execute(prepared, &params).await.map(Gave::Changed),
    }
}

/// Whether a statement only reads.
fn reads(text: &str) -> bool {
    text.starts_with("SELECT")
}
