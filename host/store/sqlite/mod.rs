//! SQLite: one database file per plugin, so that an invocation is one local commit.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

use self::own::HOST_TABLES;
use super::{Access, StoreError, words};
use crate::schema;

pub mod copy;
pub mod deliveries;
mod errors;
pub mod files;
pub mod health;
pub mod host_db;
pub mod keys;
pub mod known;
pub mod moving;
pub mod outbox;
pub mod own;
pub mod records;
pub mod schedules;
pub mod steps;
mod tx;
pub mod workflows;

use tx::Marks;
pub use tx::Tx;

/// How long a statement waits for another process that holds a lock (a backup tool, a shell).
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Statements that are kept prepared on a connection.
const STATEMENT_CACHE: usize = 256;

/// Memory that a connection keeps pages in, at most; SQLite counts KiB as negative numbers.
const CACHE: i64 = -(16 << 10);

/// Pages of the log after which they are brought into the file: a page that changed many times goes there once.
const LOG_PAGES: i64 = 4_000;

/// Opens (or makes) a plugin's database for its one writer, with the host's tables at their newest version.
///
/// # Errors
/// [`StoreError::Unavailable`] with a sentence for the operator: not a database, a newer version, no access, or it was
/// there and is gone.
pub fn open_writer(path: &Path) -> Result<Connection, StoreError> {
    let is_new = !path.exists();
    if is_new {
        known::refuse_gone(path)?;
    }
    let connection = open_versioned(path, &HOST_TABLES)?;
    if is_new {
        known::note(path)?;
    }
    Ok(connection)
}

/// Opens (or makes) a database that the host writes, with its tables brought up by those of `steps` it lacks.
fn open_versioned(path: &Path, steps: &[&str]) -> Result<Connection, StoreError> {
    if !path.exists() {
        files::make(path, |fresh| open_at(fresh, path, steps))?;
    }
    files::refuse_empty(path)?;
    let connection = open_at(path, path, steps)?;
    files::make_durable(path)?;
    Ok(connection)
}

/// Opens the file at `path`, which is there; messages call it `shown`.
fn open_at(path: &Path, shown: &Path, steps: &[&str]) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags).map_err(|error| opening(shown, &error))?;
    prepare(&connection)
        .and_then(|()| connection.pragma_update(None, "journal_mode", "WAL"))
        .and_then(|()| connection.pragma_update(None, "synchronous", "FULL"))
        .map_err(|error| opening(shown, &error))?;
    migrate(&mut connection, shown, steps)?;
    Ok(connection)
}

/// Opens an existing database so that nothing can be written through it, whatever the SQL.
///
/// # Errors
/// As [`open_writer`].
pub fn open_reader(path: &Path) -> Result<Connection, StoreError> {
    let connection = open_beside_writer(path)?;
    // A read may be the first thing after a crash, and rests on the log as a reply to a write does.
    files::make_durable(path)?;
    Ok(connection)
}

/// The same where this process has just opened the database for writing, and so forced its log to disk.
fn open_beside_writer(path: &Path) -> Result<Connection, StoreError> {
    files::refuse_empty(path)?;
    open_for_reading(path).map_err(|error| opening(path, &error))
}

fn open_for_reading(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    prepare(&connection)?;
    connection.pragma_update(None, "query_only", true)?;
    Ok(connection)
}

fn prepare(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_prepared_statement_cache_capacity(STATEMENT_CACHE);
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.pragma_update(None, "cache_size", CACHE)?;
    connection.pragma_update(None, "wal_autocheckpoint", LOG_PAGES)?;
    // Plans never depend on what is bound. Otherwise SQLite plans each statement with `LIMIT ?` anew before each use.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    schema::install(connection)
}

fn migrate(connection: &mut Connection, path: &Path, steps: &[&str]) -> Result<(), StoreError> {
    let newest = i64::try_from(steps.len()).unwrap_or(i64::MAX);
    let version = |connection: &Connection| connection.pragma_query_value(None, "user_version", |row| row.get(0));
    let failed = |error: rusqlite::Error| opening(path, &error);
    if version(connection).map_err(failed)? == newest {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
    let found: i64 = version(&transaction).map_err(failed)?;
    refuse_newer(path, found, steps.len())?;
    for step in steps.iter().skip(usize::try_from(found).unwrap_or(0)) {
        transaction.execute_batch(step).map_err(failed)?;
    }
    transaction.pragma_update(None, "user_version", newest).map_err(failed)?;
    transaction.commit().map_err(failed)
}

/// Refuses a database whose host tables have had more than `known` steps.
fn refuse_newer(path: &Path, found: i64, known: usize) -> Result<(), StoreError> {
    if usize::try_from(found).is_ok_and(|found| found > known) {
        return Err(StoreError::Unavailable(format!(
            "{} was written by a newer oncehost (host tables version {found}, this one knows {known}); start that version again",
            path.display()
        )));
    }
    Ok(())
}

fn opening(path: &Path, error: &rusqlite::Error) -> StoreError {
    let way_out = match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull | ErrorCode::SystemIoFailure | ErrorCode::CannotOpen) if files::no_room(path) => {
            return StoreError::Unavailable(format!(
                "cannot open {}: the disk is full ({error}); what is in it stays as it is: make room, and run this again",
                path.display()
            ));
        }
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
            "the file is damaged or no database; restore it from a backup"
        }
        Some(_) if no_file_left() => "this process has as many files open as it may; raise the limit (ulimit -n)",
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            "check that the folder exists and that the host may write in it"
        }
        Some(ErrorCode::DiskFull) => "the disk, or what this user may have of it, is full; free some space",
        Some(ErrorCode::SystemIoFailure) => {
            "the disk or its file system failed; the system's log (dmesg) says how, and what is in the file may be whole"
        }
        Some(ErrorCode::OutOfMemory) => {
            "this process may have no more memory; raise what limits it (ulimit -v, MemoryMax=)"
        }
        _ => "see the reason given",
    };
    StoreError::Unavailable(format!("cannot open {}: {error}; {way_out}", path.display()))
}

/// Whether the system lets this process open no further file: SQLite only says that it could not open one.
fn no_file_left() -> bool {
    // EMFILE and ENFILE, on every system that has them.
    std::fs::File::open("/dev/null").is_err_and(|error| matches!(error.raw_os_error(), Some(23 | 24)))
}

/// What callers hear of a full disk.
const FULL: &str = "the disk is full; nothing was written, try again when there is room";

/// What a failed statement of the host's own means: none of them breaks a constraint, so the database is at fault.
pub(crate) fn fault(error: &rusqlite::Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::Unavailable(FULL.to_owned()),
        Some(ErrorCode::OperationInterrupted) => StoreError::Slow("a read took too long and was stopped".to_owned()),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            StoreError::Unavailable("the database is in use by another process; try again".to_owned())
        }
        _ if error.to_string().contains("no such table: _oncehost_") => words::own_table_gone(),
        _ => StoreError::Unavailable(format!("the database failed: {error}")),
    }
}

/// All rows that one of the host's fixed queries gives.
pub(crate) fn rows<T>(
    connection: &Connection,
    sql: &str,
    params: impl rusqlite::Params,
    read: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
) -> Result<Vec<T>, StoreError> {
    let found = connection.prepare_cached(sql).and_then(|mut statement| statement.query_map(params, read)?.collect());
    found.map_err(|error| fault(&error))
}

/// The same, and no more once they pass `bytes`; `size` says how many one is.
pub(crate) fn rows_up_to<T>(
    connection: &Connection,
    sql: &str,
    params: impl rusqlite::Params,
    bytes: usize,
    read: impl Fn(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
    size: impl Fn(&T) -> usize,
) -> Result<Vec<T>, StoreError> {
    let all = || {
        let mut statement = connection.prepare_cached(sql)?;
        let mut rows = statement.query(params)?;
        let (mut found, mut passed) = (Vec::new(), 0);
        while passed <= bytes
            && let Some(row) = rows.next()?
        {
            let one = read(row)?;
            passed += size(&one);
            found.push(one);
        }
        Ok(found)
    };
    all().map_err(|error| fault(&error))
}

/// How many steps of SQLite's machine pass between two looks at the clock.
const STEPS_BETWEEN_LOOKS: i32 = 10_000;

/// A connection that a run can be parted from: the watchdog raises the generation, and whoever holds an older one
/// gets nothing more done through it.
pub struct Shared {
    connection: Mutex<Connection>,
    generation: AtomicU64,
    path: PathBuf,
    /// Which file is open.
    inode: AtomicU64,
    access: Access,
    /// When the query that runs now is stopped: microseconds since `epoch`, `u64::MAX` for never.
    stop_query: Arc<AtomicU64>,
    epoch: Instant,
    /// SQLite's count of changes of the schema, as the open transaction sees it.
    tables_version: AtomicI64,
    marks: Marks,
}

impl Shared {
    /// Opens the database at `path`; for reading, it is made first where it is not there yet.
    ///
    /// # Errors
    /// See [`open_writer`].
    pub fn open(path: &Path, access: Access) -> Result<Arc<Self>, StoreError> {
        let shared = Self::over(open(path, access)?, path, access);
        watch_queries(&mut shared.lock(), shared.epoch, &shared.stop_query);
        Ok(Arc::new(shared))
    }

    /// A connection to the database at `path`, whose queries are not stopped.
    fn over(connection: Connection, path: &Path, access: Access) -> Self {
        Self {
            connection: Mutex::new(connection),
            generation: AtomicU64::new(0),
            path: path.to_owned(),
            inode: AtomicU64::new(files::inode(path)),
            access,
            stop_query: Arc::new(AtomicU64::new(u64::MAX)),
            epoch: Instant::now(),
            tables_version: AtomicI64::new(0),
            marks: Marks::default(),
        }
    }

    /// The connection itself, for its owner.
    pub fn lock(&self) -> MutexGuard<'_, Connection> {
        match self.connection.lock() {
            Ok(connection) => connection,
            Err(poisoned) => poisoned.into_inner(),
        }
    }

    /// Keeps the connection from every holder; `None` while a host call uses it.
    pub fn try_hold(&self) -> Option<Hold<'_>> {
        let connection = match self.connection.try_lock() {
            Ok(connection) => connection,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(Hold { connection, generation: &self.generation })
    }

    /// Whether the host's own tables are at their newest version.
    ///
    /// # Errors
    /// When the database fails.
    pub fn is_newest(&self) -> Result<bool, StoreError> {
        let version = self.lock().pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0));
        Ok(usize::try_from(version.map_err(|error| fault(&error))?) == Ok(HOST_TABLES.len()))
    }

    /// Sees that the file which is open is the one that is there: what is written to one that was taken away, or replaced,
    /// is lost with it. One in its place is opened.
    ///
    /// # Errors
    /// As [`Shared::open`], also where it is gone.
    fn follow_file(&self) -> Result<(), StoreError> {
        if files::inode(&self.path) == self.inode.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.reopen().map_err(|error| {
            // Paths are none of the callers' business.
            tracing::error!("{error}");
            StoreError::Unavailable("the database cannot be opened; the host's log says why".to_owned())
        })
    }

    /// Brings the log into the file as far as nobody reads from it. Only a writer can, and the last connection to be closed
    /// may be a reader's.
    pub fn bring_log_in(&self) {
        let brought = self.lock().query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
        if let Err(error) = brought {
            tracing::debug!(path = %self.path.display(), %error, "the log stays beside the file");
        }
    }

    /// Replaces the connection by a new one, after an error that leaves it in doubt.
    ///
    /// # Errors
    /// As [`Shared::open`].
    pub fn reopen(&self) -> Result<(), StoreError> {
        let mut fresh = open(&self.path, self.access)?;
        self.inode.store(files::inode(&self.path), Ordering::Relaxed);
        watch_queries(&mut fresh, self.epoch, &self.stop_query);
        *self.lock() = fresh;
        Ok(())
    }

    /// Notes the version of the tables, which is also the first that a transaction reads, and so its moment.
    fn see_tables(&self, connection: &Connection) -> Result<(), StoreError> {
        let version = connection
            .prepare_cached("PRAGMA schema_version")
            .and_then(|mut statement| statement.query_row([], |row| row.get(0)));
        self.tables_version.store(version.map_err(|error| fault(&error))?, Ordering::Relaxed);
        Ok(())
    }

    /// The generation that may use the connection now.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }

    fn stop_query_at(&self, at: Option<Instant>) {
        let micros = at.map_or(u64::MAX, |at| micros_between(self.epoch, at));
        self.stop_query.store(micros, Ordering::Relaxed);
    }
}

/// The connection, while no host call uses it.
pub struct Hold<'a> {
    connection: MutexGuard<'a, Connection>,
    generation: &'a AtomicU64,
}

impl Hold<'_> {
    /// Parts every present holder from the connection and undoes what its transaction did.
    pub fn part(self) {
        self.generation.fetch_add(1, Ordering::SeqCst);
        if !self.connection.is_autocommit()
            && let Err(error) = self.connection.execute_batch("ROLLBACK")
        {
            tracing::error!(%error, "the rollback of a stuck run failed");
        }
    }
}

fn open(path: &Path, access: Access) -> Result<Connection, StoreError> {
    match access {
        Access::Write => open_writer(path),
        Access::Read => {
            if !path.exists() {
                drop(open_writer(path)?);
            }
            let reader = open_reader(path)?;
            let found: rusqlite::Result<i64> = reader.pragma_query_value(None, "user_version", |row| row.get(0));
            let found = found.map_err(|error| opening(path, &error))?;
            refuse_newer(path, found, HOST_TABLES.len())?;
            if usize::try_from(found).is_ok_and(|found| found < HOST_TABLES.len()) {
                // An older version left it; what only reads expects the newest tables too.
                drop(open_writer(path)?);
            }
            Ok(reader)
        }
    }
}

fn micros_between(epoch: Instant, at: Instant) -> u64 {
    u64::try_from(at.saturating_duration_since(epoch).as_micros()).unwrap_or(u64::MAX)
}

/// Lets queries be stopped. Writes never are: an interrupted INSERT takes its whole transaction with it.
fn watch_queries(connection: &mut Connection, epoch: Instant, stop_query: &Arc<AtomicU64>) {
    let stop_query = stop_query.clone();
    let late = move || {
        let at = stop_query.load(Ordering::Relaxed);
        at != u64::MAX && micros_between(epoch, Instant::now()) > at
    };
    if let Err(error) = connection.progress_handler(STEPS_BETWEEN_LOOKS, Some(late)) {
        tracing::error!(%error, "queries on this connection have no time limit");
    }
}
