//! Statements on plugins' tables, run.
//!
//! A statement that fails leaves the transaction usable: SQLite undoes that statement alone, and where it gave up
//! the whole transaction instead, the error is [`StoreError::Gone`].

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{CachedStatement, Connection, Row, Statement as Prepared, ToSql, params_from_iter};

use super::Tx;
use super::errors::{self, Context};
use crate::query::Cell;
use crate::query::sql::Statement;
use crate::store::StoreError;
use crate::store::records::{About, Cells, PAGE_BYTES, page_too_large};

/// Statements with more parameters are not worth a place in the cache: their text depends on a list's length.
const CACHED_PARAMS: usize = 64;

/// Runs a statement that writes, and gives the number of rows that it changed.
///
/// # Errors
/// See [`crate::store::records`].
pub fn execute(tx: &Tx, about: About<'_>, statement: &Statement) -> Result<usize, StoreError> {
    tx.with(|connection| run(connection, about, statement, |prepared, params| prepared.execute(params)))
}

/// Nothing is left for later: a statement costs no round trip.
///
/// # Errors
/// None.
pub fn leave(_tx: &Tx, _insert: &Statement) -> Result<bool, StoreError> {
    Ok(false)
}

/// The rows that a statement finds, with all columns of the table.
///
/// # Errors
/// See [`crate::store::records`]; `Slow` also when they hold more than the bytes of a page.
pub fn rows(tx: &Tx, about: About<'_>, statement: &Statement) -> Result<Vec<Cells>, StoreError> {
    let width = about.target.table.columns.len();
    let mut bytes = 0;
    let found = tx.read(|connection| {
        run(connection, about, statement, |prepared, params| {
            let mut found = Vec::new();
            let mut rows = prepared.query(params)?;
            while let Some(row) = rows.next()? {
                let cells = (0..width).map(|at| cell(row, at)).collect::<rusqlite::Result<Cells>>()?;
                bytes += cells.iter().map(Cell::key_bytes).sum::<usize>();
                if bytes > PAGE_BYTES {
                    break;
                }
                found.push(cells);
            }
            Ok(found)
        })
    })?;
    if bytes > PAGE_BYTES { Err(page_too_large(about.target)) } else { Ok(found) }
}

/// The number that a statement gives in its first row; `None` without a row.
///
/// # Errors
/// See [`crate::store::records`].
pub fn number(tx: &Tx, about: About<'_>, statement: &Statement) -> Result<Option<i64>, StoreError> {
    tx.read(|connection| {
        run(connection, about, statement, |prepared, params| {
            prepared.query_map(params, |row| row.get(0))?.next().transpose()
        })
    })
}

fn run<R>(
    connection: &Connection,
    about: About<'_>,
    statement: &Statement,
    work: impl FnOnce(&mut Prepared<'_>, Params<'_>) -> rusqlite::Result<R>,
) -> Result<R, StoreError> {
    let context = Context { connection, about, in_transaction: !connection.is_autocommit() };
    let params = params_from_iter(&statement.params);
    let result = if statement.params.len() > CACHED_PARAMS {
        connection.prepare(&statement.text).and_then(|mut prepared| work(&mut prepared, params))
    } else {
        connection
            .prepare_cached(&statement.text)
            .and_then(|mut prepared: CachedStatement<'_>| work(&mut prepared, params))
    };
    result.map_err(|error| errors::explain(&context, &error))
}

type Params<'a> = rusqlite::ParamsFromIter<&'a Vec<Cell>>;

pub(super) fn cell(row: &Row<'_>, at: usize) -> rusqlite::Result<Cell> {
    Ok(match row.get_ref(at)? {
        ValueRef::Null => Cell::Null,
        ValueRef::Integer(number) => Cell::Integer(number),
        ValueRef::Real(number) => Cell::Real(number),
        text @ ValueRef::Text(_) => Cell::Text(text.as_str()?.to_owned()),
        ValueRef::Blob(bytes) => Cell::Blob(bytes.to_vec()),
    })
}

impl ToSql for Cell {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Cell::Null => ValueRef::Null,
            Cell::Bool(truth) => ValueRef::Integer(i64::from(*truth)),
            Cell::Integer(number) => ValueRef::Integer(*number),
            Cell::Real(number) => ValueRef::Real(*number),
            Cell::Text(text) => ValueRef::Text(text.as_bytes()),
            Cell::Blob(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

#[cfg(test)]
mod tests;
