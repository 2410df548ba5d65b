//! The outbox: events that commit with the rows of the invocation that published them.

use rusqlite::{OptionalExtension, params};

use super::{StoreError, Tx, fault};
use crate::clock::Millis;
use crate::store::outbox::{Event, Published};

/// Puts an event in the outbox, once per event id.
///
/// # Errors
/// When the database fails.
pub fn publish(tx: &Tx, event: &Event, now: Millis) -> Result<Published, StoreError> {
    tx.with(|connection| {
        let inserted = connection
            .prepare_cached(
                "INSERT INTO _oncehost_events (event_id, tenant, topic, subject, event_key, payload, published_at) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (event_id) DO NOTHING",
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
                "SELECT topic = ?2 AND subject IS ?3 AND payload = ?4 FROM _oncehost_events WHERE event_id = ?1",
            )
            .and_then(|mut statement| {
                statement
                    .query_row(params![event.event_id, event.topic, event.subject, event.payload], |row| {
                        row.get::<_, bool>(0)
                    })
                    .optional()
            })
            .map_err(|error| fault(&error))?;
        Ok(if same == Some(true) { Published::Already } else { Published::Other })
    })
}
