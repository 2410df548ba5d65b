//! Statements on one table, always with parameters. Names come from the schema model only, quoted, and columns in
//! expressions carry the alias `t`, since SQLite takes an unknown bare "name" for a string.
//!
//! What one database says otherwise than the other stands at the end.

use std::fmt::Write as _;

use super::column::Cell;
use super::filter::{Compare, Filter, Test};
use super::order::{Order, Term};
use crate::schema::{ColumnType, Dialect, TENANT, Table};

mod broken;

pub use broken::{Row, alike, breaks, meets, passes};

/// SQL text and the values of its parameters.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Statement {
    pub text: String,
    pub params: Vec<Cell>,
    dialect: Dialect,
}

/// The rows that a call may touch: one tenant's rows of one table.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The plugin's id, for messages.
    pub plugin: &'a str,
    pub table: &'a Table,
    pub tenant: &'a str,
}

/// What an update does to a column, by its place in the table.
#[derive(Clone, Debug, PartialEq)]
pub enum Set {
    Put(usize, Cell),
    /// Adds; refused by the database where the column is NULL or the sum leaves its type.
    Add(usize, Cell),
}

impl Set {
    /// The column's place in the table.
    pub fn column(&self) -> usize {
        match self {
            Set::Put(column, _) | Set::Add(column, _) => *column,
        }
    }
}

/// `INSERT … ON CONFLICT (unique) DO NOTHING`, with a cell for each column of the table; these are the first
/// parameters.
pub fn insert(dialect: Dialect, target: Target<'_>, cells: Vec<Cell>, unique: &[usize]) -> Statement {
    let mut sql = Statement::new(dialect);
    let table = target.table;
    sql.push("INSERT INTO ").table(target).push(" (");
    sql.list(&table.columns, ", ", |sql, column| _ = sql.name(&column.name));
    if !table.shared {
        sql.push(", ").name(TENANT);
    }
    sql.push(") VALUES (");
    sql.list(cells, ", ", |sql, cell| _ = sql.param(cell));
    if !table.shared {
        sql.push(", ").param(Cell::Text(target.tenant.to_owned()));
    }
    sql.push(") ON CONFLICT (");
    if !table.shared {
        sql.conflict_column(TENANT, ColumnType::Text).push(", ");
    }
    sql.list(unique, ", ", |sql, column| {
        let column = &table.columns[*column];
        sql.conflict_column(&column.name, column.ty);
    });
    sql.push(") DO NOTHING");
    sql
}

/// All columns of the rows that match, in order, from behind the row `after` (the cells of the order's terms).
/// [`null_tail`] says what comes after those.
pub fn select(
    dialect: Dialect,
    target: Target<'_>,
    filter: &Filter,
    order: Option<&Order>,
    after: Option<&[Cell]>,
    limit: i64,
) -> Statement {
    let mut sql = Statement::new(dialect);
    sql.push("SELECT ");
    sql.list(&target.table.columns, ", ", |sql, column| _ = sql.push("t.").name(&column.name));
    sql.push(" FROM ").table(target).push(" AS t").rows(target, filter);
    if let (Some(order), Some(after)) = (order, after) {
        sql.push(" AND ").after(target.table, &order.0, after, false);
    }
    if let Some(order) = order.filter(|order| !order.0.is_empty()) {
        sql.push(" ORDER BY ");
        sql.list(&order.0, ", ", |sql, term| {
            sql.column(target.table, term.column).direction(target.table, *term);
        });
    }
    sql.push(" LIMIT ").param(Cell::Integer(limit));
    sql
}

/// The rest of the rows behind `after` where NULLs come last in the first term: kept apart, so that an index serves
/// both as ranges. Gives the condition that they meet beside the filter, and their order.
pub fn null_tail(table: &Table, order: &Order, after: &[Cell]) -> Option<(Filter, Order)> {
    let (first, more) = order.0.split_first()?;
    let there = first.descending && !table.columns[first.column].not_null && *after.first()? != Cell::Null;
    there.then(|| (Filter::Column(first.column, Test::IsNull(true)), Order(more.to_vec())))
}

/// How many rows match.
pub fn count(dialect: Dialect, target: Target<'_>, filter: &Filter) -> Statement {
    let mut sql = Statement::new(dialect);
    sql.push("SELECT count(*) FROM ").table(target).push(" AS t").rows(target, filter);
    sql
}

/// Changes the rows that match.
pub fn update(dialect: Dialect, target: Target<'_>, sets: &[Set], filter: &Filter) -> Statement {
    let mut sql = Statement::new(dialect);
    let table = target.table;
    sql.push("UPDATE ").table(target).push(" AS t SET ");
    sql.list(sets, ", ", |sql, set| match set {
        Set::Put(column, cell) => {
            sql.name(&table.columns[*column].name).push(" = ").param(cell.clone());
        }
        Set::Add(column, cell) => {
            sql.name(&table.columns[*column].name).push(" = ").checked_sum(table, *column, cell);
        }
    });
    sql.rows(target, filter);
    sql
}

/// Removes the rows that match.
pub fn delete(dialect: Dialect, target: Target<'_>, filter: &Filter) -> Statement {
    let mut sql = Statement::new(dialect);
    sql.push("DELETE FROM ").table(target).push(" AS t").rows(target, filter);
    sql
}

/// Finds a row that matches and whose `columns` hold more than `limit` bytes together.
pub fn larger(dialect: Dialect, target: Target<'_>, filter: &Filter, columns: &[usize], limit: i64) -> Statement {
    let mut sql = Statement::new(dialect);
    sql.push("SELECT 1 FROM ").table(target).push(" AS t").rows(target, filter).push(" AND ");
    sql.list(columns, " + ", |sql, column| _ = sql.key_bytes(target.table, *column));
    sql.push(" > ").param(Cell::Integer(limit)).push(" LIMIT 1");
    sql
}

/// The names that scripts use for these columns: `order_id, sku`.
pub fn script_names(table: &Table, columns: &[usize]) -> String {
    let names: Vec<&str> = columns.iter().map(|column| table.columns[*column].script_name()).collect();
    names.join(", ")
}

impl Statement {
    /// An empty one.
    pub fn new(dialect: Dialect) -> Self {
        Self { dialect, text: String::with_capacity(256), params: Vec::with_capacity(16) }
    }

    fn push(&mut self, text: &str) -> &mut Self {
        self.text.push_str(text);
        self
    }

    fn name(&mut self, name: &str) -> &mut Self {
        self.text.push('"');
        if name.contains('"') {
            self.text.push_str(&name.replace('"', "\"\""));
        } else {
            self.text.push_str(name);
        }
        self.text.push('"');
        self
    }

    fn column(&mut self, table: &Table, column: usize) -> &mut Self {
        self.push("t.").name(&table.columns[column].name)
    }

    fn list<T>(
        &mut self,
        items: impl IntoIterator<Item = T>,
        between: &str,
        mut write: impl FnMut(&mut Self, T),
    ) -> &mut Self {
        for (at, item) in items.into_iter().enumerate() {
            if at > 0 {
                self.push(between);
            }
            write(self, item);
        }
        self
    }

    /// ` WHERE` the tenant's rows that match.
    fn rows(&mut self, target: Target<'_>, filter: &Filter) -> &mut Self {
        self.push(" WHERE ");
        if !target.table.shared {
            self.push("t.").name(TENANT).push(" = ").param(Cell::Text(target.tenant.to_owned())).push(" AND ");
        }
        self.filter(target.table, filter)
    }

    pub(super) fn filter(&mut self, table: &Table, filter: &Filter) -> &mut Self {
        match filter {
            Filter::All(parts) if parts.is_empty() => self.push("TRUE"),
            Filter::Any(parts) if parts.is_empty() => self.push("FALSE"),
            Filter::All(parts) => {
                self.push("(").list(parts, " AND ", |sql, part| _ = sql.filter(table, part)).push(")")
            }
            Filter::Any(parts) => self.push("(").list(parts, " OR ", |sql, part| _ = sql.filter(table, part)).push(")"),
            Filter::Column(column, test) => self.test(table, *column, test),
        }
    }

    fn test(&mut self, table: &Table, column: usize, test: &Test) -> &mut Self {
        match test {
            Test::Compare(compare, cell) => {
                let operator = match compare {
                    Compare::Eq => " = ",
                    Compare::Ne => " IS DISTINCT FROM ",
                    Compare::Gt => " > ",
                    Compare::Gte => " >= ",
                    Compare::Lt => " < ",
                    Compare::Lte => " <= ",
                };
                self.column(table, column).push(operator).param(cell.clone())
            }
            Test::In(cells) if cells.is_empty() => self.push("FALSE"),
            Test::NotIn(cells) if cells.is_empty() => self.push("TRUE"),
            Test::In(cells) => self.column(table, column).push(" IN (").params(cells).push(")"),
            Test::NotIn(cells) => {
                self.push("(").column(table, column).push(" IS NULL OR ");
                self.column(table, column).push(" NOT IN (").params(cells).push("))")
            }
            Test::IsNull(true) => self.column(table, column).push(" IS NULL"),
            Test::IsNull(false) => self.column(table, column).push(" IS NOT NULL"),
            // A range, so that an index serves it; exact, since text is ordered by its UTF-8 bytes.
            Test::StartsWith(prefix) => {
                self.push("(").column(table, column).push(" >= ").param(Cell::Text(prefix.clone()));
                if let Some(end) = behind_prefix(prefix) {
                    self.push(" AND ").column(table, column).push(" < ").param(Cell::Text(end));
                }
                self.push(")")
            }
        }
    }

    fn params(&mut self, cells: &[Cell]) -> &mut Self {
        self.list(cells, ", ", |sql, cell| _ = sql.param(cell.clone()))
    }

    /// The rows that come behind the one whose order terms have the values `after`; without `tail` less those with
    /// NULL behind values in the first term.
    fn after(&mut self, table: &Table, terms: &[Term], after: &[Cell], tail: bool) -> &mut Self {
        let (Some((term, more)), Some((value, values))) = (terms.split_first(), after.split_first()) else {
            return self.push("FALSE");
        };
        let tail = tail && !table.columns[term.column].not_null;
        let value = match (value, term.descending) {
            (Cell::Null, true) => {
                self.push("(").column(table, term.column).push(" IS NULL AND ");
                return self.after(table, more, values, true).push(")");
            }
            (Cell::Null, false) => None,
            (value, _) => Some(value),
        };
        self.push("(");
        if let Some(value) = value.filter(|_| !(more.is_empty() || term.descending && tail)) {
            // Says nothing new, but an index can serve it as a range.
            self.column(table, term.column).push(if term.descending { " <= " } else { " >= " });
            self.param(value.clone()).push(" AND ");
        }
        self.push("(").column(table, term.column);
        match value {
            None => self.push(" IS NOT NULL"),
            Some(value) => self.push(if term.descending { " < " } else { " > " }).param(value.clone()),
        };
        if term.descending && tail {
            self.push(" OR ").column(table, term.column).push(" IS NULL");
        }
        if !more.is_empty() {
            self.push(" OR (").column(table, term.column);
            match value {
                None => self.push(" IS NULL"),
                Some(value) => self.push(" = ").param(value.clone()),
            };
            self.push(" AND ").after(table, more, values, true).push(")");
        }
        self.push("))")
    }
}

/// The least text that is greater than every text with this prefix, by code points, which is the order of UTF-8
/// bytes too; `None` where there is none.
fn behind_prefix(prefix: &str) -> Option<String> {
    let mut head = prefix.to_owned();
    while let Some(last) = head.pop() {
        let next = if last == '\u{d7ff}' { Some('\u{e000}') } else { char::from_u32(u32::from(last) + 1) };
        if let Some(next) = next {
            head.push(next);
            return Some(head);
        }
    }
    None
}

// What is one database's own.

/// `abs` of the least integer, which is an error. The column between the two makes it one only when a row is met.
const OVERFLOW: [&str; 2] = ["abs((", " IS NULL) * 0 - 9223372036854775807 - 1)"];

impl Statement {
    fn param(&mut self, cell: Cell) -> &mut Self {
        self.params.push(cell);
        let mark = match self.dialect {
            Dialect::Sqlite => '?',
            Dialect::Postgres => '$',
        };
        let _infallible = write!(self.text, "{mark}{}", self.params.len());
        self
    }

    /// On Postgres each plugin has a schema that is called like it.
    fn table(&mut self, target: Target<'_>) -> &mut Self {
        if self.dialect == Dialect::Postgres {
            self.name(target.plugin).push(".");
        }
        self.name(&target.table.name)
    }

    /// NULLs first in ascending and last in descending order, which Postgres has the other way round.
    fn direction(&mut self, table: &Table, term: Term) -> &mut Self {
        let nulls = self.dialect == Dialect::Postgres && !table.columns[term.column].not_null;
        match (term.descending, nulls) {
            (false, false) => self,
            (true, false) => self.push(" DESC"),
            (false, true) => self.push(" NULLS FIRST"),
            (true, true) => self.push(" DESC NULLS LAST"),
        }
    }

    /// A column of a conflict target. With the collation written out, an index with another one does not count, so
    /// that the database itself refuses the statement where no plain unique index is there.
    fn conflict_column(&mut self, name: &str, ty: ColumnType) -> &mut Self {
        self.name(name);
        match (ty, self.dialect) {
            (ColumnType::Text | ColumnType::Json | ColumnType::Timestamp, Dialect::Sqlite) => {
                self.push(" COLLATE \"BINARY\"")
            }
            (ColumnType::Text | ColumnType::Json, Dialect::Postgres) => self.push(" COLLATE \"C\""),
            (ColumnType::Timestamp, Dialect::Postgres)
            | (ColumnType::Integer | ColumnType::Real | ColumnType::Boolean | ColumnType::Blob, _) => self,
        }
    }

    /// A sum that is an error where the column is NULL or the sum leaves its type.
    fn checked_sum(&mut self, table: &Table, column: usize, cell: &Cell) -> &mut Self {
        self.push("CASE WHEN ").column(table, column).push(" IS NULL");
        match self.dialect {
            Dialect::Sqlite => {
                // It would go on in floating point where an integer sum overflows.
                let real = table.columns[column].ty == ColumnType::Real;
                self.push(if real { " OR abs(" } else { " OR typeof(" });
                self.column(table, column).push(" + ").param(cell.clone());
                self.push(if real { ") > 1.7976931348623157e308" } else { ") = 'real'" });
                self.push(" THEN ").push(OVERFLOW[0]).column(table, column).push(OVERFLOW[1]);
            }
            // A division by zero. It names the column, or it would be an error before any row is met.
            Dialect::Postgres => _ = self.push(" THEN 1 / coalesce(").column(table, column).push(", 0)"),
        }
        self.push(" ELSE ").column(table, column).push(" + ").param(cell.clone()).push(" END")
    }

    /// The same count as [`Cell::key_bytes`].
    fn key_bytes(&mut self, table: &Table, column: usize) -> &mut Self {
        match table.columns[column].ty {
            ColumnType::Text | ColumnType::Json | ColumnType::Blob => {
                self.push("coalesce(octet_length(").column(table, column).push("), 0)")
            }
            ColumnType::Timestamp => self.push("24"),
            ColumnType::Boolean => self.push("1"),
            ColumnType::Integer | ColumnType::Real => self.push("8"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_prefix_is_the_next_text_that_has_not_got_it() {
        for (prefix, end) in [
            ("a", Some("b")),
            ("az", Some("a{")),
            ("\u{7f}", Some("\u{80}")),
            ("x\u{d7ff}", Some("x\u{e000}")),
            ("a\u{10ffff}", Some("b")),
            ("a\u{10ffff}\u{10ffff}", Some("b")),
            ("\u{10ffff}", None),
            ("", None),
        ] {
            assert_eq!(behind_prefix(prefix).as_deref(), end, "{prefix:?}");
        }
    }

    #[test]
    fn names_are_quoted_whatever_they_hold() {
        let mut sql = Statement::default();
        sql.name("a\"; DROP TABLE b; --");
        assert_eq!(sql.text, "\"a\"\"; DROP TABLE b; --\"");
    }

    proptest::proptest! {
        #[test]
        fn every_text_with_a_prefix_lies_before_its_end_and_no_other(prefix in "[a\u{d7ff}\u{10ffff}]{0,3}", text in "[ab\u{d7ff}\u{e000}\u{10ffff}]{0,4}") {
            let inside = text >= prefix && behind_prefix(&prefix).is_none_or(|end| text < end);
            proptest::prop_assert_eq!(inside, text.starts_with(&prefix));
        }
    }
}
