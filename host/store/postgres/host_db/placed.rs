//! Which plugins have their data in another database.

use std::sync::Arc;

use super::HostDb;
use crate::store::host_db::PlacedRow;
use crate::store::postgres::{Server, StoreError, get, text};

/// What is noted on a server, which is looked at only.
///
/// # Errors
/// When there is none, or the database fails.
pub fn noted(server: &Arc<Server>) -> Result<Vec<PlacedRow>, StoreError> {
    HostDb(server.clone()).placed()
}

impl HostDb {
    /// The plugins whose data are elsewhere.
    ///
    /// # Errors
    /// When the database fails.
    pub fn placed(&self) -> Result<Vec<PlacedRow>, StoreError> {
        let sql = "SELECT plugin, data, place FROM host.placed ORDER BY plugin";
        let found = self.query(sql.to_owned(), Vec::new())?;
        let row = |row| Ok(PlacedRow { plugin: get(row, 0)?, data: get(row, 1)?, place: get(row, 2)? });
        found.iter().map(row).collect()
    }

    /// Notes where a plugin's data are, unless that is noted already.
    ///
    /// # Errors
    /// When the database fails.
    pub fn place(&self, row: &PlacedRow) -> Result<(), StoreError> {
        let sql = "INSERT INTO host.placed (plugin, data, place) VALUES ($1, $2, $3) ON CONFLICT (plugin) DO NOTHING";
        self.query(sql.to_owned(), vec![text(&row.plugin), text(&row.data), text(&row.place)]).map(drop)
    }

    /// Forgets where a plugin's data were.
    ///
    /// # Errors
    /// When the database fails.
    pub fn forget_place(&self, plugin: &str) -> Result<(), StoreError> {
        self.query("DELETE FROM host.placed WHERE plugin = $1".to_owned(), vec![text(plugin)]).map(drop)
    }
}
