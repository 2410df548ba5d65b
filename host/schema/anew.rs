//! Tables made as those of another database are, empty first; what ties them to each other comes when the rows are in.

use super::database::{Database, Dialect, as_wanted};
use super::inspect::Live;
use super::{Schema, SchemaError, record};

impl Live {
    /// What is not of the host's making, in words.
    pub fn oddities(&self) -> Vec<String> {
        let tables =
            self.odd_tables.iter().flat_map(|(name, odd)| odd.iter().map(move |odd| format!("table {name}: {odd}")));
        let indexes = self.odd_indexes.iter().map(|(name, odd)| format!("index {name}: {odd}"));
        let others = self.others.iter().map(|(kind, name)| format!("{kind} {name}"));
        tables.chain(indexes).chain(others).collect()
    }
}

/// Makes the tables of `wanted` in a database that has none, and a place for the record of what was applied; `db` is in
/// a transaction. Where a database ties tables only after they are there, [`tie`] does it.
///
/// # Errors
/// When the database fails.
pub fn make(db: &dyn Database, wanted: &Schema) -> Result<(), SchemaError> {
    record::prepare(db)?;
    for table in wanted.tables.values() {
        for sql in db.dialect().create_table(table, &table.name) {
            db.run(&sql)?;
        }
        for index in &table.indexes {
            db.run(&db.dialect().create_index(table, index))?;
        }
    }
    Ok(())
}

/// Ties the tables together that [`make`] made, if that was not done yet, and makes sure that all is as wanted; `db` is
/// in a transaction.
///
/// # Errors
/// [`SchemaError::Rows`] where a row refers to one that is not there, otherwise what the database says.
pub fn tie(db: &dyn Database, wanted: &Schema) -> Result<(), SchemaError> {
    if db.dialect() == Dialect::Sqlite {
        if let Some(broken) = db.rows("SELECT \"table\", parent FROM pragma_foreign_key_check LIMIT 1")?.first() {
            return Err(SchemaError::Rows(format!("rows refer to rows that are not there: {broken:?}")));
        }
    } else if db.inspect()?.schema.tables.values().all(|table| table.foreign_keys.is_empty()) {
        let all: Vec<String> = wanted.tables.keys().cloned().collect();
        for step in db.dialect().late_keys(wanted, &all) {
            step.sql.iter().try_for_each(|sql| db.run(sql))?;
        }
    }
    as_wanted(db, wanted)
}
