//! A look at a plugin's database from outside, and the host's own tables in it that are not there any more.

use std::collections::BTreeSet;
use std::path::Path;

use rusqlite::Connection;

use super::{StoreError, copy, files, known, open_reader, prepare};
use crate::schema::SchemaError;
use crate::store::tables::Own;

/// The host's own tables, a step a version: `PRAGMA user_version` is the number of steps that were applied.
pub(super) const HOST_TABLES: [&str; 6] = [
    include_str!("../../../schema/sqlite/0001_host.sql"),
    include_str!("../../../schema/sqlite/0002_flows.sql"),
    include_str!("../../../schema/sqlite/0003_events.sql"),
    include_str!("../../../schema/sqlite/0004_turns.sql"),
    include_str!("../../../schema/sqlite/0005_details.sql"),
    include_str!("../../../schema/sqlite/0006_event_keys.sql"),
];

/// Looks at a database's schema; one that never was there is taken as empty, and is not made.
///
/// # Errors
/// What `work` gives, or when the database cannot be opened or is gone.
pub fn look<R>(path: &Path, work: impl Fn(&Connection) -> Result<R, SchemaError>) -> Result<R, SchemaError> {
    let failed = |error: StoreError| SchemaError::Store(error.to_string());
    if !path.exists() {
        known::refuse_gone(path).map_err(failed)?;
        return work(&Connection::open_in_memory()?);
    }
    // Without a log nobody has it open, and nothing needs to be made beside it. What goes wrong then may be what a host
    // that has opened it meanwhile is about to write.
    if !files::is_empty(path)
        && !files::log_of(path).exists()
        && let Ok(still) = copy::open_still(path)
        && prepare(&still).is_ok()
        && let Ok(found) = work(&still)
    {
        return Ok(found);
    }
    let connection = open_reader(path).map_err(failed)?;
    // All of it at one moment.
    let moment = connection.unchecked_transaction()?;
    work(&moment)
}

/// Those that the database's version has and the database has not: somebody dropped them.
///
/// # Errors
/// When the database cannot be read.
pub fn missing(connection: &Connection) -> Result<Vec<Own>, SchemaError> {
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let there: BTreeSet<String> = all(connection)?.into_iter().map(|own| own.name).collect();
    // What all steps together come to is for SQLite to say.
    let whole = Connection::open_in_memory()?;
    for step in HOST_TABLES.iter().take(usize::try_from(version).unwrap_or(0)) {
        whole.execute_batch(step)?;
    }
    let mut missing = all(&whole)?;
    missing.retain(|own| !there.contains(&own.name));
    Ok(missing)
}

/// Tables first.
fn all(connection: &Connection) -> Result<Vec<Own>, SchemaError> {
    let sql = "SELECT name, type = 'table', sql FROM sqlite_schema \
               WHERE name LIKE '\\_oncehost\\_%' ESCAPE '\\' AND sql IS NOT NULL ORDER BY 2 DESC, 1";
    let mut statement = connection.prepare(sql)?;
    let rows = statement.query_map([], |row| Ok(Own { name: row.get(0)?, is_table: row.get(1)?, sql: row.get(2)? }))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Makes them again, empty.
///
/// # Errors
/// When the database fails; none is there then.
pub fn mend(connection: &mut Connection, missing: &[Own]) -> Result<(), SchemaError> {
    let transaction = connection.transaction()?;
    for own in missing {
        transaction.execute_batch(&own.sql)?;
    }
    Ok(transaction.commit()?)
}
