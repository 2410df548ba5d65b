//! `-- was: old_name`: tables and columns that keep their rows under a new name.

use std::collections::BTreeMap;

use super::database::Dialect;
use super::ddl::quote;
use super::plan::Step;
use super::{Schema, Table};

/// What the tables and columns are called before the renaming.
#[derive(Debug, Default)]
pub(super) struct OldNames {
    tables: BTreeMap<String, String>,
    columns: BTreeMap<(String, String), String>,
}

impl OldNames {
    pub(super) fn table<'a>(&'a self, new: &'a str) -> &'a str {
        self.tables.get(new).map_or(new, String::as_str)
    }

    pub(super) fn column<'a>(&'a self, table: &str, new: &'a str) -> &'a str {
        self.columns.get(&(table.to_owned(), new.to_owned())).map_or(new, String::as_str)
    }
}

/// Renames in `base` what `wanted` has under another name, and says how the database does the same.
pub(super) fn apply(dialect: Dialect, base: &mut Schema, wanted: &Schema) -> (OldNames, Vec<Step>) {
    let mut old = OldNames::default();
    let mut steps = Vec::new();
    for table in wanted.tables.values() {
        let Some(was) = table.was.as_ref().filter(|_| !base.tables.contains_key(&table.name)) else { continue };
        let Some(mut found) = base.tables.remove(was) else { continue };
        found.name.clone_from(&table.name);
        base.tables.insert(table.name.clone(), found);
        for key in base.tables.values_mut().flat_map(|other| &mut other.foreign_keys).filter(|key| key.table == *was) {
            key.table.clone_from(&table.name);
        }
        steps.push(Step::new(
            format!("table {was} is called {} now", table.name),
            vec![format!("ALTER TABLE {} RENAME TO {}", quote(was), quote(&table.name))],
        ));
        old.tables.insert(table.name.clone(), was.clone());
    }
    for table in wanted.tables.values() {
        for column in &table.columns {
            let Some(was) = &column.was else { continue };
            if rename_column(base, &table.name, was, &column.name) {
                let sql = format!(
                    "ALTER TABLE {} RENAME COLUMN {} TO {}",
                    quote(&table.name),
                    quote(was),
                    quote(&column.name)
                );
                let more = base.tables.get(&table.name).map(|base| dialect.after_rename(base, was, &column.name));
                steps.push(Step::new(
                    format!("column {was} of table {} is called {} now", table.name, column.name),
                    std::iter::once(sql).chain(more.into_iter().flatten()).collect(),
                ));
                old.columns.insert((table.name.clone(), column.name.clone()), was.clone());
            }
        }
    }
    (old, steps)
}

/// Renames one column wherever the model names it; `false` when there is nothing to rename.
fn rename_column(base: &mut Schema, name: &str, was: &str, now: &str) -> bool {
    let fits = |table: &Table| table.column(was).is_some() && table.column(now).is_none();
    if !base.tables.get(name).is_some_and(fits) {
        return false;
    }
    let swap =
        |names: &mut Vec<String>| names.iter_mut().filter(|name| *name == was).for_each(|name| *name = now.into());
    for table in base.tables.values_mut() {
        for key in table.foreign_keys.iter_mut().filter(|key| key.table == name) {
            swap(&mut key.references);
        }
    }
    let Some(table) = base.tables.get_mut(name) else { return false };
    table.columns.iter_mut().filter(|column| column.name == was).for_each(|column| column.name = now.into());
    swap(&mut table.primary_key);
    table.indexes.iter_mut().for_each(|index| swap(&mut index.columns));
    table.foreign_keys.iter_mut().for_each(|key| swap(&mut key.columns));
    for check in &mut table.checks {
        check.sql = rename_in(&check.sql, was, now);
    }
    true
}

/// The condition with the quoted name `was` replaced, but not within its strings.
pub(super) fn rename_in(sql: &str, was: &str, now: &str) -> String {
    let parts = sql.split('\'').enumerate();
    let renamed: Vec<String> = parts
        .map(|(at, part)| if at % 2 == 0 { part.replace(&quote(was), &quote(now)) } else { part.to_owned() })
        .collect();
    renamed.join("'")
}
