//! Deliveries as operators see and change them.

use rusqlite::types::ToSql;
use rusqlite::{Connection, Row, params};

use super::{execute, next_in_turn};
use crate::clock::Millis;
use crate::store::sqlite::{StoreError, Tx, rows};

/// Which deliveries are meant; what is `None` is not looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selected {
    pub event_id: Option<String>,
    pub tenant: Option<String>,
    pub event_type: Option<String>,
    pub source: Option<String>,
    pub subject: Option<String>,
    /// A subscription's name, or its handler's.
    pub subscription: Option<String>,
    /// A part of the error's text.
    pub error: Option<String>,
    pub states: Vec<&'static str>,
    pub since: Option<Millis>,
    pub until: Option<Millis>,
}

/// A delivery as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    pub id: i64,
    pub event_id: String,
    pub subscription: String,
    pub operation: String,
    pub handler: String,
    pub tenant: String,
    pub source: String,
    pub sender_id: String,
    pub event_type: String,
    pub subject: Option<String>,
    pub state: String,
    pub attempts: u32,
    pub due_at: Millis,
    pub error: Option<String>,
    pub created_at: Millis,
    pub tried_at: Option<Millis>,
    pub ended_at: Option<Millis>,
}

const COLUMNS: &str = "id, event_id, subscription, operation, handler, tenant, source, sender_id, type, subject, state, \
                       attempts, due_at, error, created_at, tried_at, ended_at";

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
    })
}

impl Selected {
    /// The condition in SQL, and what goes into it.
    fn condition(&self) -> (String, Vec<&dyn ToSql>) {
        let mut parts = vec!["1".to_owned()];
        let mut values: Vec<&dyn ToSql> = Vec::new();
        let texts = [
            ("event_id = ?", &self.event_id),
            ("tenant = ?", &self.tenant),
            ("type = ?", &self.event_type),
            ("source = ?", &self.source),
            ("subject = ?", &self.subject),
            ("? IN (subscription, handler, 'events/' || handler)", &self.subscription),
            ("instr(error, ?) > 0", &self.error),
        ];
        for (part, value) in texts {
            if let Some(value) = value {
                parts.push(part.to_owned());
                values.push(value);
            }
        }
        for (part, value) in [("created_at >= ?", &self.since), ("created_at < ?", &self.until)] {
            if let Some(value) = value {
                parts.push(part.to_owned());
                values.push(value);
            }
        }
        if !self.states.is_empty() {
            // The host's own words, never a caller's.
            parts.push(format!("state IN ('{}')", self.states.join("', '")));
        }
        (parts.join(" AND "), values)
    }
}

/// At most `limit` of the selected deliveries behind the row `after`, in the order in which they came.
///
/// # Errors
/// When the database fails.
pub fn list(
    connection: &Connection,
    selected: &Selected,
    after: i64,
    limit: usize,
) -> Result<Vec<Delivery>, StoreError> {
    let (condition, mut values) = selected.condition();
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    values.extend([&after as &dyn ToSql, &limit]);
    let sql =
        format!("SELECT {COLUMNS} FROM _oncehost_deliveries WHERE {condition} AND id > ? ORDER BY id LIMIT ?");
    rows(connection, &sql, values.as_slice(), delivery)
}

/// All deliveries of an event in this database, each with the event as its handler gets it.
///
/// # Errors
/// When the database fails.
pub fn find(connection: &Connection, event_id: &str) -> Result<Vec<(Delivery, String)>, StoreError> {
    let sql = format!("SELECT {COLUMNS}, event FROM _oncehost_deliveries WHERE event_id = ?1 ORDER BY id");
    rows(connection, &sql, [event_id], |row| Ok((delivery(row)?, row.get(17)?)))
}

/// How many deliveries are in each state.
///
/// # Errors
/// When the database fails.
pub fn standing(connection: &Connection) -> Result<Vec<(String, String, i64)>, StoreError> {
    let sql = "SELECT subscription, state, count(*) FROM _oncehost_deliveries \
               WHERE state IN ('waiting', 'behind', 'running', 'dead') GROUP BY 1, 2 ORDER BY 1, 2";
    rows(connection, sql, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
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
                 state = CASE WHEN order_key IS NOT NULL AND EXISTS (SELECT 1 FROM _oncehost_deliveries AS other \
                 WHERE other.subscription = mine.subscription AND other.order_key = mine.order_key \
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

/// Forgets at most `batch` deliveries that were done or discarded at or before `before`; gives how many.
///
/// # Errors
/// When the database fails.
pub fn clear(tx: &Tx, before: Millis, batch: usize) -> Result<usize, StoreError> {
    let sql = "DELETE FROM _oncehost_deliveries WHERE id IN (SELECT id FROM _oncehost_deliveries \
               WHERE state IN ('done', 'discarded') AND ended_at <= ?1 ORDER BY ended_at LIMIT ?2)";
    tx.with(|connection| execute(connection, sql, params![before, i64::try_from(batch).unwrap_or(i64::MAX)]))
}
