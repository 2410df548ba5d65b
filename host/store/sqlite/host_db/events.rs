//! Events in `DATA/host.db`: what came in, who subscribes, and what browsers hear.

use rusqlite::{Connection, OptionalExtension, Row, TransactionBehavior, params};

use super::HostDb;
use crate::clock::Millis;
use crate::store::host_db::{Accepted, AcceptedEvent, Incoming, Subscribed};
use crate::store::sqlite::outbox::mark_between;
use crate::store::sqlite::{StoreError, fault, rows, rows_up_to};

const SELECT: &str = "SELECT id, event_id, tenant, source, sender_id, type, subject, hash, event, accepted_at, \
                      relayed_at FROM events";

fn accepted(row: &Row<'_>) -> rusqlite::Result<AcceptedEvent> {
    let incoming = Incoming {
        event_id: row.get(1)?,
        tenant: row.get(2)?,
        source: row.get(3)?,
        sender_id: row.get(4)?,
        event_type: row.get(5)?,
        subject: row.get(6)?,
        hash: row.get(7)?,
        event: row.get(8)?,
    };
    Ok(AcceptedEvent { id: row.get(0)?, incoming, accepted_at: row.get(9)?, relayed_at: row.get(10)? })
}

impl HostDb {
    /// Runs `work` in one transaction that is on disk when this returns.
    pub(super) fn write<R>(&self, work: impl FnOnce(&Connection) -> rusqlite::Result<R>) -> Result<R, StoreError> {
        let mut connection = self.lock()?;
        let run = || {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let done = work(&transaction)?;
            transaction.commit()?;
            Ok(done)
        };
        run().map_err(|error| fault(&error))
    }

    /// Keeps events, once for each tenant, source and id; what is new is on disk when this returns.
    ///
    /// # Errors
    /// When the database fails; nothing of them is kept then.
    pub fn accept(&self, events: &[Incoming], now: Millis) -> Result<Vec<Accepted>, StoreError> {
        self.write(|connection| {
            let mut insert = connection.prepare_cached(
                "INSERT INTO events (event_id, tenant, source, sender_id, type, subject, hash, event, accepted_at) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT DO NOTHING",
            )?;
            let mut same = connection
                .prepare_cached("SELECT hash = ?4 FROM events WHERE tenant = ?1 AND source = ?2 AND sender_id = ?3")?;
            let accept = |event: &Incoming| {
                let Incoming { event_id, tenant, source, sender_id, event_type, subject, hash, event } = event;
                let row = params![event_id, tenant, source, sender_id, event_type, subject, hash, event, now];
                if insert.execute(row)? == 1 {
                    return Ok(Accepted::Now);
                }
                let same = same.query_row(params![tenant, source, sender_id, hash], |row| row.get(0)).optional()?;
                Ok(if same == Some(true) { Accepted::Already } else { Accepted::Other })
            };
            events.iter().map(accept).collect()
        })
    }

    /// The events behind the row `after` that wait for the relay, the oldest first: at most `limit`, and no more once
    /// they pass `bytes`.
    ///
    /// # Errors
    /// When the database fails.
    pub fn waiting_events(&self, after: i64, limit: usize, bytes: usize) -> Result<Vec<AcceptedEvent>, StoreError> {
        let connection = self.lock()?;
        let sql = format!("{SELECT} WHERE relayed_at IS NULL AND id > ?1 ORDER BY id LIMIT ?2");
        let params = [after, i64::try_from(limit).unwrap_or(i64::MAX)];
        rows_up_to(&connection, &sql, params, bytes, accepted, |event| event.incoming.event.len())
    }

    /// How many events wait for the relay.
    ///
    /// # Errors
    /// When the database fails.
    pub fn count_waiting_events(&self) -> Result<usize, StoreError> {
        let sql = "SELECT count(*) FROM events WHERE relayed_at IS NULL";
        let count = self.lock()?.query_row(sql, [], |row| row.get::<_, i64>(0));
        count.map(|count| usize::try_from(count).unwrap_or(0)).map_err(|error| fault(&error))
    }

    /// Notes that every subscription has these events: all that wait from the first to the last.
    ///
    /// # Errors
    /// When the database fails.
    pub fn mark_events_relayed(&self, ids: &[i64], now: Millis) -> Result<(), StoreError> {
        self.write(|connection| mark_between(connection, "events", ids, now))
    }

    /// One accepted event.
    ///
    /// # Errors
    /// When the database fails.
    pub fn event(&self, event_id: &str) -> Result<Option<AcceptedEvent>, StoreError> {
        self.lock()?
            .prepare_cached(&format!("{SELECT} WHERE event_id = ?1"))
            .and_then(|mut statement| statement.query_row([event_id], accepted).optional())
            .map_err(|error| fault(&error))
    }

    /// Forgets at most `batch` accepted events that were relayed at or before `before`; gives how many.
    ///
    /// # Errors
    /// When the database fails.
    pub fn clear_events(&self, before: Millis, batch: usize) -> Result<usize, StoreError> {
        let sql = "DELETE FROM events WHERE id IN \
                   (SELECT id FROM events WHERE relayed_at <= ?1 ORDER BY relayed_at LIMIT ?2)";
        self.write(|connection| connection.execute(sql, params![before, i64::try_from(batch).unwrap_or(i64::MAX)]))
    }
}

impl HostDb {
    /// All subscriptions, those that ended a short while ago included.
    ///
    /// # Errors
    /// When the database fails.
    pub fn subscriptions(&self) -> Result<Vec<Subscribed>, StoreError> {
        let sql = "SELECT plugin, name, folder, type, handler, filter, by_subject, ended_at FROM subscriptions \
                   ORDER BY plugin, name";
        rows(&*self.lock()?, sql, [], |row| {
            Ok(Subscribed {
                plugin: row.get(0)?,
                name: row.get(1)?,
                folder: row.get(2)?,
                event_type: row.get(3)?,
                handler: row.get(4)?,
                filter: row.get(5)?,
                by_subject: row.get(6)?,
                ended_at: row.get(7)?,
            })
        })
    }

    /// Writes what changed of the subscriptions.
    ///
    /// # Errors
    /// When the database fails.
    pub fn change_subscriptions(&self, changed: &[Subscribed]) -> Result<(), StoreError> {
        self.write(|connection| {
            let mut statement = connection.prepare_cached(
                "INSERT OR REPLACE INTO subscriptions \
                 (plugin, name, folder, type, handler, filter, by_subject, ended_at) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            )?;
            changed.iter().try_for_each(|it| {
                let Subscribed { plugin, name, folder, event_type, handler, filter, by_subject, ended_at } = it;
                statement
                    .execute(params![plugin, name, folder, event_type, handler, filter, by_subject, ended_at])
                    .map(drop)
            })
        })
    }

    /// Forgets subscriptions that ended before `before`.
    ///
    /// # Errors
    /// When the database fails.
    pub fn forget_subscriptions(&self, before: Millis) -> Result<usize, StoreError> {
        self.lock()?.execute("DELETE FROM subscriptions WHERE ended_at < ?1", [before]).map_err(|error| fault(&error))
    }
}
