//! Which tables are copied, and how rows in them are told apart.

use super::CopyError;
use crate::schema::{ColumnType, Schema, TENANT, ddl};
use crate::store::moving::{self, HOST, Shape};
use crate::store::{Shared, Tx};

/// What `schema apply` brought about; a file has it from the first apply on.
const APPLIED: &str = "_oncehost_schema";
/// The hosts that live beside each other on a server, and the files that have been in a folder: nothing that moves.
const STAYS: [&str; 2] = ["hosts", "databases"];

/// All tables, the host's own first.
///
/// # Errors
/// When a database fails, or the two do not have the same tables.
pub(super) fn all(plugin: &str, from: &Shared, to: &Shared, schema: &Schema) -> Result<Vec<Shape>, CopyError> {
    let tables = |shared: &Shared| -> Result<Vec<Shape>, CopyError> {
        let mut tables = shared.look(|tx: &Tx| moving::tables(tx, plugin == HOST))?;
        tables.retain(|table| !STAYS.contains(&table.name.as_str()));
        Ok(tables)
    };
    let (source, target) = (tables(from)?, tables(to)?);
    // A file may tell rows apart by numbers of its own; what Postgres goes by, a file has an index for.
    let by_target = matches!(to, Shared::Postgres(_));
    let mut shapes = Vec::new();
    for ours in &source {
        let Some(theirs) = target.iter().find(|theirs| theirs.name == ours.name) else {
            return Err(unlike(&ours.name));
        };
        let names = |shape: &Shape| shape.columns.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        let leading = if by_target { theirs } else { ours };
        let mut shape = Shape { numbered: theirs.numbered.clone(), ..leading.clone() };
        if ours.name == "_oncehost_keys" {
            // Its number in a file is none in Postgres.
            shape.columns.retain(|(name, _)| name != "id");
        } else if names(ours) != names(theirs) {
            return Err(unlike(&ours.name));
        }
        for (column, ty) in &mut shape.columns {
            let truth = |shape: &Shape| shape.columns.contains(&(column.clone(), ColumnType::Boolean));
            if truth(ours) || truth(theirs) {
                *ty = ColumnType::Boolean;
            }
        }
        shapes.push(shape);
    }
    let missing =
        target.iter().find(|theirs| !source.iter().any(|ours| ours.name == theirs.name) && theirs.name != APPLIED);
    if let Some(missing) = missing {
        return Err(unlike(&missing.name));
    }
    shapes.extend(schema.tables.values().map(|table| {
        let mut columns: Vec<_> = table.columns.iter().map(|column| (column.name.clone(), column.ty)).collect();
        if !table.shared {
            columns.push((TENANT.to_owned(), ColumnType::Text));
        }
        columns.sort_by(|one, two| one.0.cmp(&two.0));
        let key = ddl::key_columns(table, &table.primary_key);
        Shape { name: table.name.clone(), columns, key, numbered: None }
    }));
    Ok(shapes)
}

fn unlike(table: &str) -> CopyError {
    CopyError(format!(
        "the host's table {table} is not alike in the two databases, so that this version cannot copy it; this is a fault of the \
         host: please report it"
    ))
}
