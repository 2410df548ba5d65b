//! Which plugins have their data in another database.

use std::path::Path;

use rusqlite::{Connection, OpenFlags, params};

use super::HostDb;
use crate::store::StoreError;
use crate::store::host_db::PlacedRow;
use crate::store::sqlite::fault;

const SELECT: &str = "SELECT plugin, data, place FROM placed ORDER BY plugin";

fn all(connection: &Connection) -> rusqlite::Result<Vec<PlacedRow>> {
    let row = |row: &rusqlite::Row<'_>| Ok(PlacedRow { plugin: row.get(0)?, data: row.get(1)?, place: row.get(2)? });
    connection.prepare_cached(SELECT)?.query_map([], row)?.collect()
}

/// What is noted in the `host.db` of a folder, which is looked at only.
///
/// # Errors
/// When there is none, or it cannot be read.
pub fn noted(data: &Path) -> Result<Vec<PlacedRow>, StoreError> {
    let found = Connection::open_with_flags(data.join("host.db"), OpenFlags::SQLITE_OPEN_READ_ONLY);
    found.and_then(|connection| all(&connection)).map_err(|error| fault(&error))
}

impl HostDb {
    /// The plugins whose data are elsewhere.
    ///
    /// # Errors
    /// When the database fails.
    pub fn placed(&self) -> Result<Vec<PlacedRow>, StoreError> {
        all(&*self.lock()?).map_err(|error| fault(&error))
    }

    /// Whether a plugin's data are elsewhere.
    pub(super) fn is_elsewhere(&self, plugin: &str) -> Result<bool, StoreError> {
        let sql = "SELECT 1 FROM placed WHERE plugin = ?1";
        let found = self.reading().prepare_cached(sql).and_then(|mut statement| statement.exists([plugin]));
        found.map_err(|error| fault(&error))
    }

    /// Notes where a plugin's data are, unless that is noted already.
    ///
    /// # Errors
    /// When the database fails.
    pub fn place(&self, row: &PlacedRow) -> Result<(), StoreError> {
        let sql = "INSERT INTO placed (plugin, data, place) VALUES (?1, ?2, ?3) ON CONFLICT (plugin) DO NOTHING";
        let done = self.lock()?.execute(sql, params![row.plugin, row.data, row.place]);
        done.map(drop).map_err(|error| fault(&error))
    }

    /// Forgets where a plugin's data were.
    ///
    /// # Errors
    /// When the database fails.
    pub fn forget_place(&self, plugin: &str) -> Result<(), StoreError> {
        let done = self.lock()?.execute("DELETE FROM placed WHERE plugin = ?1", [plugin]);
        done.map(drop).map_err(|error| fault(&error))
    }
}
