//! A database, a connection to it that a run can be parted from, and a transaction.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use super::keys::KeyId;
use super::{StoreError, postgres, sqlite};
use crate::schema::{Dialect, Schema};

/// Tries of the host's own work that runs into other transactions.
const TRIES: usize = 10;

/// Where a plugin's rows rest.
#[derive(Clone, Debug)]
pub enum Database {
    /// A file of its own.
    Sqlite(PathBuf),
    /// The schema of this name.
    Postgres(Arc<postgres::Server>, String),
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
            Database::Postgres(..) => true,
        }
    }

    /// Whether other hosts may work on it: what one of them leaves has to be looked for.
    pub fn is_shared(&self) -> bool {
        matches!(self, Database::Postgres(..))
    }

    /// Has this host be the only one that relays from here, until what it gives is dropped; `None` where another one does.
    /// A file has one host anyway.
    ///
    /// # Errors
    /// When it cannot be reached.
    pub fn relay_alone(&self) -> Result<Option<Alone>, StoreError> {
        match self {
            Database::Sqlite(_) => Ok(Some(Alone::default())),
            Database::Postgres(server, schema) => {
                Ok(server.alone(&["oncehost", "relay", schema])?.map(|alone| Alone(Some(alone))))
            }
        }
    }

    /// How many transactions that write are worth having at a time.
    ///
    /// `talk`: their invocations wait for answers in the middle.
    pub fn writers(&self, talk: bool) -> usize {
        match self {
            // It has one at a time.
            Database::Sqlite(_) => 1,
            // Most of one's time is waiting for answers; the pool bounds what all plugins have together.
            Database::Postgres(..) if talk => 16,
            // More would only make the groups smaller.
            Database::Postgres(..) => 4,
        }
    }

    /// Where it is, without a password: a file's path, or a server's database and the schema in it.
    pub fn place(&self) -> String {
        match self {
            Database::Sqlite(path) => path.display().to_string(),
            Database::Postgres(server, schema) => format!("{} (schema {schema})", server.place()),
        }
    }

    /// The server's database that it is in, if it is no file.
    pub fn server_place(&self) -> Option<String> {
        match self {
            Database::Sqlite(_) => None,
            Database::Postgres(server, _) => Some(server.place().to_owned()),
        }
    }

    /// Whether it could be reached when it was looked at last. Takes no time.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] with why not.
    pub fn ready(&self) -> Result<(), StoreError> {
        match self {
            Database::Sqlite(_) => Ok(()),
            Database::Postgres(server, _) => server.pulse().map_err(StoreError::Unavailable),
        }
    }

    /// Opens it, with the host's own tables at their newest version.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] with a sentence for the operator; also where it was copied to another place, or such
    /// a copy has not ended.
    pub fn open(&self, access: Access) -> Result<Shared, StoreError> {
        match self {
            Database::Sqlite(path) => {
                let shared = sqlite::Shared::open(path, access)?;
                sqlite::moving::refuse_marked(&shared.lock(), path)?;
                Ok(Shared::Sqlite(shared))
            }
            Database::Postgres(server, plugin) => postgres::Shared::open(server, plugin, access).map(Shared::Postgres),
        }
    }
}

/// That no other host does the same, until it is dropped.
#[derive(Default)]
pub struct Alone(#[expect(dead_code, reason = "it is held")] Option<postgres::Alone>);

/// A connection that a run can be parted from: the watchdog takes it away, and whoever held it before gets nothing
/// more done through it.
#[derive(Clone)]
pub enum Shared {
    Sqlite(Arc<sqlite::Shared>),
    Postgres(Arc<postgres::Shared>),
}

impl Shared {
    /// Whether other transactions can come in the way of one here.
    pub fn has_rivals(&self) -> bool {
        matches!(self, Shared::Postgres(_))
    }

    /// Leaves the database as somebody who copies its file expects it.
    pub fn tidy(&self) {
        match self {
            Shared::Sqlite(shared) => shared.bring_log_in(),
            Shared::Postgres(_) => {}
        }
    }

    /// How many invocations are worth having in one transaction. `talk`: they wait for answers in the middle.
    pub fn most_in_a_group(&self, talk: bool) -> usize {
        match self {
            Shared::Sqlite(_) => usize::MAX,
            // What would wait for one after another in one transaction waits for them at a time in several.
            Shared::Postgres(_) if talk => 1,
            Shared::Postgres(_) => 16,
        }
    }

    /// Whether the host's own tables are at their newest version; opening it for writing brings them there.
    ///
    /// # Errors
    /// When the database fails.
    pub fn is_newest(&self) -> Result<bool, StoreError> {
        match self {
            Shared::Sqlite(shared) => shared.is_newest(),
            // Opening brings them there.
            Shared::Postgres(_) => Ok(true),
        }
    }

    /// A hold on the transaction that is open in it now, or will be.
    pub fn tx(&self) -> Tx {
        match self {
            Shared::Sqlite(shared) => Tx::Sqlite(sqlite::Tx::new(shared)),
            Shared::Postgres(shared) => Tx::Postgres(postgres::Tx::new(shared)),
        }
    }

    /// Begins a transaction that may write, and holds it.
    ///
    /// # Errors
    /// When the database fails, or another process holds its lock for too long.
    pub fn begin(&self) -> Result<Tx, StoreError> {
        match self {
            Shared::Sqlite(shared) => sqlite::Tx::begin(shared).map(Tx::Sqlite),
            Shared::Postgres(shared) => Ok(Tx::Postgres(postgres::Tx::begin(shared, false))),
        }
    }

    /// Does the host's own work in a transaction and commits it; what runs into another transaction is done again, a few
    /// times.
    ///
    /// # Errors
    /// What `work` gives, or when the database fails. Nothing is kept then.
    pub fn transact<R, E: From<StoreError>>(&self, mut work: impl FnMut(&Tx) -> Result<R, E>) -> Result<R, E> {
        let mut tx = self.begin()?;
        for _ in 1..TRIES {
            let done = work(&tx).and_then(|done| tx.commit().map(|()| done).map_err(E::from));
            if done.is_ok() || tx.fate() != Fate::Again {
                // An idle lane must not go on holding a lock; where nothing is open any more this does nothing.
                return done.inspect_err(|_| tx.rollback());
            }
            tx = self.begin_again()?;
        }
        let done = work(&tx).and_then(|done| tx.commit().map(|()| done).map_err(E::from));
        done.inspect_err(|_| tx.rollback())
    }

    /// The same for changes of rows that name in their WHERE all that they rest on, such as claims: where many hosts have
    /// the database, no transaction of others then stands in their way.
    ///
    /// # Errors
    /// As [`Shared::transact`].
    pub fn adjust<R, E: From<StoreError>>(&self, mut work: impl FnMut(&Tx) -> Result<R, E>) -> Result<R, E> {
        self.transact(|tx| {
            if let Tx::Postgres(tx) = tx {
                tx.loosen();
            }
            work(tx)
        })
    }

    /// Reads one state of the data, beside those who write; what runs into another transaction is done again, a few
    /// times.
    ///
    /// # Errors
    /// What `work` gives, or when the database fails.
    pub fn look<R>(&self, mut work: impl FnMut(&Tx) -> Result<R, StoreError>) -> Result<R, StoreError> {
        let tx = self.tx();
        let mut tries = 1;
        loop {
            tx.begin_read(tries > 1)?;
            let found = work(&tx);
            let ended = tx.end_read();
            let done = found.and_then(|found| ended.map(|()| found));
            if done.is_ok() || tries == TRIES || tx.fate() != Fate::Again {
                return done;
            }
            tries += 1;
        }
    }

    /// The same as [`Shared::begin`] for the next try of what was begun last, whose fate was [`Fate::Again`].
    ///
    /// # Errors
    /// As [`Shared::begin`].
    pub fn begin_again(&self) -> Result<Tx, StoreError> {
        match self {
            Shared::Sqlite(_) => self.begin(),
            Shared::Postgres(shared) => Ok(Tx::Postgres(postgres::Tx::begin(shared, true))),
        }
    }

    /// Replaces the connection by a new one, after an error that leaves it in doubt.
    ///
    /// # Errors
    /// As [`Database::open`].
    pub fn reopen(&self) -> Result<(), StoreError> {
        match self {
            Shared::Sqlite(shared) => shared.reopen(),
            // Each transaction has a connection from the pool, which gives none that is broken.
            Shared::Postgres(_) => Ok(()),
        }
    }

    /// Keeps the connection from every holder, until the [`Hold`] is dropped; `None` while a host call uses it.
    pub fn try_hold(&self) -> Option<Hold<'_>> {
        match self {
            Shared::Sqlite(shared) => shared.try_hold().map(Hold::Sqlite),
            Shared::Postgres(shared) => shared.try_hold().map(Hold::Postgres),
        }
    }
}

/// A connection that nobody uses at the moment.
pub enum Hold<'a> {
    Sqlite(sqlite::Hold<'a>),
    Postgres(postgres::Hold<'a>),
}

impl Hold<'_> {
    /// Parts every present holder from the connection and undoes what its transaction did.
    pub fn part(self) {
        match self {
            Hold::Sqlite(hold) => hold.part(),
            Hold::Postgres(hold) => hold.part(),
        }
    }
}

/// What became of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Open,
    /// It ended: the database rolled it back.
    Ended,
    /// It ran into another one, or has to run with more care: nothing of it is kept, and it has to run again.
    Again,
    /// It ended since the database was away, or took too long.
    Away,
    /// The database said that it does not commit it.
    Refused,
    /// The watchdog took it away.
    Parted,
}

/// A script's hold on the transaction it runs in. The connection is taken per host call, so that a run that hangs
/// outside host calls can be parted from its transaction.
#[derive(Clone)]
pub enum Tx {
    Sqlite(sqlite::Tx),
    Postgres(postgres::Tx),
}

impl Tx {
    /// Which SQL it understands.
    pub fn dialect(&self) -> Dialect {
        match self {
            Tx::Sqlite(_) => Dialect::Sqlite,
            Tx::Postgres(_) => Dialect::Postgres,
        }
    }

    /// Begins a transaction that only reads, which sees one state of the data throughout. `again`: it is the next try
    /// of the last one, whose fate was [`Fate::Again`].
    ///
    /// # Errors
    /// When the database fails.
    pub fn begin_read(&self, again: bool) -> Result<(), StoreError> {
        match self {
            Tx::Sqlite(tx) => tx.begin_read(),
            Tx::Postgres(tx) => tx.begin_read(again),
        }
    }

    /// Ends a transaction that only read, if it is still there.
    ///
    /// # Errors
    /// When the database fails.
    pub fn end_read(&self) -> Result<(), StoreError> {
        match self {
            Tx::Sqlite(tx) => tx.end_read(),
            Tx::Postgres(tx) => tx.commit(),
        }
    }

    /// The tables that do not have the form that `wanted` says, each with why.
    ///
    /// # Errors
    /// When the database fails.
    pub fn misfits(&self, wanted: &Schema) -> Result<BTreeMap<String, String>, StoreError> {
        match self {
            Tx::Sqlite(tx) => tx.misfits(wanted),
            Tx::Postgres(tx) => tx.misfits(wanted),
        }
    }

    /// Whether the tables were made for another `schema.sql` than the one that `wanted` was read from.
    ///
    /// # Errors
    /// When the database fails.
    pub fn are_tables_anothers(&self, wanted: &Schema) -> Result<bool, StoreError> {
        match self {
            Tx::Sqlite(tx) => tx.are_tables_anothers(wanted),
            Tx::Postgres(tx) => tx.are_tables_anothers(wanted),
        }
    }

    /// A number, not negative, that changes when the tables do. On Postgres, where other hosts may change them, it may
    /// lag behind by a second.
    ///
    /// # Errors
    /// When the database fails.
    pub fn tables_version(&self) -> Result<i64, StoreError> {
        match self {
            Tx::Sqlite(tx) => Ok(tx.tables_version()),
            Tx::Postgres(tx) => tx.tables_version(),
        }
    }

    /// Runs a fixed statement that takes no parameters and gives no rows.
    ///
    /// # Errors
    /// When it fails, or [`StoreError::Gone`] when the transaction is.
    pub fn execute(&self, sql: &str) -> Result<(), StoreError> {
        match self {
            Tx::Sqlite(tx) => tx.execute(sql),
            Tx::Postgres(tx) => tx.execute(sql),
        }
    }

    /// Marks the place to which [`Tx::undo`] goes back.
    ///
    /// # Errors
    /// When the database fails.
    pub fn mark(&self) -> Result<(), StoreError> {
        match self {
            Tx::Sqlite(tx) => tx.mark(),
            Tx::Postgres(tx) => {
                tx.mark();
                Ok(())
            }
        }
    }

    /// Keeps what was done since [`Tx::mark`].
    ///
    /// # Errors
    /// When the database fails.
    pub fn keep(&self) -> Result<(), StoreError> {
        match self {
            Tx::Sqlite(tx) => tx.keep(),
            Tx::Postgres(_) => Ok(()),
        }
    }

    /// Undoes what was done since [`Tx::mark`]; where that alone cannot be undone, the whole transaction.
    pub fn undo(&self) {
        match self {
            Tx::Sqlite(tx) => tx.undo(),
            Tx::Postgres(tx) => tx.undo_to_mark(),
        }
    }

    /// Begins a group of invocations that are recorded under these keys; gives which of them may run in it, or
    /// nothing where all may. The others have to run alone, since their keys may have to be waited for.
    ///
    /// # Errors
    /// When the database fails.
    pub fn gather(&self, keys: &[Option<&KeyId>]) -> Result<Vec<bool>, StoreError> {
        match self {
            Tx::Sqlite(_) => Ok(Vec::new()),
            Tx::Postgres(tx) => tx.gather(keys),
        }
    }

    /// Whether an answer of the database was waited for since [`Tx::mark`]; `None` where that takes no time.
    pub fn talked(&self) -> Option<bool> {
        match self {
            Tx::Sqlite(_) => None,
            Tx::Postgres(tx) => Some(tx.talked()),
        }
    }

    /// Commits.
    ///
    /// # Errors
    /// When the commit fails: it may or may not have happened. Nothing is open any more.
    pub fn commit(&self) -> Result<(), StoreError> {
        match self {
            Tx::Sqlite(tx) => tx.commit(),
            Tx::Postgres(tx) => tx.commit(),
        }
    }

    /// Undoes all of it, if it is still there.
    pub fn rollback(&self) {
        match self {
            // An error says that nothing is open.
            Tx::Sqlite(tx) => drop(tx.execute("ROLLBACK")),
            Tx::Postgres(tx) => tx.undo(),
        }
    }

    /// The same hold, whose queries are stopped at `until`.
    #[must_use]
    pub fn until(&self, until: Instant) -> Self {
        match self {
            Tx::Sqlite(tx) => Tx::Sqlite(tx.until(until)),
            Tx::Postgres(tx) => Tx::Postgres(tx.until(until)),
        }
    }

    /// What became of it so far.
    pub fn fate(&self) -> Fate {
        match self {
            Tx::Sqlite(tx) => tx.fate(),
            Tx::Postgres(tx) => tx.fate(),
        }
    }
}
