//! From the names that scripts use to the schema model, with errors that teach.

use crate::codec::Value;
use crate::failure::{Code, Failure};
use crate::schema::{Column, Schema, TENANT, Table, physical_name, script_name};

/// Whether the host fills this column itself.
pub fn is_hosts(column: &Column) -> bool {
    matches!(column.name.as_str(), "created_at" | "updated_at")
}

/// Looks a table up by the first argument of a `store` call.
///
/// # Errors
/// `CONTRACT` for what is no table name, `SCHEMA` for a table that `schema.sql` does not declare.
pub fn table<'a>(schema: &'a Schema, plugin: &str, name: &Value) -> Result<&'a Table, Failure> {
    let Some(name) = name.as_text() else {
        return Err(Failure::contract(format!(
            "the first argument is a table's name, a string; it got {}",
            name.kind()
        )));
    };
    if let Some(table) = schema.tables.get(name) {
        return Ok(table);
    }
    let names: Vec<&str> = schema.tables.keys().map(String::as_str).collect();
    let hint = suggestion(name, &names);
    if !can_be_declared(name) {
        return Err(Failure::contract(format!(
            "{name:?} is no table of this plugin and cannot be one{hint}; tables are those that its schema.sql declares"
        )));
    }
    Err(Failure::new(
        Code::Schema,
        format!(
            "schema.sql declares no table {name}{hint}; add CREATE TABLE {name} (id TEXT PRIMARY KEY, …); to it and run \
             `oncehost schema apply {plugin}`"
        ),
    ))
}

fn can_be_declared(name: &str) -> bool {
    name.len() <= 48
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        && !name.starts_with("sqlite_")
        && !name.starts_with("pg_")
}

/// Looks a column up by the name that scripts use; gives its place in `table.columns`.
///
/// # Errors
/// `CONTRACT`, with the name that was probably meant.
pub fn column(table: &Table, name: &str) -> Result<usize, Failure> {
    if name == TENANT && !table.shared {
        return Err(Failure::contract("tenant_id belongs to the host, which fills it and filters by it; leave it out"));
    }
    let Some(physical) = physical_name(name) else {
        return Err(Failure::contract(format!("{name} is called {} in scripts", script_name(name))));
    };
    table.columns.iter().position(|column| column.name == physical).ok_or_else(|| {
        let names: Vec<&str> = table.columns.iter().map(Column::script_name).collect();
        Failure::contract(format!(
            "table {} has no column {name:?}{}; its columns are {}",
            table.name,
            suggestion(name, &names),
            names.join(", ")
        ))
    })
}

/// `; did you mean "total"?`, or nothing where no name is near.
pub fn suggestion(came: &str, names: &[&str]) -> String {
    let near = crate::suggest::nearest(came, names.iter().copied());
    near.map(|name| format!("; did you mean {name:?}?")).unwrap_or_default()
}
