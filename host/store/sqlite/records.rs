//! The rows of plugins' tables.
//!
//! A statement that fails leaves the transaction usable: SQLite undoes that statement alone, and where it gave up
//! the whole transaction instead, the error is [`StoreError::Gone`].

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{CachedStatement, Connection, Row, Statement as Prepared, ToSql, params_from_iter};

use super::errors::{self, Context};
use crate::query::sql::{self, Set, Statement, Target};
use crate::query::{Cell, Compare, Filter, Order, Test};
use crate::store::StoreError;

/// A row's cells, in the order of the table's columns.
pub type Cells = Vec<Cell>;

/// Bytes that the columns of one key or index may hold together (spec §4).
pub const KEY_BYTES: usize = 2_000;

/// Bytes that one call may read into memory: half of what a script's engine has.
const PAGE_BYTES: usize = 32 << 20;

/// Statements with more parameters are not worth a place in the cache: their text depends on a list's length.
const CACHED_PARAMS: usize = 64;
/// Tries of an insert whose conflicting row is not found again.
const TRIES: usize = 3;

/// Inserts a row unless one with the same `unique` columns is there; gives that row then, and whether it was made.
///
/// # Errors
/// `Schema` where the database has no plain unique index on just those columns; `Duplicate` when another unique
/// index is broken, `Constraint`, and what any statement may meet.
pub fn create_if_absent(
    connection: &Connection,
    target: Target<'_>,
    cells: Cells,
    unique: &[usize],
) -> Result<(Cells, bool), StoreError> {
    within_key_bytes(target, &cells)?;
    let mut insert = sql::insert(target, cells, unique);
    let context = Context { unique, ..Context::new(connection, target) };
    for _ in 0..TRIES {
        if run(&context, &insert, |statement, params| statement.execute(params))? > 0 {
            insert.params.truncate(target.table.columns.len());
            return Ok((insert.params, true));
        }
        let same = unique.iter().map(|at| Filter::Column(*at, Test::Compare(Compare::Eq, insert.params[*at].clone())));
        let select = sql::select(target, &Filter::All(same.collect()), None, None, 1);
        if let Some(row) = rows(&context, &select)?.pop() {
            return Ok((row, false));
        }
    }
    Err(StoreError::Unavailable(format!(
        "{}: a row with the same {} stands in the way, and cannot be read; check the database for triggers made by hand",
        target.table.name,
        sql::script_names(target.table, unique)
    )))
}

/// Changes the rows that match, and gives their number.
///
/// # Errors
/// `Duplicate`, `Constraint` (also where an added number meets NULL or leaves its type), and what any statement may meet.
pub fn update(connection: &Connection, target: Target<'_>, sets: &[Set], filter: &Filter) -> Result<usize, StoreError> {
    let context = Context::new(connection, target);
    for (columns, known) in sized_keys(target, sets) {
        let limit = i64::try_from(KEY_BYTES.saturating_sub(known)).unwrap_or(0);
        let too_large = known > KEY_BYTES
            || (!columns.rest.is_empty()
                && !first(&context, &sql::larger(target, filter, &columns.rest, limit))?.is_empty());
        if too_large {
            return Err(key_too_large(target, &columns.all));
        }
    }
    run(&context, &sql::update(target, sets, filter), |statement, params| statement.execute(params))
}

/// Removes the rows that match, and gives their number.
///
/// # Errors
/// `Constraint` where other rows refer to one of them, and what any statement may meet.
pub fn delete(connection: &Connection, target: Target<'_>, filter: &Filter) -> Result<usize, StoreError> {
    run(&Context::new(connection, target), &sql::delete(target, filter), |statement, params| statement.execute(params))
}

/// At most `limit` rows that match, in order, from behind the row with the values `after`.
///
/// # Errors
/// What any statement may meet.
pub fn list(
    connection: &Connection,
    target: Target<'_>,
    filter: &Filter,
    order: Option<&Order>,
    after: Option<&[Cell]>,
    limit: i64,
) -> Result<Vec<Cells>, StoreError> {
    let context = Context::new(connection, target);
    let mut found = rows(&context, &sql::select(target, filter, order, after, limit))?;
    let missing = limit - i64::try_from(found.len()).unwrap_or(limit);
    let tail = order.zip(after).and_then(|(order, after)| sql::null_tail(target.table, order, after));
    if let Some((nulls, order)) = tail.filter(|_| missing > 0) {
        let filter = Filter::All(vec![nulls, filter.clone()]);
        found.extend(rows(&context, &sql::select(target, &filter, Some(&order), None, missing))?);
    }
    Ok(found)
}

/// How many rows match.
///
/// # Errors
/// What any statement may meet.
pub fn count(connection: &Connection, target: Target<'_>, filter: &Filter) -> Result<i64, StoreError> {
    let context = Context::new(connection, target);
    run(&context, &sql::count(target, filter), |statement, params| statement.query_row(params, |row| row.get(0)))
}

/// Refuses a row in which the columns of one key or index hold too many bytes.
fn within_key_bytes(target: Target<'_>, cells: &[Cell]) -> Result<(), StoreError> {
    if cells.iter().map(Cell::key_bytes).sum::<usize>() <= KEY_BYTES {
        return Ok(());
    }
    for columns in keys(target) {
        if columns.iter().map(|column| cells[*column].key_bytes()).sum::<usize>() > KEY_BYTES {
            return Err(key_too_large(target, &columns));
        }
    }
    Ok(())
}

struct Key {
    all: Vec<usize>,
    /// Those that the update leaves as they are.
    rest: Vec<usize>,
}

/// The keys and indexes that an update makes other, and the bytes it puts into each.
fn sized_keys(target: Target<'_>, sets: &[Set]) -> Vec<(Key, usize)> {
    let put = |column: &usize| {
        sets.iter().find_map(|set| match set {
            Set::Put(at, cell) if at == column => Some(cell.key_bytes()),
            Set::Put(..) | Set::Add(..) => None,
        })
    };
    let changed = keys(target).filter(|columns| columns.iter().any(|column| put(column).is_some()));
    changed
        .map(|all| {
            let known = all.iter().filter_map(put).sum();
            let rest = all.iter().copied().filter(|column| put(column).is_none()).collect();
            (Key { all, rest }, known)
        })
        .collect()
}

fn keys(target: Target<'_>) -> impl Iterator<Item = Vec<usize>> {
    let table = target.table;
    let indexes = table.indexes.iter().map(|index| &index.columns);
    std::iter::once(&table.primary_key).chain(indexes).map(move |names| {
        names.iter().filter_map(|name| table.columns.iter().position(|column| column.name == *name)).collect()
    })
}

fn key_too_large(target: Target<'_>, columns: &[usize]) -> StoreError {
    let (table, names) = (&target.table.name, sql::script_names(target.table, columns));
    StoreError::Constraint(format!(
        "{table}: the columns of one key or index ({names}) hold at most {KEY_BYTES} bytes together; shorten the value, or \
         index a hash of it"
    ))
    .with(serde_json::json!({ "table": table, "columns": names.split(", ").collect::<Vec<_>>(), "constraint": "key size" }))
}

fn rows(context: &Context<'_>, statement: &Statement) -> Result<Vec<Cells>, StoreError> {
    let width = context.target.table.columns.len();
    let mut bytes = 0;
    let found = run(context, statement, |prepared, params| {
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
    })?;
    if bytes > PAGE_BYTES {
        return Err(StoreError::Slow(format!(
            "{}: the rows hold more than {} MiB; ask for fewer with limit",
            context.target.table.name,
            PAGE_BYTES >> 20
        )));
    }
    Ok(found)
}

fn first(context: &Context<'_>, statement: &Statement) -> Result<Vec<i64>, StoreError> {
    run(context, statement, |prepared, params| prepared.query_map(params, |row| row.get(0))?.collect())
}

fn run<R>(
    context: &Context<'_>,
    statement: &Statement,
    work: impl FnOnce(&mut Prepared<'_>, Params<'_>) -> rusqlite::Result<R>,
) -> Result<R, StoreError> {
    let params = params_from_iter(&statement.params);
    let result = if statement.params.len() > CACHED_PARAMS {
        context.connection.prepare(&statement.text).and_then(|mut prepared| work(&mut prepared, params))
    } else {
        context
            .connection
            .prepare_cached(&statement.text)
            .and_then(|mut prepared: CachedStatement<'_>| work(&mut prepared, params))
    };
    result.map_err(|error| errors::explain(context, &error))
}

type Params<'a> = rusqlite::ParamsFromIter<&'a Vec<Cell>>;

fn cell(row: &Row<'_>, at: usize) -> rusqlite::Result<Cell> {
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
