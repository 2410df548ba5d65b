//! How two schemas differ, and that in words.

use super::{Check, Column, ForeignKey, Index, Schema, Table};

/// The differences between two states of one table. Both have to be in normal form (`Schema::normal`).
#[derive(Debug, Default)]
pub(super) struct TableDiff<'a> {
    pub(super) columns_added: Vec<&'a Column>,
    pub(super) columns_dropped: Vec<&'a Column>,
    pub(super) types: Vec<(&'a Column, &'a Column)>,
    /// Columns whose NOT NULL came or went, as they are now.
    pub(super) nulls: Vec<&'a Column>,
    pub(super) defaults: Vec<&'a Column>,
    pub(super) primary_key: bool,
    pub(super) shared: bool,
    pub(super) keys_added: Vec<&'a ForeignKey>,
    pub(super) keys_dropped: Vec<&'a ForeignKey>,
    pub(super) checks_added: Vec<&'a Check>,
    pub(super) checks_dropped: Vec<&'a Check>,
    /// An index that changed is dropped and added.
    pub(super) indexes_added: Vec<&'a Index>,
    pub(super) indexes_dropped: Vec<&'a Index>,
}

/// Items of `one` that `other` has not.
fn missing<'a, T: PartialEq>(one: &'a [T], other: &[T]) -> Vec<&'a T> {
    one.iter().filter(|item| !other.contains(item)).collect()
}

impl<'a> TableDiff<'a> {
    pub(super) fn new(from: &'a Table, to: &'a Table) -> Self {
        let mut diff = TableDiff {
            columns_added: to.columns.iter().filter(|column| from.column(&column.name).is_none()).collect(),
            columns_dropped: from.columns.iter().filter(|column| to.column(&column.name).is_none()).collect(),
            primary_key: from.primary_key != to.primary_key,
            shared: from.shared != to.shared,
            keys_added: missing(&to.foreign_keys, &from.foreign_keys),
            keys_dropped: missing(&from.foreign_keys, &to.foreign_keys),
            checks_added: missing(&to.checks, &from.checks),
            checks_dropped: missing(&from.checks, &to.checks),
            indexes_added: missing(&to.indexes, &from.indexes),
            indexes_dropped: missing(&from.indexes, &to.indexes),
            ..TableDiff::default()
        };
        for now in &to.columns {
            let Some(before) = from.column(&now.name) else { continue };
            if before.ty != now.ty {
                diff.types.push((before, now));
            }
            if before.not_null != now.not_null {
                diff.nulls.push(now);
            }
            if before.default != now.default {
                diff.defaults.push(now);
            }
        }
        diff
    }

    /// Whether more differs than what ALTER TABLE ADD COLUMN and indexes can bring about.
    pub(super) fn needs_rebuild(&self) -> bool {
        let plain = |column: &&Column| !column.not_null || column.default.is_some();
        !self.columns_added.iter().all(plain)
            || !self.columns_dropped.is_empty()
            || !self.types.is_empty()
            || !self.nulls.is_empty()
            || !self.defaults.is_empty()
            || self.primary_key
            || self.shared
            || !self.keys_added.is_empty()
            || !self.keys_dropped.is_empty()
            || !self.checks_added.is_empty()
            || !self.checks_dropped.is_empty()
    }

    /// One phrase for each difference in the table's definition, indexes apart.
    pub(super) fn definition(&self) -> Vec<String> {
        let mut words = Vec::new();
        let mut say = |text: String| words.push(text);
        self.columns_added.iter().for_each(|column| say(format!("column {} is new", column.name)));
        self.columns_dropped.iter().for_each(|column| say(format!("column {} is gone", column.name)));
        for (before, now) in &self.types {
            say(format!("column {} is {} instead of {}", now.name, now.ty.name(), before.ty.name()));
        }
        for column in &self.nulls {
            let now = if column.not_null { "is NOT NULL now" } else { "may be NULL now" };
            say(format!("column {} {now}", column.name));
        }
        self.defaults.iter().for_each(|column| say(format!("column {} has another DEFAULT", column.name)));
        if self.primary_key {
            say("the primary key is another".into());
        }
        if self.shared {
            say("it moves between the tenants' and the shared tables".into());
        }
        let key = |key: &ForeignKey| format!("foreign key ({}) to {}", key.columns.join(", "), key.table);
        self.keys_added.iter().for_each(|one| say(format!("{} is new", key(one))));
        self.keys_dropped.iter().for_each(|one| say(format!("{} is gone", key(one))));
        self.checks_added.iter().for_each(|check| say(format!("CHECK ({}) is new", check.sql)));
        self.checks_dropped.iter().for_each(|check| say(format!("CHECK ({}) is gone", check.sql)));
        words
    }

    fn all(&self) -> Vec<String> {
        let mut words = self.definition();
        words.extend(self.indexes_added.iter().map(|index| format!("index {} is new or another", index.name)));
        let gone = |index: &&&Index| !self.indexes_added.iter().any(|added| added.name == index.name);
        words.extend(self.indexes_dropped.iter().filter(gone).map(|index| format!("index {} is gone", index.name)));
        words
    }
}

/// One sentence for each difference.
pub(super) fn words(from: &Schema, to: &Schema) -> Vec<String> {
    let (from, to) = (from.normal(), to.normal());
    let mut words = Vec::new();
    for table in to.tables.values() {
        match from.tables.get(&table.name) {
            None => words.push(format!("table {} is new", table.name)),
            Some(before) => {
                let all = TableDiff::new(before, table).all();
                words.extend(all.into_iter().map(|phrase| format!("table {}: {phrase}", table.name)));
            }
        }
    }
    let gone = from.tables.keys().filter(|name| !to.tables.contains_key(*name));
    words.extend(gone.map(|name| format!("table {name} is gone")));
    words
}
