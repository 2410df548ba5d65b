//! A database as plans see it: its tables in the terms of the model, and statements without parameters.

use super::inspect::Live;
use super::plan::Step;
use super::{Column, ColumnType, Index, Schema, SchemaError, Table, ddl, postgres, rows};
use crate::codec::Value;

/// Which SQL is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    #[default]
    Sqlite,
    Postgres,
}

impl Dialect {
    /// What makes `table`, under the name `name`: its foreign keys come later where the database knows no table before
    /// it is there.
    pub(crate) fn create_table(self, table: &Table, name: &str) -> Vec<String> {
        match self {
            Dialect::Sqlite => vec![ddl::create_table(table, name)],
            Dialect::Postgres => postgres::create_table(table, name),
        }
    }

    /// CREATE INDEX for one index of `table`.
    pub(crate) fn create_index(self, table: &Table, index: &Index) -> String {
        match self {
            Dialect::Sqlite => ddl::create_index(table, index),
            Dialect::Postgres => postgres::create_index(table, index),
        }
    }

    pub(crate) fn add_column(self, table: &Table, added: &Column) -> String {
        match self {
            Dialect::Sqlite => ddl::add_column(table, added),
            Dialect::Postgres => postgres::add_column(table, added),
        }
    }

    /// Removes a table whose place another one takes.
    pub(super) fn drop_replaced(self, table: &str) -> String {
        let dropped = format!("DROP TABLE {}", ddl::quote(table));
        match self {
            Dialect::Sqlite => dropped,
            // With the foreign keys of others that refer to it; they are made again at the end.
            Dialect::Postgres => format!("{dropped} CASCADE"),
        }
    }

    /// The foreign keys of `wanted` that are made after all tables are there: those of the tables in `made`, and of
    /// others that refer to these.
    pub(super) fn late_keys(self, wanted: &Schema, made: &[String]) -> Vec<Step> {
        match self {
            Dialect::Sqlite => Vec::new(),
            Dialect::Postgres => postgres::late_keys(wanted, made),
        }
    }

    /// What a column's new name asks for beside the renaming itself.
    pub(super) fn after_rename(self, table: &Table, was: &str, now: &str) -> Vec<String> {
        match self {
            Dialect::Sqlite => Vec::new(),
            Dialect::Postgres => postgres::after_rename(table, was, now),
        }
    }

    /// A constant, or NULL, for a column of type `ty`.
    pub(super) fn constant(self, ty: ColumnType, value: Option<&Value>) -> String {
        match self {
            Dialect::Sqlite => value.map_or_else(|| "NULL".to_owned(), ddl::literal),
            Dialect::Postgres => postgres::constant(ty, value),
        }
    }

    /// The conversion between two types of the value `old`, if there is a sure one.
    pub(super) fn conversion(self, from: ColumnType, to: ColumnType, old: &str) -> Option<rows::Conversion> {
        match self {
            Dialect::Sqlite => rows::conversion(from, to, old),
            Dialect::Postgres => postgres::conversion(from, to, old),
        }
    }
}

/// A database whose tables are looked at and changed.
pub trait Database {
    fn dialect(&self) -> Dialect;

    /// The rows of a query.
    ///
    /// # Errors
    /// When the database fails.
    fn rows(&self, sql: &str) -> Result<Vec<Vec<Value>>, SchemaError>;

    /// Runs a statement that gives no rows.
    ///
    /// # Errors
    /// [`SchemaError::Rows`] where rows that are there do not allow it, otherwise when the database fails.
    fn run(&self, sql: &str) -> Result<(), SchemaError>;

    /// Reads all tables but the host's own.
    ///
    /// # Errors
    /// When the database cannot be read.
    fn inspect(&self) -> Result<Live, SchemaError>;
}

/// The number in the first column of the first row; 0 where there is none.
pub(super) fn number(db: &dyn Database, sql: &str) -> Result<i64, SchemaError> {
    let rows = db.rows(sql)?;
    Ok(rows.first().and_then(|row| row.first()).map_or(0, integer))
}

/// An integer that a database gave.
pub(super) fn integer(value: &Value) -> i64 {
    if let Value::Int(number) | Value::BigInt(number) = value { *number } else { 0 }
}

/// Text that a database gave; empty for NULL.
pub(super) fn text(value: &Value) -> String {
    value.as_text().unwrap_or_default().to_owned()
}

/// Makes sure that a change led to what was wanted, before it is kept.
///
/// # Errors
/// What is left, as a fault of the host.
pub(super) fn as_wanted(db: &dyn Database, wanted: &Schema) -> Result<(), SchemaError> {
    let live = db.inspect()?;
    let mut left = super::diff::words(&live.schema, wanted);
    left.extend(live.odd_tables.into_values().flatten());
    left.extend(live.odd_indexes.into_values());
    left.extend(live.others.into_iter().map(|(kind, name)| format!("{kind} {name}")));
    if left.is_empty() {
        return Ok(());
    }
    Err(SchemaError::Outcome(format!(
        "the steps did not lead to schema.sql ({}); nothing was changed. This is a fault of the host: please report it",
        left.join("; ")
    )))
}
