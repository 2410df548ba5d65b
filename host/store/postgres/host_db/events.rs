//! Events in the schema `host`: what came in, who subscribes, and what browsers hear.

use tokio_postgres::Row;

use super::{HostDb, hash};
use crate::clock::Millis;
use crate::query::Cell;
use crate::store::host_db::{Accepted, AcceptedEvent, Incoming, Subscribed};
use crate::store::postgres::{StoreError, get, instant, marks, most, number, optional, text, up_to};

const SELECT: &str = "SELECT id, event_id, tenant, source, sender_id, type, subject, hash, event, accepted_at, \
                      relayed_at FROM host.events";

fn accepted(row: &Row) -> Result<AcceptedEvent, StoreError> {
    let incoming = Incoming {
        event_id: get(row, 1)?,
        tenant: get(row, 2)?,
        source: get(row, 3)?,
        sender_id: get(row, 4)?,
        event_type: get(row, 5)?,
        subject: get(row, 6)?,
        hash: hash(row, 7)?,
        event: get(row, 8)?,
    };
    Ok(AcceptedEvent { id: get(row, 0)?, incoming, accepted_at: get(row, 9)?, relayed_at: get(row, 10)? })
}

impl HostDb {
    /// Keeps events, once for each tenant, source and id; what is new is on disk when this returns.
    ///
    /// # Errors
    /// When the database fails; nothing of them is kept then.
    pub fn accept(&self, events: &[Incoming], now: Millis) -> Result<Vec<Accepted>, StoreError> {
        let insert = "INSERT INTO host.events (event_id, tenant, source, sender_id, type, subject, hash, event, \
                      accepted_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT DO NOTHING RETURNING true";
        // A statement of its own: it sees what the first one waited for.
        let same = "SELECT hash = $4 FROM host.events WHERE tenant = $1 AND source = $2 AND sender_id = $3";
        let statements = events.iter().flat_map(|event| {
            let id = [text(&event.tenant), text(&event.source), text(&event.sender_id)];
            let [tenant, source, sender_id] = id.clone();
            let row = vec![
                text(&event.event_id),
                tenant,
                source,
                sender_id,
                text(&event.event_type),
                optional(event.subject.as_deref()),
                Cell::Blob(event.hash.to_vec()),
                text(&event.event),
                number(now),
            ];
            let id = id.into_iter().chain([Cell::Blob(event.hash.to_vec())]).collect();
            [(insert.to_owned(), row), (same.to_owned(), id)]
        });
        let gave = self.transact(statements.collect())?;
        let told = gave.chunks(2).map(|gave| {
            let [inserted, same] = gave else { return Ok(Accepted::Other) };
            if !inserted.is_empty() {
                return Ok(Accepted::Now);
            }
            let same = same.first().map(|row| get(row, 0)).transpose()?;
            Ok(if same == Some(true) { Accepted::Already } else { Accepted::Other })
        });
        told.collect()
    }

    /// The events behind the row `after` that wait for the relay, the oldest first: at most `limit`, and no more once
    /// they pass `bytes`.
    ///
    /// # Errors
    /// When the database fails.
    pub fn waiting_events(&self, after: i64, limit: usize, bytes: usize) -> Result<Vec<AcceptedEvent>, StoreError> {
        let sql = format!("{SELECT} WHERE relayed_at IS NULL AND id > $1 ORDER BY id LIMIT $2");
        let found = self.query(sql, vec![number(after), most(limit)])?;
        let found = found.iter().map(accepted).collect::<Result<_, _>>()?;
        Ok(up_to(found, bytes, |event: &AcceptedEvent| event.incoming.event.len()))
    }

    /// How many events wait for the relay.
    ///
    /// # Errors
    /// When the database fails.
    pub fn count_waiting_events(&self) -> Result<usize, StoreError> {
        let found = self.query("SELECT count(*) FROM host.events WHERE relayed_at IS NULL".to_owned(), Vec::new())?;
        let count = found.first().map_or(Ok(0), |row| get::<i64>(row, 0))?;
        Ok(usize::try_from(count).unwrap_or(0))
    }

    /// Notes that every subscription has these events.
    ///
    /// # Errors
    /// When the database fails.
    pub fn mark_events_relayed(&self, ids: &[i64], now: Millis) -> Result<(), StoreError> {
        if ids.is_empty() {
            return Ok(());
        }
        let sql = format!("UPDATE host.events SET relayed_at = $1 WHERE id IN ({})", marks(2, ids.len()));
        self.query(sql, [now].iter().chain(ids).map(|id| number(*id)).collect()).map(drop)
    }

    /// One accepted event.
    ///
    /// # Errors
    /// When the database fails.
    pub fn event(&self, event_id: &str) -> Result<Option<AcceptedEvent>, StoreError> {
        let found = self.query(format!("{SELECT} WHERE event_id = $1"), vec![text(event_id)])?;
        found.first().map(accepted).transpose()
    }

    /// Forgets at most `batch` accepted events that were relayed at or before `before`; gives how many.
    ///
    /// # Errors
    /// When the database fails.
    pub fn clear_events(&self, before: Millis, batch: usize) -> Result<usize, StoreError> {
        let sql = "DELETE FROM host.events WHERE id IN (SELECT id FROM host.events, alone \
                   WHERE relayed_at <= $1 AND mine ORDER BY relayed_at LIMIT $2) RETURNING true";
        self.clear(sql, before, batch)
    }

    /// All subscriptions, those that ended a short while ago included.
    ///
    /// # Errors
    /// When the database fails.
    pub fn subscriptions(&self) -> Result<Vec<Subscribed>, StoreError> {
        let sql = "SELECT plugin, name, folder, type, handler, filter, by_subject, ended_at FROM host.subscriptions \
                   ORDER BY plugin, name";
        let found = self.query(sql.to_owned(), Vec::new())?;
        let subscribed = found.iter().map(|row| {
            Ok(Subscribed {
                plugin: get(row, 0)?,
                name: get(row, 1)?,
                folder: get(row, 2)?,
                event_type: get(row, 3)?,
                handler: get(row, 4)?,
                filter: get(row, 5)?,
                by_subject: get(row, 6)?,
                ended_at: get(row, 7)?,
            })
        });
        subscribed.collect()
    }

    /// Writes what changed of the subscriptions.
    ///
    /// # Errors
    /// When the database fails.
    pub fn change_subscriptions(&self, changed: &[Subscribed]) -> Result<(), StoreError> {
        let sql = "INSERT INTO host.subscriptions (plugin, name, folder, type, handler, filter, by_subject, ended_at) \
                   VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (plugin, name) DO UPDATE SET \
                   folder = excluded.folder, type = excluded.type, handler = excluded.handler, \
                   filter = excluded.filter, by_subject = excluded.by_subject, ended_at = excluded.ended_at";
        let statements = changed.iter().map(|it| {
            let row = vec![
                text(&it.plugin),
                text(&it.name),
                text(&it.folder),
                text(&it.event_type),
                text(&it.handler),
                optional(it.filter.as_deref()),
                Cell::Bool(it.by_subject),
                instant(it.ended_at),
            ];
            (sql.to_owned(), row)
        });
        self.transact(statements.collect()).map(drop)
    }

    /// Forgets subscriptions that ended before `before`.
    ///
    /// # Errors
    /// When the database fails.
    pub fn forget_subscriptions(&self, before: Millis) -> Result<usize, StoreError> {
        let sql = "DELETE FROM host.subscriptions WHERE ended_at < $1 RETURNING true";
        Ok(self.query(sql.to_owned(), vec![number(before)])?.len())
    }
}
