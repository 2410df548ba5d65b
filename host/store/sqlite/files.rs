//! The files of databases, as files: who may read them, and what an empty one means.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rusqlite::Connection;

use super::{StoreError, moving, no_file_left};

/// A new file for its owner alone; SQLite gives what it makes beside it the same mode.
///
/// # Errors
/// When it is there already, or cannot be made.
pub fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// Makes a database beside its place, with what `open` does to it, and then puts it there whole. So an empty file in its
/// place is never one that was about to be made.
pub(super) fn make(path: &Path, open: impl FnOnce(&Path) -> Result<Connection, StoreError>) -> Result<(), StoreError> {
    // The threads of a plugin may all want it at once.
    static MAKING: Mutex<()> = Mutex::new(());
    let _alone = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    if path.exists() {
        return Ok(());
    }
    refuse_log_alone(path)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let fresh = path.with_file_name(format!(".{name}.new"));
    moving::remove(&fresh)?;
    create(&fresh).map_err(|error| unmade(path, &error))?;
    // The last connection brings the log into the file.
    let closed = open(&fresh)?.close();
    closed.map_err(|(_, error)| super::opening(path, &error))?;
    let placed = File::open(&fresh).and_then(|file| file.sync_all()).and_then(|()| fs::rename(&fresh, path));
    placed.map_err(|error| unmade(path, &error))
}

fn unmade(path: &Path, error: &io::Error) -> StoreError {
    let way_out = if no_file_left() {
        "this process has as many files open as it may; raise the limit (ulimit -n)"
    } else if error.kind() == io::ErrorKind::StorageFull {
        "the disk is full; make room, and run this again"
    } else {
        "check that the folder exists and that the host may write in it"
    };
    StoreError::Unavailable(format!("cannot make {}: {error}; {way_out}", path.display()))
}

/// Below this many free bytes a database cannot be opened: its log and the log's index need room.
const LEAST_ROOM: u64 = 256 << 10;

/// Whether the disk that a path is on is full. SQLite often only says that reading or writing failed.
pub(super) fn no_room(path: &Path) -> bool {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    rustix::fs::statvfs(folder).is_ok_and(|disk| disk.f_bavail.saturating_mul(disk.f_frsize) < LEAST_ROOM)
}

/// Which file is at a path: its number, or 0 where there is none.
pub(super) fn inode(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |file| file.ino())
}

/// Whether a file has lost what it held.
pub(super) fn is_empty(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|file| file.is_file() && file.len() == 0)
}

/// Refuses a file that has lost what it held: used as it is, it would begin anew, and calls that were done would be done
/// again.
///
/// # Errors
/// [`StoreError::Unavailable`] with what to do.
pub fn refuse_empty(path: &Path) -> Result<(), StoreError> {
    if !is_empty(path) {
        return Ok(());
    }
    Err(StoreError::Unavailable(format!(
        "{} is empty (0 bytes), so what it held is lost: put it back from a backup; if there never was anything in it, \
         remove it",
        path.display()
    )))
}

/// Refuses the log of a database that is gone: a new one in its place would be given what the old one's log says.
///
/// # Errors
/// [`StoreError::Unavailable`] with what to do.
pub fn refuse_log_alone(path: &Path) -> Result<(), StoreError> {
    let log = log_of(path);
    if path.exists() || !log.exists() {
        return Ok(());
    }
    let (path, log) = (path.display(), log.display());
    Err(StoreError::Unavailable(format!(
        "{log} is there without its database {path}: put the database back beside it; to begin anew, move the log away \
         (mv {log} {log}.old)"
    )))
}

/// Whether the database at a path has a log in which there is something.
pub(super) fn has_log(path: &Path) -> bool {
    fs::metadata(log_of(path)).is_ok_and(|log| log.len() > 0)
}

/// The log of the database at a path, or at the place that a link leads to; SQLite makes it with the first connection and
/// takes it away with the last.
pub(super) fn log_of(path: &Path) -> PathBuf {
    let mut log = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()).into_os_string();
    log.push("-wal");
    log.into()
}

/// What a killed process had written to the log but not yet forced to disk shows as committed now. Forcing it comes
/// before the first reply that rests on it; so does the folder's entry of a file that is new.
pub(super) fn make_durable(path: &Path) -> Result<(), StoreError> {
    let force = |path: &Path| match File::open(path).and_then(|file| file.sync_all()) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(StoreError::Unavailable(format!("cannot force {} to disk: {error}; check the disk", path.display())))
        }
        Ok(()) | Err(_) => Ok(()),
    };
    force(&log_of(path))?;
    crate::crash_point!("log-forced");
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => force(folder),
        Some(_) | None => force(Path::new(".")),
    }
}
