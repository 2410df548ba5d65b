//! What SQLite's errors mean for a call on a plugin's table.

use rusqlite::{Connection, ErrorCode, ffi};

use crate::schema::{Dialect, Table, ddl};
use crate::store::records::About;
use crate::store::{StoreError, words};

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
        ErrorCode::OperationInterrupted => words::slow(context.about.target.table),
        ErrorCode::Unknown => unknown(context, message),
        ErrorCode::TooBig => words::too_large(context.about.target.table),
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
    // `lines.tenant_id, lines.sku` stands behind the colon of SQLite's message.
    let list = message.split_once(": ").map_or("", |(_, list)| list);
    let columns = words::columns(table, list.split(", ").map(|column| column.rsplit('.').next().unwrap_or(column)));
    match code {
        ffi::SQLITE_CONSTRAINT_UNIQUE | ffi::SQLITE_CONSTRAINT_PRIMARYKEY | ffi::SQLITE_CONSTRAINT_ROWID => {
            words::duplicate(table, &columns)
        }
        ffi::SQLITE_CONSTRAINT_NOTNULL => words::not_null(context.about.target, &columns),
        ffi::SQLITE_CONSTRAINT_CHECK => {
            let shown = message.split_once(": ").map_or(message, |(_, shown)| shown);
            words::check(context.about.target, &checks(table, shown), shown)
        }
        ffi::SQLITE_CONSTRAINT_FOREIGNKEY => words::foreign_key(table),
        ffi::SQLITE_CONSTRAINT_DATATYPE => words::other_type(context.about.target),
        _ => StoreError::Constraint(format!("{}: {message}", table.name)),
    }
}

/// The CHECKs that SQLite may mean by `shown`: a name, or a text, of which only the first word is left where that is a
/// quoted name.
fn checks<'a>(table: &'a Table, shown: &str) -> Vec<&'a str> {
    let quoted = ddl::quote(shown);
    let meant = table.checks.iter().filter(|check| match &check.name {
        Some(name) => name == shown,
        None => check.sql == shown || check.sql.starts_with(&quoted),
    });
    meant.map(|check| check.sql.as_str()).collect()
}

fn unknown(context: &Context<'_>, message: &str) -> StoreError {
    let target = context.about.target;
    if message.contains("integer overflow") {
        words::no_sum(target.table)
    } else if message.starts_with("ON CONFLICT clause does not match") {
        words::no_unique(Dialect::Sqlite, context.about)
    } else if message.starts_with("no such table") {
        words::no_table(Dialect::Sqlite, target)
    } else if message.starts_with("no such column") || message.contains("has no column named") {
        words::no_column(Dialect::Sqlite, target, message.rsplit([' ', '.']).next().unwrap_or_default())
    } else {
        StoreError::Unavailable(format!("{}: the database refused the statement ({message})", target.table.name))
    }
}
