//! Workflows that were started, and the definitions they began with.

use tokio_postgres::Row;

use super::{StoreError, Tx, get, many, optional, text};
use crate::clock::Millis;
use crate::query::Cell;
use crate::store::workflows::{Filter, Start, Workflow};

const COLUMNS: &str =
    "id, tenant, workflow_id, flow, biz_id, seed, definition, status, since, attempts, error, created_at";

fn workflow(row: &Row) -> Result<Workflow, StoreError> {
    let hash: Vec<u8> = get(row, 6)?;
    Ok(Workflow {
        id: get(row, 0)?,
        tenant: get(row, 1)?,
        workflow_id: get(row, 2)?,
        flow: get(row, 3)?,
        biz_id: get(row, 4)?,
        seed: get(row, 5)?,
        definition_hash: hash.try_into().unwrap_or_default(),
        status: get(row, 7)?,
        since: get(row, 8)?,
        attempts: get(row, 9)?,
        error: get(row, 10)?,
        created_at: get(row, 11)?,
    })
}

fn table(tx: &Tx) -> String {
    tx.shared.table("_oncehost_workflows")
}

fn definitions(tx: &Tx) -> String {
    tx.shared.table("_oncehost_definitions")
}

fn rows(tx: &Tx, rest: &str, params: &[Cell]) -> Result<Vec<Workflow>, StoreError> {
    let rows = tx.query(&format!("SELECT {COLUMNS} FROM {} {rest}", table(tx)), params)?;
    rows.iter().map(workflow).collect()
}

/// Finds a workflow by its name.
pub fn find(tx: &Tx, tenant: &str, workflow_id: &str) -> Result<Option<Workflow>, StoreError> {
    Ok(rows(tx, "WHERE tenant = $1 AND workflow_id = $2", &[text(tenant), text(workflow_id)])?.pop())
}

/// Finds a workflow by its number.
pub fn by_number(tx: &Tx, id: i64) -> Result<Option<Workflow>, StoreError> {
    Ok(rows(tx, "WHERE id = $1", &[Cell::Integer(id)])?.pop())
}

/// The workflows of this name, of all tenants.
pub fn named(tx: &Tx, workflow_id: &str) -> Result<Vec<Workflow>, StoreError> {
    rows(tx, "WHERE workflow_id = $1 ORDER BY tenant", &[text(workflow_id)])
}

/// The newest workflows that a filter lets through, at most `limit`.
pub fn list(tx: &Tx, filter: &Filter, limit: i64) -> Result<Vec<Workflow>, StoreError> {
    let mut rest = String::from("WHERE id < $1");
    let mut params = vec![Cell::Integer(filter.before.unwrap_or(i64::MAX))];
    for (column, wanted) in [("tenant", &filter.tenant), ("flow", &filter.flow), ("status", &filter.status)] {
        if let Some(wanted) = wanted {
            params.push(text(wanted));
            rest.push_str(&format!(" AND {column} = ${}", params.len()));
        }
    }
    // The index of what is open is for those statuses only.
    if filter.status.as_deref().is_some_and(|status| status != "completed") {
        rest.push_str(" AND status <> 'completed'");
    }
    params.push(Cell::Integer(limit));
    rows(tx, &format!("{rest} ORDER BY id DESC LIMIT ${}", params.len()), &params)
}

/// How many workflows have each of the statuses that want somebody's attention.
pub fn troubled(tx: &Tx) -> Result<Vec<(String, i64)>, StoreError> {
    let sql = format!(
        "SELECT status, count(*) FROM {} WHERE status IN ('failing', 'failed') AND status <> 'completed' GROUP BY status",
        table(tx)
    );
    tx.query(&sql, &[])?.iter().map(|row| Ok((get(row, 0)?, get(row, 1)?))).collect()
}

/// Starts a workflow, once per tenant and workflow id. Gives its number if it was started now.
pub fn start(tx: &Tx, start: &Start<'_>, now: Millis) -> Result<Option<i64>, StoreError> {
    let hash = Cell::Blob(start.definition_hash.to_vec());
    let definition =
        format!("INSERT INTO {} (hash, body) VALUES ($1, $2) ON CONFLICT (hash) DO NOTHING", definitions(tx));
    tx.changed(&definition, &[hash.clone(), text(start.definition)])?;
    // From the definition's row: whoever clears it at this moment then runs into this transaction.
    let workflow = format!(
        "INSERT INTO {} (tenant, workflow_id, flow, biz_id, seed, definition, status, since, attempts, created_at) \
         SELECT $1::text, $2::text, $3::text, $4::text, $5::text, hash, 'running', $7::bigint, 0, $7::bigint FROM {} \
         WHERE hash = $6 ON CONFLICT (workflow_id, tenant) DO NOTHING RETURNING id",
        table(tx),
        definitions(tx)
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
    tx.query(&workflow, &params)?.first().map(|row| get(row, 0)).transpose()
}

/// A workflow's status.
pub fn status(tx: &Tx, id: i64) -> Result<Option<String>, StoreError> {
    let sql = format!("SELECT status FROM {} WHERE id = $1", table(tx));
    tx.query(&sql, &[Cell::Integer(id)])?.first().map(|row| get(row, 0)).transpose()
}

/// Gives a workflow another status; `since` stays where the status does. One that was cancelled stays so.
pub fn set_status(
    tx: &Tx,
    id: i64,
    status: &str,
    error: Option<&str>,
    attempts: u32,
    now: Millis,
) -> Result<(), StoreError> {
    let sql = format!(
        "UPDATE {} SET since = CASE WHEN status = $2 THEN since ELSE $5 END, status = $2, error = $3, attempts = $4 \
         WHERE id = $1 AND status <> 'cancelled'",
        table(tx)
    );
    let params = [Cell::Integer(id), text(status), optional(error), Cell::Integer(attempts.into()), Cell::Integer(now)];
    tx.changed(&sql, &params).map(drop)
}

/// Marks a workflow that has not ended as cancelled. Gives whether it changed.
pub fn cancel(tx: &Tx, id: i64, reason: &str, now: Millis) -> Result<bool, StoreError> {
    let sql = format!(
        "UPDATE {} SET status = 'cancelled', error = $2, since = $3 \
         WHERE id = $1 AND status IN ('running', 'waiting', 'failing', 'failed')",
        table(tx)
    );
    Ok(tx.changed(&sql, &[Cell::Integer(id), text(reason), Cell::Integer(now)])? == 1)
}

/// The text of a definition.
pub fn definition(tx: &Tx, hash: &[u8; 32]) -> Result<Option<String>, StoreError> {
    let sql = format!("SELECT body FROM {} WHERE hash = $1", definitions(tx));
    tx.query(&sql, &[Cell::Blob(hash.to_vec())])?.first().map(|row| get(row, 0)).transpose()
}

/// Clears definitions that no workflow goes on with. Gives how many went.
pub fn clear_definitions(tx: &Tx) -> Result<usize, StoreError> {
    let sql = format!(
        "DELETE FROM {} WHERE hash NOT IN (SELECT definition FROM {} WHERE status <> 'completed' AND status <> 'cancelled')",
        definitions(tx),
        table(tx)
    );
    tx.changed(&sql, &[]).map(many)
}
