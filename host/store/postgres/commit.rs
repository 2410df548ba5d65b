//! The last round trip of a transaction: what was kept back, and COMMIT.

use std::sync::atomic::Ordering;

use futures_util::future::join_all;
use tokio_postgres::Error;
use tokio_postgres::error::{Severity, SqlState};

use super::run::give;
use super::{Stage, StoreError, Tx, UNLOCK, WARY, Want, errors, gone};

/// When an error came that ended a commit.
enum Sent {
    /// COMMIT was not sent yet.
    Before(Error),
    /// And whether the locks of keys are let go of.
    With(Error, bool),
}

/// Whether the database says that it has not committed. One that ends the connection may have done so after the commit.
fn refuses(error: &Error) -> bool {
    error.as_db_error().is_some_and(|db| db.parsed_severity() == Some(Severity::Error))
}

impl Tx {
    /// Sends what is kept back, and commits.
    ///
    /// # Errors
    /// Where the fate is neither `Fate::Again` nor `Fate::Refused`, it may or may not have happened.
    pub fn commit(&self) -> Result<(), StoreError> {
        let mut slot = self.shared.lock();
        if !self.is_current() {
            return Err(gone());
        }
        if slot.stage == Stage::Wanted && slot.pending.is_empty() {
            slot.stage = Stage::Idle;
            return Ok(());
        }
        if !matches!(slot.stage, Stage::Wanted | Stage::Open) {
            return Err(gone());
        }
        let begins = slot.stage == Stage::Wanted;
        self.connected(&mut slot)?;
        let pending = std::mem::take(&mut slot.pending);
        let begin_text = self.begin_text(&slot);
        let Some(client) = &slot.client else { return Err(gone()) };
        let sent = self.wait(async {
            let mut prepared = Vec::with_capacity(pending.len());
            for deferred in &pending {
                prepared.push(client.prepare_cached(&deferred.text).await.map_err(Sent::Before)?);
            }
            if begins {
                client.batch_execute(begin_text).await.map_err(Sent::Before)?;
            }
            crate::crash_point!("before-commit-is-sent");
            let statements = pending.iter().zip(&prepared);
            let statements =
                join_all(statements.map(|(deferred, prepared)| async {
                    give(client, prepared, &deferred.params, Want::Changed).await
                }));
            // Apart from COMMIT, whose outcome must not be taken for that of what stands behind it.
            let (commit, unlock) = (client.batch_execute("COMMIT"), client.batch_execute(UNLOCK));
            let (statements, committed, unlocked) = tokio::join!(biased; statements, commit, unlock);
            // After a failed statement COMMIT means ROLLBACK, and is no error.
            let failed = statements.into_iter().find_map(Result::err);
            let unlocked = unlocked.is_ok();
            failed.or(committed.err()).map_or(Ok(unlocked), |error| Err(Sent::With(error, unlocked)))
        });
        match sent {
            Ok(Ok(unlocked)) => {
                if !unlocked {
                    slot.close();
                }
                slot.client = None;
                slot.stage = Stage::Idle;
                Ok(())
            }
            Ok(Err(Sent::Before(error))) => Err(self.failed(&mut slot, &error, false, errors::fault)),
            Ok(Err(Sent::With(error, unlocked))) if refuses(&error) => {
                if error.code() == Some(&SqlState::UNIQUE_VIOLATION) {
                    self.shared.wary.store(WARY, Ordering::Relaxed);
                }
                // What ran into others may well succeed the same way; with savepoints it would only take longer.
                slot.careful |= errors::kind(&error) != errors::Kind::Again;
                slot.stage = if self.met_full(&error) { Stage::Refused } else { Stage::Again };
                // Nothing is open any more: COMMIT has rolled back.
                if unlocked {
                    slot.client = None;
                } else {
                    slot.close();
                }
                Err(errors::fault(&error))
            }
            Ok(Err(Sent::With(error, _))) => {
                slot.close();
                slot.stage = Stage::Over;
                Err(errors::fault(&error))
            }
            Err(_) => {
                slot.close();
                slot.stage = Stage::Over;
                Err(StoreError::Unavailable("the database did not answer a COMMIT".to_owned()))
            }
        }
    }
}
