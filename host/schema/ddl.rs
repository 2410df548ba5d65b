//! DDL from the model.

use super::{Column, ColumnType};

/// A name in double quotes, as both databases read it.
pub fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A string constant.
pub fn text_literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// The condition that keeps a column to its type on SQLite, where the storage class alone does not.
pub(super) fn type_check(column: &Column) -> Option<String> {
    let name = quote(&column.name);
    match column.ty {
        ColumnType::Boolean => Some(format!("({name} IN (FALSE, TRUE))")),
        ColumnType::Json => Some(format!("json_valid({name})")),
        ColumnType::Timestamp => Some(format!("{name} GLOB '{TIME_FORM}'")),
        ColumnType::Integer | ColumnType::Real | ColumnType::Text | ColumnType::Blob => None,
    }
}

/// The one form in which times are stored, as a pattern.
const TIME_FORM: &str = "[0-9][0-9][0-9][0-9]-[0-1][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-5][0-9].[0-9][0-9][0-9]Z";
