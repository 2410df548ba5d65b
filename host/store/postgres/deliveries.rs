//! Deliveries: one row for each event and subscription of a plugin. Every change of claimed work names owner and
//! attempt; where no row is left to change, another has taken it over.

use tokio_postgres::Row;

use super::{StoreError, Tx, count, get, instant, many, marks, most, number, number_of, optional, text};
use crate::clock::Millis;
use crate::query::Cell;
use crate::store::deliveries::{Claimed, Hold, Lost, NewDelivery, Next, Wanted, in_turns};

mod admin;

pub use admin::{clear, discard, find, list, move_on, replay};

fn table(tx: &Tx) -> String {
    tx.shared.table("_oncehost_deliveries")
}

/// `UPDATE` the deliveries; `rest` is what stands behind the table's name.
fn update(tx: &Tx, rest: &str, params: &[Cell]) -> Result<usize, StoreError> {
    tx.changed(&format!("UPDATE {} SET {rest}", table(tx)), params).map(many)
}

/// Where a try holds its delivery; [`held`] gives the first three parameters.
const HELD: &str = "id = $1 AND owner = $2 AND attempts = $3 AND state = 'running'";

fn held(hold: &Hold) -> Vec<Cell> {
    vec![number(hold.id), text(&hold.owner), number(hold.attempt)]
}

/// Adds a delivery, once for each event and subscription; gives whether it is new.
pub fn add(tx: &Tx, new: &NewDelivery, now: Millis) -> Result<bool, StoreError> {
    let (sql, params) = adding(tx, new, now);
    Ok(tx.changed(&sql, &params)? == 1)
}

/// Adds deliveries in their order, all of them in the round trip of the COMMIT.
pub fn add_all(tx: &Tx, new: &[NewDelivery], now: Millis) -> Result<(), StoreError> {
    new.iter().try_for_each(|new| {
        let (sql, params) = adding(tx, new, now);
        tx.defer(sql, params)
    })
}

/// Whoever stands before it is held in its state until this has committed: a claim, which is not serializable, would
/// otherwise hide from the end of that one that there is a next.
fn adding(tx: &Tx, new: &NewDelivery, now: Millis) -> (String, Vec<Cell>) {
    let table = table(tx);
    let sql = format!(
        "INSERT INTO {table} (event_id, subscription, operation, handler, tenant, source, sender_id, type, subject, \
         event, order_key, state, attempts, lost, due_at, created_at) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11::text, \
         CASE WHEN $11::text IS NOT NULL AND EXISTS (SELECT 1 FROM {table} WHERE subscription = $2 \
         AND order_key = $11::text AND state IN ('waiting', 'behind', 'running') FOR SHARE) THEN 'behind' ELSE 'waiting' END, \
         0, 0, $12, $12) ON CONFLICT (event_id, subscription) DO NOTHING"
    );
    let params = vec![
        text(&new.event_id),
        text(&new.subscription),
        text(&new.operation),
        text(&new.handler),
        text(&new.tenant),
        text(&new.source),
        text(&new.sender_id),
        text(&new.event_type),
        optional(new.subject.as_deref()),
        text(&new.event),
        optional(new.order_key.as_deref()),
        number(now),
    ];
    (sql, params)
}

/// Claims deliveries of a subscription that are due, less those that another host takes at this moment, and counts their
/// tries, as [`crate::store::deliveries::claim`] says.
pub fn claim(tx: &Tx, wanted: Wanted<'_>, now: Millis) -> Result<(Vec<Claimed>, bool), StoreError> {
    let mut found = due(tx, wanted, wanted.last, now)?;
    if found.is_empty() && !wanted.last.is_empty() {
        found = due(tx, wanted, "", now)?;
    }
    let (claimed, alone) = in_turns(found, wanted);
    if !claimed.is_empty() {
        let rest = format!(
            "state = 'running', attempts = attempts + 1, owner = $1, lease_until = $2, tried_at = $3 WHERE id IN ({})",
            marks(4, claimed.len())
        );
        let ids = claimed.iter().map(|it| number(it.id));
        let params: Vec<Cell> =
            [text(wanted.owner), number(wanted.lease_until), number(now)].into_iter().chain(ids).collect();
        update(tx, &rest, &params)?;
    }
    Ok((claimed, alone))
}

/// What is due of the tenants behind `last`, as many of them as may have a turn, to each its share. The tenants are found
/// one from the other, so that a long line of one is stepped over.
fn due(tx: &Tx, wanted: Wanted<'_>, last: &str, now: Millis) -> Result<Vec<(Claimed, bool)>, StoreError> {
    let table = table(tx);
    let next = |last: &str| {
        format!(
            "SELECT d.tenant FROM {table} AS d WHERE d.subscription = $1 AND d.state = 'waiting' AND d.due_at <= $2 \
             AND d.tenant > {last} ORDER BY d.tenant LIMIT 1"
        )
    };
    let sql = format!(
        "WITH RECURSIVE line (tenant) AS (({}) UNION ALL SELECT ({}) FROM line WHERE line.tenant IS NOT NULL), \
         turn AS MATERIALIZED (SELECT tenant FROM line WHERE tenant IS NOT NULL LIMIT $3) \
         SELECT it.* FROM turn CROSS JOIN LATERAL (SELECT id, event_id, subscription, operation, handler, tenant, event, \
         attempts + 1, lost, order_key IS NOT NULL FROM {table} \
         WHERE subscription = $1 AND state = 'waiting' AND tenant = turn.tenant \
         AND due_at <= $2 ORDER BY due_at, id LIMIT ($3 - 1) / (SELECT count(*) FROM turn) + 1 \
         FOR UPDATE SKIP LOCKED) AS it",
        next("$4"),
        next("line.tenant")
    );
    let found = tx.query(&sql, &[text(wanted.subscription), number(now), most(wanted.limit), text(last)])?;
    found.iter().map(|row| Ok((claimed(row)?, get::<i64>(row, 8)? > 0))).collect()
}

fn claimed(row: &Row) -> Result<Claimed, StoreError> {
    Ok(Claimed {
        id: get(row, 0)?,
        event_id: get(row, 1)?,
        subscription: get(row, 2)?,
        operation: get(row, 3)?,
        handler: get(row, 4)?,
        tenant: get(row, 5)?,
        event: get(row, 6)?,
        attempt: count(row, 7)?,
        in_turn: get(row, 9)?,
    })
}

/// How many deliveries of a subscription are claimed at the moment, by whomever. Nobody else counts them until this
/// transaction ends.
pub fn running(tx: &Tx, subscription: &str) -> Result<usize, StoreError> {
    let lock = number_of(&["oncehost", "count", &tx.shared.plugin, subscription]);
    tx.query("SELECT pg_advisory_xact_lock($1)", &[number(lock)])?;
    let sql = format!("SELECT count(*) FROM {} WHERE state = 'running' AND subscription = $1", table(tx));
    let counted = tx.query(&sql, &[text(subscription)])?;
    let counted: i64 = counted.first().map_or(Ok(0), |row| get(row, 0))?;
    Ok(usize::try_from(counted).unwrap_or(usize::MAX))
}

/// Whether a try still holds its delivery.
pub fn is_held(tx: &Tx, hold: &Hold) -> Result<bool, StoreError> {
    Ok(!tx.query(&format!("SELECT 1 FROM {} WHERE {HELD}", table(tx)), &held(hold))?.is_empty())
}

/// Holds claimed deliveries for longer.
pub fn extend(tx: &Tx, holds: &[Hold], lease_until: Millis) -> Result<(), StoreError> {
    let rest = format!("lease_until = $4 WHERE {HELD}");
    holds.iter().try_for_each(|hold| update(tx, &rest, &[held(hold), vec![number(lease_until)]].concat()).map(drop))
}

/// Ends a delivery that was handled; gives whether it was still held.
pub fn done(tx: &Tx, hold: &Hold, now: Millis) -> Result<bool, StoreError> {
    let rest = format!(
        "state = 'done', error = NULL, details = NULL, ended_at = $4, owner = NULL, lease_until = NULL WHERE {HELD}"
    );
    let ended = update(tx, &rest, &[held(hold), vec![number(now)]].concat())? == 1;
    if ended && hold.in_turn {
        next_in_turn(tx, hold.id)?;
    }
    Ok(ended)
}

/// Ends a try that failed; gives whether the delivery was still held.
pub fn failed(tx: &Tx, hold: &Hold, error: (&str, Option<&str>), next: Next, now: Millis) -> Result<bool, StoreError> {
    let (state, due, uncounted) = match next {
        Next::Again(due) => ("waiting", due, 0),
        Next::Uncounted(due) => ("waiting", due, 1),
        Next::Dead => ("dead", now, 0),
    };
    let dead = next == Next::Dead;
    let rest = format!(
        "state = $4, due_at = $5, error = $6, ended_at = $7, owner = NULL, lease_until = NULL, \
         attempts = attempts - $8, details = $9 WHERE {HELD}"
    );
    let ended = instant(dead.then_some(now));
    let outcome = vec![text(state), number(due), text(error.0), ended, number(uncounted), optional(error.1)];
    let changed = update(tx, &rest, &[held(hold), outcome].concat())? == 1;
    if changed && dead && hold.in_turn {
        next_in_turn(tx, hold.id)?;
    }
    Ok(changed)
}

/// Lets the next delivery in the turn of one that ended go.
fn next_in_turn(tx: &Tx, ended: i64) -> Result<(), StoreError> {
    let table = table(tx);
    let rest = format!(
        "state = 'waiting' WHERE state = 'behind' AND id = (SELECT next.id FROM {table} AS ended \
         JOIN {table} AS next ON next.subscription = ended.subscription AND next.order_key = ended.order_key \
         AND next.state IN ('waiting', 'behind', 'running') \
         WHERE ended.id = $1 AND ended.order_key IS NOT NULL ORDER BY next.id LIMIT 1)"
    );
    update(tx, &rest, &[number(ended)]).map(drop)
}

/// Deliveries whose lease ran out. Those of other owners stay: hosts that live extend them, and those of dead ones run
/// out by themselves.
pub fn lost(tx: &Tx, _owner: &str, now: Millis) -> Result<Vec<Lost>, StoreError> {
    let sql = format!(
        "SELECT id, owner, attempts, order_key IS NOT NULL, subscription FROM {} WHERE state = 'running' AND lease_until <= $1 \
         ORDER BY lease_until, id LIMIT 1000",
        table(tx)
    );
    let found = tx.query(&sql, &[number(now)])?;
    let lost = found.iter().map(|row| {
        let hold = Hold { id: get(row, 0)?, owner: get(row, 1)?, attempt: count(row, 2)?, in_turn: get(row, 3)? };
        Ok(Lost { hold, subscription: get(row, 4)? })
    });
    lost.collect()
}

/// Ends a try that was lost, as [`failed`] does, and notes that its host went with it.
pub fn recover(tx: &Tx, lost: &Lost, error: &str, next: Next, now: Millis) -> Result<(), StoreError> {
    if failed(tx, &lost.hold, (error, None), next, now)? {
        update(tx, "lost = lost + 1 WHERE id = $1", &[number(lost.hold.id)])?;
    }
    Ok(())
}

/// When the next delivery of a subscription is due; `None` when none waits.
pub fn next_due(tx: &Tx, subscription: &str) -> Result<Option<Millis>, StoreError> {
    let sql = format!(
        "SELECT due_at FROM {} WHERE subscription = $1 AND state = 'waiting' ORDER BY due_at LIMIT 1",
        table(tx)
    );
    tx.query(&sql, &[text(subscription)])?.first().map(|row| get(row, 0)).transpose()
}
