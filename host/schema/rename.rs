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

/// What the renaming comes to.
#[derive(Debug, Default)]
pub(super) struct Renamed {
    pub(super) old: OldNames,
    pub(super) steps: Vec<Step>,
    pub(super) unclear: Vec<Unclear>,
}

/// A `-- was:` that renames nothing, though its renaming was not done before either.
#[derive(Debug)]
pub(super) struct Unclear {
    /// The name that the table has now.
    pub(super) table: String,
    /// The new name of the column; `None` where the table itself is meant.
    pub(super) column: Option<String>,
    pub(super) was: String,
    /// Line of `schema.sql` of what has the comment.
    pub(super) line: u32,
    /// Old and new name are both there; otherwise neither is.
    pub(super) both: bool,
}

impl Unclear {
    /// The name that stands beside the comment.
    pub(super) fn now(&self) -> &str {
        self.column.as_ref().unwrap_or(&self.table)
    }
}

/// Renames in `base` what `wanted` has under another name, and says how the database does the same.
pub(super) fn apply(dialect: Dialect, base: &mut Schema, wanted: &Schema) -> Renamed {
    let mut done = Renamed::default();
    for table in wanted.tables.values() {
        let Some(was) = &table.was else { continue };
        let (is_there, was_there) = (base.tables.contains_key(&table.name), base.tables.contains_key(was));
        if is_there == was_there {
            let (line, was) = (table.line, was.clone());
            done.unclear.push(Unclear { table: table.name.clone(), column: None, was, line, both: is_there });
            continue;
        }
        let Some(mut found) = base.tables.remove(was) else { continue };
        found.name.clone_from(&table.name);
        base.tables.insert(table.name.clone(), found);
        for key in base.tables.values_mut().flat_map(|other| &mut other.foreign_keys).filter(|key| key.table == *was) {
            key.table.clone_from(&table.name);
        }
        done.steps.push(Step::new(
            format!("table {was} is called {} now", table.name),
            vec![format!("ALTER TABLE {} RENAME TO {}", quote(was), quote(&table.name))],
        ));
        done.old.tables.insert(table.name.clone(), was.clone());
    }
    for table in wanted.tables.values() {
        columns(dialect, base, table, &mut done);
    }
    done
}

/// The renamings of columns of one table, which has its new name already.
fn columns(dialect: Dialect, base: &mut Schema, table: &Table, done: &mut Renamed) {
    for column in &table.columns {
        let (Some(was), Some(before)) = (&column.was, base.tables.get(&table.name)) else { continue };
        let (is_there, was_there) = (before.column(&column.name).is_some(), before.column(was).is_some());
        if is_there == was_there {
            let (line, name) = (column.line, Some(column.name.clone()));
            let (table, was) = (table.name.clone(), was.clone());
            done.unclear.push(Unclear { table, column: name, was, line, both: is_there });
        } else if rename_column(base, &table.name, was, &column.name) {
            let (table_name, now) = (quote(&table.name), quote(&column.name));
            let sql = format!("ALTER TABLE {table_name} RENAME COLUMN {} TO {now}", quote(was));
            let more = base.tables.get(&table.name).map(|base| dialect.after_rename(base, was, &column.name));
            done.steps.push(Step::new(
                format!("column {was} of table {} is called {} now", table.name, column.name),
                std::iter::once(sql).chain(more.into_iter().flatten()).collect(),
            ));
            done.old.columns.insert((table.name.clone(), column.name.clone()), was.clone());
        }
    }
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
