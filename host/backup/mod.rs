//! Backups: all databases of a data folder as they were at one moment, with a manifest that says what they are.
//!
//! What goes from one database to another (an event from a plugin's outbox into the one that accepts it) goes in
//! three steps: it commits in the first, it commits in the second, and only then the first notes that it was taken.
//! It can be lost by a backup only where the first one's copy has that note and the second one's copy is from
//! before it came in. So a backup takes hold of all files *before* it copies any, within milliseconds, and as long
//! as that lasts nobody may write such a note (see `App::passing`). Whatever the order of the files, something then
//! is in the second, or still waits in the first and goes once more, under the id it had.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::config::Settings;

mod restore;
mod take;
#[cfg(test)]
mod tests;

pub use restore::{RESTORING, manifest, restore};
pub use take::{Held, hold};

/// Whether a file in a data folder is no data: what a host makes for its work and left, or what others put into any folder.
pub fn is_no_data(name: &str) -> bool {
    name.starts_with('.') || ["lock", "oncehost.sock", "lost+found"].contains(&name)
}

/// The manifest's name in a backup. It is written last.
const MANIFEST: &str = "manifest.json";
/// The form of backups that this version writes, and the newest that it reads.
const FORMAT: u32 = 1;
/// The ending of a backup in one file.
const ARCHIVE: &str = "tar";

/// Refuses what only SQLite's files allow.
///
/// # Errors
/// Where the settings keep the data on a server.
pub fn are_files(settings: &Settings) -> Result<(), BackupError> {
    if settings.store.is_files() {
        return Ok(());
    }
    Err(BackupError(
        "backup and restore are for SQLite's files, and these settings keep the data on Postgres; use its own tools, such \
         as pg_dump and pg_restore, for the schemas of the plugins and the schema host together"
            .to_owned(),
    ))
}

/// The plugins that a backup does not hold, since their data are on servers.
pub fn elsewhere(settings: &Settings) -> Vec<String> {
    settings.stores.iter().filter(|(_, placed)| !placed.store.is_files()).map(|(plugin, _)| plugin.clone()).collect()
}

/// What a backup holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    /// Version of this form.
    pub format: u32,
    /// Version of the host that took it.
    pub oncehost: String,
    /// ISO 8601, UTC.
    pub taken_at: String,
    pub files: Vec<Entry>,
    /// Plugins that were on servers, and so are not in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub elsewhere: Vec<String>,
}

/// One database of a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// Name in the data folder: `orders.db`.
    pub name: String,
    pub bytes: u64,
    /// Hex.
    pub sha256: String,
    /// Version of the host's own tables in it.
    pub host_tables: i64,
}

/// How far a backup or a restore is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    pub file: String,
    /// Bytes of all files.
    pub done: u64,
    pub total: u64,
}

/// Why a backup was not taken or not restored: one sentence with the way out.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct BackupError(pub String);

impl BackupError {
    fn at(doing: &str, path: &Path, error: &dyn std::fmt::Display) -> Self {
        Self(format!("cannot {doing} {}: {error}", path.display()))
    }
}

fn is_archive(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == ARCHIVE)
}

/// Whether a name may stand in a manifest: that of a plugin's or the host's database, and no path.
fn is_database(name: &str) -> bool {
    let stem = name.strip_suffix(".db").unwrap_or_default();
    !stem.is_empty() && stem.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

/// The databases of a data folder, sorted by name.
///
/// # Errors
/// When the folder cannot be read.
pub fn databases(data: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(data)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if is_database(&name) && entry.path().is_file() {
            found.push((name, entry.path()));
        }
    }
    found.sort();
    Ok(found)
}

/// Copies `from` into `to` and gives the SHA-256, hex, of what went through. `each` hears the bytes of each piece.
fn through(from: &mut dyn io::Read, to: &mut dyn io::Write, each: &mut dyn FnMut(u64)) -> io::Result<String> {
    let (mut hash, mut piece) = (Sha256::new(), vec![0; 256 << 10]);
    loop {
        let read = from.read(&mut piece)?;
        let Some(bytes) = piece.get(..read).filter(|bytes| !bytes.is_empty()) else { break };
        hash.update(bytes);
        to.write_all(bytes)?;
        each(u64::try_from(read).unwrap_or(0));
    }
    Ok(hash.finalize().iter().fold(String::with_capacity(64), |text, byte| text + &format!("{byte:02x}")))
}

/// Forces a folder's entries to disk.
fn force(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}
