//! What stands in the way of a change that runs into several things. Databases look at them, and at the rows of an update,
//! in orders of their own: told is a sum that cannot be, then a CHECK, then the primary key, then the indexes, and all of
//! them in the order of `schema.sql`.

use serde_json::Value as Json;

use super::records::{About, number};
use super::{StoreError, Tx, words};
use crate::query::sql::{self, Row, Set};
use crate::query::{Cell, Compare, Filter, Test};
use crate::schema::Table;

/// The error of a change, with the first of what stands in its way. What cannot be asked leaves the error as the database
/// told it.
pub(super) fn first(tx: &Tx, about: About<'_>, row: Row<'_>, error: StoreError) -> StoreError {
    let (is_key, is_check) = match &error {
        StoreError::Broken { error: kind, details } => (matches!(**kind, StoreError::Duplicate(_)), is_check(details)),
        StoreError::Constraint(_) => (false, false),
        StoreError::Duplicate(_)
        | StoreError::Schema(_)
        | StoreError::Slow(_)
        | StoreError::InProgress(_)
        | StoreError::Large(_)
        | StoreError::Gone(_)
        | StoreError::Unavailable(_) => return error,
    };
    let told = first_sum(tx, about, row).or_else(|| match row {
        _ if is_check => first_check(tx, about, row, 1),
        // Of several rows one may run into this, and another one into that.
        Row::Updated(..) if is_key => first_check(tx, about, row, 0).or_else(|| first_key(tx, about, row)),
        Row::New(_) if is_key => first_key(tx, about, row),
        Row::Updated(..) | Row::New(_) => None,
    });
    told.unwrap_or(error)
}

fn first_sum(tx: &Tx, about: About<'_>, row: Row<'_>) -> Option<StoreError> {
    let Row::Updated(sets, filter) = row else { return None };
    let passes = sql::passes(tx.dialect(), about.target, sets, filter)?;
    let found = number(tx, about, &passes).ok()?;
    found.map(|_| words::no_sum(about.target.table))
}

/// Refuses an update whose outcome would rest on the order in which the database takes its rows, which is another one on
/// each: rows that pass through the values of one another, and rows that others of their table refer to, by numbers that
/// are added.
pub(super) fn in_order(tx: &Tx, about: About<'_>, sets: &[Set], filter: &Filter) -> Result<(), StoreError> {
    let table = about.target.table;
    let added = |at: usize| sets.iter().any(|set| matches!(set, Set::Add(column, _) if *column == at));
    if filter.names_one(table) || !(0..table.columns.len()).any(added) {
        return Ok(());
    }
    let named = |name: &String| table.columns.iter().position(|column| column.name == *name).is_some_and(added);
    let mut own = table.foreign_keys.iter().filter(|key| key.table == table.name);
    if let Some(column) = own.find_map(|key| key.references.iter().find(|name| named(name))) {
        return Err(words::one_at_a_time(table, column));
    }
    for key in unique_keys(table, Row::Updated(sets, filter)).iter().filter(|key| key.iter().any(|at| added(*at))) {
        if is_there(tx, about, Row::Updated(sets, filter), key)? {
            return Err(duplicate(table, key));
        }
    }
    Ok(())
}

fn duplicate(table: &Table, key: &[usize]) -> StoreError {
    let names: Vec<&str> = key.iter().map(|at| table.columns[*at].script_name()).collect();
    words::duplicate(table, &names)
}

fn first_key(tx: &Tx, about: About<'_>, row: Row<'_>) -> Option<StoreError> {
    let table = about.target.table;
    let keys = unique_keys(table, row);
    // Of one there is nothing to choose.
    let mut several = keys.iter().filter(|_| keys.len() > 1);
    let key = several.find(|key| is_there(tx, about, row, key).unwrap_or(false))?;
    Some(duplicate(table, key))
}

/// Looks only where there are more than `sure`: of one that is known to be broken there is nothing to choose.
fn first_check(tx: &Tx, about: About<'_>, row: Row<'_>, sure: usize) -> Option<StoreError> {
    let checks = &about.target.table.checks;
    let mut several = checks.iter().filter(|_| checks.len() > sure);
    let broken = |sql: &str| number(tx, about, &sql::breaks(tx.dialect(), about.target, row, sql));
    let check = several.find(|check| broken(&check.sql).is_ok_and(|found| found.is_some()))?;
    Some(words::check(about.target, &[&check.sql], &check.sql))
}

fn is_check(details: &Json) -> bool {
    details["constraint"].as_str().is_some_and(|what| what.starts_with("CHECK"))
}

/// The columns of the primary key, then those of each unique index, as far as a change can run into them: NULL is never
/// there already.
fn unique_keys(table: &Table, row: Row<'_>) -> Vec<Vec<usize>> {
    let indexes = table.indexes.iter().filter(|index| index.unique).map(|index| &index.columns);
    let place = |name: &String| table.columns.iter().position(|column| column.name == *name);
    let all = std::iter::once(&table.primary_key).chain(indexes);
    let meant = |key: &Vec<usize>| match row {
        Row::New(cells) => key.iter().all(|at| cells[*at] != Cell::Null),
        Row::Updated(sets, _) => {
            sets.iter().any(|set| key.contains(&set.column()))
                && key.iter().all(|at| put(sets, *at) != Some(&Cell::Null))
        }
    };
    all.map(|names| names.iter().filter_map(place).collect()).filter(meant).collect()
}

/// What an update puts into a column.
fn put(sets: &[Set], column: usize) -> Option<&Cell> {
    sets.iter().find_map(|set| match set {
        Set::Put(at, cell) if *at == column => Some(cell),
        Set::Put(..) | Set::Add(..) => None,
    })
}

/// Whether a change gives a key values that are there already, or gives them to several rows.
fn is_there(tx: &Tx, about: About<'_>, row: Row<'_>, key: &[usize]) -> Result<bool, StoreError> {
    let (dialect, target) = (tx.dialect(), about.target);
    let (sets, filter) = match row {
        Row::New(cells) => {
            let same = |at: &usize| Filter::Column(*at, Test::Compare(Compare::Eq, cells[*at].clone()));
            let count = sql::count(dialect, target, &Filter::All(key.iter().map(same).collect()));
            return Ok(number(tx, about, &count)?.unwrap_or(0) > 0);
        }
        Row::Updated(sets, filter) => (sets, filter),
    };
    let kept: Vec<usize> = key.iter().copied().filter(|at| put(sets, *at).is_none()).collect();
    Ok(number(tx, about, &sql::meets(dialect, target, sets, filter, key))?.is_some()
        || number(tx, about, &sql::alike(dialect, target, filter, &kept))?.is_some())
}
