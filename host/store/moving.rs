//! What moving a database to another place needs of both: marks that keep hosts away, a look from outside, and rows as
//! they are, whatever they mean.
//!
//! The marks are one row in a table of their own. The source has one from before the first row is read, for good; the
//! target has one until all is there. So of the two at most one can be used, at any moment.

use super::records::Cells;
use super::{Database, Shared, StoreError, Tx, postgres, sqlite};
use crate::clock::Millis;
use crate::codec::time::shown;
use crate::query::Cell;
use crate::schema::{ColumnType, Dialect, ddl};

/// The table of the mark.
pub(super) const TABLE: &str = "_oncehost_copy";

/// What a database says about its own tables beside their rows; each has its own.
pub(super) const NOT_COPIED: [&str; 5] =
    [TABLE, "_oncehost_version", "_oncehost_owner", "_oncehost_heard", "_oncehost_noted"];

/// Whether a table's rows say nothing about what was done: up to when ticks were made is noted before one has come.
pub(super) fn is_beside(table: &str) -> bool {
    NOT_COPIED.contains(&table) || ["_oncehost_schema", "_oncehost_schedules"].contains(&table)
}

/// The id of what belongs to no plugin.
pub const HOST: &str = "host";

/// On which side of a copy a database is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Source,
    Target,
}

/// What a database says about a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The same on both sides.
    pub id: String,
    pub role: Role,
    /// Whether the copy has ended; then only the source has a mark.
    pub done: bool,
    /// Where the other side is, without a password.
    pub other: String,
    /// When it began or, once done, ended.
    pub at: Millis,
}

impl Mark {
    /// Why a host must not use the database of this plugin.
    pub fn refusal(&self, plugin: &str) -> String {
        let Self { role, done, other, at, .. } = self;
        let at = shown(*at);
        let setting = match plugin {
            HOST => "the setting store".to_owned(),
            plugin => format!(
                "the setting store, where all data went there, otherwise with the line {plugin} below [stores] in \
                 oncehost.toml, or ONCEHOST_STORES_{}",
                plugin.replace('-', "_").to_uppercase()
            ),
        };
        let again = format!("run the same `oncehost store copy {plugin}` again, or give it up with --abandon");
        match (role, done) {
            (Role::Source, true) => format!(
                "the data of {plugin} were copied to {other} at {at} and go on there, so that these here are not used any \
                 more: name that place with {setting}"
            ),
            (Role::Source, false) => {
                format!("the data of {plugin} are being copied to {other}, and that has not ended since {at}: {again}")
            }
            (Role::Target, _) => {
                format!(
                    "the data of {plugin} are being copied here from {other}, and that has not ended since {at}: {again}"
                )
            }
        }
    }

    /// The row that says so, in the order of `columns`.
    fn cells(&self) -> Vec<Cell> {
        let role = if self.role == Role::Source { "source" } else { "target" };
        let text = |text: &str| Cell::Text(text.to_owned());
        vec![text(&self.id), text(role), Cell::Integer(i64::from(self.done)), text(&self.other), Cell::Integer(self.at)]
    }

    /// The mark that a row of `SELECT` is.
    pub(super) fn read(row: &[Cell]) -> Option<Self> {
        let [Cell::Text(id), Cell::Text(role), Cell::Integer(done), Cell::Text(other), Cell::Integer(at)] = row else {
            return None;
        };
        let role = if role == "source" { Role::Source } else { Role::Target };
        Some(Self { id: id.clone(), role, done: *done != 0, other: other.clone(), at: *at })
    }
}

/// The columns of a mark.
pub(super) const COLUMNS: &str = "id, role, done, other, at";

/// What a database looks like from outside.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Whether there is one.
    pub exists: bool,
    /// Whether a host made it.
    pub is_ours: bool,
    pub mark: Option<Mark>,
    /// A table with rows, if there is any; what was applied is no row.
    pub filled: Option<String>,
}

/// Looks at a database without making or changing anything, while no host of this data folder writes; for `filled` only
/// where `closely`.
///
/// # Errors
/// When it cannot be read.
pub fn peek(database: &Database, closely: bool) -> Result<Found, StoreError> {
    match database {
        Database::Sqlite(path) => sqlite::moving::peek(path, closely),
        Database::Postgres(server, schema) => postgres::moving::peek(server, schema, closely),
    }
}

/// Removes a database whole.
///
/// # Errors
/// When that cannot be done.
pub fn remove(database: &Database) -> Result<(), StoreError> {
    match database {
        Database::Sqlite(path) => sqlite::moving::remove(path),
        Database::Postgres(server, schema) => postgres::moving::remove(server, schema),
    }
}

/// Opens a database whatever its mark says, and makes it where it is not there yet; `plugin` says whose it is. Nobody
/// looks whether rows refer to rows that are there.
///
/// # Errors
/// As [`Database::open`].
pub fn open(database: &Database, plugin: &str) -> Result<Shared, StoreError> {
    match database {
        Database::Sqlite(path) => sqlite::moving::open(path, plugin == HOST).map(Shared::Sqlite),
        Database::Postgres(server, schema) => {
            postgres::Shared::open(server, schema, super::Access::Write).map(Shared::Postgres)
        }
    }
}

/// Who else has connections of hosts to the server, by their addresses. Files say so by the lock of their folder.
///
/// # Errors
/// When the server cannot say.
pub fn hosts(database: &Database) -> Result<Vec<String>, StoreError> {
    match database {
        Database::Sqlite(_) => Ok(Vec::new()),
        Database::Postgres(server, _) => postgres::moving::hosts(server),
    }
}

verbs! { moving:
    /// The rows of a query, with any columns.
    fn cells(tx, sql: &str, params: &[Cell]) -> Vec<Cells>;

    /// Runs a statement that gives no rows.
    fn change(tx, sql: &str, params: &[Cell]) -> ();

    /// The name of a table as statements say it.
    fn place(tx, table: &str) -> String;

    /// The host's own tables but the mark's, or all tables where the database is the host's, sorted by name.
    ///
    /// # Errors
    /// When the database fails.
    pub fn tables(tx, host: bool) -> Vec<Shape>;

    /// The highest number that a table gave for this column, also to rows that are gone; `None` where it keeps none.
    ///
    /// # Errors
    /// When the database fails.
    pub fn highest(tx, table: &str, column: &str) -> Option<i64>;

    /// Has a table give numbers above this one, and above all that it has, for this column.
    ///
    /// # Errors
    /// When the database fails.
    pub fn count_from(tx, table: &str, column: &str, highest: i64) -> ();
}

/// A table, as it is copied.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    pub name: String,
    /// By name, so that it is the same whatever the order in a database.
    pub columns: Vec<(String, ColumnType)>,
    /// What tells rows apart, and the order in which they are copied; never NULL, always with an index, on both sides of
    /// a copy: the primary key, but for tables that one of the databases tells apart otherwise.
    pub key: Vec<String>,
    /// The column to which the table gives numbers.
    pub numbered: Option<String>,
}

impl Shape {
    fn key_at(&self) -> impl Iterator<Item = usize> {
        self.key.iter().filter_map(|key| self.columns.iter().position(|(name, _)| name == key))
    }

    /// The key of a row.
    pub fn key_of(&self, row: &[Cell]) -> Cells {
        self.key_at().filter_map(|at| row.get(at).cloned()).collect()
    }

    /// A row in the one form that all databases share.
    fn normal(&self, mut row: Cells) -> Cells {
        for (cell, (_, ty)) in row.iter_mut().zip(&self.columns) {
            match (&cell, ty) {
                (Cell::Integer(number), ColumnType::Boolean) => *cell = Cell::Bool(*number != 0),
                #[expect(clippy::cast_precision_loss, reason = "SQLite keeps a whole REAL as it likes")]
                (Cell::Integer(number), ColumnType::Real) => *cell = Cell::Real(*number as f64),
                _ => {}
            }
        }
        row
    }
}

fn parameter(dialect: Dialect, at: usize) -> String {
    match dialect {
        Dialect::Sqlite => format!("?{at}"),
        Dialect::Postgres => format!("${at}"),
    }
}

fn parameters(dialect: Dialect, from: usize, count: usize) -> String {
    (from..from + count).map(|at| parameter(dialect, at)).collect::<Vec<_>>().join(", ")
}

/// At most `limit` rows from behind the key `after`, in the order of keys.
///
/// # Errors
/// When the database fails.
pub fn rows(tx: &Tx, shape: &Shape, after: Option<&Cells>, limit: usize) -> Result<Vec<Cells>, StoreError> {
    let found = cells(tx, &page(tx, shape, after.is_some(), limit)?, after.map_or(&[], Vec::as_slice))?;
    Ok(found.into_iter().map(|row| shape.normal(row)).collect())
}

/// The query for them, whose parameters are the values of the key, if there is one.
///
/// # Errors
/// When the database fails.
pub fn page(tx: &Tx, shape: &Shape, after: bool, limit: usize) -> Result<String, StoreError> {
    let columns = ddl::quoted(shape.columns.iter().map(|(name, _)| name));
    let (key, from) = (ddl::quoted(&shape.key), place(tx, &shape.name)?);
    let behind = match after {
        true => format!(" WHERE ({key}) > ({})", parameters(tx.dialect(), 1, shape.key.len())),
        false => String::new(),
    };
    Ok(format!("SELECT {columns} FROM {from}{behind} ORDER BY {key} LIMIT {limit}"))
}

/// The highest key.
///
/// # Errors
/// When the database fails.
pub fn last(tx: &Tx, shape: &Shape) -> Result<Option<Cells>, StoreError> {
    let down: Vec<String> = shape.key.iter().map(|name| format!("{} DESC", ddl::quote(name))).collect();
    let (key, from) = (ddl::quoted(&shape.key), place(tx, &shape.name)?);
    let sql = format!("SELECT {key} FROM {from} ORDER BY {} LIMIT 1", down.join(", "));
    Ok(cells(tx, &sql, &[])?.pop())
}

/// How many rows there are.
///
/// # Errors
/// When the database fails.
pub fn count(tx: &Tx, shape: &Shape) -> Result<u64, StoreError> {
    let counted = cells(tx, &format!("SELECT count(*) FROM {}", place(tx, &shape.name)?), &[])?;
    match counted.first().and_then(|row| row.first()) {
        Some(Cell::Integer(count)) => Ok(u64::try_from(*count).unwrap_or(0)),
        _ => Ok(0),
    }
}

/// Puts rows in, as [`rows`] gave them.
///
/// # Errors
/// When the database fails or will not have one of them.
pub fn put(tx: &Tx, shape: &Shape, rows: &[Cells]) -> Result<(), StoreError> {
    let width = shape.columns.len();
    let columns = ddl::quoted(shape.columns.iter().map(|(name, _)| name));
    let values = (0..rows.len()).map(|row| format!("({})", parameters(tx.dialect(), 1 + row * width, width)));
    let values = values.collect::<Vec<_>>().join(", ");
    let numbers = if tx.dialect() == Dialect::Postgres { " OVERRIDING SYSTEM VALUE" } else { "" };
    let sql = format!("INSERT INTO {} ({columns}){numbers} VALUES {values}", place(tx, &shape.name)?);
    change(tx, &sql, &rows.concat())
}

/// Gives a database that has no mark this one.
///
/// # Errors
/// When the database fails, or has got a mark meanwhile.
pub fn add_mark(tx: &Tx, mark: &Mark) -> Result<(), StoreError> {
    let columns = "id TEXT NOT NULL, role TEXT NOT NULL, done BIGINT NOT NULL, other TEXT NOT NULL, at BIGINT NOT NULL";
    change(tx, &format!("CREATE TABLE {} ({columns})", place(tx, TABLE)?), &[])?;
    insert_mark(tx, mark)
}

/// Gives a database this mark in place of the one that it has.
///
/// # Errors
/// When the database fails.
pub fn change_mark(tx: &Tx, mark: &Mark) -> Result<(), StoreError> {
    change(tx, &format!("DELETE FROM {}", place(tx, TABLE)?), &[])?;
    insert_mark(tx, mark)
}

/// Takes a database's mark away.
///
/// # Errors
/// When the database fails.
pub fn remove_mark(tx: &Tx) -> Result<(), StoreError> {
    change(tx, &format!("DROP TABLE IF EXISTS {}", place(tx, TABLE)?), &[])
}

fn insert_mark(tx: &Tx, mark: &Mark) -> Result<(), StoreError> {
    let (table, values) = (place(tx, TABLE)?, parameters(tx.dialect(), 1, 5));
    change(tx, &format!("INSERT INTO {table} ({COLUMNS}) VALUES ({values})"), &mark.cells())
}
