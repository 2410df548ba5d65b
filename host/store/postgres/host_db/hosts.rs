//! The hosts that share the database.

use super::HostDb;
use crate::clock::Millis;
use crate::store::host_db::HostRow;
use crate::store::postgres::{StoreError, get, number, text};

impl HostDb {
    /// Says that a host is there.
    ///
    /// # Errors
    /// When the database fails.
    pub fn beat(&self, host: &HostRow) -> Result<(), StoreError> {
        let sql = "INSERT INTO host.hosts (id, version, plugins, started_at, seen_at, places) \
                   VALUES ($1, $2, $3, $4, $5, $6) \
                   ON CONFLICT (id) DO UPDATE SET plugins = excluded.plugins, seen_at = excluded.seen_at";
        let plugins = serde_json::json!(host.plugins).to_string();
        let params = vec![
            text(&host.id),
            text(&host.version),
            text(&plugins),
            number(host.started_at),
            number(host.seen_at),
            text(&serde_json::json!(host.places).to_string()),
        ];
        self.query(sql.to_owned(), params).map(drop)
    }

    /// All hosts that were seen since, the oldest first.
    ///
    /// # Errors
    /// When the database fails.
    pub fn hosts(&self, since: Millis) -> Result<Vec<HostRow>, StoreError> {
        let sql = "SELECT id, version, plugins, started_at, seen_at, places FROM host.hosts WHERE seen_at > $1 \
                   ORDER BY started_at, id";
        let found = self.query(sql.to_owned(), vec![number(since)])?;
        let hosts = found.iter().map(|row| {
            Ok(HostRow {
                id: get(row, 0)?,
                version: get(row, 1)?,
                plugins: serde_json::from_str(get(row, 2)?).unwrap_or_default(),
                started_at: get(row, 3)?,
                seen_at: get(row, 4)?,
                places: serde_json::from_str(get(row, 5)?).unwrap_or_default(),
            })
        });
        hosts.collect()
    }

    /// Strikes a host off that ends, and those that were not seen since `before`.
    ///
    /// # Errors
    /// When the database fails.
    pub fn leave(&self, id: &str, before: Millis) -> Result<(), StoreError> {
        let sql = "DELETE FROM host.hosts WHERE id = $1 OR seen_at < $2 RETURNING true";
        self.query(sql.to_owned(), vec![text(id), number(before)]).map(drop)
    }
}
