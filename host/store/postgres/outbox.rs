//! The outbox: events that commit with the rows of the invocation that published them.

use tokio_postgres::Row;

use super::{Guess, StoreError, Tx, get, many, marks, most, number, optional, text, up_to};
use crate::clock::Millis;
use crate::query::Cell;
use crate::store::outbox::{Event, Outgoing, Published};

/// Puts an event in the outbox, once per event id. It goes out with the COMMIT: as a rule nobody has published it before,
/// and where somebody has, the invocation runs again and looks. Where that was so a short while ago, one whose key its
/// plugin chose is looked for at once.
pub fn publish(tx: &Tx, event: &Event, now: Millis) -> Result<Published, StoreError> {
    let table = table(tx);
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
    let made_for_it = event.event_key == event.event_id;
    let likely = made_for_it || !tx.shared.is_wary(Guess::Event);
    if likely && tx.guess(Guess::Event, || insert.clone(), &params)? {
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

fn table(tx: &Tx) -> String {
    tx.shared.table("_oncehost_events")
}

fn rows(tx: &Tx, rest: &str, params: &[Cell]) -> Result<Vec<Outgoing>, StoreError> {
    let columns = "id, event_id, tenant, topic, subject, payload, published_at, relayed_at";
    let rows = tx.query(&format!("SELECT {columns} FROM {} WHERE {rest}", table(tx)), params)?;
    rows.iter().map(outgoing).collect()
}

fn outgoing(row: &Row) -> Result<Outgoing, StoreError> {
    Ok(Outgoing {
        id: get(row, 0)?,
        event_id: get(row, 1)?,
        tenant: get(row, 2)?,
        topic: get(row, 3)?,
        subject: get(row, 4)?,
        payload: get(row, 5)?,
        published_at: get(row, 6)?,
        relayed_at: get(row, 7)?,
    })
}

/// The events behind the row `after` that wait for the relay, the oldest first: at most `limit`, and no more once their
/// payloads pass `bytes`.
pub fn waiting(tx: &Tx, after: i64, limit: usize, bytes: usize) -> Result<Vec<Outgoing>, StoreError> {
    let found = rows(tx, "relayed_at IS NULL AND id > $1 ORDER BY id LIMIT $2", &[number(after), most(limit)])?;
    Ok(up_to(found, bytes, |event| event.payload.len()))
}

/// The events behind the row `after` that were relayed after an instant, the oldest first: at most `limit`, and no more
/// once their payloads pass `bytes`.
pub fn relayed(tx: &Tx, after: i64, since: Millis, limit: usize, bytes: usize) -> Result<Vec<Outgoing>, StoreError> {
    let which = "id > $1 AND relayed_at > $2 ORDER BY id LIMIT $3";
    Ok(up_to(rows(tx, which, &[number(after), number(since), most(limit)])?, bytes, |event| event.payload.len()))
}

/// The last row of the outbox, whether it waits or not; 0 where there is none.
pub fn newest(tx: &Tx) -> Result<i64, StoreError> {
    let found = tx.query(&format!("SELECT coalesce(max(id), 0) FROM {}", table(tx)), &[])?;
    found.first().map_or(Ok(0), |row| get(row, 0))
}

/// How many events wait for the relay.
pub fn count_waiting(tx: &Tx) -> Result<usize, StoreError> {
    let found = tx.query(&format!("SELECT count(*) FROM {} WHERE relayed_at IS NULL", table(tx)), &[])?;
    let count = found.first().map_or(Ok(0), |row| get::<i64>(row, 0))?;
    Ok(usize::try_from(count).unwrap_or(0))
}

/// Notes that every subscription and listener has these events.
pub fn mark_relayed(tx: &Tx, ids: &[i64], now: Millis) -> Result<(), StoreError> {
    if ids.is_empty() {
        return Ok(());
    }
    let sql = format!("UPDATE {} SET relayed_at = $1 WHERE id IN ({})", table(tx), marks(2, ids.len()));
    let params: Vec<Cell> = [now].iter().chain(ids).map(|id| number(*id)).collect();
    tx.changed(&sql, &params).map(drop)
}

/// One published event.
pub fn find(tx: &Tx, event_id: &str) -> Result<Option<Outgoing>, StoreError> {
    Ok(rows(tx, "event_id = $1", &[text(event_id)])?.pop())
}

/// Forgets at most `batch` events that were relayed at or before `before`; gives how many. One host at a time:
/// where another one clears now, nothing is done.
pub fn clear(tx: &Tx, before: Millis, batch: usize) -> Result<usize, StoreError> {
    if !tx.clears_alone()? {
        return Ok(0);
    }
    let table = table(tx);
    let sql = format!(
        "DELETE FROM {table} WHERE id IN (SELECT id FROM {table} WHERE relayed_at <= $1 ORDER BY relayed_at LIMIT $2)"
    );
    tx.changed(&sql, &[number(before), most(batch)]).map(many)
}
