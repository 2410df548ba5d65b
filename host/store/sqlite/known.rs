//! Which plugins have had a database in a data folder: `host.db` remembers it. One that is gone would begin anew, and
//! calls that were done would be done again.

use std::path::Path;

use rusqlite::{Connection, OpenFlags, OptionalExtension, params};

use super::copy::open_still;
use super::{StoreError, files, open_beside_writer, opening, prepare, rows};
use crate::store::Lost;

const HOST: &str = "host.db";

/// Refuses to make a database where one was, before an empty one is made.
///
/// # Errors
/// [`StoreError::Unavailable`] with what to do.
pub fn refuse_gone(path: &Path) -> Result<(), StoreError> {
    if path.exists() || !all(path.parent().unwrap_or(Path::new("")))?.contains(&plugin(path)) {
        return Ok(());
    }
    Err(StoreError::Unavailable(lost(path).to_string()))
}

/// What is to be said of a database that is gone.
pub fn lost(path: &Path) -> Lost {
    let plugin = plugin(path);
    Lost {
        what: format!("{} is gone, and it held what {plugin} has done", path.display()),
        fix: format!(
            "put it back, or restore a backup into another folder; where it is lost for good, stop the host, and let {plugin} \
             begin anew with `oncehost store adopt {plugin}`"
        ),
    }
}

/// Has `host.db` remember the database at a path, if there is a `host.db` beside it.
///
/// # Errors
/// When `host.db` cannot be written.
pub fn note(path: &Path) -> Result<(), StoreError> {
    change(path, "INSERT INTO databases (plugin) VALUES (?1) ON CONFLICT (plugin) DO NOTHING")
}

/// Has it forget that one: the next to use it begins anew where it is gone.
///
/// # Errors
/// When `host.db` cannot be written.
pub fn forget(path: &Path) -> Result<(), StoreError> {
    change(path, "DELETE FROM databases WHERE plugin = ?1")
}

/// The plugins that have had a database in this folder, sorted.
///
/// # Errors
/// When `host.db` cannot be read.
pub fn all(folder: &Path) -> Result<Vec<String>, StoreError> {
    let host = folder.join(HOST);
    if !is_there(&host) {
        return Ok(Vec::new());
    }
    // Where no host runs, nothing is left beside it.
    let connection = if files::has_log(&host) { open_beside_writer(&host)? } else { open_still(&host)? };
    let failed = |error: rusqlite::Error| opening(&host, &error);
    if !has_notes(&connection).map_err(failed)? {
        return Ok(Vec::new());
    }
    rows(&connection, "SELECT plugin FROM databases ORDER BY plugin", [], |row| row.get(0))
}

fn change(path: &Path, sql: &str) -> Result<(), StoreError> {
    let host = path.with_file_name(HOST);
    if !is_there(&host) {
        return Ok(());
    }
    let failed = |error: rusqlite::Error| opening(&host, &error);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(&host, flags).map_err(failed)?;
    prepare(&connection).and_then(|()| connection.pragma_update(None, "synchronous", "FULL")).map_err(failed)?;
    if has_notes(&connection).map_err(failed)? {
        connection.execute(sql, params![plugin(path)]).map_err(failed)?;
    }
    Ok(())
}

fn is_there(host: &Path) -> bool {
    host.exists() && !files::is_empty(host)
}

/// Whether a host of this version has opened it.
fn has_notes(host: &Connection) -> rusqlite::Result<bool> {
    let sql = "SELECT 1 FROM sqlite_schema WHERE name = 'databases'";
    Ok(host.query_row(sql, [], |_| Ok(())).optional()?.is_some())
}

/// Whose database is at a path.
fn plugin(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::super::host_db::HostDb;
    use super::super::{open_reader, open_writer};
    use super::*;

    #[test]
    fn file_that_is_gone_is_not_made_again_before_somebody_gives_it_up() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shop.db");
        drop(HostDb::open(folder.path()).unwrap());
        drop(open_writer(&path).unwrap());
        assert_eq!(all(folder.path()).unwrap(), ["shop"]);
        super::super::moving::remove(&path).unwrap();
        let refused = open_writer(&path).unwrap_err().to_string();
        assert!(refused.contains("shop.db is gone") && refused.contains("`oncehost store adopt shop`"), "{refused}");
        assert!(open_reader(&path).is_err() && !path.exists());
        forget(&path).unwrap();
        drop(open_writer(&path).unwrap());
        assert_eq!(all(folder.path()).unwrap(), ["shop"], "it is remembered again");
    }

    #[test]
    fn folder_without_host_db_remembers_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shop.db");
        drop(open_writer(&path).unwrap());
        super::super::moving::remove(&path).unwrap();
        assert!(all(folder.path()).unwrap().is_empty());
        drop(open_writer(&path).unwrap());
    }
}
