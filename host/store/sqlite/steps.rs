//! Steps of workflows. Whatever changes claimed work names its owner and attempt: zero rows means that somebody else
//! has it, or that it has ended.

use rusqlite::{Connection, OptionalExtension, Params, Row, params};

use super::{StoreError, Tx, fault};
use crate::clock::Millis;
use crate::store::steps::{New, Step, Try};

const COLUMNS: &str = "workflow, step, state, due, owner, attempt, base, fields, result, error, ready_at, begun_at, \
                       ended_at, details";

fn step(row: &Row<'_>) -> rusqlite::Result<Step> {
    Ok(Step {
        workflow: row.get(0)?,
        step: row.get(1)?,
        state: row.get(2)?,
        due: row.get(3)?,
        owner: row.get(4)?,
        attempt: row.get(5)?,
        base: row.get(6)?,
        fields: row.get(7)?,
        result: row.get(8)?,
        error: row.get(9)?,
        ready_at: row.get(10)?,
        begun_at: row.get(11)?,
        ended_at: row.get(12)?,
        details: row.get(13)?,
    })
}

fn change(tx: &Tx, sql: &str, given: impl Params) -> Result<usize, StoreError> {
    tx.with(|connection| {
        let changed = connection.prepare_cached(sql).and_then(|mut statement| statement.execute(given));
        changed.map_err(|error| fault(&error))
    })
}

fn rows(tx: &Tx, rest: &str, given: impl Params) -> Result<Vec<Step>, StoreError> {
    let query = |connection: &Connection| -> rusqlite::Result<Vec<Step>> {
        let sql = format!("SELECT {COLUMNS} FROM _oncehost_steps {rest}");
        connection.prepare_cached(&sql)?.query_map(given, step)?.collect()
    };
    tx.with(|connection| query(connection).map_err(|error| fault(&error)))
}

/// Writes a step that comes into being.
///
/// # Errors
/// When the database fails.
pub fn insert(tx: &Tx, new: &New<'_>, now: Millis) -> Result<(), StoreError> {
    let (kind, fields) = new.event.unzip();
    let sql = "INSERT INTO _oncehost_steps (workflow, step, state, due, owner, attempt, base, event_type, fields, result, \
               error, ready_at, begun_at, ended_at, tenant) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)";
    let (begun, ended) = (new.owner.map(|_| now), new.ended.then_some(now));
    let given = params![
        new.workflow,
        new.step,
        new.state,
        new.due,
        new.owner,
        new.attempt,
        kind,
        fields,
        new.result,
        new.error,
        now,
        begun,
        ended,
        new.tenant
    ];
    change(tx, sql, given).map(drop)
}

/// All steps of a workflow that have come into being.
///
/// # Errors
/// When the database fails.
pub fn of_workflow(tx: &Tx, workflow: i64) -> Result<Vec<Step>, StoreError> {
    rows(tx, "WHERE workflow = ?1", [workflow])
}

/// Whether this try is the one that may run.
///
/// # Errors
/// When the database fails.
pub fn is_claimed(tx: &Tx, of: Try<'_>) -> Result<bool, StoreError> {
    tx.with(|connection| {
        let sql = "SELECT 1 FROM _oncehost_steps WHERE workflow = ?1 AND step = ?2 AND owner = ?3 AND attempt = ?4 \
                   AND state = 'running'";
        let found = connection
            .prepare_cached(sql)
            .and_then(|mut statement| statement.exists(params![of.workflow, of.step, of.owner, of.attempt]));
        found.map_err(|error| fault(&error))
    })
}

/// Ends the try with a result. Gives `false` where it is fenced.
///
/// # Errors
/// When the database fails.
pub fn done(tx: &Tx, of: Try<'_>, result: &str, now: Millis) -> Result<bool, StoreError> {
    let sql = "UPDATE _oncehost_steps SET state = 'done', due = NULL, owner = NULL, result = ?5, error = NULL, \
               details = NULL, ended_at = ?6 WHERE workflow = ?1 AND step = ?2 AND owner = ?3 AND attempt = ?4 AND state = 'running'";
    change(tx, sql, params![of.workflow, of.step, of.owner, of.attempt, result, now]).map(|changed| changed == 1)
}

/// Ends the try with an error: `state` is `retry`, to be looked at again when `due`, or `failed`. Gives `false` where it
/// is fenced.
///
/// # Errors
/// When the database fails.
pub fn failed(
    tx: &Tx,
    of: Try<'_>,
    state: &str,
    due: Option<Millis>,
    error: (&str, Option<&str>),
    now: Millis,
) -> Result<bool, StoreError> {
    let sql = "UPDATE _oncehost_steps SET state = ?5, due = ?6, owner = NULL, error = ?7, ended_at = ?8, details = ?9 \
               WHERE workflow = ?1 AND step = ?2 AND owner = ?3 AND attempt = ?4 AND state = 'running'";
    let ended = (state == "failed").then_some(now);
    change(tx, sql, params![of.workflow, of.step, of.owner, of.attempt, state, due, error.0, ended, error.1])
        .map(|changed| changed == 1)
}

/// Gives a try back that has not begun, as if it had not been counted.
///
/// # Errors
/// When the database fails.
pub fn give_back(tx: &Tx, of: Try<'_>, due: Millis) -> Result<bool, StoreError> {
    let sql = "UPDATE _oncehost_steps SET state = CASE WHEN error IS NULL THEN 'ready' ELSE 'retry' END, due = ?5, \
               owner = NULL, attempt = attempt - 1 \
               WHERE workflow = ?1 AND step = ?2 AND owner = ?3 AND attempt = ?4 AND state = 'running'";
    change(tx, sql, params![of.workflow, of.step, of.owner, of.attempt, due]).map(|changed| changed == 1)
}

/// Gives a try back that its host could not do, with the reason. Gives `false` where it is fenced.
///
/// # Errors
/// When the database fails.
pub fn put_off(tx: &Tx, of: Try<'_>, due: Millis, error: &str) -> Result<bool, StoreError> {
    let sql = "UPDATE _oncehost_steps SET state = 'blocked', due = ?5, owner = NULL, attempt = attempt - 1, error = ?6, \
               details = NULL WHERE workflow = ?1 AND step = ?2 AND owner = ?3 AND attempt = ?4 AND state = 'running'";
    change(tx, sql, params![of.workflow, of.step, of.owner, of.attempt, due, error]).map(|changed| changed == 1)
}

/// Lets a claim hold until `until`, unless it is another's by now. Gives whether.
///
/// # Errors
/// When the database fails.
pub fn renew(tx: &Tx, of: Try<'_>, until: Millis) -> Result<bool, StoreError> {
    let sql = "UPDATE _oncehost_steps SET due = ?5 WHERE workflow = ?1 AND step = ?2 AND owner = ?3 AND attempt = ?4 \
               AND state = 'running'";
    change(tx, sql, params![of.workflow, of.step, of.owner, of.attempt, until]).map(|changed| changed == 1)
}

/// Claims a step that was seen in `seen`, for the try after it.
///
/// # Errors
/// When the database fails.
pub fn claim(tx: &Tx, seen: &Step, owner: &str, until: Millis, now: Millis) -> Result<bool, StoreError> {
    let sql = "UPDATE _oncehost_steps SET state = 'running', owner = ?4, attempt = attempt + 1, due = ?5, begun_at = ?6 \
               WHERE workflow = ?1 AND step = ?2 AND attempt = ?3 AND state = ?7";
    let given = params![seen.workflow, seen.step, seen.attempt, owner, until, now, seen.state];
    change(tx, sql, given).map(|changed| changed == 1)
}

/// Changes a step that nobody runs, or whose runner is gone: `due` says when it is looked at again, if it has not ended.
/// Gives whether it still was as in `seen`.
///
/// # Errors
/// When the database fails.
pub fn put(
    tx: &Tx,
    seen: &Step,
    state: &str,
    due: Option<Millis>,
    outcome: Result<Option<&str>, &str>,
    now: Millis,
) -> Result<bool, StoreError> {
    let sql = "UPDATE _oncehost_steps SET state = ?5, due = ?6, owner = NULL, event_type = NULL, result = ?7, error = ?8, \
               details = NULL, ended_at = ?9 WHERE workflow = ?1 AND step = ?2 AND attempt = ?3 AND state = ?4";
    let (result, error) = match outcome {
        Ok(result) => (result, None),
        Err(error) => (None, Some(error)),
    };
    let ended = due.is_none().then_some(now);
    let given = params![seen.workflow, seen.step, seen.attempt, seen.state, state, due, result, error, ended];
    change(tx, sql, given).map(|changed| changed == 1)
}

/// Steps that are due at `now`, the longest overdue first.
///
/// # Errors
/// When the database fails.
pub fn due(tx: &Tx, now: Millis, limit: usize) -> Result<Vec<Step>, StoreError> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    rows(tx, "WHERE due IS NOT NULL AND due <= ?1 ORDER BY due LIMIT ?2", params![now, limit])
}

/// The same, of those alone that wait for their time and run nothing.
///
/// # Errors
/// When the database fails.
pub fn timers(tx: &Tx, now: Millis, limit: usize) -> Result<Vec<Step>, StoreError> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let rest = "WHERE state = 'waiting' AND due IS NOT NULL AND due <= ?1 ORDER BY due LIMIT ?2";
    rows(tx, rest, params![now, limit])
}

/// The tenants with steps that are to run and are due, in their order.
///
/// # Errors
/// When the database fails.
pub fn tenants_due(tx: &Tx, now: Millis) -> Result<Vec<String>, StoreError> {
    // From one to the next, so that a long line of one is stepped over.
    let sql = "SELECT tenant FROM _oncehost_steps WHERE state IN ('ready', 'retry') AND tenant > ?1 AND due <= ?2 \
               ORDER BY tenant LIMIT 1";
    tx.with(|connection| {
        let next = |last: &str| -> rusqlite::Result<Option<String>> {
            connection.prepare_cached(sql)?.query_row(params![last, now], |row| row.get(0)).optional()
        };
        let mut found = Vec::<String>::new();
        while let Some(tenant) = next(found.last().map_or("", String::as_str)).map_err(|error| fault(&error))? {
            found.push(tenant);
        }
        Ok(found)
    })
}

/// Those steps of one of them, the longest overdue first.
///
/// # Errors
/// When the database fails.
pub fn due_of(tx: &Tx, tenant: &str, now: Millis, limit: usize) -> Result<Vec<Step>, StoreError> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let rest = "WHERE state IN ('ready', 'retry') AND tenant = ?1 AND due <= ?2 ORDER BY due LIMIT ?3";
    rows(tx, rest, params![tenant, now, limit])
}

/// When the next step is due after `after`.
///
/// # Errors
/// When the database fails.
pub fn next_due(tx: &Tx, after: Millis) -> Result<Option<Millis>, StoreError> {
    tx.with(|connection| {
        connection
            .prepare_cached("SELECT min(due) FROM _oncehost_steps WHERE due IS NOT NULL AND due > ?1")
            .and_then(|mut statement| statement.query_row([after], |row| row.get(0)))
            .map_err(|error| fault(&error))
    })
}

/// Makes steps due now whose claims are of hosts that are gone, and those that were blocked: `owner` is the only host
/// that lives.
///
/// # Errors
/// When the database fails.
pub fn take_over(tx: &Tx, owner: &str, now: Millis) -> Result<usize, StoreError> {
    let sql = "UPDATE _oncehost_steps SET due = ?2 WHERE due IS NOT NULL AND due > ?2 \
               AND (state = 'blocked' OR (state = 'running' AND owner <> ?1))";
    change(tx, sql, params![owner, now])
}

/// The types of events that steps wait for.
///
/// # Errors
/// When the database fails.
pub fn awaited(tx: &Tx) -> Result<Vec<String>, StoreError> {
    let sql = "SELECT DISTINCT event_type FROM _oncehost_steps WHERE event_type IS NOT NULL";
    tx.with(|connection| super::rows(connection, sql, [], |row| row.get(0)))
}

/// Steps of a tenant that wait for events of a type.
///
/// # Errors
/// When the database fails.
pub fn waiting_for(tx: &Tx, tenant: &str, kind: &str) -> Result<Vec<Step>, StoreError> {
    let rest = "WHERE event_type = ?1 AND event_type IS NOT NULL AND state = 'waiting' \
                AND (SELECT tenant FROM _oncehost_workflows WHERE id = workflow) = ?2";
    rows(tx, rest, params![kind, tenant])
}

/// Ends every open step of a workflow, and everything that still runs of it is fenced.
///
/// # Errors
/// When the database fails.
pub fn cancel(tx: &Tx, workflow: i64, now: Millis) -> Result<usize, StoreError> {
    let sql = "UPDATE _oncehost_steps SET state = 'cancelled', due = NULL, owner = NULL, event_type = NULL, ended_at = ?2 \
               WHERE workflow = ?1 AND state IN ('ready', 'running', 'retry', 'blocked', 'waiting', 'failed')";
    change(tx, sql, params![workflow, now])
}

/// Makes failed and failing steps of a workflow due now, with a whole round of tries. Gives how many.
///
/// # Errors
/// When the database fails.
pub fn retry(tx: &Tx, workflow: i64, now: Millis) -> Result<usize, StoreError> {
    let sql = "UPDATE _oncehost_steps SET state = 'retry', due = ?2, base = attempt, ended_at = NULL \
               WHERE workflow = ?1 AND state IN ('failed', 'retry', 'blocked')";
    change(tx, sql, params![workflow, now])
}

/// Takes a step away that is to come into being again.
///
/// # Errors
/// When the database fails.
pub fn remove(tx: &Tx, seen: &Step) -> Result<(), StoreError> {
    change(tx, "DELETE FROM _oncehost_steps WHERE workflow = ?1 AND step = ?2", params![seen.workflow, seen.step])
        .map(drop)
}
