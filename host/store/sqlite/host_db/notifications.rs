//! What browsers hear: messages in `DATA/host.db`, whose positions are given when they commit.

use rusqlite::{OptionalExtension, params};

use super::HostDb;
use crate::clock::Millis;
use crate::store::host_db::{Message, Placed};
use crate::store::sqlite::{StoreError, fault, rows};

impl HostDb {
    /// Gives messages their positions, once for each event, and gives the last position there is.
    ///
    /// # Errors
    /// When the database fails.
    pub fn note(&self, messages: &[Message], now: Millis) -> Result<i64, StoreError> {
        self.write(|connection| {
            let mut insert = connection.prepare_cached(
                "INSERT INTO notifications (event_id, tenant, topic, message, noted_at) VALUES (?1, ?2, ?3, ?4, ?5) \
                 ON CONFLICT (event_id) DO NOTHING",
            )?;
            for Message { event_id, tenant, topic, message } in messages {
                insert.execute(params![event_id, tenant, topic, message, now])?;
            }
            last(connection)
        })
    }

    /// The last position that was given; 0 before the first.
    ///
    /// # Errors
    /// When the database fails.
    pub fn last_position(&self) -> Result<i64, StoreError> {
        last(&self.reading()).map_err(|error| fault(&error))
    }

    /// At most `limit` messages of a tenant on these topics behind a position, in their order.
    ///
    /// # Errors
    /// When the database fails.
    pub fn messages(
        &self,
        tenant: &str,
        topics: &[String],
        after: i64,
        limit: usize,
    ) -> Result<Vec<Placed>, StoreError> {
        let connection = self.reading();
        let marks = vec!["?"; topics.len()].join(", ");
        let sql = format!(
            "SELECT position, event_id, message FROM notifications WHERE tenant = ? AND topic IN ({marks}) \
             AND position > ? ORDER BY position LIMIT ?"
        );
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let mut values: Vec<&dyn rusqlite::ToSql> = vec![&tenant];
        values.extend(topics.iter().map(|topic| topic as &dyn rusqlite::ToSql));
        values.extend([&after as &dyn rusqlite::ToSql, &limit]);
        rows(&connection, &sql, values.as_slice(), |row| {
            Ok(Placed { position: row.get(0)?, event_id: row.get(1)?, message: row.get(2)? })
        })
    }

    /// The event at a position, where that is still kept.
    ///
    /// # Errors
    /// When the database fails.
    pub fn event_at(&self, position: i64) -> Result<Option<String>, StoreError> {
        self.reading()
            .prepare_cached("SELECT event_id FROM notifications WHERE position = ?1")
            .and_then(|mut statement| statement.query_row([position], |row| row.get(0)).optional())
            .map_err(|error| fault(&error))
    }

    /// Forgets at most `batch` messages that were noted at or before `before`, the oldest first and never the newest of
    /// all; gives how many.
    ///
    /// # Errors
    /// When the database fails.
    pub fn clear_messages(&self, before: Millis, batch: usize) -> Result<usize, StoreError> {
        // Up to the first that is too young: what is kept has no holes.
        let sql = "DELETE FROM notifications WHERE position IN (SELECT position FROM notifications \
                   WHERE position < coalesce((SELECT min(position) FROM notifications WHERE noted_at > ?1), \
                   (SELECT max(position) FROM notifications)) ORDER BY position LIMIT ?2)";
        let batch = i64::try_from(batch).unwrap_or(i64::MAX);
        self.write(|connection| connection.execute(sql, params![before, batch]))
    }
}

fn last(connection: &rusqlite::Connection) -> rusqlite::Result<i64> {
    connection
        .prepare_cached("SELECT seq FROM sqlite_sequence WHERE name = 'notifications'")?
        .query_row([], |row| row.get(0))
        .optional()
        .map(Option::unwrap_or_default)
}
