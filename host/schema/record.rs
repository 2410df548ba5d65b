//! `_oncehost_schema`: what `apply` brought about, so that changes by other hands show.

use super::database::{Database, Dialect, integer, number, text};
use super::ddl::text_literal;
use super::{Schema, SchemaError, parse};
use crate::clock::Millis;
use crate::codec::Value;

/// The last schema that was applied.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) version: i64,
    pub(super) applied_at: Millis,
    pub(super) hash: String,
    /// `None` when this version of the host cannot read what an older one wrote.
    pub(super) schema: Option<Schema>,
}

/// Whether anything was ever recorded.
fn is_there(db: &dyn Database) -> Result<bool, SchemaError> {
    let there = match db.dialect() {
        Dialect::Sqlite => "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = '_oncehost_schema'",
        Dialect::Postgres => {
            "SELECT 1 FROM pg_catalog.pg_class WHERE relname = '_oncehost_schema' \
             AND relnamespace = current_schema()::regnamespace"
        }
    };
    Ok(number(db, there)? != 0)
}

/// The schema that a row says; `None` when this version of the host cannot read what an older one wrote.
fn schema(sql: &Value, shared: &Value) -> Option<Schema> {
    let shared = text(shared);
    let shared: Vec<String> = shared.split(' ').filter(|name| !name.is_empty()).map(str::to_owned).collect();
    parse(&text(sql), &shared).ok()
}

/// The last record, if any schema was ever applied.
pub(super) fn read(db: &dyn Database) -> Result<Option<Record>, SchemaError> {
    if !is_there(db)? {
        return Ok(None);
    }
    let last =
        "SELECT version, applied_at, hash, schema, shared_tables FROM _oncehost_schema ORDER BY version DESC LIMIT 1";
    Ok(db.rows(last)?.first().map(|row| Record {
        version: integer(&row[0]),
        applied_at: integer(&row[1]),
        hash: text(&row[2]),
        schema: schema(&row[3], &row[4]),
    }))
}

/// Every schema that was ever applied.
pub(super) fn all(db: &dyn Database) -> Result<Vec<Schema>, SchemaError> {
    if !is_there(db)? {
        return Ok(Vec::new());
    }
    let rows = db.rows("SELECT schema, shared_tables FROM _oncehost_schema ORDER BY version")?;
    Ok(rows.iter().filter_map(|row| schema(&row[0], &row[1])).collect())
}

/// Adds a record and gives its version; `db` is in a transaction.
pub(super) fn write(db: &dyn Database, schema: &Schema, now: Millis) -> Result<i64, SchemaError> {
    if db.dialect() == Dialect::Sqlite {
        db.run(
            "CREATE TABLE IF NOT EXISTS _oncehost_schema (
               version INTEGER PRIMARY KEY, applied_at INTEGER NOT NULL, hash TEXT NOT NULL,
               schema TEXT NOT NULL, shared_tables TEXT NOT NULL
             ) STRICT",
        )?;
    }
    let (hash, sql) = (text_literal(&schema.hash()), text_literal(&schema.to_sql()));
    let shared = text_literal(&schema.shared_tables().join(" "));
    number(
        db,
        &format!(
            "INSERT INTO _oncehost_schema (version, applied_at, hash, schema, shared_tables)
             SELECT coalesce(max(version), 0) + 1, {now}, {hash}, {sql}, {shared} FROM _oncehost_schema
             RETURNING version"
        ),
    )
}
