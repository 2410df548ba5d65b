//! A table's rows as they will be, and those among them that the new definition cannot hold.

use serde::Serialize;
use serde_json::Value as Json;

use super::database::{self, Database, Dialect};
use super::ddl::{TIME_FORM, key_columns, quote, quoted};
use super::rename::OldNames;
use super::{ColumnType, SchemaError, TENANT, Table, numbers};
use crate::codec::Value;

/// Rows that stand in the way of a change.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Offending {
    pub columns: Vec<String>,
    /// The first five.
    pub rows: Vec<Vec<Json>>,
    /// How many there are.
    pub count: i64,
}

/// How the values of a column are carried over into another type.
pub(super) struct Conversion {
    /// The new value.
    pub(super) value: String,
    /// Holds for old values that have no counterpart.
    pub(super) impossible: Option<String>,
}

/// The conversion between two types on SQLite; see [`Dialect::conversion`].
pub(super) fn conversion(from: ColumnType, to: ColumnType, old: &str) -> Option<Conversion> {
    use ColumnType::{Blob, Boolean, Integer, Json, Real, Text, Timestamp};
    let same = |impossible| Some(Conversion { value: old.to_owned(), impossible });
    let cast = |ty: &str, impossible| Some(Conversion { value: format!("CAST({old} AS {ty})"), impossible });
    match (from, to) {
        (Integer, Real) => cast("REAL", Some(format!("{old} NOT BETWEEN -9007199254740992 AND 9007199254740992"))),
        (Real, Integer) => {
            cast("INTEGER", Some(format!("{old} <> CAST({old} AS INTEGER) OR {old} NOT BETWEEN -9e18 AND 9e18")))
        }
        (Integer, Text) => cast("TEXT", None),
        (Real, Text) => Some(Conversion { value: format!("{}({old})", numbers::TEXT), impossible: None }),
        (Text, Integer) => cast("INTEGER", Some(format!("CAST(CAST({old} AS INTEGER) AS TEXT) <> {old}"))),
        (Text, Real) => {
            let real = format!("{}({old})", numbers::REAL);
            let impossible = Some(format!("{old} IS NOT NULL AND {real} IS NULL"));
            Some(Conversion { value: real, impossible })
        }
        (Boolean, Integer) | (Json | Timestamp, Text) => same(None),
        (Integer, Boolean) => same(Some(format!("{old} NOT IN (0, 1)"))),
        (Boolean, Text) => Some(Conversion {
            value: format!("CASE {old} WHEN TRUE THEN 'true' WHEN FALSE THEN 'false' END"),
            impossible: None,
        }),
        (Text, Timestamp) => same(Some(format!(
            "{old} NOT GLOB '{TIME_FORM}' OR strftime('%Y-%m-%dT%H:%M:%fZ', {old}) IS NOT {old} OR {old} < '0001'"
        ))),
        (Text, Blob) => cast("BLOB", None),
        _ => None,
    }
}

/// Decimal digits that a REAL keeps in any case.
pub(super) const EXACT: usize = 15;

/// A SELECT of the rows of `base`, as `to` will hold them. With `old` it reads the table as it is before anything is
/// renamed, without it as it is afterwards.
pub(super) fn future(dialect: Dialect, base: &Table, to: &Table, old: Option<&OldNames>) -> String {
    let mut parts: Vec<String> = (!to.shared).then(|| quote(TENANT)).into_iter().collect();
    for column in &to.columns {
        let value = match base.column(&column.name) {
            Some(before) => {
                let name = quote(old.map_or(column.name.as_str(), |old| old.column(&to.name, &column.name)));
                dialect.conversion(before.ty, column.ty, &name).map_or(name, |conversion| conversion.value)
            }
            None => dialect.constant(column.ty, column.default.as_ref()),
        };
        parts.push(format!("{value} AS {}", quote(&column.name)));
    }
    let table = quote(old.map_or(to.name.as_str(), |old| old.table(&to.name)));
    format!("SELECT {} FROM {table}", parts.join(", "))
}

/// The columns by which a person finds a row, and then `more`.
pub(super) fn shown(table: &Table, more: &[String]) -> Vec<String> {
    let mut names = key_columns(table, &table.primary_key);
    names.extend(more.iter().filter(|name| !table.primary_key.contains(name)).cloned());
    names
}

/// The rows of the SELECT `source` for which `condition` holds, if there are any.
pub(super) fn offending(
    db: &dyn Database,
    source: &str,
    condition: &str,
    columns: Vec<String>,
) -> Result<Option<Offending>, SchemaError> {
    let count = database::number(db, &format!("SELECT count(*) FROM ({source}) AS \"_row\" WHERE {condition}"))?;
    if count == 0 {
        return Ok(None);
    }
    let sql = format!("SELECT {} FROM ({source}) AS \"_row\" WHERE {condition} LIMIT 5", quoted(&columns));
    let found = db.rows(&sql)?;
    let rows = found.iter().map(|row| row.iter().map(shown_value).collect()).collect();
    Ok(Some(Offending { columns, rows, count }))
}

/// Values of `columns` that stand more than once where none is NULL, each with the number of its rows.
pub(super) fn doubled(
    db: &dyn Database,
    source: &str,
    table: &Table,
    columns: &[String],
) -> Result<Option<Offending>, SchemaError> {
    let mut key = key_columns(table, columns);
    let list = quoted(&key);
    let present: Vec<String> = columns.iter().map(|name| format!("{} IS NOT NULL", quote(name))).collect();
    let groups = format!(
        "SELECT {list}, count(*) AS \"rows\" FROM ({source}) AS \"_row\" WHERE {} GROUP BY {list} HAVING count(*) > 1",
        present.join(" AND ")
    );
    key.push("rows".into());
    offending(db, &groups, "TRUE", key)
}

/// A value for a message: long text is cut, bytes are counted.
fn shown_value(value: &Value) -> Json {
    match value {
        Value::Null | Value::Undefined | Value::Array(_) | Value::Object(_) | Value::Huge(_) => Json::Null,
        Value::Bool(truth) => i64::from(*truth).into(),
        Value::Int(number) | Value::BigInt(number) | Value::Date(number) => (*number).into(),
        Value::Real(number) => (*number).into(),
        Value::Text(text) => {
            let cut: String = text.chars().take(60).collect();
            Json::String(if cut.len() < text.len() { format!("{cut}…") } else { cut })
        }
        Value::Blob(bytes) => Json::String(format!("{} bytes", bytes.len())),
    }
}
