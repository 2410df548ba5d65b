//! The outbox: events that commit with the rows of the invocation that published them.

use super::{StoreError, Tx, get, optional, text};
use crate::clock::Millis;
use crate::query::Cell;
use crate::store::outbox::{Event, Published};

/// Puts an event in the outbox, once per event id. An event whose id is made for it goes out with the COMMIT: nobody
/// has published it before, and where somebody has, the invocation runs again and looks.
pub fn publish(tx: &Tx, event: &Event, now: Millis) -> Result<Published, StoreError> {
    let table = tx.shared.table("_oncehost_events");
    let insert = format!(
        "INSERT INTO {table} (event_id, tenant, topic, subject, event_key, payload, published_at) \
         VALUES ($1, $2, $3, $4, $5, $6, $7)"
    );
    let params = vec![
        text(&event.event_id),
        text(&event.tenant),
        text(&event.topic),
        optional(event.subject.as_deref()),
        text(&event.event_key),
        text(&event.payload),
        Cell::Integer(now),
    ];
    if event.event_key == event.event_id && tx.is_hopeful() {
        tx.defer(insert, params)?;
        return Ok(Published::Now);
    }
    if tx.changed(&format!("{insert} ON CONFLICT (event_id) DO NOTHING"), &params)? == 1 {
        return Ok(Published::Now);
    }
    let same = tx.query(
        &format!(
            "SELECT topic = $2 AND subject IS NOT DISTINCT FROM $3 AND payload = $4 FROM {table} WHERE event_id = $1"
        ),
        &[text(&event.event_id), text(&event.topic), optional(event.subject.as_deref()), text(&event.payload)],
    )?;
    let same = same.first().map(|row| get::<bool>(row, 0)).transpose()?;
    Ok(if same == Some(true) { Published::Already } else { Published::Other })
}
