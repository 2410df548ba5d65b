//! The outbox: events that commit with the rows of the invocation that published them.

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{StoreError, Tx, fault, rows_up_to};
use crate::clock::Millis;
use crate::store::outbox::{Event, Outgoing, Published};

/// Puts an event in the outbox, once per event id.
///
/// # Errors
/// When the database fails.
pub fn publish(tx: &Tx, event: &Event, now: Millis) -> Result<Published, StoreError> {
    tx.with(|connection| {
        let inserted = connection
            .prepare_cached(
                "INSERT INTO _oncehost_events (event_id, tenant, topic, subject, event_key, payload, published_at) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (event_key, event_id) DO NOTHING",
            )
            .and_then(|mut statement| {
                statement.execute(params![
                    event.event_id,
                    event.tenant,
                    event.topic,
                    event.subject,
                    event.event_key,
                    event.payload,
                    now
                ])
            })
            .map_err(|error| fault(&error))?;
        if inserted == 1 {
            return Ok(Published::Now);
        }
        let same = connection
            .prepare_cached(
                "SELECT topic = ?3 AND subject IS ?4 AND payload = ?5 FROM _oncehost_events \
                 WHERE event_key = ?1 AND event_id = ?2",
            )
            .and_then(|mut statement| {
                let params = params![event.event_key, event.event_id, event.topic, event.subject, event.payload];
                statement.query_row(params, |row| row.get::<_, bool>(0)).optional()
            })
            .map_err(|error| fault(&error))?;
        Ok(if same == Some(true) { Published::Already } else { Published::Other })
    })
}

const SELECT: &str =
    "SELECT id, event_id, tenant, topic, subject, payload, published_at, relayed_at FROM _oncehost_events";

fn outgoing(row: &Row<'_>) -> rusqlite::Result<Outgoing> {
    Ok(Outgoing {
        id: row.get(0)?,
        event_id: row.get(1)?,
        tenant: row.get(2)?,
        topic: row.get(3)?,
        subject: row.get(4)?,
        payload: row.get(5)?,
        published_at: row.get(6)?,
        relayed_at: row.get(7)?,
    })
}

/// The events behind the row `after` that wait for the relay, the oldest first: at most `limit`, and no more once their payloads pass `bytes`.
///
/// # Errors
/// When the database fails, or is of an older version.
pub fn waiting(tx: &Tx, after: i64, limit: usize, bytes: usize) -> Result<Vec<Outgoing>, StoreError> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    some(tx, "relayed_at IS NULL AND id > ?1 ORDER BY id LIMIT ?2", &[&after, &limit], bytes)
}

/// The events behind the row `after` that were relayed after an instant, the oldest first: at most `limit`, and no more once their payloads pass `bytes`.
///
/// # Errors
/// When the database fails.
pub fn relayed(tx: &Tx, after: i64, since: Millis, limit: usize, bytes: usize) -> Result<Vec<Outgoing>, StoreError> {
    // Hardly ever are there any: the index over instants is not what finds that.
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    some(tx, "id > ?1 AND +relayed_at > ?2 ORDER BY id LIMIT ?3", &[&after, &since, &limit], bytes)
}

/// Rows in their order, and no more once their payloads pass `bytes`.
fn some(tx: &Tx, rest: &str, params: &[&dyn rusqlite::ToSql], bytes: usize) -> Result<Vec<Outgoing>, StoreError> {
    let sql = format!("{SELECT} WHERE {rest}");
    tx.with(|connection| rows_up_to(connection, &sql, params, bytes, outgoing, |event| event.payload.len()))
}

/// The last row of the outbox, whether it waits or not; 0 where there is none.
///
/// # Errors
/// When the database fails.
pub fn newest(tx: &Tx) -> Result<i64, StoreError> {
    let sql = "SELECT coalesce(max(id), 0) FROM _oncehost_events";
    tx.with(|connection| {
        let newest = connection.prepare_cached(sql).and_then(|mut it| it.query_row([], |row| row.get(0)));
        newest.map_err(|error| fault(&error))
    })
}

/// How many events wait for the relay.
///
/// # Errors
/// When the database fails.
pub fn count_waiting(tx: &Tx) -> Result<usize, StoreError> {
    let sql = "SELECT count(*) FROM _oncehost_events WHERE relayed_at IS NULL";
    tx.with(|connection| {
        let count = connection.prepare_cached(sql).and_then(|mut it| it.query_row([], |row| row.get::<_, i64>(0)));
        count.map(|count| usize::try_from(count).unwrap_or(0)).map_err(|error| fault(&error))
    })
}

/// Notes that every subscription and listener has these events: all that wait from the first to the last.
///
/// # Errors
/// When the database fails, or others wait among them.
pub fn mark_relayed(tx: &Tx, ids: &[i64], now: Millis) -> Result<(), StoreError> {
    tx.with(|connection| mark_between(connection, "_oncehost_events", ids, now).map_err(|error| fault(&error)))
}

/// Notes an instant in all rows that wait for the relay from the first to the last of these, in one go: none but these
/// wait there, since rows are numbered in the order in which they commit.
pub(super) fn mark_between(connection: &Connection, table: &str, ids: &[i64], now: Millis) -> rusqlite::Result<()> {
    let (Some(first), Some(last)) = (ids.first(), ids.last()) else { return Ok(()) };
    let sql = format!("UPDATE {table} SET relayed_at = ?3 WHERE relayed_at IS NULL AND id BETWEEN ?1 AND ?2");
    let marked = connection.prepare_cached(&sql)?.execute(params![first, last, now])?;
    if marked > ids.len() {
        // What was not passed on must not pass for it.
        return Err(rusqlite::Error::StatementChangedRows(marked));
    }
    Ok(())
}

/// One published event. Where its plugin chose its key, all are read through from the last one on.
///
/// # Errors
/// When the database fails.
pub fn find(tx: &Tx, event_id: &str) -> Result<Option<Outgoing>, StoreError> {
    tx.with(|connection| {
        let one = |rest: &str| {
            let mut statement = connection.prepare_cached(&format!("{SELECT} WHERE {rest}"))?;
            statement.query_row([event_id], outgoing).optional()
        };
        let found = one("event_key = ?1 AND event_id = ?1");
        let found = found.and_then(|found| match found {
            None => one("event_id = ?1 ORDER BY id DESC LIMIT 1"),
            found => Ok(found),
        });
        found.map_err(|error| fault(&error))
    })
}

/// Forgets at most `batch` events that were relayed at or before `before`; gives how many.
///
/// # Errors
/// When the database fails.
pub fn clear(tx: &Tx, before: Millis, batch: usize) -> Result<usize, StoreError> {
    tx.with(|connection| {
        connection
            .prepare_cached(
                "DELETE FROM _oncehost_events WHERE id IN \
                 (SELECT id FROM _oncehost_events WHERE relayed_at <= ?1 ORDER BY relayed_at LIMIT ?2)",
            )
            .and_then(|mut statement| statement.execute(params![before, i64::try_from(batch).unwrap_or(i64::MAX)]))
            .map_err(|error| fault(&error))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::sqlite::own::HOST_TABLES;
    use crate::store::sqlite::{Access, Shared};

    fn event(event_id: &str, event_key: &str) -> Event {
        let (tenant, topic, payload) = ("t".to_owned(), "p.done".to_owned(), "1".to_owned());
        Event { event_id: event_id.to_owned(), event_key: event_key.to_owned(), tenant, topic, subject: None, payload }
    }

    #[test]
    fn event_is_told_from_others_of_its_key_and_found_by_its_id() {
        let folder = tempfile::tempdir().unwrap();
        let shared = Shared::open(&folder.path().join("p.db"), Access::Write).unwrap();
        let tx = Tx::begin(&shared).unwrap();
        // The id of one is the key that somebody chose for another; and two tenants chose the same.
        let all = [event("1", "1"), event("2", "1"), event("3", "1"), event("4", "other")];
        for event in &all {
            assert_eq!(publish(&tx, event, 0).unwrap(), Published::Now);
        }
        for event in &all {
            assert_eq!(publish(&tx, event, 0).unwrap(), Published::Already);
            let changed = Event { payload: "2".to_owned(), ..event.clone() };
            assert_eq!(publish(&tx, &changed, 0).unwrap(), Published::Other);
            assert_eq!(find(&tx, &event.event_id).unwrap().unwrap().event_id, event.event_id);
        }
        assert_eq!(find(&tx, "other").unwrap(), None);
    }

    #[test]
    fn event_of_an_older_version_s_file_is_published_no_second_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.db");
        let older = Connection::open(&path).unwrap();
        HOST_TABLES[..5].iter().for_each(|step| older.execute_batch(step).unwrap());
        let rows = "INSERT INTO _oncehost_events (event_id, tenant, topic, event_key, payload, published_at) VALUES
                    ('1', 't', 'p.done', '1', '1', 0), ('2', 't', 'p.done', 'chosen', '1', 0); PRAGMA user_version = 5";
        older.execute_batch(rows).unwrap();
        drop(older);
        let shared = Shared::open(&path, Access::Write).unwrap();
        let tx = Tx::begin(&shared).unwrap();
        for event in [event("1", "1"), event("2", "chosen")] {
            assert_eq!(publish(&tx, &event, 1).unwrap(), Published::Already);
        }
        assert_eq!(waiting(&tx, 0, 9, 99).unwrap().len(), 2);
    }

    #[test]
    fn marks_reach_no_event_that_was_not_passed_on() {
        let folder = tempfile::tempdir().unwrap();
        let shared = Shared::open(&folder.path().join("p.db"), Access::Write).unwrap();
        let tx = Tx::begin(&shared).unwrap();
        for key in ["1", "2", "3", "4"] {
            publish(&tx, &event(key, key), 0).unwrap();
        }
        let waits = |tx: &Tx| waiting(tx, 0, 9, 99).unwrap().iter().map(|event| event.id).collect::<Vec<_>>();
        assert!(mark_relayed(&tx, &[1, 3], 1).is_err());
        drop(tx);
        let tx = Tx::begin(&shared).unwrap();
        for key in ["1", "2", "3", "4"] {
            publish(&tx, &event(key, key), 0).unwrap();
        }
        mark_relayed(&tx, &[2], 1).unwrap();
        assert_eq!(waits(&tx), [1, 3, 4]);
        // What lies between and has its mark keeps it.
        mark_relayed(&tx, &[1, 3], 2).unwrap();
        assert_eq!(waits(&tx), [4]);
        assert_eq!(find(&tx, "2").unwrap().unwrap().relayed_at, Some(1));
    }
}
