//! Workflows that were started, and the definitions they began with.

use super::{StoreError, Tx, get, text};
use crate::clock::Millis;
use crate::query::Cell;
use crate::store::workflows::{Start, Workflow};

/// Finds a workflow.
pub fn find(tx: &Tx, tenant: &str, workflow_id: &str) -> Result<Option<Workflow>, StoreError> {
    let select = format!(
        "SELECT flow, biz_id, seed, status, since, attempts, error FROM {} WHERE tenant = $1 AND workflow_id = $2",
        tx.shared.table("_oncehost_workflows")
    );
    let rows = tx.query(&select, &[text(tenant), text(workflow_id)])?;
    let Some(row) = rows.first() else { return Ok(None) };
    Ok(Some(Workflow {
        flow: get(row, 0)?,
        biz_id: get(row, 1)?,
        seed: get(row, 2)?,
        status: get(row, 3)?,
        since: get(row, 4)?,
        attempts: get(row, 5)?,
        error: get(row, 6)?,
    }))
}

/// Starts a workflow, once per tenant and workflow id. Gives whether it was started now.
pub fn start(tx: &Tx, start: &Start<'_>, now: Millis) -> Result<bool, StoreError> {
    let hash = Cell::Blob(start.definition_hash.to_vec());
    let definition = format!(
        "INSERT INTO {} (hash, body) VALUES ($1, $2) ON CONFLICT (hash) DO NOTHING",
        tx.shared.table("_oncehost_definitions")
    );
    tx.changed(&definition, &[hash.clone(), text(start.definition)])?;
    let workflow = format!(
        "INSERT INTO {} (tenant, workflow_id, flow, biz_id, seed, definition, status, since, attempts, created_at) \
         VALUES ($1, $2, $3, $4, $5, $6, 'running', $7, 0, $7) ON CONFLICT (tenant, workflow_id) DO NOTHING",
        tx.shared.table("_oncehost_workflows")
    );
    let params = [
        text(start.tenant),
        text(start.workflow_id),
        text(start.flow),
        text(start.biz_id),
        text(start.seed),
        hash,
        Cell::Integer(now),
    ];
    Ok(tx.changed(&workflow, &params)? == 1)
}

/// Marks a workflow that has not ended as cancelled. Gives whether it changed.
pub fn cancel(tx: &Tx, tenant: &str, workflow_id: &str, reason: &str, now: Millis) -> Result<bool, StoreError> {
    let update = format!(
        "UPDATE {} SET status = 'cancelled', error = $3, since = $4 \
         WHERE tenant = $1 AND workflow_id = $2 AND status IN ('running', 'waiting', 'failing')",
        tx.shared.table("_oncehost_workflows")
    );
    Ok(tx.changed(&update, &[text(tenant), text(workflow_id), text(reason), Cell::Integer(now)])? == 1)
}
