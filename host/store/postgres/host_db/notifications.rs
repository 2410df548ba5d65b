//! What browsers hear: messages in the schema `host`, whose positions are in the order of commits.

use super::HostDb;
use crate::clock::Millis;
use crate::query::Cell;
use crate::store::host_db::{Message, Placed};
use crate::store::postgres::{StoreError, get, marks, most, number, number_of, text};

/// The newest message is never forgotten.
const LAST: &str = "SELECT coalesce(max(position), 0) FROM host.notifications";

impl HostDb {
    /// Gives messages their positions, once for each event, and gives the last position there is.
    ///
    /// # Errors
    /// When the database fails.
    pub fn note(&self, messages: &[Message], now: Millis) -> Result<i64, StoreError> {
        // Held until the COMMIT: a lower position never appears after a higher one.
        let lock = ("SELECT pg_advisory_xact_lock($1)", vec![number(number_of(&["oncehost", "positions"]))]);
        let insert = "INSERT INTO host.notifications (event_id, tenant, topic, message, noted_at) \
                      VALUES ($1, $2, $3, $4, $5) ON CONFLICT (event_id) DO NOTHING";
        let inserts = messages.iter().map(|it| {
            (insert, vec![text(&it.event_id), text(&it.tenant), text(&it.topic), text(&it.message), number(now)])
        });
        let statements = [lock].into_iter().chain(inserts).chain([(LAST, Vec::new())]);
        let gave = self.transact(statements.map(|(sql, params)| (sql.to_owned(), params)).collect())?;
        gave.last().and_then(|rows| rows.first()).map_or(Ok(0), |row| get(row, 0))
    }

    /// The last position that was given; 0 before the first.
    ///
    /// # Errors
    /// When the database fails.
    pub fn last_position(&self) -> Result<i64, StoreError> {
        self.query(LAST.to_owned(), Vec::new())?.first().map_or(Ok(0), |row| get(row, 0))
    }

    /// At most `limit` messages of a tenant on these topics behind a position, in their order, and no more once they pass
    /// `bytes`.
    ///
    /// # Errors
    /// When the database fails.
    pub fn messages(
        &self,
        tenant: &str,
        topics: &[String],
        after: i64,
        limit: usize,
        bytes: usize,
    ) -> Result<Vec<Placed>, StoreError> {
        if topics.is_empty() {
            return Ok(Vec::new());
        }
        let sql = format!(
            "SELECT position, event_id, message FROM \
               (SELECT *, sum(octet_length(message)) OVER (ORDER BY position) - octet_length(message) AS passed FROM \
                 (SELECT position, event_id, message FROM host.notifications WHERE tenant = $1 AND position > $2 \
                  AND topic IN ({}) ORDER BY position LIMIT $3) AS next) AS sized \
             WHERE passed <= $4 ORDER BY position",
            marks(5, topics.len())
        );
        let topics = topics.iter().map(|topic| text(topic));
        let params: Vec<Cell> =
            [text(tenant), number(after), most(limit), most(bytes)].into_iter().chain(topics).collect();
        let found = self.query(sql, params)?;
        let placed = found
            .iter()
            .map(|row| Ok(Placed { position: get(row, 0)?, event_id: get(row, 1)?, message: get(row, 2)? }));
        placed.collect()
    }

    /// The event at a position, where that is still kept.
    ///
    /// # Errors
    /// When the database fails.
    pub fn event_at(&self, position: i64) -> Result<Option<String>, StoreError> {
        let sql = "SELECT event_id FROM host.notifications WHERE position = $1";
        self.query(sql.to_owned(), vec![number(position)])?.first().map(|row| get(row, 0)).transpose()
    }

    /// Forgets at most `batch` messages that were noted at or before `before`, the oldest first and never the newest of
    /// all; gives how many.
    ///
    /// # Errors
    /// When the database fails.
    pub fn clear_messages(&self, before: Millis, batch: usize) -> Result<usize, StoreError> {
        // Up to the first that is too young: what is kept has no holes.
        let sql = "DELETE FROM host.notifications WHERE position IN (SELECT position FROM host.notifications, alone \
                   WHERE mine AND position < coalesce((SELECT min(position) FROM host.notifications WHERE noted_at > $1), \
                   (SELECT max(position) FROM host.notifications)) ORDER BY position LIMIT $2) RETURNING true";
        self.clear(sql, before, batch)
    }
}
