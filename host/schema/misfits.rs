//! Tables that hold their rows in another form than `schema.sql` now says: until it is applied, values would be read and
//! kept in the wrong type, or by the wrong tenant. And whether they were made for another `schema.sql` at all.

use std::collections::BTreeMap;

use super::database::Database;
use super::diff::TableDiff;
use super::{Schema, SchemaError, record};

/// By table, what does not fit. Tables and columns that are not there are no misfits: using them fails by itself.
///
/// # Errors
/// When the database cannot be read.
pub fn misfits(db: &dyn Database, wanted: &Schema) -> Result<BTreeMap<String, String>, SchemaError> {
    let (there, wanted) = (db.inspect()?.schema.normal(), wanted.normal());
    let mut found = BTreeMap::new();
    for (name, table) in &wanted.tables {
        let Some(before) = there.tables.get(name) else { continue };
        let diff = TableDiff::new(before, table);
        let whose = |shared| if shared { "shared by all tenants" } else { "each tenant's own" };
        let why = match diff.types.first() {
            _ if diff.shared => {
                format!("rows of {name} are {} in the database, and {} here", whose(before.shared), whose(table.shared))
            }
            Some((old, new)) => {
                format!("column {name}.{} is {} in the database, and {} here", new.name, old.ty.name(), new.ty.name())
            }
            None => continue,
        };
        found.insert(name.clone(), why);
    }
    Ok(found)
}

/// Whether the tables were made for another `schema.sql` than `wanted`: for that of an older or a newer version of the
/// plugin, or for none yet. Changes by other hands do not count.
///
/// # Errors
/// When the database cannot be read.
pub fn are_anothers(db: &dyn Database, wanted: &Schema) -> Result<bool, SchemaError> {
    let applied = record::read(db)?.map(|record| record.schema);
    Ok(match applied {
        Some(Some(applied)) => applied.normal() != wanted.normal(),
        // What cannot be read was written by another version of the host; nobody knows then.
        Some(None) => false,
        None => !wanted.tables.is_empty(),
    })
}
