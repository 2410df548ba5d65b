//! Moving a plugin's schema to another place; see [`crate::store::moving`].

use std::sync::Arc;

use tokio_postgres::{Error, GenericClient, Row};

use super::server::HOST_SCHEMA;
use super::{Gave, Server, StoreError, Tx, Want, errors, get};
use crate::query::Cell;
use crate::schema::{ColumnType, HOST_PREFIX, ddl};
use crate::store::moving::{COLUMNS, Found, Mark, NOT_COPIED, Shape, TABLE, is_beside};
use crate::store::records::Cells;

/// What connections of hosts call themselves.
pub(super) const HOSTS: &str = "oncehost";
/// What those of a command that moves data call themselves.
pub(super) const MOVES: &str = "oncehost store copy";

/// See [`crate::store::moving::peek`].
pub fn peek(server: &Arc<Server>, schema: &str, closely: bool) -> Result<Found, StoreError> {
    let (own, schema) = (server.clone(), schema.to_owned());
    server.wait_anywhere(async move {
        let client = own.connect().await?;
        look(&**client, &schema, closely).await.map_err(|error| errors::fault(&error))
    })
}

async fn look(client: &impl GenericClient, schema: &str, closely: bool) -> Result<Found, Error> {
    let exists = "SELECT 1 FROM pg_namespace WHERE nspname = $1::text";
    if client.query_opt(exists, &[&schema]).await?.is_none() {
        return Ok(Found::default());
    }
    let names = "SELECT tablename::text FROM pg_tables WHERE schemaname = $1::text ORDER BY 1";
    let names = client.query(names, &[&schema]).await?;
    let names: Vec<String> = names.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
    let is_ours = names.iter().any(|name| name == "_oncehost_version");
    let mark = mark(client, schema).await?;
    let mut filled = None;
    for name in names.into_iter().filter(|name| closely && !is_beside(name)) {
        let sql = format!("SELECT 1 FROM {}.{} LIMIT 1", ddl::quote(schema), ddl::quote(&name));
        if client.query_opt(&sql, &[]).await?.is_some() {
            filled = Some(name);
        }
    }
    Ok(Found { exists: true, is_ours, mark, filled })
}

async fn mark(client: &impl GenericClient, schema: &str) -> Result<Option<Mark>, Error> {
    let there = "SELECT 1 FROM pg_tables WHERE schemaname = $1::text AND tablename = $2::text";
    if client.query_opt(there, &[&schema, &TABLE]).await?.is_none() {
        return Ok(None);
    }
    let row = client.query_opt(&format!("SELECT {COLUMNS} FROM {}.{TABLE}", ddl::quote(schema)), &[]).await?;
    let row = row.map(|row| (0..5).map(|at| row.try_get(at)).collect::<Result<Cells, _>>()).transpose()?;
    Ok(row.and_then(|row| Mark::read(&row)))
}

/// The sentence with which a schema that has a mark is refused.
pub(super) async fn refusal(client: &impl GenericClient, schema: &str) -> Result<Option<String>, Error> {
    Ok(mark(client, schema).await?.map(|mark| mark.refusal(schema)))
}

/// See [`crate::store::moving::remove`].
pub fn remove(server: &Arc<Server>, schema: &str) -> Result<(), StoreError> {
    let (own, schema) = (server.clone(), schema.to_owned());
    server.wait_anywhere(async move {
        let client = own.connect().await?;
        let dropped = client.batch_execute(&format!("DROP SCHEMA {} CASCADE", ddl::quote(&schema))).await;
        own.forget(&schema);
        dropped.map_err(|error| errors::fault(&error))
    })
}

/// See [`crate::store::moving::hosts`].
pub fn hosts(server: &Arc<Server>) -> Result<Vec<String>, StoreError> {
    let own = server.clone();
    server.wait_anywhere(async move {
        let client = own.connect().await?;
        let sql = "SELECT DISTINCT coalesce(host(client_addr), 'this machine') FROM pg_stat_activity \
                   WHERE datname = current_database() AND application_name = $1::text ORDER BY 1";
        let found = client.query(sql, &[&HOSTS]).await.map_err(|error| errors::fault(&error))?;
        found.iter().map(|row| get(row, 0)).collect()
    })
}

/// See [`crate::store::moving`].
pub fn cells(tx: &Tx, sql: &str, params: &[Cell]) -> Result<Vec<Cells>, StoreError> {
    let row = |row: &Row| (0..row.len()).map(|at| get(row, at)).collect();
    tx.query(sql, params)?.iter().map(row).collect()
}

/// See [`crate::store::moving`].
pub fn change(tx: &Tx, sql: &str, params: &[Cell]) -> Result<(), StoreError> {
    match tx.run(sql, params, Want::Changed, errors::fault)? {
        Gave::Changed(_) | Gave::Rows(_) => Ok(()),
    }
}

/// See [`crate::store::moving`].
pub fn place(tx: &Tx, table: &str) -> Result<String, StoreError> {
    Ok(tx.shared.table(&ddl::quote(table)))
}

/// See [`crate::store::moving::tables`].
pub fn tables(tx: &Tx, host: bool) -> Result<Vec<Shape>, StoreError> {
    let sql = "SELECT c.relname::text, a.attname::text, format_type(a.atttypid, NULL), \
                 array_position(CAST(x.indkey AS int[]), CAST(a.attnum AS int)), a.attidentity <> '' \
               FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace \
                 LEFT JOIN pg_index x ON x.indrelid = c.oid AND x.indisprimary \
               WHERE n.nspname = $1::text AND c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped \
               ORDER BY c.relname, a.attname";
    let schema = if host { HOST_SCHEMA.to_owned() } else { tx.shared.plugin.clone() };
    let mut tables: Vec<(Shape, Vec<(i64, String)>)> = Vec::new();
    for row in cells(tx, sql, &[Cell::Text(schema)])? {
        let [Cell::Text(table), Cell::Text(column), Cell::Text(ty), place, numbered] = row.as_slice() else { continue };
        if NOT_COPIED.contains(&table.as_str()) || (!host && !table.starts_with(HOST_PREFIX)) {
            continue;
        }
        if tables.last().is_none_or(|(shape, _)| shape.name != *table) {
            let shape = Shape { name: table.clone(), columns: Vec::new(), key: Vec::new(), numbered: None };
            tables.push((shape, Vec::new()));
        }
        let Some((shape, key)) = tables.last_mut() else { continue };
        let ty = match ty.as_str() {
            "bigint" => ColumnType::Integer,
            "bytea" => ColumnType::Blob,
            "boolean" => ColumnType::Boolean,
            _ => ColumnType::Text,
        };
        shape.columns.push((column.clone(), ty));
        if let Cell::Integer(place) = place {
            key.push((*place, column.clone()));
        }
        if *numbered == Cell::Bool(true) {
            shape.numbered = Some(column.clone());
        }
    }
    let finish = |(mut shape, mut key): (Shape, Vec<(i64, String)>)| {
        key.sort_unstable();
        shape.key = key.into_iter().map(|(_, name)| name).collect();
        if shape.name == "_oncehost_events" {
            // A file has no index over ids of events; the numbers are unique here too.
            shape.key = vec!["id".to_owned()];
        }
        shape
    };
    Ok(tables.into_iter().map(finish).collect())
}

/// The name of the sequence behind a column, as SQL.
fn sequence(tx: &Tx, table: &str, column: &str) -> Result<String, StoreError> {
    let table = ddl::text_literal(&place(tx, table)?);
    Ok(format!("CAST(pg_get_serial_sequence({table}, {}) AS regclass)", ddl::text_literal(column)))
}

/// See [`crate::store::moving::highest`].
pub fn highest(tx: &Tx, table: &str, column: &str) -> Result<Option<i64>, StoreError> {
    let sql = format!("SELECT pg_sequence_last_value({})", sequence(tx, table, column)?);
    match cells(tx, &sql, &[])?.first().and_then(|row| row.first()) {
        Some(Cell::Integer(number)) => Ok(Some(*number)),
        _ => Ok(None),
    }
}

/// See [`crate::store::moving::count_from`].
pub fn count_from(tx: &Tx, table: &str, column: &str, highest: i64) -> Result<(), StoreError> {
    let (sequence, of, column) = (sequence(tx, table, column)?, place(tx, table)?, ddl::quote(column));
    let most = format!("(SELECT greatest($1::bigint, max({column})) FROM {of})");
    let sql = format!("SELECT setval({sequence}, {most}) WHERE {most} > 0");
    cells(tx, &sql, &[Cell::Integer(highest)]).map(drop)
}
