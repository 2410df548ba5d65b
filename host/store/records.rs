//! The rows of plugins' tables.
//!
//! A call that fails leaves the transaction usable; where the database gave up the whole transaction instead, the
//! error is [`StoreError::Gone`].

use super::{StoreError, Tx, clash};
use crate::query::sql::{self, Row, Set, Statement, Target, script_names};
use crate::query::{Cell, Compare, Filter, Order, Test};

/// A row's cells, in the order of the table's columns.
pub type Cells = Vec<Cell>;

/// Bytes that the columns of one key or index may hold together (spec §4).
pub const KEY_BYTES: usize = 2_000;

/// Bytes that one call may read into memory: half of what a script's engine has.
pub(super) const PAGE_BYTES: usize = 32 << 20;

/// Tries of an insert whose conflicting row is not found again.
const TRIES: usize = 3;

/// What a statement is about, for the words of an error.
#[derive(Clone, Copy)]
pub struct About<'a> {
    pub target: Target<'a>,
    /// The columns of a `createIfAbsent`'s `uniqueBy`.
    pub unique: &'a [usize],
}

impl<'a> About<'a> {
    fn target(target: Target<'a>) -> Self {
        Self { target, unique: &[] }
    }
}

verbs! { records:
    /// Runs a statement that writes, and gives the number of rows that it changed.
    fn execute(tx, about: About<'_>, statement: &Statement) -> usize;

    /// Leaves an insert to later, as if it were certain that it makes its row; where it does not, everything runs again.
    /// Gives whether it was left.
    fn leave(tx, insert: &Statement) -> bool;

    /// The rows that a statement finds, with all columns of the table.
    fn rows(tx, about: About<'_>, statement: &Statement) -> Vec<Cells>;

    /// The number that a statement gives in its first row; `None` without a row.
    pub(super) fn number(tx, about: About<'_>, statement: &Statement) -> Option<i64>;
}

/// Inserts a row unless one with the same `unique` columns is there; gives that row then, and whether it was made.
///
/// # Errors
/// `Schema` where the database has no plain unique index on just those columns; `Duplicate` when another unique
/// index is broken, `Constraint`, and what any statement may meet.
pub fn create_if_absent(
    tx: &Tx,
    target: Target<'_>,
    cells: Cells,
    unique: &[usize],
) -> Result<(Cells, bool), StoreError> {
    within_key_bytes(target, &cells)?;
    let mut insert = sql::insert(tx.dialect(), target, cells, unique);
    let about = About { target, unique };
    if leave(tx, &insert)? {
        insert.params.truncate(target.table.columns.len());
        return Ok((insert.params, true));
    }
    for _ in 0..TRIES {
        let told = |error| clash::first(tx, about, Row::New(&insert.params), error);
        let made = execute(tx, about, &insert).map_err(told)?;
        if made > 0 {
            insert.params.truncate(target.table.columns.len());
            return Ok((insert.params, true));
        }
        let same = unique.iter().map(|at| Filter::Column(*at, Test::Compare(Compare::Eq, insert.params[*at].clone())));
        let select = sql::select(tx.dialect(), target, &Filter::All(same.collect()), None, None, 1);
        if let Some(row) = rows(tx, about, &select)?.pop() {
            return Ok((row, false));
        }
    }
    Err(StoreError::Unavailable(format!(
        "{}: a row with the same {} stands in the way, and cannot be read; check the database for triggers made by hand",
        target.table.name,
        script_names(target.table, unique)
    )))
}

/// Changes the rows that match, and gives their number.
///
/// # Errors
/// `Duplicate`, `Constraint` (also where an added number meets NULL or leaves its type), and what any statement may
/// meet.
pub fn update(tx: &Tx, target: Target<'_>, sets: &[Set], filter: &Filter) -> Result<usize, StoreError> {
    let about = About::target(target);
    for (columns, known) in sized_keys(target, sets) {
        let limit = i64::try_from(KEY_BYTES.saturating_sub(known)).unwrap_or(0);
        let too_large = known > KEY_BYTES
            || (!columns.rest.is_empty()
                && number(tx, about, &sql::larger(tx.dialect(), target, filter, &columns.rest, limit))?.is_some());
        if too_large {
            return Err(key_too_large(target, &columns.all));
        }
    }
    clash::in_order(tx, about, sets, filter)
        .and_then(|()| execute(tx, about, &sql::update(tx.dialect(), target, sets, filter)))
        .map_err(|error| clash::first(tx, about, Row::Updated(sets, filter), error))
}

/// Removes the rows that match, and gives their number.
///
/// # Errors
/// `Constraint` where other rows refer to one of them, and what any statement may meet.
pub fn delete(tx: &Tx, target: Target<'_>, filter: &Filter) -> Result<usize, StoreError> {
    execute(tx, About::target(target), &sql::delete(tx.dialect(), target, filter))
}

/// At most `limit` rows that match, in order, from behind the row with the values `after`.
///
/// # Errors
/// What any statement may meet.
pub fn list(
    tx: &Tx,
    target: Target<'_>,
    filter: &Filter,
    order: Option<&Order>,
    after: Option<&[Cell]>,
    limit: i64,
) -> Result<Vec<Cells>, StoreError> {
    let about = About::target(target);
    let mut found = rows(tx, about, &sql::select(tx.dialect(), target, filter, order, after, limit))?;
    let missing = limit - i64::try_from(found.len()).unwrap_or(limit);
    let tail = order.zip(after).and_then(|(order, after)| sql::null_tail(target.table, order, after));
    if let Some((nulls, order)) = tail.filter(|_| missing > 0) {
        let filter = Filter::All(vec![nulls, filter.clone()]);
        found.extend(rows(tx, about, &sql::select(tx.dialect(), target, &filter, Some(&order), None, missing))?);
    }
    Ok(found)
}

/// How many rows match.
///
/// # Errors
/// What any statement may meet.
pub fn count(tx: &Tx, target: Target<'_>, filter: &Filter) -> Result<i64, StoreError> {
    Ok(number(tx, About::target(target), &sql::count(tx.dialect(), target, filter))?.unwrap_or(0))
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

/// The columns of a key or index that an update makes other.
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
    let (table, names) = (&target.table.name, script_names(target.table, columns));
    StoreError::Constraint(format!(
        "{table}: the columns of one key or index ({names}) hold at most {KEY_BYTES} bytes together; shorten the value, or \
         index a hash of it"
    ))
    .with(serde_json::json!({ "table": table, "columns": names.split(", ").collect::<Vec<_>>(), "constraint": "key size" }))
}

pub(super) fn page_too_large(target: Target<'_>) -> StoreError {
    StoreError::Large(format!(
        "{}: the rows hold more than {} MiB; ask for fewer with limit",
        target.table.name,
        PAGE_BYTES >> 20
    ))
}
