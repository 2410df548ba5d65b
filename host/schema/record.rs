//! `_oncehost_schema`: what `apply` brought about, so that changes by other hands show.

use rusqlite::{Connection, params};

use super::inspect::rows;
use super::{Schema, SchemaError, parse};
use crate::clock::Millis;

/// The last schema that was applied.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) version: i64,
    pub(super) applied_at: Millis,
    pub(super) hash: String,
    /// `None` when this version of the host cannot read what an older one wrote.
    pub(super) schema: Option<Schema>,
}

/// The last record, if any schema was ever applied.
pub(super) fn read(conn: &Connection) -> Result<Option<Record>, SchemaError> {
    let there = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = '_oncehost_schema'";
    if rows(conn, there, [], |_| Ok(()))?.is_empty() {
        return Ok(None);
    }
    let last =
        "SELECT version, applied_at, hash, schema, shared_tables FROM _oncehost_schema ORDER BY version DESC LIMIT 1";
    let found = rows(conn, last, [], |row| {
        let (sql, shared): (String, String) = (row.get(3)?, row.get(4)?);
        let shared: Vec<String> = shared.split(' ').filter(|name| !name.is_empty()).map(str::to_owned).collect();
        Ok(Record {
            version: row.get(0)?,
            applied_at: row.get(1)?,
            hash: row.get(2)?,
            schema: parse(&sql, &shared).ok(),
        })
    })?;
    Ok(found.into_iter().next())
}

/// Adds a record and gives its version; `conn` is in a transaction.
pub(super) fn write(conn: &Connection, schema: &Schema, now: Millis) -> Result<i64, SchemaError> {
    conn.execute_batch(
        "CREATE TABLE IF NOT EXISTS _oncehost_schema (
               version INTEGER PRIMARY KEY, applied_at INTEGER NOT NULL, hash TEXT NOT NULL,
               schema TEXT NOT NULL, shared_tables TEXT NOT NULL
             ) STRICT",
    )?;
    let version = conn.query_row(
        "INSERT INTO _oncehost_schema (applied_at, hash, schema, shared_tables) VALUES (?1, ?2, ?3, ?4)
             RETURNING version",
        params![now, schema.hash(), schema.to_sql(), schema.shared_tables().join(" ")],
        |row| row.get(0),
    )?;
    Ok(version)
}
