//! A transaction, and what is done in it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

use rusqlite::{Connection, ErrorCode};

use super::{FULL, Shared, fault};
use crate::schema::{self, Schema};
use crate::store::{Fate, StoreError};

/// Transactions in a row in which nothing that was written had to be undone, after which none is expected to be.
const CALM: u32 = 256;

/// To where a failed invocation is undone. A savepoint costs a copy of each page that changes, several microseconds an
/// invocation, and few plugins write and then fail. So after some calm there is none: what fails when it has written takes
/// the whole transaction along, which then runs again, with savepoints.
#[derive(Default)]
pub(super) struct Marks {
    calm: AtomicU32,
    savepoints: AtomicBool,
    /// The connection's count of changed rows at the mark.
    changes: AtomicU64,
    /// The transaction was undone for the sake of one invocation.
    again: AtomicBool,
}

impl Marks {
    /// A transaction begins.
    fn begin(&self) {
        let calm = self.calm.load(Ordering::Relaxed);
        self.savepoints.store(calm < CALM, Ordering::Relaxed);
        self.calm.store(calm.saturating_add(1), Ordering::Relaxed);
        self.again.store(false, Ordering::Relaxed);
    }

    fn are_savepoints(&self) -> bool {
        self.savepoints.load(Ordering::Relaxed)
    }
}

/// A script's hold on the transaction it runs in. The connection is taken per host call, so that a run that hangs
/// outside host calls can be parted from its transaction.
#[derive(Clone)]
pub struct Tx {
    shared: Arc<Shared>,
    generation: u64,
    until: Option<Instant>,
}

impl Tx {
    /// A hold on the transaction that `shared` is in now.
    pub fn new(shared: &Arc<Shared>) -> Self {
        Self { shared: shared.clone(), generation: shared.generation(), until: None }
    }

    /// Begins a transaction that may write, and holds it.
    ///
    /// # Errors
    /// When the database fails, or another process holds its lock for too long.
    pub fn begin(shared: &Arc<Shared>) -> Result<Self, StoreError> {
        shared.follow_file()?;
        let connection = shared.lock();
        if !connection.is_autocommit() {
            // Left by an error between BEGIN and COMMIT; nothing in it was answered.
            connection.execute_batch("ROLLBACK").map_err(|error| fault(&error))?;
        }
        let begun = connection.prepare_cached("BEGIN IMMEDIATE").and_then(|mut statement| statement.execute([]));
        begun.map_err(|error| fault(&error))?;
        shared.see_tables(&connection)?;
        drop(connection);
        shared.marks.begin();
        Ok(Self::new(shared))
    }

    /// Begins a transaction that only reads.
    ///
    /// # Errors
    /// When the database fails.
    pub fn begin_read(&self) -> Result<(), StoreError> {
        self.shared.follow_file()?;
        let connection = self.shared.lock();
        connection.execute_batch("BEGIN").map_err(|error| fault(&error))?;
        self.shared.see_tables(&connection)
    }

    /// Ends a transaction that only read, if it is still there.
    ///
    /// # Errors
    /// When the database fails.
    pub fn end_read(&self) -> Result<(), StoreError> {
        let connection = self.shared.lock();
        if self.is_current() && !connection.is_autocommit() {
            connection.execute_batch("COMMIT").map_err(|error| fault(&error))?;
        }
        Ok(())
    }

    /// Marks the place to which [`Tx::undo`] goes back: by a savepoint, or in calm times by the count of changes.
    ///
    /// # Errors
    /// When the database fails.
    pub fn mark(&self) -> Result<(), StoreError> {
        let changes = self.with(|connection| Ok(connection.total_changes()))?;
        self.shared.marks.changes.store(changes, Ordering::Relaxed);
        if self.shared.marks.are_savepoints() { self.execute("SAVEPOINT invocation") } else { Ok(()) }
    }

    /// Keeps what was done since [`Tx::mark`].
    ///
    /// # Errors
    /// When the database fails.
    pub fn keep(&self) -> Result<(), StoreError> {
        if self.shared.marks.are_savepoints() { self.execute("RELEASE invocation") } else { Ok(()) }
    }

    /// Undoes what was done since [`Tx::mark`]; where that alone cannot be undone, the whole transaction.
    pub fn undo(&self) {
        let marks = &self.shared.marks;
        let unchanged =
            |connection: &Connection| Ok(connection.total_changes() == marks.changes.load(Ordering::Relaxed));
        let unchanged = self.with(unchanged).unwrap_or(false);
        if !unchanged {
            marks.calm.store(0, Ordering::Relaxed);
        }
        if !marks.are_savepoints() {
            if !unchanged && self.execute("ROLLBACK").is_ok() {
                marks.again.store(true, Ordering::Relaxed);
            }
            return;
        }
        // Where the database rolled everything back there is no savepoint left, and nothing to undo.
        let undone = self.execute("ROLLBACK TO invocation").and_then(|()| self.execute("RELEASE invocation"));
        if let Err(error) = undone {
            // Nothing of a failed call may commit with its neighbours: where the savepoint cannot be undone, all goes.
            tracing::debug!(%error, "the savepoint went with its transaction, or has to");
            let _ = self.execute("ROLLBACK");
        }
    }

    /// Commits.
    ///
    /// # Errors
    /// [`StoreError::Gone`] where it is known that nothing was committed; after any other it may or may not have
    /// happened. Nothing is open any more.
    pub fn commit(&self) -> Result<(), StoreError> {
        self.with(|connection| {
            connection.execute_batch("COMMIT").map_err(|error| {
                if !connection.is_autocommit() {
                    // Where this fails too, the connection has to be replaced.
                    let _ = connection.execute_batch("ROLLBACK");
                }
                // The log ends with a commit's mark, and it is a write before that which found no room: nobody, after
                // a crash either, takes what is there for committed.
                if error.sqlite_error_code() == Some(ErrorCode::DiskFull) && connection.is_autocommit() {
                    return StoreError::Gone(FULL.to_owned());
                }
                fault(&error)
            })
        })
    }

    /// What became of the transaction so far.
    pub fn fate(&self) -> Fate {
        // The lock first: whoever takes the transaction away holds it while doing so.
        let connection = self.shared.lock();
        if !self.is_current() {
            Fate::Parted
        } else if connection.is_autocommit() {
            if self.shared.marks.again.load(Ordering::Relaxed) { Fate::Again } else { Fate::Ended }
        } else {
            Fate::Open
        }
    }

    /// The same hold, whose queries are stopped at `until`.
    #[must_use]
    pub fn until(&self, until: Instant) -> Self {
        Self { until: Some(until), ..self.clone() }
    }

    /// Whether this hold was not taken away by the watchdog.
    fn is_current(&self) -> bool {
        self.generation == self.shared.generation()
    }

    /// Runs `work` inside the transaction; for what writes.
    ///
    /// # Errors
    /// What `work` gives, or [`StoreError::Gone`] when the transaction was rolled back as a whole (statements would
    /// then commit one by one) or taken away.
    pub fn with<R>(&self, work: impl FnOnce(&Connection) -> Result<R, StoreError>) -> Result<R, StoreError> {
        let connection = self.shared.lock();
        if !self.is_current() || connection.is_autocommit() {
            return Err(StoreError::Gone(
                "the transaction of this invocation is gone; nothing of it is kept".to_owned(),
            ));
        }
        work(&connection)
    }

    /// See [`crate::store::Tx::tables_version`].
    pub fn tables_version(&self) -> i64 {
        self.shared.tables_version.load(Ordering::Relaxed)
    }

    /// See [`crate::store::Tx::misfits`].
    ///
    /// # Errors
    /// As [`Tx::with`].
    pub fn misfits(&self, wanted: &Schema) -> Result<BTreeMap<String, String>, StoreError> {
        self.with(|connection| {
            schema::misfits(connection, wanted).map_err(|error| StoreError::Unavailable(error.to_string()))
        })
    }

    /// See [`crate::store::Tx::are_tables_anothers`].
    ///
    /// # Errors
    /// As [`Tx::with`].
    pub fn are_tables_anothers(&self, wanted: &Schema) -> Result<bool, StoreError> {
        self.with(|connection| {
            schema::are_anothers(connection, wanted).map_err(|error| StoreError::Unavailable(error.to_string()))
        })
    }

    /// Runs `work` inside the transaction, with the run's time limit on its queries; for what only reads.
    ///
    /// # Errors
    /// As [`Tx::with`], and [`StoreError::Slow`].
    pub fn read<R>(&self, work: impl FnOnce(&Connection) -> Result<R, StoreError>) -> Result<R, StoreError> {
        self.with(|connection| {
            self.shared.stop_query_at(self.until);
            let result = work(connection);
            self.shared.stop_query_at(None);
            result
        })
    }

    /// Runs one of the host's fixed statements that take no parameters and give no rows.
    ///
    /// # Errors
    /// As [`Tx::with`].
    pub fn execute(&self, sql: &str) -> Result<(), StoreError> {
        self.with(|connection| {
            connection.prepare_cached(sql).and_then(|mut s| s.execute([])).map(|_| ()).map_err(|e| fault(&e))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Access;

    fn write(tx: &Tx, key: &str) {
        let sql = format!(
            "INSERT INTO _oncehost_keys (tenant, operation, key, request_hash, committed_at) VALUES ('t', 'o', '{key}', x'00', 0)"
        );
        tx.execute(&sql).unwrap();
    }

    fn keys(shared: &Shared) -> i64 {
        shared.lock().query_row("SELECT count(*) FROM _oncehost_keys", [], |row| row.get(0)).unwrap()
    }

    fn after(calm: u32) -> (tempfile::TempDir, Arc<Shared>) {
        let folder = tempfile::tempdir().unwrap();
        let shared = Shared::open(&folder.path().join("p.db"), Access::Write).unwrap();
        (0..calm).for_each(|_| Tx::begin(&shared).unwrap().commit().unwrap());
        (folder, shared)
    }

    /// A transaction in which one writes and ends well, and the next fails when it has written.
    fn second_fails(shared: &Arc<Shared>) -> Tx {
        let tx = Tx::begin(shared).unwrap();
        tx.mark().unwrap();
        write(&tx, "well");
        tx.keep().unwrap();
        tx.mark().unwrap();
        write(&tx, "badly");
        tx.undo();
        tx
    }

    #[test]
    fn what_fails_is_undone_alone() {
        let (_folder, shared) = after(0);
        let tx = second_fails(&shared);
        assert_eq!(tx.fate(), Fate::Open);
        tx.commit().unwrap();
        assert_eq!(keys(&shared), 1);
    }

    #[test]
    fn in_calm_times_it_takes_its_transaction_along_which_then_runs_again_with_savepoints() {
        let (_folder, shared) = after(CALM);
        let tx = second_fails(&shared);
        assert_eq!((tx.fate(), keys(&shared)), (Fate::Again, 0));
        let tx = second_fails(&shared);
        assert_eq!(tx.fate(), Fate::Open);
        tx.commit().unwrap();
        assert_eq!(keys(&shared), 1);
        let tx = second_fails_later(&shared);
        assert_eq!(tx.fate(), Fate::Open, "calm is over for a while");
    }

    fn second_fails_later(shared: &Arc<Shared>) -> Tx {
        (0..CALM - 1).for_each(|_| Tx::begin(shared).unwrap().commit().unwrap());
        let tx = Tx::begin(shared).unwrap();
        tx.mark().unwrap();
        write(&tx, "badly");
        tx.undo();
        tx
    }

    #[test]
    fn what_fails_before_it_wrote_leaves_the_transaction_as_it_is() {
        let (_folder, shared) = after(CALM);
        let tx = Tx::begin(&shared).unwrap();
        tx.mark().unwrap();
        write(&tx, "well");
        tx.keep().unwrap();
        tx.mark().unwrap();
        tx.undo();
        assert_eq!(tx.fate(), Fate::Open);
        tx.commit().unwrap();
        assert_eq!(keys(&shared), 1);
    }

    #[test]
    fn statement_changes_more_than_its_journal_keeps_in_memory_and_is_undone_where_it_fails() {
        let (_folder, shared) = after(0);
        let rows = "CREATE TABLE t (n INTEGER NOT NULL CHECK (n < 3002), more BLOB); \
                    WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 3000) \
                    INSERT INTO t SELECT n, zeroblob(3500) FROM c;";
        shared.lock().execute_batch(rows).unwrap();
        let sum = || -> i64 { shared.lock().query_row("SELECT sum(n) FROM t", [], |row| row.get(0)).unwrap() };
        let tx = Tx::begin(&shared).unwrap();
        tx.execute("UPDATE t SET n = n + 1").unwrap();
        let once = sum();
        assert!(tx.execute("UPDATE t SET n = n + 1").is_err());
        assert_eq!((tx.fate(), sum()), (Fate::Open, once));
        tx.commit().unwrap();
        assert_eq!(once, 3000 * 3001 / 2 + 3000);
    }
}
