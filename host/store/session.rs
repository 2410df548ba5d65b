//! A database, a connection to it that a run can be parted from, and a transaction.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use super::{StoreError, sqlite};

/// Where a plugin's rows rest.
#[derive(Clone, Debug)]
pub enum Database {
    /// A file of its own.
    Sqlite(PathBuf),
}

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Write,
    Read,
}

impl Database {
    /// Whether anything was ever written there.
    pub fn exists(&self) -> bool {
        match self {
            Database::Sqlite(path) => path.exists(),
        }
    }

    /// Opens it, with the host's own tables at their newest version.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] with a sentence for the operator.
    pub fn open(&self, access: Access) -> Result<Shared, StoreError> {
        match self {
            Database::Sqlite(path) => sqlite::Shared::open(path, access).map(Shared::Sqlite),
        }
    }
}

/// A connection that a run can be parted from: the watchdog takes it away, and whoever held it before gets nothing
/// more done through it.
#[derive(Clone)]
pub enum Shared {
    Sqlite(Arc<sqlite::Shared>),
}

impl Shared {
    /// Whether the host's own tables are at their newest version; opening it for writing brings them there.
    ///
    /// # Errors
    /// When the database fails.
    pub fn is_newest(&self) -> Result<bool, StoreError> {
        match self {
            Shared::Sqlite(shared) => shared.is_newest(),
        }
    }

    /// A hold on the transaction that is open in it now, or will be.
    pub fn tx(&self) -> Tx {
        match self {
            Shared::Sqlite(shared) => Tx::Sqlite(sqlite::Tx::new(shared)),
        }
    }

    /// Begins a transaction that may write, and holds it.
    ///
    /// # Errors
    /// When the database fails, or another process holds its lock for too long.
    pub fn begin(&self) -> Result<Tx, StoreError> {
        match self {
            Shared::Sqlite(shared) => sqlite::Tx::begin(shared).map(Tx::Sqlite),
        }
    }

    /// Replaces the connection by a new one, after an error that leaves it in doubt.
    ///
    /// # Errors
    /// As [`Database::open`].
    pub fn reopen(&self) -> Result<(), StoreError> {
        match self {
            Shared::Sqlite(shared) => shared.reopen(),
        }
    }

    /// Keeps the connection from every holder, until the [`Hold`] is dropped; `None` while a host call uses it.
    pub fn try_hold(&self) -> Option<Hold<'_>> {
        match self {
            Shared::Sqlite(shared) => shared.try_hold().map(Hold::Sqlite),
        }
    }
}

/// A connection that nobody uses at the moment.
pub enum Hold<'a> {
    Sqlite(sqlite::Hold<'a>),
}

impl Hold<'_> {
    /// Parts every present holder from the connection and undoes what its transaction did.
    pub fn part(self) {
        match self {
            Hold::Sqlite(hold) => hold.part(),
        }
    }
}

/// What became of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Open,
    /// It ended: the database rolled it back.
    Ended,
    /// The watchdog took it away.
    Parted,
}

/// A script's hold on the transaction it runs in. The connection is taken per host call, so that a run that hangs
/// outside host calls can be parted from its transaction.
#[derive(Clone)]
pub enum Tx {
    Sqlite(sqlite::Tx),
}

impl Tx {
    /// Begins a transaction that only reads, which sees one state of the data throughout.
    ///
    /// # Errors
    /// When the database fails.
    pub fn begin_read(&self) -> Result<(), StoreError> {
        match self {
            Tx::Sqlite(tx) => tx.begin_read(),
        }
    }

    /// Ends a transaction that only read, if it is still there.
    ///
    /// # Errors
    /// When the database fails.
    pub fn end_read(&self) -> Result<(), StoreError> {
        match self {
            Tx::Sqlite(tx) => tx.end_read(),
        }
    }

    /// Runs a fixed statement that takes no parameters and gives no rows.
    ///
    /// # Errors
    /// When it fails, or [`StoreError::Gone`] when the transaction is.
    pub fn execute(&self, sql: &str) -> Result<(), StoreError> {
        match self {
            Tx::Sqlite(tx) => tx.execute(sql),
        }
    }

    /// Marks the place to which [`Tx::undo`] goes back.
    ///
    /// # Errors
    /// When the database fails.
    pub fn mark(&self) -> Result<(), StoreError> {
        match self {
            Tx::Sqlite(tx) => tx.execute("SAVEPOINT invocation"),
        }
    }

    /// Keeps what was done since [`Tx::mark`].
    ///
    /// # Errors
    /// When the database fails.
    pub fn keep(&self) -> Result<(), StoreError> {
        match self {
            Tx::Sqlite(tx) => tx.execute("RELEASE invocation"),
        }
    }

    /// Undoes what was done since [`Tx::mark`]; where that alone cannot be undone, the whole transaction.
    pub fn undo(&self) {
        match self {
            Tx::Sqlite(tx) => tx.undo(),
        }
    }

    /// Commits.
    ///
    /// # Errors
    /// When the commit fails: it may or may not have happened. Nothing is open any more.
    pub fn commit(&self) -> Result<(), StoreError> {
        match self {
            Tx::Sqlite(tx) => tx.commit(),
        }
    }

    /// Undoes all of it, if it is still there.
    pub fn rollback(&self) {
        match self {
            // An error says that nothing is open.
            Tx::Sqlite(tx) => drop(tx.execute("ROLLBACK")),
        }
    }

    /// The same hold, whose queries are stopped at `until`.
    #[must_use]
    pub fn until(&self, until: Instant) -> Self {
        match self {
            Tx::Sqlite(tx) => Tx::Sqlite(tx.until(until)),
        }
    }

    /// What became of it so far.
    pub fn fate(&self) -> Fate {
        match self {
            Tx::Sqlite(tx) => tx.fate(),
        }
    }
}
