//! Which plugins have their data in another database.

use rusqlite::params;

use super::HostDb;
use crate::store::StoreError;
use crate::store::host_db::PlacedRow;
use crate::store::sqlite::fault;

impl HostDb {
    /// The plugins whose data are elsewhere.
    ///
    /// # Errors
    /// When the database fails.
    pub fn placed(&self) -> Result<Vec<PlacedRow>, StoreError> {
        let connection = self.lock();
        let found = connection.prepare_cached("SELECT plugin, data, place FROM placed ORDER BY plugin").and_then(
            |mut statement| {
                let row = |row: &rusqlite::Row<'_>| {
                    Ok(PlacedRow { plugin: row.get(0)?, data: row.get(1)?, place: row.get(2)? })
                };
                statement.query_map([], row)?.collect()
            },
        );
        found.map_err(|error| fault(&error))
    }

    /// Notes where a plugin's data are, unless that is noted already.
    ///
    /// # Errors
    /// When the database fails.
    pub fn place(&self, row: &PlacedRow) -> Result<(), StoreError> {
        let sql = "INSERT INTO placed (plugin, data, place) VALUES (?1, ?2, ?3) ON CONFLICT (plugin) DO NOTHING";
        let done = self.lock().execute(sql, params![row.plugin, row.data, row.place]);
        done.map(drop).map_err(|error| fault(&error))
    }

    /// Forgets where a plugin's data were.
    ///
    /// # Errors
    /// When the database fails.
    pub fn forget_place(&self, plugin: &str) -> Result<(), StoreError> {
        let done = self.lock().execute("DELETE FROM placed WHERE plugin = ?1", [plugin]);
        done.map(drop).map_err(|error| fault(&error))
    }
}
