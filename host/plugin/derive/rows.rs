//! Records of a plugin's tables as JSON Schemas, for `Row<'table'>` and `NewRow<'table'>`.

use serde_json::{Map, Value as Json, json};

use crate::schema::{Column, ColumnType, Table};

/// A record as it leaves a script.
pub(super) fn row(table: &Table) -> Json {
    let columns = table.columns.iter();
    object(columns.map(|column| (column.script_name(), column_schema(column), true)))
}

/// A record as `store.createIfAbsent` takes it, as far as JSON can carry it.
pub(super) fn new_row(table: &Table) -> Json {
    let columns = table.columns.iter().filter(|column| column.script_name() == column.name);
    object(columns.map(|column| {
        let filled =
            !column.not_null || column.default.is_some() || column.name == "id" && column.ty == ColumnType::Text;
        (column.name.as_str(), column_schema(column), !filled)
    }))
}

fn object<'c>(members: impl Iterator<Item = (&'c str, Json, bool)>) -> Json {
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for (name, schema, needed) in members {
        properties.insert(name.to_owned(), schema);
        if needed {
            required.push(Json::from(name));
        }
    }
    json!({ "type": "object", "properties": properties, "required": required })
}

fn column_schema(column: &Column) -> Json {
    let kind = match column.ty {
        ColumnType::Integer => "integer",
        ColumnType::Real => "number",
        ColumnType::Boolean => "boolean",
        ColumnType::Text | ColumnType::Blob | ColumnType::Timestamp => "string",
        ColumnType::Json => return json!({}),
    };
    let mut schema = if column.not_null { json!({ "type": kind }) } else { json!({ "type": [kind, "null"] }) };
    match column.ty {
        ColumnType::Timestamp => schema["format"] = json!("date-time"),
        ColumnType::Blob => schema["contentEncoding"] = json!("base64"),
        ColumnType::Integer | ColumnType::Real | ColumnType::Boolean | ColumnType::Text | ColumnType::Json => {}
    }
    schema
}
