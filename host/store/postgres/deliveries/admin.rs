//! Deliveries as operators see and change them.

use tokio_postgres::Row;

use super::{count, get, many, most, next_in_turn, number, table, text, update};
use crate::clock::Millis;
use crate::query::Cell;
use crate::store::deliveries::{Delivery, Selected};
use crate::store::postgres::{StoreError, Tx};

const COLUMNS: &str = "id, event_id, subscription, operation, handler, tenant, source, sender_id, type, subject, state, \
                       attempts, due_at, error, created_at, tried_at, ended_at, details";

fn delivery(row: &Row) -> Result<Delivery, StoreError> {
    Ok(Delivery {
        id: get(row, 0)?,
        event_id: get(row, 1)?,
        subscription: get(row, 2)?,
        operation: get(row, 3)?,
        handler: get(row, 4)?,
        tenant: get(row, 5)?,
        source: get(row, 6)?,
        sender_id: get(row, 7)?,
        event_type: get(row, 8)?,
        subject: get(row, 9)?,
        state: get(row, 10)?,
        attempts: count(row, 11)?,
        due_at: get(row, 12)?,
        error: get(row, 13)?,
        created_at: get(row, 14)?,
        tried_at: get(row, 15)?,
        ended_at: get(row, 16)?,
        details: get(row, 17)?,
    })
}

/// The condition in SQL, and what goes into it.
fn condition(selected: &Selected) -> (String, Vec<Cell>) {
    let mut condition = "true".to_owned();
    let mut values = Vec::new();
    let texts = [
        ("event_id = ?", &selected.event_id),
        ("tenant = ?", &selected.tenant),
        ("type = ?", &selected.event_type),
        ("source = ?", &selected.source),
        ("subject = ?", &selected.subject),
        ("?::text IN (subscription, handler, 'events/' || handler)", &selected.subscription),
        ("strpos(error, ?) > 0", &selected.error),
    ];
    let texts = texts.into_iter().filter_map(|(part, value)| Some((part, text(value.as_deref()?))));
    let instants = [("created_at >= ?", selected.since), ("created_at < ?", selected.until)];
    let instants = instants.into_iter().filter_map(|(part, value)| Some((part, number(value?))));
    for (part, value) in texts.chain(instants) {
        values.push(value);
        condition.push_str(" AND ");
        condition.push_str(&part.replace('?', &format!("${}", values.len())));
    }
    if !selected.states.is_empty() {
        // The host's own words, never a caller's.
        condition.push_str(&format!(" AND state IN ('{}')", selected.states.join("', '")));
    }
    (condition, values)
}

/// At most `limit` of the selected deliveries behind the row `after`, in the order in which they came.
pub fn list(tx: &Tx, selected: &Selected, after: i64, limit: usize) -> Result<Vec<Delivery>, StoreError> {
    let (condition, mut values) = condition(selected);
    values.extend([number(after), most(limit)]);
    let (after, limit) = (values.len() - 1, values.len());
    let table = table(tx);
    let sql = format!("SELECT {COLUMNS} FROM {table} WHERE {condition} AND id > ${after} ORDER BY id LIMIT ${limit}");
    tx.query(&sql, &values)?.iter().map(delivery).collect()
}

/// All deliveries of an event in this database, each with the event as its handler gets it.
pub fn find(tx: &Tx, event_id: &str) -> Result<Vec<(Delivery, String)>, StoreError> {
    let sql = format!("SELECT {COLUMNS}, event FROM {} WHERE event_id = $1 ORDER BY id", table(tx));
    tx.query(&sql, &[text(event_id)])?.iter().map(|row| Ok((delivery(row)?, get(row, 18)?))).collect()
}

/// Has deliveries tried again from the start, each at its instant; gives how many.
pub fn replay(tx: &Tx, due: &[(i64, Millis)]) -> Result<usize, StoreError> {
    let table = table(tx);
    let sql = format!(
        "UPDATE {table} AS mine SET attempts = 0, lost = 0, due_at = $2, ended_at = NULL, \
         state = CASE WHEN state = 'waiting' THEN state \
         WHEN order_key IS NOT NULL AND EXISTS (SELECT 1 FROM {table} AS other WHERE other.subscription = mine.subscription AND other.order_key = mine.order_key \
         AND other.state IN ('waiting', 'behind', 'running') AND other.id <> mine.id \
         AND NOT (mine.state = 'behind' AND other.state = 'behind' AND other.id > mine.id) FOR SHARE OF other) \
         THEN 'behind' ELSE 'waiting' END WHERE id = $1 AND state <> 'running'"
    );
    let replay = |(id, due_at): &(i64, Millis)| tx.changed(&sql, &[number(*id), number(*due_at)]).map(many);
    due.iter().map(replay).sum()
}

/// Gives deliveries up that are dead or wait; gives how many.
pub fn discard(tx: &Tx, ids: &[i64], now: Millis) -> Result<usize, StoreError> {
    let rest = "state = 'discarded', ended_at = $2 WHERE id = $1 AND state IN ('dead', 'waiting', 'behind')";
    let discard = |id: &i64| {
        let discarded = update(tx, rest, &[number(*id), number(now)])?;
        if discarded == 1 {
            next_in_turn(tx, *id)?;
        }
        Ok(discarded)
    };
    ids.iter().map(discard).sum()
}

/// Has the first of each line go in which nobody goes; gives how many there were. One host at a time.
pub fn move_on(tx: &Tx) -> Result<usize, StoreError> {
    if !tx.clears_alone()? {
        return Ok(0);
    }
    let rest = format!(
        "state = 'waiting' WHERE state = 'behind' AND id IN (SELECT min(id) FROM {} WHERE order_key IS NOT NULL \
         AND state IN ('waiting', 'behind', 'running') GROUP BY subscription, order_key \
         HAVING bool_and(state = 'behind'))",
        table(tx)
    );
    update(tx, &rest, &[])
}

/// Forgets at most `batch` deliveries that were done or discarded at or before `before`; gives how many. One host at a
/// time: where another one clears now, nothing is done.
pub fn clear(tx: &Tx, before: Millis, batch: usize) -> Result<usize, StoreError> {
    if !tx.clears_alone()? {
        return Ok(0);
    }
    let table = table(tx);
    let sql = format!(
        "DELETE FROM {table} WHERE id IN (SELECT id FROM {table} \
         WHERE state IN ('done', 'discarded') AND ended_at <= $1 ORDER BY ended_at LIMIT $2)"
    );
    tx.changed(&sql, &[number(before), most(batch)]).map(many)
}
