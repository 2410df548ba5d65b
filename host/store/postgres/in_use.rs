//! Tables stay as they are while an invocation uses them: it holds a lock from before its transaction begins, and under it
//! sees their version. Who changes tables waits for those who use them, and has the next ones wait.

use tokio_postgres::Error;

use deadpool_postgres::Object;

use super::run::Failed;
use super::{Access, Slot, Stage, StoreError, Tx, errors, get, gone, number_of};

/// A version that is not known; none is negative.
const UNKNOWN: i64 = -1;

/// The lock of those who use a plugin's tables, which whoever changes them has alone.
pub(super) fn lock(plugin: &str) -> i64 {
    number_of(&["oncehost", "tables in use", plugin])
}

impl Tx {
    /// Takes the lock on a connection, outside of any transaction, and gives the version of the tables.
    pub(super) async fn enter(&self, client: &Object) -> Result<i64, Error> {
        let lock = format!("SELECT pg_advisory_lock_shared({})", lock(&self.shared.plugin));
        let version = format!("SELECT coalesce(max(version), 0) FROM {}", self.shared.table("_oncehost_schema"));
        let (lock, version) = (client.prepare_cached(&lock).await?, client.prepare_cached(&version).await?);
        let (locked, version) = tokio::join!(biased; client.query(&lock, &[]), client.query_one(&version, &[]));
        locked?;
        version?.try_get(0)
    }

    /// Takes note of the version.
    pub(super) fn entered(&self, slot: &mut Slot, version: i64) {
        self.shared.server.saw_tables(&self.shared.plugin, Some(version));
        slot.entered = Some(version);
    }

    /// Begins the transaction under the lock, where a version was assumed that was not seen under it.
    pub(super) fn enter_now(&self, slot: &mut Slot) -> Result<(), StoreError> {
        if slot.stage != Stage::Wanted || slot.assumed.is_none() || slot.entered.is_some() {
            return Ok(());
        }
        let Some(client) = &slot.client else { return Err(gone()) };
        let entered = self.wait(async {
            let (entered, began) =
                tokio::join!(biased; self.enter(client), client.batch_execute(self.begin_text(slot)));
            began.and(entered)
        });
        match entered {
            Ok(Ok(version)) => {
                slot.stage = Stage::Open;
                self.entered(slot, version);
                if slot.assumed.is_none_or(|assumed| assumed == version || assumed == UNKNOWN) {
                    return Ok(());
                }
                self.release(slot);
                slot.stage = Stage::Again;
                Err(gone())
            }
            Ok(Err(error)) => Err(self.failed(slot, &Failed::from(error), false, errors::fault)),
            Err(_) => {
                slot.close();
                slot.stage = Stage::Away;
                Err(errors::away())
            }
        }
    }

    /// See [`crate::store::Tx::tables_version`].
    ///
    /// # Errors
    /// When the database fails, or the transaction is gone.
    pub fn tables_version(&self) -> Result<i64, StoreError> {
        let mut slot = self.slot()?;
        if let Some(version) = slot.entered {
            return Ok(version);
        }
        let (server, plugin) = (&self.shared.server, &self.shared.plugin);
        if let Some(version) = server.tables_version(plugin) {
            if self.shared.access == Access::Write {
                slot.assumed = Some(version);
            }
            return Ok(version);
        }
        if slot.stage == Stage::Wanted && self.shared.access == Access::Write {
            self.connected(&mut slot)?;
            // Nothing is assumed: whatever it is will do.
            slot.assumed = Some(UNKNOWN);
            self.enter_now(&mut slot)?;
            return slot.entered.ok_or_else(gone);
        }
        drop(slot);
        let sql = format!("SELECT coalesce(max(version), 0) FROM {}", self.shared.table("_oncehost_schema"));
        let rows = self.query(&sql, &[])?;
        let version = rows.first().map_or(Ok(0), |row| get(row, 0))?;
        server.saw_tables(plugin, Some(version));
        Ok(version)
    }
}

#[cfg(test)]
mod tests;
