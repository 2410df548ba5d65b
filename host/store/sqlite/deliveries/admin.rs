//! Deliveries as operators see and change them.

use rusqlite::types::ToSql;
use rusqlite::{Row, params};

use super::{execute, next_in_turn};
use crate::clock::Millis;
use crate::store::deliveries::{Delivery, Selected};
use crate::store::sqlite::{StoreError, Tx, rows};

const COLUMNS: &str = "id, event_id, subscription, operation, handler, tenant, source, sender_id, type, subject, state, \
                       attempts, due_at, error, created_at, tried_at, ended_at, details";

fn delivery(row: &Row<'_>) -> rusqlite::Result<Delivery> {
    Ok(Delivery {
        id: row.get(0)?,
        event_id: row.get(1)?,
        subscription: row.get(2)?,
        operation: row.get(3)?,
        handler: row.get(4)?,
        tenant: row.get(5)?,
        source: row.get(6)?,
        sender_id: row.get(7)?,
        event_type: row.get(8)?,
        subject: row.get(9)?,
        state: row.get(10)?,
        attempts: row.get(11)?,
        due_at: row.get(12)?,
        error: row.get(13)?,
        created_at: row.get(14)?,
        tried_at: row.get(15)?,
        ended_at: row.get(16)?,
        details: row.get(17)?,
    })
}

/// The condition in SQL, and what goes into it.
fn condition(selected: &Selected) -> (String, Vec<&dyn ToSql>) {
    let mut parts = vec!["1".to_owned()];
    let mut values: Vec<&dyn ToSql> = Vec::new();
    let texts = [
        ("event_id = ?", &selected.event_id),
        ("tenant = ?", &selected.tenant),
        ("type = ?", &selected.event_type),
        ("source = ?", &selected.source),
        ("subject = ?", &selected.subject),
        ("? IN (subscription, handler, 'events/' || handler)", &selected.subscription),
        ("instr(error, ?) > 0", &selected.error),
    ];
    for (part, value) in texts {
        if let Some(value) = value {
            parts.push(part.to_owned());
            values.push(value);
        }
    }
    for (part, value) in [("created_at >= ?", &selected.since), ("created_at < ?", &selected.until)] {
        if let Some(value) = value {
            parts.push(part.to_owned());
            values.push(value);
        }
    }
    if !selected.states.is_empty() {
        // The host's own words, never a caller's.
        parts.push(format!("state IN ('{}')", selected.states.join("', '")));
    }
    (parts.join(" AND "), values)
}

/// At most `limit` of the selected deliveries behind the row `after`, in the order in which they came.
///
/// # Errors
/// When the database fails.
pub fn list(tx: &Tx, selected: &Selected, after: i64, limit: usize) -> Result<Vec<Delivery>, StoreError> {
    let (condition, mut values) = condition(selected);
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    values.extend([&after as &dyn ToSql, &limit]);
    let sql = format!("SELECT {COLUMNS} FROM _oncehost_deliveries WHERE {condition} AND id > ? ORDER BY id LIMIT ?");
    tx.with(|connection| rows(connection, &sql, values.as_slice(), delivery))
}

/// All deliveries of an event in this database, each with the event as its handler gets it.
///
/// # Errors
/// When the database fails.
pub fn find(tx: &Tx, event_id: &str) -> Result<Vec<(Delivery, String)>, StoreError> {
    let sql = format!("SELECT {COLUMNS}, event FROM _oncehost_deliveries WHERE event_id = ?1 ORDER BY id");
    tx.with(|connection| rows(connection, &sql, [event_id], |row| Ok((delivery(row)?, row.get(18)?))))
}

/// Has deliveries tried again from the start, each at its instant.
///
/// # Errors
/// When the database fails.
pub fn replay(tx: &Tx, due: &[(i64, Millis)]) -> Result<usize, StoreError> {
    tx.with(|connection| {
        let mut changed = 0;
        for (id, due_at) in due {
            changed += execute(
                connection,
                "UPDATE _oncehost_deliveries AS mine SET attempts = 0, lost = 0, due_at = ?2, ended_at = NULL, \
                 state = CASE WHEN state IN ('waiting', 'behind') THEN state \
                 WHEN order_key IS NOT NULL AND EXISTS (SELECT 1 FROM _oncehost_deliveries AS other WHERE other.subscription = mine.subscription AND other.order_key = mine.order_key \
                 AND other.state IN ('waiting', 'behind', 'running') AND other.id <> mine.id) \
                 THEN 'behind' ELSE 'waiting' END WHERE id = ?1 AND state <> 'running'",
                params![id, due_at],
            )?;
        }
        Ok(changed)
    })
}

/// Gives deliveries up that are dead or wait.
///
/// # Errors
/// When the database fails.
pub fn discard(tx: &Tx, ids: &[i64], now: Millis) -> Result<usize, StoreError> {
    tx.with(|connection| {
        let mut changed = 0;
        for id in ids {
            let discarded = execute(
                connection,
                "UPDATE _oncehost_deliveries SET state = 'discarded', ended_at = ?2 \
                 WHERE id = ?1 AND state IN ('dead', 'waiting', 'behind')",
                params![id, now],
            )?;
            if discarded == 1 {
                next_in_turn(connection, *id)?;
            }
            changed += discarded;
        }
        Ok(changed)
    })
}

/// Has the first of each line go in which nobody goes; gives how many there were.
///
/// # Errors
/// When the database fails.
pub fn move_on(tx: &Tx) -> Result<usize, StoreError> {
    let sql = "UPDATE _oncehost_deliveries SET state = 'waiting' WHERE state = 'behind' AND id IN (SELECT min(id) \
               FROM _oncehost_deliveries WHERE order_key IS NOT NULL AND state IN ('waiting', 'behind', 'running') \
               GROUP BY subscription, order_key HAVING min(state = 'behind'))";
    tx.with(|connection| execute(connection, sql, []))
}

/// Forgets at most `batch` deliveries that were done or discarded at or before `before`; gives how many.
///
/// # Errors
/// When the database fails.
pub fn clear(tx: &Tx, before: Millis, batch: usize) -> Result<usize, StoreError> {
    let sql = "DELETE FROM _oncehost_deliveries WHERE id IN (SELECT id FROM _oncehost_deliveries \
               WHERE state IN ('done', 'discarded') AND ended_at <= ?1 ORDER BY ended_at LIMIT ?2)";
    tx.with(|connection| execute(connection, sql, params![before, i64::try_from(batch).unwrap_or(i64::MAX)]))
}
