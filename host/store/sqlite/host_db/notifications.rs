//! What browsers hear: messages in `DATA/host.db`, whose positions are given when they commit.

use std::sync::PoisonError;

use rusqlite::{OptionalExtension, params};

use super::HostDb;
use crate::clock::Millis;
use crate::store::host_db::{Message, Placed};
use crate::store::sqlite::{StoreError, fault, rows};

impl HostDb {
    /// Gives messages their positions, once for each event until that is [relayed](Self::relayed), and gives the last
    /// position there is.
    ///
    /// # Errors
    /// When the database fails.
    pub fn note(&self, messages: &[Message], now: Millis) -> Result<i64, StoreError> {
        let relayed = std::mem::take(&mut *self.relayed.lock().unwrap_or_else(PoisonError::into_inner));
        self.write(|connection| {
            let mut forget = connection.prepare_cached("DELETE FROM _oncehost_noted WHERE event_id = ?1")?;
            for event_id in &relayed {
                forget.execute([event_id])?;
            }
            let mut first = connection.prepare_cached(
                "INSERT INTO _oncehost_noted (event_id, noted_at) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
            )?;
            let mut insert = connection.prepare_cached(
                "INSERT INTO notifications (event_id, tenant, topic, message, noted_at) VALUES (?1, ?2, ?3, ?4, ?5)",
            )?;
            for Message { event_id, tenant, topic, message } in messages {
                if first.execute(params![event_id, now])? == 1 {
                    insert.execute(params![event_id, tenant, topic, message, now])?;
                }
            }
            last(connection)
        })
    }

    /// Says that these events do not come again: it is on disk that they were relayed.
    pub fn relayed(&self, event_ids: impl Iterator<Item = String>) {
        self.relayed.lock().unwrap_or_else(PoisonError::into_inner).extend(event_ids);
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
    /// all; gives how many. An event that waited for so long that it was noted at or before `long_ago` counts as a new one.
    ///
    /// # Errors
    /// When the database fails.
    pub fn clear_messages(&self, before: Millis, long_ago: Millis, batch: usize) -> Result<usize, StoreError> {
        // Up to the first that is too young: what is kept has no holes.
        let sql = "DELETE FROM notifications WHERE position IN (SELECT position FROM notifications \
                   WHERE position < coalesce((SELECT min(position) FROM notifications WHERE noted_at > ?1), \
                   (SELECT max(position) FROM notifications)) ORDER BY position LIMIT ?2)";
        // Most are those whose relaying a process did not live to tell.
        let noted = "DELETE FROM _oncehost_noted WHERE event_id IN (SELECT event_id FROM _oncehost_noted WHERE noted_at <= ?1 LIMIT ?2)";
        let batch = i64::try_from(batch).unwrap_or(i64::MAX);
        self.write(|connection| {
            connection.execute(noted, params![long_ago, batch])?;
            connection.execute(sql, params![before, batch])
        })
    }
}

fn last(connection: &rusqlite::Connection) -> rusqlite::Result<i64> {
    connection
        .prepare_cached("SELECT seq FROM sqlite_sequence WHERE name = 'notifications'")?
        .query_row([], |row| row.get(0))
        .optional()
        .map(Option::unwrap_or_default)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(event_id: &str) -> Message {
        let (tenant, topic) = ("t".to_owned(), "topic".to_owned());
        Message { event_id: event_id.to_owned(), tenant, topic, message: "{}".to_owned() }
    }

    fn count(db: &HostDb, sql: &str) -> i64 {
        db.reading().query_row(sql, [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn event_that_comes_again_before_it_is_relayed_has_one_message() {
        let folder = tempfile::tempdir().unwrap();
        let db = HostDb::open(folder.path()).unwrap();
        assert_eq!(db.note(&[message("a"), message("b")], 1).unwrap(), 2);
        drop(db);
        let db = HostDb::open(folder.path()).unwrap();
        assert_eq!(db.note(&[message("b"), message("c")], 2).unwrap(), 3);
        assert_eq!(count(&db, "SELECT count(*) FROM notifications"), 3);
    }

    #[test]
    fn what_is_relayed_leaves_nothing_but_its_message() {
        let folder = tempfile::tempdir().unwrap();
        let db = HostDb::open(folder.path()).unwrap();
        db.note(&[message("a"), message("b")], 1).unwrap();
        db.relayed(["a".to_owned()].into_iter());
        db.note(&[message("c")], 2).unwrap();
        assert_eq!(count(&db, "SELECT count(*) FROM _oncehost_noted WHERE event_id IN ('b', 'c')"), 2);
        assert_eq!(count(&db, "SELECT count(*) FROM _oncehost_noted"), 2);
        db.clear_messages(0, 1, 9).unwrap();
        assert_eq!(count(&db, "SELECT count(*) FROM _oncehost_noted"), 1, "whose end nobody told");
    }

    #[test]
    fn messages_of_an_older_version_keep_their_positions_and_are_not_doubled() {
        let folder = tempfile::tempdir().unwrap();
        let old = rusqlite::Connection::open(folder.path().join("host.db")).unwrap();
        for step in &super::super::TABLES[..4] {
            old.execute_batch(step).unwrap();
        }
        old.pragma_update(None, "user_version", 4).unwrap();
        let insert = "INSERT INTO notifications (position, event_id, tenant, topic, message, noted_at) \
                      VALUES (41, 'a', 't', 'topic', '{}', 1)";
        old.execute_batch(insert).unwrap();
        drop(old);
        let db = HostDb::open(folder.path()).unwrap();
        assert_eq!(db.last_position().unwrap(), 41);
        assert_eq!(db.note(&[message("a"), message("b")], 2).unwrap(), 42);
        assert_eq!(db.event_at(41).unwrap().as_deref(), Some("a"));
    }
}
