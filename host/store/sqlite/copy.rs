//! Copies of databases that are in use: each is what one reader sees at one instant, whatever is written meanwhile.

use std::fs::File;
use std::path::Path;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};

use super::{StoreError, fault, files, open_reader, opening};

/// Pages that are copied between two looks at whether to go on.
const STEP: i32 = 1024;

/// One database as it was at one instant, held until it is copied.
pub struct Snapshot {
    connection: Connection,
    pages: i64,
    page_size: i64,
    host_tables: i64,
}

impl Snapshot {
    /// Takes hold of the present state of the database at `path`. Writers go on; only the log file cannot begin
    /// anew as long as this is held. `alone` says that there are none.
    ///
    /// # Errors
    /// When the database cannot be opened or read.
    pub fn take(path: &Path, alone: bool) -> Result<Self, StoreError> {
        files::refuse_empty(path)?;
        let connection = if alone { open_alone(path)? } else { open_reader(path)? };
        let failed = |error: rusqlite::Error| opening(path, &error);
        connection.execute_batch("BEGIN").map_err(failed)?;
        // The first read is what fixes the instant.
        let number = |name: &str| connection.pragma_query_value(None, name, |row| row.get(0)).map_err(failed);
        let (host_tables, pages, page_size) = (number("user_version")?, number("page_count")?, number("page_size")?);
        Ok(Self { connection, pages, page_size, host_tables })
    }

    /// Bytes that the copy will have.
    pub fn bytes(&self) -> u64 {
        u64::try_from(self.pages.saturating_mul(self.page_size)).unwrap_or(0)
    }

    /// The version of the host's own tables in it.
    pub fn host_tables(&self) -> i64 {
        self.host_tables
    }

    /// Copies it into a new file, page by page, forces that to disk, and checks what was written. `go_on` hears how
    /// many bytes are done and may say no; gives whether the copy is whole.
    ///
    /// # Errors
    /// When one of the two files fails, or the database is damaged.
    pub fn copy_to(&self, path: &Path, go_on: &mut dyn FnMut(u64) -> bool) -> Result<bool, StoreError> {
        let made = files::create(path);
        made.map_err(|error| StoreError::Unavailable(format!("cannot make {}: {error}", path.display())))?;
        let mut copy = Connection::open(path).map_err(|error| opening(path, &error))?;
        let failed = |error: rusqlite::Error| fault(&error);
        // Nobody reads it before it is whole and forced to disk below.
        copy.pragma_update(None, "synchronous", "OFF").map_err(failed)?;
        let backup = Backup::new(&self.connection, &mut copy).map_err(failed)?;
        loop {
            let step = backup.step(STEP).map_err(failed)?;
            let progress = backup.progress();
            let left = i64::from(progress.remaining).saturating_mul(self.page_size);
            if !go_on(self.bytes().saturating_sub(u64::try_from(left).unwrap_or(0))) {
                return Ok(false);
            }
            match step {
                StepResult::Done => break,
                StepResult::More => {}
                StepResult::Busy | StepResult::Locked | _ => {
                    return Err(StoreError::Unavailable("another process holds a lock on the database".to_owned()));
                }
            }
        }
        drop(backup);
        drop(copy);
        let forced = File::open(path).and_then(|file| file.sync_all());
        forced.map_err(|error| StoreError::Unavailable(format!("the copy cannot be forced to disk: {error}")))?;
        check(path)?;
        Ok(true)
    }
}

/// Reads all of a database that nobody writes, and says what is damaged in it.
///
/// # Errors
/// When something is.
fn check(path: &Path) -> Result<(), StoreError> {
    let connection = open_still(path)?;
    quick_check(&connection).map_err(|error| opening(path, &error))?.map_or(Ok(()), |damage| {
        Err(StoreError::Unavailable(format!("the database is damaged ({damage}); restore it from an older backup")))
    })
}

/// Opens a database that nobody writes: where it has no log, nothing is made beside it.
pub(super) fn open_alone(path: &Path) -> Result<Connection, StoreError> {
    if files::has_log(path) { open_reader(path) } else { open_still(path) }
}

/// Opens a database that nobody writes and that has no log; nothing is made beside it.
pub(super) fn open_still(path: &Path) -> Result<Connection, StoreError> {
    let uri = format!("file:{}?immutable=1", escaped(path));
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(uri, flags).map_err(|error| opening(path, &error))
}

/// The first damage that SQLite's own check finds.
pub(super) fn quick_check(connection: &Connection) -> rusqlite::Result<Option<String>> {
    let told: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    Ok((told != "ok").then(|| told.replace('\n', " ")))
}

fn escaped(path: &Path) -> String {
    path.to_string_lossy().replace('%', "%25").replace('?', "%3f").replace('#', "%23")
}
