//! Moving a plugin's file to another place; see [`crate::store::moving`].

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, params, params_from_iter};

use super::copy::open_alone;
use super::records::cell;
use super::{Access, HOST_TABLES, Shared, StoreError, Tx, fault, host_db, open_versioned, opening, rows};
use crate::query::Cell;
use crate::schema::{ColumnType, HOST_PREFIX, ddl};
use crate::store::moving::{COLUMNS, Found, Mark, NOT_COPIED, Shape, TABLE, is_beside};
use crate::store::records::Cells;

/// See [`crate::store::moving::peek`].
pub fn peek(path: &Path, closely: bool) -> Result<Found, StoreError> {
    if !path.exists() {
        return Ok(Found::default());
    }
    let connection = open_alone(path)?;
    let failed = |error: rusqlite::Error| opening(path, &error);
    let mark = mark(&connection).map_err(failed)?;
    let names = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'";
    let names: Vec<String> = rows(&connection, names, [], |row| row.get(0))?;
    let is_ours = names.iter().any(|name| name == "_oncehost_keys" || name == "tokens");
    let mut filled = None;
    for name in names.into_iter().filter(|name| closely && !is_beside(name)) {
        let sql = format!("SELECT 1 FROM {} LIMIT 1", ddl::quote(&name));
        if connection.query_row(&sql, [], |_| Ok(())).optional().map_err(failed)?.is_some() {
            filled = Some(name);
        }
    }
    Ok(Found { exists: true, is_ours, mark, filled })
}

pub(super) fn mark(connection: &Connection) -> rusqlite::Result<Option<Mark>> {
    let there = "SELECT 1 FROM sqlite_schema WHERE name = ?1";
    if connection.query_row(there, [TABLE], |_| Ok(())).optional()?.is_none() {
        return Ok(None);
    }
    let row = |row: &rusqlite::Row<'_>| (0..5).map(|at| cell(row, at)).collect::<rusqlite::Result<Cells>>();
    let row = connection.query_row(&format!("SELECT {COLUMNS} FROM {TABLE}"), [], row).optional()?;
    Ok(row.and_then(|row| Mark::read(&row)))
}

/// Refuses a database that has a mark.
///
/// # Errors
/// [`StoreError::Unavailable`] with what to do.
pub fn refuse_marked(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    let plugin = path.file_stem().unwrap_or_default().to_string_lossy();
    let mark = mark(connection).map_err(|error| opening(path, &error))?;
    mark.map_or(Ok(()), |mark| Err(StoreError::Unavailable(mark.refusal(&plugin))))
}

/// See [`crate::store::moving::open`].
pub fn open(path: &Path, host: bool) -> Result<Arc<Shared>, StoreError> {
    let connection = open_versioned(path, if host { &host_db::TABLES } else { &HOST_TABLES })?;
    connection.pragma_update(None, "foreign_keys", false).map_err(|error| opening(path, &error))?;
    Ok(Arc::new(Shared::over(connection, path, Access::Write)))
}

/// See [`crate::store::moving::remove`].
pub fn remove(path: &Path) -> Result<(), StoreError> {
    // The log goes last: without it the file alone would be an older state.
    for ending in ["", "-shm", "-wal"] {
        let mut name = path.as_os_str().to_owned();
        name.push(ending);
        match std::fs::remove_file(&name) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(StoreError::Unavailable(format!("cannot remove {}: {error}", Path::new(&name).display())));
            }
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

/// See [`crate::store::moving`].
pub fn cells(tx: &Tx, sql: &str, params: &[Cell]) -> Result<Vec<Cells>, StoreError> {
    tx.with(|connection| {
        let mut statement = connection.prepare(sql).map_err(|error| fault(&error))?;
        let width = statement.column_count();
        let row = |row: &rusqlite::Row<'_>| (0..width).map(|at| cell(row, at)).collect();
        let found = statement.query_map(params_from_iter(params), row).and_then(Iterator::collect);
        found.map_err(|error| fault(&error))
    })
}

/// See [`crate::store::moving`].
pub fn change(tx: &Tx, sql: &str, params: &[Cell]) -> Result<(), StoreError> {
    tx.with(|connection| {
        let changed = connection.prepare_cached(sql).and_then(|mut it| it.execute(params_from_iter(params)));
        changed.map(drop).map_err(|error| fault(&error))
    })
}

/// See [`crate::store::moving`].
pub fn place(_tx: &Tx, table: &str) -> Result<String, StoreError> {
    Ok(ddl::quote(table))
}

/// See [`crate::store::moving::tables`].
pub fn tables(tx: &Tx, host: bool) -> Result<Vec<Shape>, StoreError> {
    let sql = "SELECT t.name, c.name, c.type, c.pk, t.sql LIKE '%AUTOINCREMENT%' AND c.pk = 1 \
               FROM sqlite_schema AS t JOIN pragma_table_info(t.name) AS c \
               WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY t.name, c.name";
    let found = cells(tx, sql, &[])?;
    let mut tables: BTreeMap<String, (Shape, BTreeMap<i64, String>)> = BTreeMap::new();
    for row in found {
        let [Cell::Text(table), Cell::Text(column), Cell::Text(ty), Cell::Integer(place), Cell::Integer(numbered)] =
            row.as_slice()
        else {
            continue;
        };
        if NOT_COPIED.contains(&table.as_str()) || (!host && !table.starts_with(HOST_PREFIX)) {
            continue;
        }
        let new =
            || (Shape { name: table.clone(), columns: Vec::new(), key: Vec::new(), numbered: None }, BTreeMap::new());
        let (shape, key) = tables.entry(table.clone()).or_insert_with(new);
        let ty = match ty.as_str() {
            "INTEGER" => ColumnType::Integer,
            "BLOB" => ColumnType::Blob,
            _ => ColumnType::Text,
        };
        shape.columns.push((column.clone(), ty));
        if *place > 0 {
            key.insert(*place, column.clone());
        }
        if *numbered != 0 {
            shape.numbered = Some(column.clone());
        }
    }
    let finish = |(mut shape, key): (Shape, BTreeMap<i64, String>)| {
        shape.key = key.into_values().collect();
        if shape.name == "_oncehost_keys" {
            // A number that only SQLite's file has; what tells records apart is what they are looked up by.
            shape.columns.retain(|(name, _)| name != "id");
            shape.key = ["tenant", "operation", "key"].map(str::to_owned).to_vec();
        }
        shape
    };
    Ok(tables.into_values().map(finish).collect())
}

/// See [`crate::store::moving::highest`].
pub fn highest(tx: &Tx, table: &str, _column: &str) -> Result<Option<i64>, StoreError> {
    tx.with(|connection| {
        let there = connection.query_row("SELECT 1 FROM sqlite_schema WHERE name = 'sqlite_sequence'", [], |_| Ok(()));
        if there.optional().map_err(|error| fault(&error))?.is_none() {
            return Ok(None);
        }
        let sql = "SELECT seq FROM sqlite_sequence WHERE name = ?1";
        connection.query_row(sql, [table], |row| row.get(0)).optional().map_err(|error| fault(&error))
    })
}

/// See [`crate::store::moving::count_from`].
pub fn count_from(tx: &Tx, table: &str, _column: &str, highest: i64) -> Result<(), StoreError> {
    tx.with(|connection| {
        let raised = "UPDATE sqlite_sequence SET seq = max(seq, ?2) WHERE name = ?1";
        let raised = connection.execute(raised, params![table, highest]).map_err(|error| fault(&error))?;
        if raised == 0 {
            let added = connection.execute("INSERT INTO sqlite_sequence VALUES (?1, ?2)", params![table, highest]);
            added.map_err(|error| fault(&error))?;
        }
        Ok(())
    })
}
