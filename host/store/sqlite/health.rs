//! How a database is, looked at from outside and without changing anything.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rusqlite::{Connection, ErrorCode, OptionalExtension};

use super::{HOST_TABLES, StoreError, copy, files, host_db, moving, open_for_reading, opening, refuse_newer};
use crate::clock::Millis;

/// What `look` found in one database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// The first damage that SQLite's quick check finds.
    pub damage: Option<String>,
    /// Version of the host's own tables in it.
    pub host_tables: i64,
    /// When the newest record of a key was committed.
    pub newest: Option<Millis>,
    /// Replies, and marks, that are no longer kept and wait to be cleared.
    pub expired: (i64, i64),
    /// Where its data were moved.
    pub moved: Option<String>,
}

/// The newest version of the host's own tables that this host knows, in the database of this name.
pub fn newest_host_tables(name: &str) -> i64 {
    let steps = if name == "host.db" { host_db::TABLES.len() } else { HOST_TABLES.len() };
    i64::try_from(steps).unwrap_or(i64::MAX)
}

/// Bytes at the beginning of SQLite's files that say what they are, and what of them this reads (the file format of SQLite
/// 3, section 1.3).
const HEAD: usize = 100;
const MAGIC: &[u8] = b"SQLite format 3\0";
const USER_VERSION: std::ops::Range<usize> = 60..64;

/// Refuses a plugin's file that is empty, no database, or of a newer version, as its first bytes tell. Nothing is opened;
/// what is damaged further inside shows when it is read.
///
/// # Errors
/// [`StoreError::Unavailable`] with what to do.
pub fn glance(path: &Path) -> Result<(), StoreError> {
    files::refuse_empty(path)?;
    let unread = |error: io::Error| StoreError::Unavailable(format!("cannot read {}: {error}", path.display()));
    let Some(head) = head(path).map_err(unread)? else {
        return Err(StoreError::Unavailable(format!(
            "{} is damaged or no database; restore it from a backup",
            path.display()
        )));
    };
    let version = head.get(USER_VERSION).and_then(|bytes| bytes.try_into().ok()).map_or(0, i32::from_be_bytes);
    refuse_newer(path, i64::from(version), HOST_TABLES.len())
}

/// Whether the first bytes of a file that can be read are not those of a database.
pub fn is_no_database(path: &Path) -> bool {
    matches!(head(path), Ok(None))
}

/// Files whose heads were read, the last one under each name at its end. With one that is closed, all locks go that this
/// process has on it (POSIX, `fcntl`), those of its SQLite too: another process would take the database for one that
/// nobody uses, and take its log away. So none is, also where another one has its name now: it may come back.
static LOOKED_AT: Mutex<BTreeMap<PathBuf, Vec<File>>> = Mutex::new(BTreeMap::new());

/// The first bytes of a database; `None` where they are something else.
fn head(path: &Path) -> io::Result<Option<[u8; HEAD]>> {
    let mut head = [0; HEAD];
    let mut files = LOOKED_AT.lock().unwrap_or_else(PoisonError::into_inner);
    let there = std::fs::metadata(path)?;
    let kept = files.entry(path.to_owned()).or_default();
    let is_there = |file: &File| file.metadata().is_ok_and(|it| (it.dev(), it.ino()) == (there.dev(), there.ino()));
    match kept.iter().position(is_there) {
        Some(at) => kept[at..].rotate_left(1),
        None => kept.push(File::open(path)?),
    }
    let Some(file) = kept.last() else { return Err(io::ErrorKind::NotFound.into()) };
    match file.read_exact_at(&mut head, 0) {
        Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => Err(error),
        read => Ok((read.is_ok() && head.starts_with(MAGIC)).then_some(head)),
    }
}

/// Looks at a plugin's database.
///
/// # Errors
/// When it cannot be opened or read, which says nothing about what is in it.
pub fn look(path: &Path, replies_before: Millis, marks_before: Millis) -> Result<Health, StoreError> {
    let damaged =
        |what: String| Ok(Health { damage: Some(what), host_tables: 0, newest: None, expired: (0, 0), moved: None });
    if files::is_empty(path) {
        return damaged("it is empty (0 bytes), so what it held is lost".to_owned());
    }
    // Without a log nobody has it open, and nothing needs to be made beside it; what then looks damaged may be what a
    // host that has opened it meanwhile is about to write.
    if !files::log_of(path).exists()
        && let Ok(still) = copy::open_still(path)
        && let Ok(health @ Health { damage: None, .. }) = look_at(&still, replies_before, marks_before)
    {
        return Ok(health);
    }
    // What is damaged at its beginning is not even opened.
    let looked = open_for_reading(path).and_then(|connection| look_at(&connection, replies_before, marks_before));
    looked.or_else(|error| match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => damaged(error.to_string()),
        _ => Err(opening(path, &error)),
    })
}

fn look_at(connection: &Connection, replies_before: Millis, marks_before: Millis) -> rusqlite::Result<Health> {
    let damage = copy::quick_check(connection)?;
    let host_tables = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let keys = "SELECT 1 FROM sqlite_schema WHERE name = '_oncehost_keys'";
    if damage.is_some() || connection.query_row(keys, [], |_| Ok(())).optional()?.is_none() {
        return Ok(Health { damage, host_tables, newest: None, expired: (0, 0), moved: None });
    }
    let moved = moving::mark(connection)?.filter(|mark| mark.done).map(|mark| mark.other);
    // Rows that were copied here are not numbered in the order of their commits.
    let newest = "SELECT max((SELECT max(committed_at) FROM _oncehost_keys WHERE (reply IS NULL) = it.mark)) \
                  FROM (SELECT 0 AS mark UNION ALL SELECT 1) AS it";
    let newest = connection.query_row(newest, [], |row| row.get(0))?;
    let count = |also: &str, before: Millis| {
        let sql = format!("SELECT count(*) FROM _oncehost_keys WHERE committed_at <= ?1{also}");
        connection.query_row(&sql, [before], |row| row.get(0))
    };
    let expired = (count(" AND reply IS NOT NULL", replies_before)?, count("", marks_before)?);
    Ok(Health { damage, host_tables, newest, expired, moved })
}
