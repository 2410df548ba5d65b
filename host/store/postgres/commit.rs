//! The last round trip of a transaction: what was kept back, and COMMIT.

use tokio_postgres::Error;
use tokio_postgres::error::Severity;

use super::errors::{self, Kind};
use super::run::{Failed, give_all, prepare};
use super::{Stage, StoreError, Tx, UNLOCK, gone};

/// When an error came that ended a commit.
enum Sent {
    /// COMMIT was not sent yet.
    Before(Failed),
    /// And whether the locks of keys are let go of.
    With(Failed, bool),
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
        self.connected(&mut slot)?;
        self.enter_now(&mut slot)?;
        let begins = slot.stage == Stage::Wanted;
        let pending = std::mem::take(&mut slot.pending);
        let begin_text = self.begin_text(&slot);
        let Some(client) = &slot.client else { return Err(gone()) };
        let sent = self.wait(async {
            let prepared = prepare(client, &pending).await.map_err(Sent::Before)?;
            if begins {
                client.batch_execute(begin_text).await.map_err(|error| Sent::Before(error.into()))?;
            }
            crate::crash_point!("before-commit-is-sent");
            let statements = give_all(client, &pending, &prepared);
            // Apart from COMMIT, whose outcome must not be taken for that of what stands behind it.
            let (commit, unlock) = (client.batch_execute("COMMIT"), client.batch_execute(UNLOCK));
            let (statements, committed, unlocked) = tokio::join!(biased; statements, commit, unlock);
            // After a failed statement COMMIT means ROLLBACK, and is no error.
            let done = statements.and(committed.map_err(Failed::from));
            let unlocked = unlocked.is_ok();
            done.map(|()| unlocked).map_err(|failed| Sent::With(failed, unlocked))
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
            Ok(Err(Sent::Before(failed))) => Err(self.failed(&mut slot, &failed, false, errors::fault)),
            Ok(Err(Sent::With(failed, unlocked))) if refuses(&failed.error) => {
                let error = &failed.error;
                let kind = errors::kind(error);
                // What ran into others may well succeed the same way; with savepoints it would only take longer.
                if kind == Kind::Statement {
                    self.learn(&mut slot, &failed);
                }
                // It has waited already.
                let over = self.met_full(error) || kind == Kind::Late;
                slot.stage = if over { Stage::Refused } else { Stage::Again };
                // Nothing is open any more: COMMIT has rolled back.
                if unlocked {
                    slot.client = None;
                } else {
                    slot.close();
                }
                Err(errors::fault(error))
            }
            Ok(Err(Sent::With(failed, _))) => {
                slot.close();
                slot.stage = Stage::Over;
                Err(errors::fault(&failed.error))
            }
            Err(_) => {
                slot.close();
                slot.stage = Stage::Over;
                Err(StoreError::Unavailable("the database did not answer a COMMIT".to_owned()))
            }
        }
    }
}
