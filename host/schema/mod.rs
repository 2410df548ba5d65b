//! `schema.sql` as a model of tables. It is read, never run: the host writes the DDL for the database at hand.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use crate::codec::Value;
use crate::failure::{Code, Failure};

mod anew;
pub mod apply;
pub mod catalog;
mod checks;
mod columns;
mod constants;
mod database;
pub mod ddl;
mod diff;
mod indexes;
pub mod inspect;
mod misfits;
mod numbers;
pub mod parse;
pub mod plan;
pub mod postgres;
mod reasons;
mod record;
mod rename;
pub mod render;
mod resolve;
pub mod rows;
mod stored;
mod text;
mod tokens;

#[cfg(test)]
mod migration_tests;
#[cfg(test)]
mod parse_tests;
#[cfg(test)]
mod plan_tests;

pub use anew::{make, tie};
pub use apply::{Applied, ApplyError, State, Status, Tell, apply, apply_telling, bring, status};
pub use database::{Database, Dialect};
pub use misfits::{are_anothers, misfits};
pub use numbers::install;
pub use parse::{SchemaFault, parse};
pub use plan::{Plan, Refusal, Step, names, plan};
pub use render::render;

/// Why a database's schema could not be read or changed. Nothing was changed then.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    /// The database cannot be reached, is full, or failed.
    #[error("the database's schema could not be read or changed: {0}")]
    Database(#[from] rusqlite::Error),
    /// The same, as the store tells it.
    #[error("the database's schema could not be read or changed: {0}")]
    Store(String),
    /// The rows that are there do not allow a step.
    #[error("{0}")]
    Rows(String),
    /// The steps did not lead to what was wanted: a fault of the host.
    #[error("{0}")]
    Outcome(String),
}

impl From<SchemaError> for Failure {
    fn from(error: SchemaError) -> Self {
        let code = match error {
            SchemaError::Database(_) | SchemaError::Store(_) => Code::Unavailable,
            SchemaError::Rows(_) => Code::Constraint,
            SchemaError::Outcome(_) => Code::Schema,
        };
        Failure::new(code, error.to_string())
    }
}

/// The tables of a plugin.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Schema {
    pub tables: BTreeMap<String, Table>,
}

/// One table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    pub name: String,
    pub columns: Vec<Column>,
    /// Names of the primary key's columns, without `tenant_id`.
    pub primary_key: Vec<String>,
    /// All indexes besides the primary key, unique ones included, without `tenant_id`.
    pub indexes: Vec<Index>,
    pub foreign_keys: Vec<ForeignKey>,
    pub checks: Vec<Check>,
    /// Listed in `sharedTables`: no `tenant_id`.
    pub shared: bool,
    /// `-- was: old_name`
    pub was: Option<String>,
    /// Line of `schema.sql`, from 1.
    pub line: u32,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// The physical name; `created_at` and `updated_at` are `createdAt` and `updatedAt` in scripts.
    pub name: String,
    pub ty: ColumnType,
    /// True for every column of the primary key.
    pub not_null: bool,
    /// The constant of DEFAULT, in the form in which it is stored: a JSON default is `Text` in the form of RFC 8785,
    /// a TIMESTAMP default `Text` with milliseconds and `Z`. `None` without DEFAULT and for `DEFAULT NULL`.
    pub default: Option<Value>,
    /// `-- was: old_name`
    pub was: Option<String>,
    pub line: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnType {
    Integer,
    Real,
    Boolean,
    Text,
    Blob,
    Json,
    Timestamp,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Index {
    pub name: String,
    pub columns: Vec<String>,
    pub unique: bool,
    pub line: u32,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ForeignKey {
    pub columns: Vec<String>,
    pub table: String,
    /// Columns of `table`, one for each of `columns`, without `tenant_id`.
    pub references: Vec<String>,
    /// `table` is shared, so the tenant is no part of the key.
    pub shared: bool,
    pub line: u32,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    pub name: Option<String>,
    /// The condition in the host's own writing, valid on both databases: every name quoted, every operation in
    /// parentheses.
    pub sql: String,
    pub line: u32,
}

/// How tables and columns may be called, in words.
pub const NAME_RULE: &str = "a small letter first, then small letters, digits and _, at most 48 in all, \
                             not beginning with sqlite_ or pg_";

/// The column that the host adds to every table that is not shared.
pub const TENANT: &str = "tenant_id";

/// Names of the host's own tables in a plugin's database begin so; `schema.sql` cannot declare such names.
pub const HOST_PREFIX: &str = "_oncehost_";

/// What scripts call the column with this physical name: `createdAt` and `updatedAt` for the two that belong to
/// the host, the name itself for all others (spec §4).
pub fn script_name(physical: &str) -> &str {
    match physical {
        "created_at" => "createdAt",
        "updated_at" => "updatedAt",
        other => other,
    }
}

/// The physical name behind a name that a script uses; `None` for `created_at` and `updated_at` themselves, which
/// scripts may not use.
pub fn physical_name(script: &str) -> Option<&str> {
    match script {
        "createdAt" => Some("created_at"),
        "updatedAt" => Some("updated_at"),
        "created_at" | "updated_at" => None,
        other => Some(other),
    }
}

impl Column {
    /// What scripts call this column.
    pub fn script_name(&self) -> &str {
        script_name(&self.name)
    }
}

impl ColumnType {
    /// All types, in the order of the contract.
    pub const ALL: [ColumnType; 7] = [
        ColumnType::Integer,
        ColumnType::Real,
        ColumnType::Boolean,
        ColumnType::Text,
        ColumnType::Blob,
        ColumnType::Json,
        ColumnType::Timestamp,
    ];

    /// The type as `schema.sql` writes it.
    pub fn name(self) -> &'static str {
        match self {
            ColumnType::Integer => "INTEGER",
            ColumnType::Real => "REAL",
            ColumnType::Boolean => "BOOLEAN",
            ColumnType::Text => "TEXT",
            ColumnType::Blob => "BLOB",
            ColumnType::Json => "JSON",
            ColumnType::Timestamp => "TIMESTAMP",
        }
    }
}

impl Table {
    /// The column with this physical name.
    pub fn column(&self, physical: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.name == physical)
    }

    /// The column that scripts call so.
    pub fn script_column(&self, script: &str) -> Option<&Column> {
        self.column(physical_name(script)?)
    }

    /// Whether the primary key or a unique index covers exactly these columns (physical names, in any order).
    /// What the database really has may differ; `createIfAbsent` finds out as it runs.
    pub fn has_plain_unique(&self, columns: &[&str]) -> bool {
        same_columns(&self.primary_key, columns) || self.plain_unique(columns).is_some()
    }

    /// The unique index that `schema.sql` declares on exactly these columns, if it does.
    pub fn plain_unique(&self, columns: &[&str]) -> Option<&Index> {
        self.indexes.iter().find(|index| index.unique && same_columns(&index.columns, columns))
    }
}

fn same_columns(key: &[String], columns: &[&str]) -> bool {
    key.len() == columns.len()
        && key.iter().all(|name| columns.contains(&name.as_str()))
        && columns.iter().all(|name| key.iter().any(|own| own == name))
}

/// The unique index that `table` has not and would need on `columns` (physical names).
pub fn missing_unique(table: &Table, columns: &[&str]) -> Index {
    let mut name = index_name(&table.name, columns);
    if table.indexes.iter().any(|index| index.name == name) {
        name = index_name(&table.name, &[columns, &["unique"]].concat());
    }
    Index { name, columns: columns.iter().map(|&name| name.to_owned()).collect(), unique: true, line: 0 }
}

/// The line that would have to be added to `schema.sql` for `table` to have a unique index on `columns` (physical
/// names).
pub fn missing_unique_ddl(table: &Table, columns: &[&str]) -> String {
    let Index { name, columns, .. } = missing_unique(table, columns);
    format!("CREATE UNIQUE INDEX {name} ON {} ({});", table.name, columns.join(", "))
}

/// The name that the host gives to an index that has none: table and columns, shortened to the 63 bytes that both
/// databases take, with a digest so that it stays distinct.
pub(crate) fn index_name(table: &str, columns: &[&str]) -> String {
    let full = format!("{table}_{}", columns.join("_"));
    if full.len() <= MAX_INDEX_NAME {
        return full;
    }
    let digest: [u8; 32] = Sha256::digest(full.as_bytes()).into();
    let tail: String = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    let head: String = full.chars().take(MAX_INDEX_NAME - 1 - tail.len()).collect();
    format!("{head}_{tail}")
}

/// Bytes that the name of an index may have, so that Postgres does not cut it.
pub(crate) const MAX_INDEX_NAME: usize = 63;

/// ` (did you mean X?)` where one of `names` is close to `word`, otherwise the names that there are, if they are few.
pub(crate) fn did_you_mean<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> String {
    const FEW: usize = 12;
    let names: Vec<&str> = names.collect();
    match crate::suggest::nearest(word, names.iter().copied()) {
        Some(name) => format!(" (did you mean {name}?)"),
        None if (1..=FEW).contains(&names.len()) => format!(" (there is {})", names.join(", ")),
        None => String::new(),
    }
}
