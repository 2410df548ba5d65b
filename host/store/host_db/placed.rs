//! Which plugins have their data in another database, and the ids by which these are known again.

use super::HostDb;
use crate::store::StoreError;

/// A plugin whose data are in another database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedRow {
    pub plugin: String,
    /// The id that the data have there.
    pub data: String,
    /// Where that was when it was seen first, without a password.
    pub place: String,
}

impl HostDb {
    /// The plugins whose data are elsewhere, and the id of what belongs to none, sorted.
    ///
    /// # Errors
    /// When the database fails.
    pub fn placed(&self) -> Result<Vec<PlacedRow>, StoreError> {
        match self {
            HostDb::Sqlite(db) => db.placed(),
            HostDb::Postgres(db) => db.placed(),
        }
    }

    /// Notes where a plugin's data are, unless that is noted already; gives what is noted then.
    ///
    /// # Errors
    /// When the database fails.
    pub fn place(&self, row: &PlacedRow) -> Result<PlacedRow, StoreError> {
        match self {
            HostDb::Sqlite(db) => db.place(row)?,
            HostDb::Postgres(db) => db.place(row)?,
        }
        let noted = self.placed()?.into_iter().find(|noted| noted.plugin == row.plugin);
        Ok(noted.unwrap_or_else(|| row.clone()))
    }

    /// Forgets where a plugin's data were.
    ///
    /// # Errors
    /// When the database fails.
    pub fn forget_place(&self, plugin: &str) -> Result<(), StoreError> {
        match self {
            HostDb::Sqlite(db) => db.forget_place(plugin),
            HostDb::Postgres(db) => db.forget_place(plugin),
        }
    }
}
