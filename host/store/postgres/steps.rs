//! Steps of workflows. Whatever changes claimed work names its owner and attempt: zero rows means that somebody else
//! has it, or that it has ended.

use tokio_postgres::Row;

use super::{StoreError, Tx, count, get, instant, many, most, number, optional, text};
use crate::clock::Millis;
use crate::query::Cell;
use crate::store::steps::{New, Step, Try};

const COLUMNS: &str = "workflow, step, state, due, owner, attempt, base, fields, result, error, ready_at, begun_at, \
                       ended_at, details";

fn step(row: &Row) -> Result<Step, StoreError> {
    Ok(Step {
        workflow: get(row, 0)?,
        step: get(row, 1)?,
        state: get(row, 2)?,
        due: get(row, 3)?,
        owner: get(row, 4)?,
        attempt: count(row, 5)?,
        base: count(row, 6)?,
        fields: get(row, 7)?,
        result: get(row, 8)?,
        error: get(row, 9)?,
        ready_at: get(row, 10)?,
        begun_at: get(row, 11)?,
        ended_at: get(row, 12)?,
        details: get(row, 13)?,
    })
}

fn table(tx: &Tx) -> String {
    tx.shared.table("_oncehost_steps")
}

/// `UPDATE` the steps; `rest` is what stands behind the table's name.
fn update(tx: &Tx, rest: &str, params: &[Cell]) -> Result<usize, StoreError> {
    tx.changed(&format!("UPDATE {} SET {rest}", table(tx)), params).map(many)
}

fn rows(tx: &Tx, rest: &str, params: &[Cell]) -> Result<Vec<Step>, StoreError> {
    let rows = tx.query(&format!("SELECT {COLUMNS} FROM {} AS s {rest}", table(tx)), params)?;
    rows.iter().map(step).collect()
}

/// The parameters that name a try, the first four.
fn tried(of: Try<'_>) -> Vec<Cell> {
    vec![number(of.workflow), text(of.step), text(of.owner), number(of.attempt)]
}

/// Where a try is the one that may run.
const CLAIMED: &str = "workflow = $1 AND step = $2 AND owner = $3 AND attempt = $4 AND state = 'running'";

/// Writes a step that comes into being.
pub fn insert(tx: &Tx, new: &New<'_>, now: Millis) -> Result<(), StoreError> {
    let (kind, fields) = new.event.unzip();
    let sql = format!(
        "INSERT INTO {} (workflow, step, state, due, owner, attempt, base, event_type, fields, result, error, ready_at, \
         begun_at, ended_at, tenant) VALUES ($1, $2, $3, $4, $5, $6, 0, $7, $8, $9, $10, $11, $12, $13, $14)",
        table(tx)
    );
    let params = [
        number(new.workflow),
        text(new.step),
        text(new.state),
        instant(new.due),
        optional(new.owner),
        number(new.attempt),
        optional(kind),
        optional(fields),
        optional(new.result),
        optional(new.error),
        number(now),
        instant(new.owner.map(|_| now)),
        instant(new.ended.then_some(now)),
        text(new.tenant),
    ];
    tx.changed(&sql, &params).map(drop)
}

/// All steps of a workflow that have come into being.
pub fn of_workflow(tx: &Tx, workflow: i64) -> Result<Vec<Step>, StoreError> {
    rows(tx, "WHERE workflow = $1 ORDER BY step", &[number(workflow)])
}

/// Whether this try is the one that may run.
pub fn is_claimed(tx: &Tx, of: Try<'_>) -> Result<bool, StoreError> {
    Ok(!rows(tx, &format!("WHERE {CLAIMED}"), &tried(of))?.is_empty())
}

/// Ends the try with a result. Gives `false` where it is fenced.
pub fn done(tx: &Tx, of: Try<'_>, result: &str, now: Millis) -> Result<bool, StoreError> {
    let rest = format!(
        "state = 'done', due = NULL, owner = NULL, result = $5, error = NULL, details = NULL, ended_at = $6 \
         WHERE {CLAIMED}"
    );
    Ok(update(tx, &rest, &[tried(of), vec![text(result), number(now)]].concat())? == 1)
}

/// Ends the try with an error. Gives `false` where it is fenced.
pub fn failed(
    tx: &Tx,
    of: Try<'_>,
    state: &str,
    due: Option<Millis>,
    error: (&str, Option<&str>),
    now: Millis,
) -> Result<bool, StoreError> {
    let rest = format!("state = $5, due = $6, owner = NULL, error = $7, ended_at = $8, details = $9 WHERE {CLAIMED}");
    let ended = instant((state == "failed").then_some(now));
    let outcome = vec![text(state), instant(due), text(error.0), ended, optional(error.1)];
    Ok(update(tx, &rest, &[tried(of), outcome].concat())? == 1)
}

/// Gives a try back that has not begun, as if it had not been counted.
pub fn give_back(tx: &Tx, of: Try<'_>, due: Millis) -> Result<bool, StoreError> {
    let rest = format!(
        "state = CASE WHEN error IS NULL THEN 'ready' ELSE 'retry' END, due = $5, owner = NULL, attempt = attempt - 1 \
         WHERE {CLAIMED}"
    );
    Ok(update(tx, &rest, &[tried(of), vec![number(due)]].concat())? == 1)
}

/// Gives a try back that its host could not do, with the reason. Gives `false` where it is fenced.
pub fn put_off(tx: &Tx, of: Try<'_>, due: Millis, error: &str) -> Result<bool, StoreError> {
    let rest = format!(
        "state = 'blocked', due = $5, owner = NULL, attempt = attempt - 1, error = $6, details = NULL WHERE {CLAIMED}"
    );
    Ok(update(tx, &rest, &[tried(of), vec![number(due), text(error)]].concat())? == 1)
}

/// Lets a claim hold until `until`, unless it is another's by now. Gives whether.
pub fn renew(tx: &Tx, of: Try<'_>, until: Millis) -> Result<bool, StoreError> {
    let rest = format!("due = $5 WHERE {CLAIMED}");
    Ok(update(tx, &rest, &[tried(of), vec![number(until)]].concat())? == 1)
}

/// Claims a step that was seen in `seen`, for the try after it.
pub fn claim(tx: &Tx, seen: &Step, owner: &str, until: Millis, now: Millis) -> Result<bool, StoreError> {
    let rest = "state = 'running', owner = $4, attempt = attempt + 1, due = $5, begun_at = $6 \
                WHERE workflow = $1 AND step = $2 AND attempt = $3 AND state = $7";
    let params = [
        number(seen.workflow),
        text(&seen.step),
        number(seen.attempt),
        text(owner),
        number(until),
        number(now),
        text(&seen.state),
    ];
    Ok(update(tx, rest, &params)? == 1)
}

/// Changes a step that nobody runs, or whose runner is gone. Gives whether it still was as in `seen`.
pub fn put(
    tx: &Tx,
    seen: &Step,
    state: &str,
    due: Option<Millis>,
    outcome: Result<Option<&str>, &str>,
    now: Millis,
) -> Result<bool, StoreError> {
    let rest = "state = $5, due = $6, owner = NULL, event_type = NULL, result = $7, error = $8, details = NULL, \
                ended_at = $9 \
                WHERE workflow = $1 AND step = $2 AND attempt = $3 AND state = $4";
    let (result, error) = match outcome {
        Ok(result) => (result, None),
        Err(error) => (None, Some(error)),
    };
    let params = [
        number(seen.workflow),
        text(&seen.step),
        number(seen.attempt),
        text(&seen.state),
        text(state),
        instant(due),
        optional(result),
        optional(error),
        instant(due.is_none().then_some(now)),
    ];
    Ok(update(tx, rest, &params)? == 1)
}

/// Steps that are due at `now`, the longest overdue first, less those that another host takes at this moment.
pub fn due(tx: &Tx, now: Millis, limit: usize) -> Result<Vec<Step>, StoreError> {
    rows(
        tx,
        "WHERE due <= $1 ORDER BY due, workflow, step LIMIT $2 FOR UPDATE SKIP LOCKED",
        &[number(now), most(limit)],
    )
}

/// The same, of those alone that wait for their time and run nothing.
pub fn timers(tx: &Tx, now: Millis, limit: usize) -> Result<Vec<Step>, StoreError> {
    let rest = "WHERE state = 'waiting' AND due <= $1 ORDER BY due, workflow, step LIMIT $2 FOR UPDATE SKIP LOCKED";
    rows(tx, rest, &[number(now), most(limit)])
}

/// The tenants with steps that are to run and are due, in their order.
pub fn tenants_due(tx: &Tx, now: Millis) -> Result<Vec<String>, StoreError> {
    // From one to the next, so that a long line of one is stepped over.
    let next = |last: &str| {
        format!(
            "SELECT s.tenant FROM {} AS s WHERE s.state IN ('ready', 'retry') AND s.due <= $1 AND s.tenant > {last} \
             ORDER BY s.tenant LIMIT 1",
            table(tx)
        )
    };
    let sql = format!(
        "WITH RECURSIVE line (tenant) AS (({}) UNION ALL SELECT ({}) FROM line WHERE line.tenant IS NOT NULL) \
         SELECT tenant FROM line WHERE tenant IS NOT NULL",
        next("''"),
        next("line.tenant")
    );
    tx.query(&sql, &[number(now)])?.iter().map(|row| get(row, 0)).collect()
}

/// Those steps of one of them, the longest overdue first, less those that another host takes at this moment.
pub fn due_of(tx: &Tx, tenant: &str, now: Millis, limit: usize) -> Result<Vec<Step>, StoreError> {
    let rest = "WHERE state IN ('ready', 'retry') AND tenant = $1 AND due <= $2 ORDER BY due, workflow, step LIMIT $3 \
                FOR UPDATE SKIP LOCKED";
    rows(tx, rest, &[text(tenant), number(now), most(limit)])
}

/// When the next step is due after `after`.
pub fn next_due(tx: &Tx, after: Millis) -> Result<Option<Millis>, StoreError> {
    let found = tx.query(&format!("SELECT min(due) FROM {} WHERE due > $1", table(tx)), &[number(after)])?;
    found.first().map_or(Ok(None), |row| get(row, 0))
}

/// Makes steps due now that were blocked. Claims of other hosts stay: those that live show it, and those of dead ones run
/// out by themselves.
pub fn take_over(tx: &Tx, _owner: &str, now: Millis) -> Result<usize, StoreError> {
    update(tx, "due = $1 WHERE due > $1 AND state = 'blocked'", &[number(now)])
}

/// The types of events that steps wait for.
pub fn awaited(tx: &Tx) -> Result<Vec<String>, StoreError> {
    let sql = format!("SELECT DISTINCT event_type FROM {} WHERE event_type IS NOT NULL", table(tx));
    tx.query(&sql, &[])?.iter().map(|row| get(row, 0)).collect()
}

/// Steps of a tenant that wait for events of a type.
pub fn waiting_for(tx: &Tx, tenant: &str, kind: &str) -> Result<Vec<Step>, StoreError> {
    let rest = format!(
        "WHERE event_type = $1 AND state = 'waiting' AND (SELECT w.tenant FROM {} AS w WHERE w.id = s.workflow) = $2",
        tx.shared.table("_oncehost_workflows")
    );
    rows(tx, &rest, &[text(kind), text(tenant)])
}

/// Ends every open step of a workflow, and everything that still runs of it is fenced.
pub fn cancel(tx: &Tx, workflow: i64, now: Millis) -> Result<usize, StoreError> {
    let rest = "state = 'cancelled', due = NULL, owner = NULL, event_type = NULL, ended_at = $2 \
                WHERE workflow = $1 AND state IN ('ready', 'running', 'retry', 'blocked', 'waiting', 'failed')";
    update(tx, rest, &[number(workflow), number(now)])
}

/// Makes failed and failing steps of a workflow due now, with a whole round of tries. Gives how many.
pub fn retry(tx: &Tx, workflow: i64, now: Millis) -> Result<usize, StoreError> {
    let rest = "state = 'retry', due = $2, base = attempt, ended_at = NULL \
                WHERE workflow = $1 AND state IN ('failed', 'retry', 'blocked')";
    update(tx, rest, &[number(workflow), number(now)])
}

/// Takes a step away that is to come into being again.
pub fn remove(tx: &Tx, seen: &Step) -> Result<(), StoreError> {
    let sql = format!("DELETE FROM {} WHERE workflow = $1 AND step = $2", table(tx));
    tx.changed(&sql, &[number(seen.workflow), text(&seen.step)]).map(drop)
}
