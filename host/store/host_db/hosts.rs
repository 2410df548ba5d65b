//! The hosts that share a database. A host that has its database for itself needs no list.

use std::collections::BTreeMap;

use super::HostDb;
use crate::clock::Millis;
use crate::store::StoreError;

/// A host, as it said of itself last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostRow {
    /// What it calls itself in its claims.
    pub id: String,
    pub version: String,
    /// The version of each plugin that it has.
    pub plugins: BTreeMap<String, String>,
    pub started_at: Millis,
    pub seen_at: Millis,
    /// Where it has plugins that do not rest in this database.
    pub places: BTreeMap<String, String>,
}

impl HostDb {
    /// Says that a host is there.
    ///
    /// # Errors
    /// When the database fails.
    pub fn beat(&self, host: &HostRow) -> Result<(), StoreError> {
        match self {
            HostDb::Sqlite(_) => Ok(()),
            HostDb::Postgres(db) => db.beat(host),
        }
    }

    /// All hosts that were seen since, the oldest first.
    ///
    /// # Errors
    /// When the database fails.
    pub fn hosts(&self, since: Millis) -> Result<Vec<HostRow>, StoreError> {
        match self {
            HostDb::Sqlite(_) => Ok(Vec::new()),
            HostDb::Postgres(db) => db.hosts(since),
        }
    }

    /// Strikes a host off that ends, and those that were not seen since `before`.
    ///
    /// # Errors
    /// When the database fails.
    pub fn leave(&self, id: &str, before: Millis) -> Result<(), StoreError> {
        match self {
            HostDb::Sqlite(_) => Ok(()),
            HostDb::Postgres(db) => db.leave(id, before),
        }
    }
}
