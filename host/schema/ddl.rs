//! DDL from the model, for SQLite.
//!
//! What belongs to one database and not to the other is in three places: `storage`, `type_check` and the end of
//! [`create_table`].

use super::{Column, ColumnType, Index, TENANT, Table};
use crate::codec::Value;

/// A name in double quotes, as both databases read it.
pub fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A string constant.
pub fn text_literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// A list of names, quoted.
pub fn quoted<'a>(names: impl IntoIterator<Item = &'a String>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| quote(name)).collect();
    names.join(", ")
}

/// The physical columns of a key or index of `table`: `tenant_id` in front, unless the table is shared.
pub fn key_columns(table: &Table, columns: &[String]) -> Vec<String> {
    let tenant = (!table.shared).then(|| TENANT.to_owned());
    tenant.into_iter().chain(columns.iter().cloned()).collect()
}

/// A constant in the form in which it is stored.
///
/// Real numbers always have a point or an exponent, so that they stay REAL.
pub(super) fn literal(value: &Value) -> String {
    match value {
        Value::Bool(true) => "TRUE".into(),
        Value::Bool(false) => "FALSE".into(),
        Value::Int(number) | Value::BigInt(number) | Value::Date(number) => number.to_string(),
        Value::Real(number) => format!("{number:?}"),
        Value::Text(text) => text_literal(text),
        Value::Blob(bytes) => {
            let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("X'{digits}'")
        }
        Value::Null | Value::Undefined | Value::Huge(_) | Value::Array(_) | Value::Object(_) => "NULL".into(),
    }
}

/// The type that SQLite keeps a column in; tables are STRICT.
///
/// `INT` keeps the only column of a primary key from becoming SQLite's row number, which would number rows by itself.
fn storage(table: &Table, column: &Column) -> &'static str {
    match column.ty {
        ColumnType::Integer | ColumnType::Boolean if table.shared && table.primary_key == [column.name.as_str()] => {
            "INT"
        }
        ColumnType::Integer | ColumnType::Boolean => "INTEGER",
        ColumnType::Real => "REAL",
        // A column declared JSON would have numeric affinity.
        ColumnType::Text | ColumnType::Json | ColumnType::Timestamp => "TEXT",
        ColumnType::Blob => "BLOB",
    }
}

/// The condition that keeps a column to its type, where the storage alone does not. It is also how a database tells
/// which type the column has.
pub(super) fn type_check(column: &Column) -> Option<String> {
    let name = quote(&column.name);
    match column.ty {
        ColumnType::Boolean => Some(format!("{name} IN (FALSE, TRUE)")),
        ColumnType::Json => Some(format!("json_valid({name})")),
        ColumnType::Timestamp => Some(format!("{name} GLOB '{TIME_FORM}'")),
        ColumnType::Integer | ColumnType::Real | ColumnType::Text | ColumnType::Blob => None,
    }
}

/// The one form in which times are stored, as a pattern.
pub(super) const TIME_FORM: &str =
    "[0-9][0-9][0-9][0-9]-[0-1][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-5][0-9].[0-9][0-9][0-9]Z";

fn column(table: &Table, column: &Column) -> String {
    let mut sql = format!("{} {}", quote(&column.name), storage(table, column));
    if column.not_null {
        sql.push_str(" NOT NULL");
    }
    if let Some(value) = &column.default {
        sql = format!("{sql} DEFAULT {}", literal(value));
    }
    if let Some(check) = type_check(column) {
        sql = format!("{sql} CHECK ({check})");
    }
    sql
}

/// CREATE TABLE for `table`, under the name `name`.
pub fn create_table(table: &Table, name: &str) -> String {
    let mut parts: Vec<String> = Vec::new();
    if !table.shared {
        parts.push(format!("{} TEXT NOT NULL", quote(TENANT)));
    }
    parts.extend(table.columns.iter().map(|one| column(table, one)));
    parts.push(format!("PRIMARY KEY ({})", quoted(&key_columns(table, &table.primary_key))));
    for key in &table.foreign_keys {
        let tenant = (!key.shared).then(|| TENANT.to_owned());
        let side = |columns: &[String]| quoted(tenant.iter().chain(columns));
        let (here, there) = (side(&key.columns), side(&key.references));
        parts.push(format!("FOREIGN KEY ({here}) REFERENCES {} ({there})", quote(&key.table)));
    }
    for check in &table.checks {
        let name = check.name.as_ref().map_or_else(String::new, |name| format!("CONSTRAINT {} ", quote(name)));
        parts.push(format!("{name}CHECK ({})", check.sql));
    }
    format!("CREATE TABLE {} (\n  {}\n) STRICT", quote(name), parts.join(",\n  "))
}

/// ALTER TABLE … ADD COLUMN.
pub fn add_column(table: &Table, added: &Column) -> String {
    format!("ALTER TABLE {} ADD COLUMN {}", quote(&table.name), column(table, added))
}

/// CREATE INDEX for one index of `table`.
pub fn create_index(table: &Table, index: &Index) -> String {
    let unique = if index.unique { "UNIQUE " } else { "" };
    let columns = quoted(&key_columns(table, &index.columns));
    format!("CREATE {unique}INDEX {} ON {} ({columns})", quote(&index.name), quote(&table.name))
}
