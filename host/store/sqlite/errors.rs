//! What SQLite's errors mean for a call on a plugin's table.

use rusqlite::{Connection, ErrorCode, ffi};
use serde_json::json;

use crate::query::sql::{self, Target};
use crate::schema::{TENANT, Table, ddl, script_name};
use crate::store::StoreError;
use crate::store::records::About;

/// What a failing statement was about.
pub(super) struct Context<'a> {
    pub connection: &'a Connection,
    pub about: About<'a>,
    /// Whether a transaction was open before.
    pub in_transaction: bool,
}

/// Names the kind of an error and says the way out; values of rows never stand in it.
#[expect(clippy::wildcard_enum_match_arm, reason = "the other codes are one kind to us, and rusqlite may add some")]
pub(super) fn explain(context: &Context<'_>, error: &rusqlite::Error) -> StoreError {
    let table = &context.about.target.table.name;
    if context.in_transaction && context.connection.is_autocommit() {
        return StoreError::Gone(format!("{table}: the database rolled the whole transaction back ({error})"));
    }
    let (code, message) = match error {
        rusqlite::Error::SqliteFailure(code, message) => (code, message.as_deref().unwrap_or_default()),
        rusqlite::Error::SqlInputError { error, msg, .. } => (error, msg.as_str()),
        _ => return StoreError::Unavailable(format!("{table}: the database answered what cannot be read ({error})")),
    };
    match code.code {
        ErrorCode::ConstraintViolation => constraint(context, code.extended_code, message),
        ErrorCode::OperationInterrupted => StoreError::Slow(format!(
            "{table}: the query took too long; narrow its where, or add an index that serves it"
        )),
        ErrorCode::Unknown => unknown(context, message),
        ErrorCode::TooBig => StoreError::Constraint(format!("{table}: a value is larger than the database can hold")),
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => {
            StoreError::Unavailable(format!("{table}: the database is in use by another process; try again"))
        }
        ErrorCode::DiskFull => StoreError::Unavailable(format!("{table}: the disk is full")),
        ErrorCode::ReadOnly => StoreError::Unavailable(format!("{table}: the database is open for reading only")),
        _ => StoreError::Unavailable(format!("{table}: the database failed ({error})")),
    }
}

fn constraint(context: &Context<'_>, code: i32, message: &str) -> StoreError {
    let table = context.about.target.table;
    let name = &table.name;
    match code {
        ffi::SQLITE_CONSTRAINT_UNIQUE | ffi::SQLITE_CONSTRAINT_PRIMARYKEY | ffi::SQLITE_CONSTRAINT_ROWID => {
            StoreError::Duplicate(format!(
                "{name} has another row with the same ({}); choose other values, or use createIfAbsent with \
                 uniqueBy on these columns",
                columns(table, message).join(", ")
            ))
            .with(json!({ "table": name, "columns": columns(table, message) }))
        }
        ffi::SQLITE_CONSTRAINT_NOTNULL => {
            let columns = columns(table, message);
            StoreError::Constraint(format!("{name}: {} is NOT NULL; give it a value", columns.join(", ")))
                .with(json!({ "table": name, "columns": columns, "constraint": "NOT NULL" }))
        }
        ffi::SQLITE_CONSTRAINT_CHECK => {
            let checks = checks(table, message.split_once(": ").map_or(message, |(_, shown)| shown));
            StoreError::Constraint(format!("{name}: the row breaks {checks} of schema.sql"))
                .with(json!({ "table": name, "constraint": checks }))
        }
        ffi::SQLITE_CONSTRAINT_FOREIGNKEY => {
            let keys: Vec<String> = table
                .foreign_keys
                .iter()
                .map(|key| format!("({}) refers to {}", key.columns.join(", "), key.table))
                .collect();
            let keys = if keys.is_empty() { String::new() } else { format!("; its {}", keys.join(", ")) };
            StoreError::Constraint(format!(
                "{name}: a foreign key does not hold: the row refers to one that is not there, or others still refer to \
                 it{keys}"
            ))
            .with(json!({ "table": name, "constraint": "FOREIGN KEY" }))
        }
        ffi::SQLITE_CONSTRAINT_DATATYPE => StoreError::Schema(format!(
            "{name}: a column has another type in the database than in schema.sql; run `oncehost schema apply {}`",
            context.about.target.plugin
        )),
        _ => StoreError::Constraint(format!("{name}: {message}")),
    }
}

/// The CHECK that SQLite means by `shown`: its name, or its text, of which only the first word is left where that is a
/// quoted name.
fn checks(table: &Table, shown: &str) -> String {
    let quoted = ddl::quote(shown);
    let meant = table.checks.iter().filter(|check| match &check.name {
        Some(name) => name == shown,
        None => check.sql == shown || check.sql.starts_with(&quoted),
    });
    let meant: Vec<String> = meant.map(|check| format!("CHECK ({})", check.sql)).collect();
    if meant.is_empty() { format!("CHECK ({shown})") } else { meant.join(" or ") }
}

/// `lines.tenant_id, lines.sku` behind the colon of SQLite's message, as scripts name them.
fn columns<'m>(table: &Table, message: &'m str) -> Vec<&'m str> {
    let list = message.split_once(": ").map_or("", |(_, list)| list);
    let names = list.split(", ").map(|column| column.rsplit('.').next().unwrap_or(column));
    names.filter(|name| *name != TENANT || table.shared).map(script_name).collect()
}

fn unknown(context: &Context<'_>, message: &str) -> StoreError {
    let Target { plugin, table, .. } = context.about.target;
    let name = &table.name;
    let apply = format!("run `oncehost schema apply {plugin}`");
    if message.contains("integer overflow") {
        return StoreError::Constraint(format!(
            "{name}: an {{ inc: n }} met NULL, or the sum would pass what the column can hold (64 bits); add a test to \
             the where that leaves such rows out"
        ));
    }
    if message.starts_with("ON CONFLICT clause does not match") {
        let names: Vec<&str> = context.about.unique.iter().map(|at| table.columns[*at].name.as_str()).collect();
        let does = match table.plain_unique(&names) {
            Some(index) => format!("which does: {}", ddl::create_index(table, index)),
            None => format!("which makes {name} anew with its primary key"),
        };
        return StoreError::Schema(format!(
            "the database has no plain UNIQUE index on exactly ({}) of {name}, though schema.sql declares one (an index \
             with another collation, or over a part of the rows, does not count); {apply}, {does}",
            sql::script_names(table, context.about.unique)
        ));
    }
    if message.starts_with("no such table") {
        let indexes = table.indexes.iter().map(|index| ddl::create_index(table, index));
        let add: Vec<String> = std::iter::once(ddl::create_table(table, name)).chain(indexes).collect();
        return StoreError::Schema(format!(
            "the database has no table {name} yet; {apply}, which does: {}",
            add.join("; ")
        ));
    }
    if message.starts_with("no such column") || message.contains("has no column named") {
        let missing = message.rsplit([' ', '.']).next().unwrap_or_default();
        let does = table
            .column(missing)
            .map_or_else(String::new, |column| format!(", which does: {}", ddl::add_column(table, column)));
        return StoreError::Schema(format!("table {name} has no column {missing} in the database yet; {apply}{does}"));
    }
    StoreError::Unavailable(format!("{name}: the database refused the statement ({message})"))
}
