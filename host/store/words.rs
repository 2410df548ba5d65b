//! What a statement on a plugin's table ran into, in the same words on every database. Values of rows never stand
//! in them.

use serde_json::json;

use super::StoreError;
use super::records::About;
use crate::query::sql::{Target, script_names};
use crate::schema::{Dialect, TENANT, Table, script_name};

/// Names of columns as scripts know them, less the host's own.
pub(super) fn columns<'a>(table: &Table, names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    names.filter(|name| *name != TENANT || table.shared).map(script_name).collect()
}

pub(super) fn duplicate(table: &Table, columns: &[&str]) -> StoreError {
    StoreError::Duplicate(format!(
        "{} has another row with the same ({}); choose other values, or use createIfAbsent with uniqueBy on these columns",
        table.name,
        columns.join(", ")
    ))
    .with(json!({ "table": table.name, "columns": columns }))
}

/// `column` is what rows of the same table refer to.
pub(super) fn one_at_a_time(table: &Table, column: &str) -> StoreError {
    StoreError::Constraint(format!(
        "{}: rows of the same table refer to {column}, so an {{ inc: n }} of it takes one row at a time; name the row by its \
         primary key",
        table.name
    ))
    .with(json!({ "table": table.name, "constraint": "FOREIGN KEY" }))
}

/// `columns` are names of scripts.
pub(super) fn not_null(target: Target<'_>, columns: &[&str]) -> StoreError {
    let table = target.table;
    let declared = |name: &&str| table.script_column(name).is_some_and(|column| column.not_null);
    if !columns.iter().all(declared) {
        return differs(target, &format!("NOT NULL on {}", columns.join(", ")));
    }
    StoreError::Constraint(format!("{}: {} is NOT NULL; give it a value", table.name, columns.join(", ")))
        .with(json!({ "table": table.name, "columns": columns, "constraint": "NOT NULL" }))
}

/// `meant` are conditions of `schema.sql`, of which one does not hold; without one it is `shown` by the database alone.
pub(super) fn check(target: Target<'_>, meant: &[&str], shown: &str) -> StoreError {
    let table = target.table;
    if meant.is_empty() {
        return differs(target, &format!("the CHECK {shown}"));
    }
    let checks: Vec<String> = meant.iter().map(|sql| format!("CHECK ({sql})")).collect();
    let checks = checks.join(" or ");
    StoreError::Constraint(format!("{}: the row breaks {checks} of schema.sql", table.name))
        .with(json!({ "table": table.name, "constraint": checks }))
}

/// The database holds rows to `what`, which schema.sql does not say.
fn differs(target: Target<'_>, what: &str) -> StoreError {
    StoreError::Schema(format!(
        "{}: the database has {what}, and schema.sql has not; `oncehost schema plan {}` says whether that is still to be \
         applied or was changed by other hands",
        target.table.name, target.plugin
    ))
}

pub(super) fn foreign_key(table: &Table) -> StoreError {
    let keys = table.foreign_keys.iter();
    let keys: Vec<String> = keys.map(|key| format!("({}) refers to {}", key.columns.join(", "), key.table)).collect();
    let keys = if keys.is_empty() { String::new() } else { format!("; its {}", keys.join(", ")) };
    StoreError::Constraint(format!(
        "{}: a foreign key does not hold: the row refers to one that is not there, or others still refer to it{keys}",
        table.name
    ))
    .with(json!({ "table": table.name, "constraint": "FOREIGN KEY" }))
}

pub(super) fn other_type(target: Target<'_>) -> StoreError {
    StoreError::Schema(format!(
        "{}: a column has another type in the database than in schema.sql; run `oncehost schema apply {}`",
        target.table.name, target.plugin
    ))
}

pub(super) fn no_sum(table: &Table) -> StoreError {
    StoreError::Constraint(format!(
        "{}: an {{ inc: n }} met NULL, or the sum would pass what the column can hold (64 bits); add a test to the where \
         that leaves such rows out",
        table.name
    ))
}

/// A number passed 64 bits: in an `{ inc }`, or as a CHECK computed, of which Postgres does not tell the name.
pub(super) fn passed(table: &Table) -> StoreError {
    let computes = |sql: &str| [" * ", " + ", " - "].iter().any(|sign| sql.contains(sign));
    let checks = table.checks.iter().filter(|check| computes(&check.sql));
    let checks: Vec<String> = checks.map(|check| format!("CHECK ({})", check.sql)).collect();
    if checks.is_empty() {
        return no_sum(table);
    }
    let checks = checks.join(" or ");
    StoreError::Constraint(format!(
        "{}: an integer passes 64 bits where {checks} of schema.sql is computed, or by an {{ inc: n }}; bound the columns \
         with CHECKs of their own, or make one of them REAL",
        table.name
    ))
    .with(json!({ "table": table.name, "constraint": checks }))
}

pub(super) fn too_large(table: &Table) -> StoreError {
    StoreError::Constraint(format!("{}: a value is larger than the database can hold", table.name))
}

pub(super) fn no_unique(dialect: Dialect, about: About<'_>) -> StoreError {
    let Target { plugin, table, .. } = about.target;
    let name = &table.name;
    let names: Vec<&str> = about.unique.iter().map(|at| table.columns[*at].name.as_str()).collect();
    let does = match table.plain_unique(&names) {
        Some(index) => format!("which does: {}", dialect.create_index(table, index)),
        None => format!("which makes {name} anew with its primary key"),
    };
    StoreError::Schema(format!(
        "the database has no plain UNIQUE index on exactly ({}) of {name}, though schema.sql declares one (an index with \
         another collation, or over a part of the rows, does not count); run `oncehost schema apply {plugin}`, {does}",
        script_names(table, about.unique)
    ))
}

pub(super) fn no_table(dialect: Dialect, target: Target<'_>) -> StoreError {
    let Target { plugin, table, .. } = target;
    let mut add = dialect.create_table(table, &table.name);
    add.extend(table.indexes.iter().map(|index| dialect.create_index(table, index)));
    StoreError::Schema(format!(
        "the database has no table {} yet; run `oncehost schema apply {plugin}`, which does: {}",
        table.name,
        add.join("; ")
    ))
}

pub(super) fn no_column(dialect: Dialect, target: Target<'_>, missing: &str) -> StoreError {
    let Target { plugin, table, .. } = target;
    let does = table
        .column(missing)
        .map_or_else(String::new, |column| format!(", which does: {}", dialect.add_column(table, column)));
    StoreError::Schema(format!(
        "table {} has no column {missing} in the database yet; run `oncehost schema apply {plugin}`{does}",
        table.name
    ))
}

/// One of the host's own tables is not there, whatever the statement was.
pub(super) fn own_table_gone() -> StoreError {
    StoreError::Unavailable(
        "one of the host's own tables was dropped from this database; `oncehost schema plan` says which, and how to go on"
            .to_owned(),
    )
}

pub(super) fn slow(table: &Table) -> StoreError {
    StoreError::Slow(format!(
        "{}: the query took too long; narrow its where, or add an index that serves it",
        table.name
    ))
}
