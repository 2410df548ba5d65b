//! Workflows that were started, and the definitions they began with.

use rusqlite::{OptionalExtension, Row, params};

use super::{StoreError, Tx, fault};
use crate::clock::Millis;
use crate::store::workflows::{Filter, Start, Workflow};

const COLUMNS: &str =
    "id, tenant, workflow_id, flow, biz_id, seed, definition, status, since, attempts, error, created_at";

fn workflow(row: &Row<'_>) -> rusqlite::Result<Workflow> {
    Ok(Workflow {
        id: row.get(0)?,
        tenant: row.get(1)?,
        workflow_id: row.get(2)?,
        flow: row.get(3)?,
        biz_id: row.get(4)?,
        seed: row.get(5)?,
        definition_hash: row.get(6)?,
        status: row.get(7)?,
        since: row.get(8)?,
        attempts: row.get(9)?,
        error: row.get(10)?,
        created_at: row.get(11)?,
    })
}

/// Finds a workflow by its name.
///
/// # Errors
/// When the database fails.
pub fn find(tx: &Tx, tenant: &str, workflow_id: &str) -> Result<Option<Workflow>, StoreError> {
    tx.with(|connection| {
        let sql = format!("SELECT {COLUMNS} FROM _oncehost_workflows WHERE tenant = ?1 AND workflow_id = ?2");
        let mut statement = connection.prepare_cached(&sql).map_err(|error| fault(&error))?;
        statement.query_row(params![tenant, workflow_id], workflow).optional().map_err(|error| fault(&error))
    })
}

/// Finds a workflow by its number.
///
/// # Errors
/// When the database fails.
pub fn by_number(tx: &Tx, id: i64) -> Result<Option<Workflow>, StoreError> {
    tx.with(|connection| {
        let sql = format!("SELECT {COLUMNS} FROM _oncehost_workflows WHERE id = ?1");
        let mut statement = connection.prepare_cached(&sql).map_err(|error| fault(&error))?;
        statement.query_row([id], workflow).optional().map_err(|error| fault(&error))
    })
}

/// The workflows of this name, of all tenants.
///
/// # Errors
/// When the database fails.
pub fn named(tx: &Tx, workflow_id: &str) -> Result<Vec<Workflow>, StoreError> {
    tx.with(|connection| {
        let sql = format!("SELECT {COLUMNS} FROM _oncehost_workflows WHERE workflow_id = ?1 ORDER BY tenant");
        let mut statement = connection.prepare_cached(&sql).map_err(|error| fault(&error))?;
        let rows = statement.query_map([workflow_id], workflow).and_then(Iterator::collect);
        rows.map_err(|error| fault(&error))
    })
}

/// The newest workflows that a filter lets through, at most `limit`.
///
/// # Errors
/// When the database fails.
pub fn list(tx: &Tx, filter: &Filter, limit: i64) -> Result<Vec<Workflow>, StoreError> {
    // The index of what is open is for those statuses only.
    let status = match filter.status.as_deref() {
        Some(status) if status != "completed" => "status = ?3 AND status <> 'completed'",
        _ => "(?3 IS NULL OR status = ?3)",
    };
    let sql = format!(
        "SELECT {COLUMNS} FROM _oncehost_workflows WHERE (?1 IS NULL OR tenant = ?1) AND (?2 IS NULL OR flow = ?2) \
         AND {status} AND id < ?4 ORDER BY id DESC LIMIT ?5"
    );
    let before = filter.before.unwrap_or(i64::MAX);
    tx.with(|connection| {
        let mut statement = connection.prepare_cached(&sql).map_err(|error| fault(&error))?;
        let given = params![filter.tenant, filter.flow, filter.status, before, limit];
        let rows = statement.query_map(given, workflow).and_then(Iterator::collect);
        rows.map_err(|error| fault(&error))
    })
}

/// How many workflows have each of the statuses that want somebody's attention.
///
/// # Errors
/// When the database fails.
pub fn troubled(tx: &Tx) -> Result<Vec<(String, i64)>, StoreError> {
    tx.with(|connection| {
        let sql = "SELECT status, count(*) FROM _oncehost_workflows \
                   WHERE status IN ('failing', 'failed') AND status <> 'completed' GROUP BY status";
        let mut statement = connection.prepare_cached(sql).map_err(|error| fault(&error))?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).and_then(Iterator::collect);
        rows.map_err(|error| fault(&error))
    })
}

/// Starts a workflow, once per tenant and workflow id. Gives its number if it was started now.
///
/// # Errors
/// When the database fails.
pub fn start(tx: &Tx, start: &Start<'_>, now: Millis) -> Result<Option<i64>, StoreError> {
    tx.with(|connection| {
        let insert = || {
            connection
                .prepare_cached(
                    "INSERT INTO _oncehost_definitions (hash, body) VALUES (?1, ?2) ON CONFLICT (hash) DO NOTHING",
                )?
                .execute(params![start.definition_hash, start.definition])?;
            let inserted = connection
                .prepare_cached(
                    "INSERT INTO _oncehost_workflows (tenant, workflow_id, flow, biz_id, seed, definition, status, \
                     since, attempts, created_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, 'running', ?7, 0, ?7) \
                     ON CONFLICT (tenant, workflow_id) DO NOTHING",
                )?
                .execute(params![
                    start.tenant,
                    start.workflow_id,
                    start.flow,
                    start.biz_id,
                    start.seed,
                    start.definition_hash,
                    now
                ])?;
            Ok((inserted == 1).then(|| connection.last_insert_rowid()))
        };
        insert().map_err(|error| fault(&error))
    })
}

/// A workflow's status.
///
/// # Errors
/// When the database fails.
pub fn status(tx: &Tx, id: i64) -> Result<Option<String>, StoreError> {
    tx.with(|connection| {
        connection
            .prepare_cached("SELECT status FROM _oncehost_workflows WHERE id = ?1")
            .and_then(|mut statement| statement.query_row([id], |row| row.get(0)).optional())
            .map_err(|error| fault(&error))
    })
}

/// Gives a workflow another status; `since` stays where the status does. One that was cancelled stays so.
///
/// # Errors
/// When the database fails.
pub fn set_status(
    tx: &Tx,
    id: i64,
    status: &str,
    error: Option<&str>,
    attempts: u32,
    now: Millis,
) -> Result<(), StoreError> {
    tx.with(|connection| {
        connection
            .prepare_cached(
                "UPDATE _oncehost_workflows SET since = CASE WHEN status = ?2 THEN since ELSE ?5 END, status = ?2, \
                 error = ?3, attempts = ?4 WHERE id = ?1 AND status <> 'cancelled'",
            )
            .and_then(|mut statement| statement.execute(params![id, status, error, attempts, now]))
            .map(|_| ())
            .map_err(|error| fault(&error))
    })
}

/// Marks a workflow that has not ended as cancelled. Gives whether it changed.
///
/// # Errors
/// When the database fails.
pub fn cancel(tx: &Tx, id: i64, reason: &str, now: Millis) -> Result<bool, StoreError> {
    tx.with(|connection| {
        connection
            .prepare_cached(
                "UPDATE _oncehost_workflows SET status = 'cancelled', error = ?2, since = ?3 \
                 WHERE id = ?1 AND status IN ('running', 'waiting', 'failing', 'failed')",
            )
            .and_then(|mut statement| statement.execute(params![id, reason, now]))
            .map(|changed| changed == 1)
            .map_err(|error| fault(&error))
    })
}

/// The text of a definition.
///
/// # Errors
/// When the database fails.
pub fn definition(tx: &Tx, hash: &[u8; 32]) -> Result<Option<String>, StoreError> {
    tx.with(|connection| {
        connection
            .prepare_cached("SELECT body FROM _oncehost_definitions WHERE hash = ?1")
            .and_then(|mut statement| statement.query_row([hash], |row| row.get(0)).optional())
            .map_err(|error| fault(&error))
    })
}

/// Clears definitions that no workflow goes on with; the next start of a flow brings its own again. Gives how many went.
///
/// # Errors
/// When the database fails.
pub fn clear_definitions(tx: &Tx) -> Result<usize, StoreError> {
    tx.with(|connection| {
        connection
            .prepare_cached(
                "DELETE FROM _oncehost_definitions WHERE hash NOT IN (SELECT definition FROM _oncehost_workflows \
                 WHERE status <> 'completed' AND status <> 'cancelled')",
            )
            .and_then(|mut statement| statement.execute([]))
            .map_err(|error| fault(&error))
    })
}
