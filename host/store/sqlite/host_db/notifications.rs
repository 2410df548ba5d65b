//! What browsers hear: messages in `DATA/host.db`, whose positions are given when they commit.

use std::collections::HashSet;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use rusqlite::{OptionalExtension, params};

use super::HostDb;
use crate::clock::Millis;
use crate::store::host_db::{Message, Placed};
use crate::store::sqlite::{StoreError, fault, rows, rows_up_to};

/// Events that are remembered as noted until they are relayed; of more, the messages are searched.
const MOST_NOTED: usize = 1 << 16;
/// Searches through all messages in one process, before their ids are put in order.
const SEARCHES: u32 = 8;

impl HostDb {
    /// Gives messages of a plugin's events their positions, once for each event, and gives the last position there is.
    ///
    /// Whether an event has its message already is not asked of an index over all of them, which would take a page of the
    /// disk for each: ids have no order. What comes behind the last row that was noted is new. What does not was noted
    /// before its host ended, or comes again from a backup of the plugin's file; then all messages are searched, and where
    /// so much waited for a subscriber that this is done again and again, there is such an index for a while. After a
    /// backup was put back, what it had lost comes again too, in later rows: then there is one, too. That
    /// a backup was put back is seen by rows that are not there any more, and by new events in rows that others had. A
    /// server's rows come in another order than their numbers', and a new event in an earlier one says nothing.
    ///
    /// # Errors
    /// When the database fails.
    pub fn note(&self, plugin: &str, newest: i64, messages: &[Message], now: Millis) -> Result<i64, StoreError> {
        let up_to = self.heard_up_to(plugin)?.unwrap_or(i64::MAX);
        let doubtful = messages.iter().filter(|message| message.row <= up_to).map(|message| message.event_id.as_str());
        let mut known = self.known(doubtful.clone().collect())?;
        let in_others_place = doubtful.into_iter().any(|event_id| !known.contains(event_id));
        let was_put_back = up_to < i64::MAX && (newest < up_to || (in_others_place && !self.is_elsewhere(plugin)?));
        if was_put_back {
            self.index_messages()?;
        }
        let all: Vec<&str> = messages.iter().map(|message| message.event_id.as_str()).collect();
        known.extend(self.indexed(&all)?);
        let new: Vec<_> = messages.iter().filter(|message| !known.contains(&message.event_id)).collect();
        // What comes behind these is looked for in the index then.
        let from = if was_put_back { 0 } else { up_to.min(newest) };
        let next = messages.iter().map(|message| message.row).fold(from, i64::max);
        let last = self.write(|connection| {
            let mut insert = connection.prepare_cached(
                "INSERT INTO notifications (event_id, tenant, topic, message, noted_at) VALUES (?1, ?2, ?3, ?4, ?5)",
            )?;
            for Message { event_id, tenant, topic, message, .. } in &new {
                insert.execute(params![event_id, tenant, topic, message, now])?;
            }
            connection
                .prepare_cached(
                    "INSERT INTO _oncehost_heard (plugin, up_to) VALUES (?1, ?2) \
                     ON CONFLICT (plugin) DO UPDATE SET up_to = excluded.up_to",
                )?
                .execute(params![plugin, next])?;
            last(connection)
        })?;
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        let room = MOST_NOTED.saturating_sub(noted.len());
        noted.extend(messages.iter().take(room).map(|message| message.event_id.clone()));
        Ok(last)
    }

    /// The last row of a plugin's outbox that was noted; without one every row may have been.
    ///
    /// # Errors
    /// When the database fails.
    pub fn heard_up_to(&self, plugin: &str) -> Result<Option<i64>, StoreError> {
        self.reading()
            .prepare_cached("SELECT up_to FROM _oncehost_heard WHERE plugin = ?1")
            .and_then(|mut statement| statement.query_row([plugin], |row| row.get(0)).optional())
            .map_err(|error| fault(&error))
    }

    /// Those of these events that have a message.
    fn known(&self, event_ids: Vec<&str>) -> Result<HashSet<String>, StoreError> {
        let (mut known, mut unknown): (HashSet<String>, Vec<&str>) = {
            let noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
            let (known, unknown): (Vec<&str>, Vec<&str>) = event_ids.into_iter().partition(|it| noted.contains(*it));
            (known.into_iter().map(str::to_owned).collect(), unknown)
        };
        known.extend(self.indexed(&unknown)?);
        unknown.retain(|it| !known.contains(*it));
        if !unknown.is_empty() && self.searches.fetch_add(1, Ordering::Relaxed) == SEARCHES {
            self.index_messages()?;
            known.extend(self.indexed(&unknown)?);
            unknown.retain(|it| !known.contains(*it));
        }
        if !unknown.is_empty() {
            let marks = vec!["?"; unknown.len()].join(", ");
            let sql = format!("SELECT event_id FROM notifications WHERE event_id IN ({marks})");
            let values: Vec<&dyn rusqlite::ToSql> = unknown.iter().map(|it| it as &dyn rusqlite::ToSql).collect();
            known.extend(rows(&self.reading(), &sql, values.as_slice(), |row| row.get(0))?);
        }
        Ok(known)
    }

    /// Keeps the ids of all messages in order, until the messages are forgotten.
    ///
    /// # Errors
    /// When the database fails.
    pub fn index_messages(&self) -> Result<(), StoreError> {
        self.write(|connection| {
            connection.execute_batch(
                "INSERT INTO _oncehost_noted SELECT event_id, noted_at FROM notifications WHERE true ORDER BY event_id \
                 ON CONFLICT DO NOTHING",
            )
        })
    }

    /// Those of these events whose ids are kept in order.
    fn indexed(&self, event_ids: &[&str]) -> Result<Vec<String>, StoreError> {
        let reader = self.reading();
        let look = || {
            let any = reader.prepare_cached("SELECT 1 FROM _oncehost_noted LIMIT 1")?.exists([])?;
            let mut one = reader.prepare_cached("SELECT 1 FROM _oncehost_noted WHERE event_id = ?1")?;
            let there = event_ids.iter().filter(|_| any).filter_map(|event_id| {
                let there = one.exists([event_id]);
                there.map(|there| there.then(|| (*event_id).to_owned())).transpose()
            });
            there.collect::<rusqlite::Result<_>>()
        };
        look().map_err(|error| fault(&error))
    }

    /// Says that these events were relayed, which is on disk: they do not come again while this process lives.
    pub fn relayed<'a>(&self, event_ids: impl Iterator<Item = &'a str>) {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        event_ids.for_each(|event_id| _ = noted.remove(event_id));
    }

    /// The last position that was given; 0 before the first.
    ///
    /// # Errors
    /// When the database fails.
    pub fn last_position(&self) -> Result<i64, StoreError> {
        last(&self.reading()).map_err(|error| fault(&error))
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
        let placed =
            |row: &rusqlite::Row<'_>| Ok(Placed { position: row.get(0)?, event_id: row.get(1)?, message: row.get(2)? });
        rows_up_to(&connection, &sql, values.as_slice(), bytes, placed, |it| it.message.len())
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
        let ids = "DELETE FROM _oncehost_noted WHERE event_id IN (SELECT event_id FROM _oncehost_noted WHERE noted_at <= ?1 LIMIT ?2)";
        self.write(|connection| {
            let ids = connection.execute(ids, params![before, batch])?;
            Ok(ids + connection.execute(sql, params![before, batch])?)
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
    use crate::store::host_db::PlacedRow;

    fn message(row: i64, event_id: &str) -> Message {
        let (tenant, topic) = ("t".to_owned(), "topic".to_owned());
        Message { row, event_id: event_id.to_owned(), tenant, topic, message: "{}".to_owned() }
    }

    /// Notes what the outbox has from this row on; gives how many messages there are.
    fn note(db: &HostDb, from: i64, event_ids: &[&str]) -> i64 {
        let messages: Vec<_> = (from..).zip(event_ids).map(|(row, it)| message(row, it)).collect();
        let newest = messages.last().unwrap().row;
        db.note("p", newest, &messages, 1).unwrap();
        db.reading().query_row("SELECT count(*) FROM notifications", [], |row| row.get(0)).unwrap()
    }

    /// Notes one event that is not in the newest row.
    fn note_row(db: &HostDb, row: i64, event_id: &str) -> i64 {
        db.note("p", 99, &[message(row, event_id)], 1).unwrap();
        db.reading().query_row("SELECT count(*) FROM notifications", [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn event_that_comes_again_has_one_message() {
        let folder = tempfile::tempdir().unwrap();
        let db = HostDb::open(folder.path()).unwrap();
        assert_eq!(note(&db, 1, &["a", "b"]), 2);
        assert_eq!(note(&db, 2, &["b", "c"]), 3, "in one process");
        drop(db);
        let db = HostDb::open(folder.path()).unwrap();
        assert_eq!(note(&db, 3, &["c", "d"]), 4, "after a crash");
        db.relayed(["c", "d"].into_iter());
        assert_eq!(note(&db, 3, &["c", "d"]), 4, "from a backup");
    }

    #[test]
    fn outbox_that_is_put_back_goes_on_with_new_events() {
        let folder = tempfile::tempdir().unwrap();
        let db = HostDb::open(folder.path()).unwrap();
        assert_eq!(note(&db, 1, &["a", "b", "c", "d"]), 4);
        drop(db);
        // A backup from when "b" was the newest one.
        let db = HostDb::open(folder.path()).unwrap();
        assert_eq!(note(&db, 2, &["b"]), 4);
        assert_eq!(db.heard_up_to("p").unwrap(), Some(2));
        // What the backup had lost is done again; "e" and "f" are new.
        assert_eq!(note(&db, 3, &["e", "d"]), 5);
        assert_eq!(note(&db, 5, &["f", "c"]), 6);
        db.clear_messages(1, 99).unwrap();
        assert_eq!(db.indexed(&["a"]).unwrap(), Vec::<String>::new());
        assert_eq!(db.heard_up_to("other").unwrap(), None);
    }

    fn indexed(db: &HostDb) -> i64 {
        db.reading().query_row("SELECT count(*) FROM _oncehost_noted", [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn lost_event_that_is_done_again_behind_as_many_new_ones_has_one_message() {
        let folder = tempfile::tempdir().unwrap();
        let db = HostDb::open(folder.path()).unwrap();
        assert_eq!(note(&db, 1, &["a", "b", "c"]), 3);
        drop(db);
        // A backup from when "a" was the newest one: others have the rows of what it lost, before that is done again.
        let db = HostDb::open(folder.path()).unwrap();
        assert_eq!(note(&db, 2, &["d", "e"]), 5);
        assert_eq!(note(&db, 4, &["b"]), 5);
        assert_eq!(note(&db, 5, &["f", "c"]), 6);
        db.relayed(["d", "e", "b", "f", "c"].into_iter());
        // Such a backup again, of which less is new in one go than it lost.
        assert_eq!(note(&db, 4, &["g"]), 7);
        assert_eq!(note(&db, 5, &["f", "h"]), 8);
        assert_eq!(note(&db, 7, &["b", "c"]), 8);
    }

    #[test]
    fn messages_are_indexed_for_nothing_but_new_events_in_the_place_of_others() {
        let folder = tempfile::tempdir().unwrap();
        let db = HostDb::open(folder.path()).unwrap();
        note(&db, 1, &["a", "b"]);
        note(&db, 3, &["c"]);
        drop(db);
        let db = HostDb::open(folder.path()).unwrap();
        note(&db, 2, &["b", "c", "d"]);
        assert_eq!(indexed(&db), 0, "what was noted when its host ended comes again");
        // The row of a transaction on a server that began first and ended last.
        let row = PlacedRow { plugin: "p".to_owned(), data: "p".to_owned(), place: "there".to_owned() };
        db.place(&row).unwrap();
        assert_eq!((note_row(&db, 3, "e"), indexed(&db)), (5, 0));
        db.forget_place("p").unwrap();
        assert_eq!((note_row(&db, 4, "f"), indexed(&db)), (6, 5));
    }

    #[test]
    fn messages_are_indexed_where_much_that_was_noted_comes_again() {
        let folder = tempfile::tempdir().unwrap();
        let db = HostDb::open(folder.path()).unwrap();
        let ids: Vec<String> = (1..=20).map(|row| row.to_string()).collect();
        note(&db, 1, &ids.iter().map(String::as_str).collect::<Vec<_>>());
        drop(db);
        let db = HostDb::open(folder.path()).unwrap();
        let mut again = (1..).zip(&ids).map(|(row, id)| (note_row(&db, row, id), indexed(&db)));
        assert!(again.by_ref().take(8).all(|it| it == (20, 0)));
        assert!(again.all(|it| it == (20, 20)));
        assert_eq!(note_row(&db, 21, "new"), 21);
    }

    #[test]
    fn messages_that_are_read_at_a_time_hold_so_many_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let db = HostDb::open(folder.path()).unwrap();
        let long = |row| Message { message: "m".repeat(1000), ..message(row, &row.to_string()) };
        db.note("p", 9, &(1..=9).map(long).collect::<Vec<_>>(), 1).unwrap();
        let read = |after, limit, bytes| -> Vec<i64> {
            let found = db.messages("t", &["topic".to_owned()], after, limit, bytes).unwrap();
            found.iter().map(|it| it.position).collect()
        };
        assert_eq!(read(0, 9, 2_500), [1, 2, 3]);
        assert_eq!(read(3, 9, 0), [4], "one at least");
        assert_eq!(read(4, 2, 99_999), [5, 6]);
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
        assert_eq!(note(&db, 7, &["a", "b"]), 2);
        assert_eq!((db.event_at(41).unwrap().as_deref(), db.last_position().unwrap()), (Some("a"), 42));
    }

    #[test]
    fn folder_whose_table_of_noted_events_has_its_first_name_opens() {
        let folder = tempfile::tempdir().unwrap();
        let old = rusqlite::Connection::open(folder.path().join("host.db")).unwrap();
        super::super::TABLES[..5].iter().for_each(|step| old.execute_batch(step).unwrap());
        old.execute_batch("ALTER TABLE _oncehost_noted RENAME TO noted").unwrap();
        old.pragma_update(None, "user_version", 5).unwrap();
        drop(old);
        let db = HostDb::open(folder.path()).unwrap();
        assert_eq!(note(&db, 1, &["a"]), 1);
        db.clear_messages(0, 9).unwrap();
    }
}
