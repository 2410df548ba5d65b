//! The host's own tables in a plugin's schema, and those of them that are not there any more.

use std::collections::BTreeSet;

use super::ready::PLUGIN_TABLES;
use crate::schema::{Database, SchemaError};
use crate::store::tables::Own;

/// Those that the host makes and that the transaction's current schema has not: somebody dropped them. A schema
/// without any of them was never made ready.
pub fn missing(db: &dyn Database) -> Result<Vec<Own>, SchemaError> {
    let sql = "SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace \
               AND relname LIKE '\\_oncehost\\_%' AND relkind IN ('r', 'i')";
    let rows = db.rows(sql)?;
    let there: BTreeSet<&str> = rows.iter().filter_map(|row| row.first()?.as_text()).collect();
    if there.is_empty() {
        return Ok(Vec::new());
    }
    let mut missing: Vec<Own> = PLUGIN_TABLES.iter().flat_map(|step| made(step)).collect();
    missing.retain(|own| !there.contains(own.name.as_str()));
    missing.sort_by_key(|own| !own.is_table);
    Ok(missing)
}

/// What the statements of a step make.
fn made(step: &str) -> impl Iterator<Item = Own> {
    let code: Vec<&str> = step.lines().map(|line| line.split("--").next().unwrap_or_default().trim_end()).collect();
    let statements: Vec<String> = code.join("\n").split(';').map(|sql| sql.trim().to_owned()).collect();
    statements.into_iter().filter_map(|sql| {
        let words: Vec<&str> = sql.split_whitespace().take(4).collect();
        let (name, is_table) = match words.as_slice() {
            ["CREATE", "TABLE", name, ..] => ((*name).to_owned(), true),
            ["CREATE", "INDEX", name, ..] | ["CREATE", "UNIQUE", "INDEX", name] => ((*name).to_owned(), false),
            _ => return None,
        };
        Some(Own { name, is_table, sql })
    })
}
