//! Workflows that were started, and the definitions they began with.

use rusqlite::{OptionalExtension, params};

use super::{StoreError, Tx, fault};
use crate::clock::Millis;
use crate::store::workflows::{Start, Workflow};

/// Finds a workflow.
///
/// # Errors
/// When the database fails.
pub fn find(tx: &Tx, tenant: &str, workflow_id: &str) -> Result<Option<Workflow>, StoreError> {
    tx.with(|connection| {
        connection
            .prepare_cached(
                "SELECT flow, biz_id, seed, status, since, attempts, error FROM _oncehost_workflows \
                 WHERE tenant = ?1 AND workflow_id = ?2",
            )
            .and_then(|mut statement| {
                statement
                    .query_row(params![tenant, workflow_id], |row| {
                        Ok(Workflow {
                            flow: row.get(0)?,
                            biz_id: row.get(1)?,
                            seed: row.get(2)?,
                            status: row.get(3)?,
                            since: row.get(4)?,
                            attempts: row.get(5)?,
                            error: row.get(6)?,
                        })
                    })
                    .optional()
            })
            .map_err(|error| fault(&error))
    })
}

/// Starts a workflow, once per tenant and workflow id. Gives whether it was started now.
///
/// # Errors
/// When the database fails.
pub fn start(tx: &Tx, start: &Start<'_>, now: Millis) -> Result<bool, StoreError> {
    tx.with(|connection| {
        let insert = || {
            connection
                .prepare_cached(
                    "INSERT INTO _oncehost_definitions (hash, body) VALUES (?1, ?2) ON CONFLICT (hash) DO NOTHING",
                )?
                .execute(params![start.definition_hash, start.definition])?;
            connection
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
                ])
        };
        insert().map(|inserted| inserted == 1).map_err(|error| fault(&error))
    })
}

/// Marks a workflow that has not ended as cancelled. Gives whether it changed.
///
/// # Errors
/// When the database fails.
pub fn cancel(tx: &Tx, tenant: &str, workflow_id: &str, reason: &str, now: Millis) -> Result<bool, StoreError> {
    tx.with(|connection| {
        connection
            .prepare_cached(
                "UPDATE _oncehost_workflows SET status = 'cancelled', error = ?3, since = ?4 \
                 WHERE tenant = ?1 AND workflow_id = ?2 AND status IN ('running', 'waiting', 'failing')",
            )
            .and_then(|mut statement| statement.execute(params![tenant, workflow_id, reason, now]))
            .map(|changed| changed == 1)
            .map_err(|error| fault(&error))
    })
}
