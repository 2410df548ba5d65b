//! Deliveries: one row for each event and subscription of a plugin. Every change of claimed work names owner and
//! attempt; where no row is left to change, another has taken it over.

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{StoreError, Tx, fault, rows};
use crate::clock::Millis;
use crate::store::deliveries::{Claimed, Hold, Lost, NewDelivery, Next, Wanted, in_turns};

mod admin;

pub use admin::{clear, discard, find, list, move_on, replay};

fn execute(connection: &Connection, sql: &str, params: impl rusqlite::Params) -> Result<usize, StoreError> {
    connection.prepare_cached(sql).and_then(|mut statement| statement.execute(params)).map_err(|error| fault(&error))
}

/// Adds deliveries in their order.
///
/// # Errors
/// When the database fails.
pub fn add_all(tx: &Tx, new: &[NewDelivery], now: Millis) -> Result<(), StoreError> {
    new.iter().try_for_each(|new| add(tx, new, now).map(drop))
}

/// Adds a delivery, once for each event and subscription; gives whether it is new.
///
/// # Errors
/// When the database fails.
pub fn add(tx: &Tx, new: &NewDelivery, now: Millis) -> Result<bool, StoreError> {
    tx.with(|connection| {
        let added = execute(
            connection,
            "INSERT INTO _oncehost_deliveries (event_id, subscription, operation, handler, tenant, source, sender_id, \
             type, subject, event, order_key, state, attempts, lost, due_at, created_at) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, \
             CASE WHEN ?11 IS NOT NULL AND EXISTS (SELECT 1 FROM _oncehost_deliveries WHERE subscription = ?2 \
             AND order_key = ?11 AND state IN ('waiting', 'behind', 'running')) THEN 'behind' ELSE 'waiting' END, \
             0, 0, ?12, ?12) ON CONFLICT (event_id, subscription) DO NOTHING",
            params![
                new.event_id,
                new.subscription,
                new.operation,
                new.handler,
                new.tenant,
                new.source,
                new.sender_id,
                new.event_type,
                new.subject,
                new.event,
                new.order_key,
                now
            ],
        )?;
        Ok(added == 1)
    })
}

/// Claims deliveries of a subscription that are due, and counts their tries, as
/// [`crate::store::deliveries::claim`] says.
///
/// # Errors
/// When the database fails.
pub fn claim(tx: &Tx, wanted: Wanted<'_>, now: Millis) -> Result<(Vec<Claimed>, bool), StoreError> {
    tx.with(|connection| {
        let mut tenants = tenants(connection, wanted, wanted.last, now)?;
        if tenants.is_empty() {
            tenants = self::tenants(connection, wanted, "", now)?;
        }
        let share = i64::try_from(wanted.limit.div_ceil(tenants.len().max(1))).unwrap_or(i64::MAX);
        let sql = "SELECT id, event_id, subscription, operation, handler, tenant, event, attempts + 1, lost, \
                   order_key IS NOT NULL FROM _oncehost_deliveries WHERE subscription = ?1 AND state = 'waiting' AND tenant = ?2 \
                   AND due_at <= ?3 ORDER BY due_at, id LIMIT ?4";
        let mut found = Vec::new();
        for tenant in &tenants {
            found.extend(rows(connection, sql, params![wanted.subscription, tenant, now, share], |row| {
                Ok((claimed(row)?, row.get::<_, i64>(8)? > 0))
            })?);
        }
        let (claimed, alone) = in_turns(found, wanted);
        for it in &claimed {
            execute(
                connection,
                "UPDATE _oncehost_deliveries SET state = 'running', attempts = ?2, owner = ?3, lease_until = ?4, \
                 tried_at = ?5 WHERE id = ?1",
                params![it.id, it.attempt, wanted.owner, wanted.lease_until, now],
            )?;
        }
        Ok((claimed, alone))
    })
}

/// The tenants behind this one who have something due, as many as may have a turn.
fn tenants(connection: &Connection, wanted: Wanted<'_>, last: &str, now: Millis) -> Result<Vec<String>, StoreError> {
    let sql = "SELECT tenant FROM _oncehost_deliveries WHERE subscription = ?1 AND state = 'waiting' AND tenant > ?2 \
               AND due_at <= ?3 ORDER BY tenant LIMIT 1";
    let mut found = Vec::<String>::new();
    while found.len() < wanted.limit {
        let last = found.last().map_or(last, String::as_str);
        let next = connection
            .prepare_cached(sql)
            .and_then(|mut statement| {
                statement.query_row(params![wanted.subscription, last, now], |row| row.get(0)).optional()
            })
            .map_err(|error| fault(&error))?;
        let Some(next) = next else { break };
        found.push(next);
    }
    Ok(found)
}

fn claimed(row: &Row<'_>) -> rusqlite::Result<Claimed> {
    Ok(Claimed {
        id: row.get(0)?,
        event_id: row.get(1)?,
        subscription: row.get(2)?,
        operation: row.get(3)?,
        handler: row.get(4)?,
        tenant: row.get(5)?,
        event: row.get(6)?,
        attempt: row.get(7)?,
        in_turn: row.get(9)?,
    })
}

/// How many deliveries of a subscription are claimed at the moment, by whomever.
///
/// # Errors
/// When the database fails.
pub fn running(tx: &Tx, subscription: &str) -> Result<usize, StoreError> {
    let sql = "SELECT count(*) FROM _oncehost_deliveries WHERE state = 'running' AND subscription = ?1";
    tx.with(|connection| {
        let counted = connection
            .prepare_cached(sql)
            .and_then(|mut statement| statement.query_row([subscription], |row| row.get::<_, i64>(0)));
        counted.map(|count| usize::try_from(count).unwrap_or(usize::MAX)).map_err(|error| fault(&error))
    })
}

/// Whether a try still holds its delivery.
///
/// # Errors
/// When the database fails.
pub fn is_held(tx: &Tx, hold: &Hold) -> Result<bool, StoreError> {
    tx.with(|connection| {
        connection
            .prepare_cached(
                "SELECT 1 FROM _oncehost_deliveries \
                 WHERE id = ?1 AND owner = ?2 AND attempts = ?3 AND state = 'running'",
            )
            .and_then(|mut statement| statement.exists(params![hold.id, hold.owner, hold.attempt]))
            .map_err(|error| fault(&error))
    })
}

/// Holds claimed deliveries for longer.
///
/// # Errors
/// When the database fails.
pub fn extend(tx: &Tx, holds: &[Hold], lease_until: Millis) -> Result<(), StoreError> {
    tx.with(|connection| {
        holds.iter().try_for_each(|hold| {
            let changed = execute(
                connection,
                "UPDATE _oncehost_deliveries SET lease_until = ?4 \
                 WHERE id = ?1 AND owner = ?2 AND attempts = ?3 AND state = 'running'",
                params![hold.id, hold.owner, hold.attempt, lease_until],
            );
            changed.map(drop)
        })
    })
}

/// Ends a delivery that was handled; gives whether it was still held.
///
/// # Errors
/// When the database fails.
pub fn done(tx: &Tx, hold: &Hold, now: Millis) -> Result<bool, StoreError> {
    tx.with(|connection| {
        let changed = execute(
            connection,
            "UPDATE _oncehost_deliveries SET state = 'done', error = NULL, details = NULL, ended_at = ?4, \
             owner = NULL, lease_until = NULL WHERE id = ?1 AND owner = ?2 AND attempts = ?3 AND state = 'running'",
            params![hold.id, hold.owner, hold.attempt, now],
        )?;
        if changed == 1 && hold.in_turn {
            next_in_turn(connection, hold.id)?;
        }
        Ok(changed == 1)
    })
}

/// Ends a try that failed; gives whether the delivery was still held.
///
/// # Errors
/// When the database fails.
pub fn failed(tx: &Tx, hold: &Hold, error: (&str, Option<&str>), next: Next, now: Millis) -> Result<bool, StoreError> {
    tx.with(|connection| {
        let (state, due, uncounted) = match next {
            Next::Again(due) => ("waiting", due, 0),
            Next::Uncounted(due) => ("waiting", due, 1),
            Next::Dead => ("dead", now, 0),
        };
        let ended = (next == Next::Dead).then_some(now);
        let changed = execute(
            connection,
            "UPDATE _oncehost_deliveries SET state = ?4, due_at = ?5, error = ?6, ended_at = ?7, owner = NULL, \
             lease_until = NULL, attempts = attempts - ?8, details = ?9 \
             WHERE id = ?1 AND owner = ?2 AND attempts = ?3 AND state = 'running'",
            params![hold.id, hold.owner, hold.attempt, state, due, error.0, ended, uncounted, error.1],
        )?;
        if changed == 1 && next == Next::Dead && hold.in_turn {
            next_in_turn(connection, hold.id)?;
        }
        Ok(changed == 1)
    })
}

/// Lets the next delivery in the turn of one that ended go.
fn next_in_turn(connection: &Connection, ended: i64) -> Result<(), StoreError> {
    let sql = "UPDATE _oncehost_deliveries SET state = 'waiting' WHERE state = 'behind' AND id = ( \
               SELECT next.id FROM _oncehost_deliveries AS ended JOIN _oncehost_deliveries AS next \
               ON next.subscription = ended.subscription AND next.order_key = ended.order_key \
               AND next.state IN ('waiting', 'behind', 'running') \
               WHERE ended.id = ?1 AND ended.order_key IS NOT NULL ORDER BY next.id LIMIT 1)";
    execute(connection, sql, [ended]).map(drop)
}

/// Deliveries whose tries were lost: those of other owners (`alone` says that no other host has this database), and
/// those whose lease ran out.
///
/// # Errors
/// When the database fails.
pub fn lost(tx: &Tx, owner: &str, now: Millis) -> Result<Vec<Lost>, StoreError> {
    // For their order alone SQLite would go through all deliveries that are kept.
    let sql = "SELECT id, owner, attempts, order_key IS NOT NULL, subscription \
               FROM _oncehost_deliveries INDEXED BY _oncehost_deliveries_running \
               WHERE state = 'running' AND (owner <> ?1 OR lease_until <= ?2) ORDER BY id LIMIT 1000";
    tx.with(|connection| {
        rows(connection, sql, params![owner, now], |row| {
            let hold = Hold { id: row.get(0)?, owner: row.get(1)?, attempt: row.get(2)?, in_turn: row.get(3)? };
            Ok(Lost { hold, subscription: row.get(4)? })
        })
    })
}

/// Ends a try that was lost, as [`failed`] does, and notes that its host went with it.
///
/// # Errors
/// When the database fails.
pub fn recover(tx: &Tx, lost: &Lost, error: &str, next: Next, now: Millis) -> Result<(), StoreError> {
    if failed(tx, &lost.hold, (error, None), next, now)? {
        let note = "UPDATE _oncehost_deliveries SET lost = lost + 1 WHERE id = ?1";
        tx.with(|connection| execute(connection, note, [lost.hold.id]))?;
    }
    Ok(())
}

/// When the next delivery of a subscription is due; `None` when none waits.
///
/// # Errors
/// When the database fails.
pub fn next_due(tx: &Tx, subscription: &str) -> Result<Option<Millis>, StoreError> {
    let sql = "SELECT due_at FROM _oncehost_deliveries WHERE subscription = ?1 AND state = 'waiting' \
               ORDER BY due_at LIMIT 1";
    tx.with(|connection| {
        connection
            .prepare_cached(sql)
            .and_then(|mut statement| statement.query_row([subscription], |row| row.get(0)).optional())
            .map_err(|error| fault(&error))
    })
}
