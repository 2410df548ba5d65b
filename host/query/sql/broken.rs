//! Statements that find what stands in the way of a change.

use super::{Set, Statement, Target};
use crate::query::{Cell, Filter};
use crate::schema::{ColumnType, Dialect, TENANT};

/// What a change makes.
#[derive(Clone, Copy)]
pub enum Row<'a> {
    /// A row that begins with a cell for each column of the table.
    New(&'a [Cell]),
    /// Rows that match, changed.
    Updated(&'a [Set], &'a Filter),
}

/// Finds a row that matches and that an update would give the same `columns` as another row has. NULLs are the same as
/// nothing.
pub fn meets(dialect: Dialect, target: Target<'_>, sets: &[Set], filter: &Filter, columns: &[usize]) -> Statement {
    let mut sql = Statement::new(dialect);
    let table = target.table;
    let other = |sql: &mut Statement, name: &str| _ = sql.push("o.").name(name).push(" = ");
    sql.push("SELECT 1 FROM ").table(target).push(" AS t").rows(target, filter).push(" AND EXISTS (SELECT 1 FROM ");
    sql.table(target).push(" AS o WHERE NOT (");
    sql.list(&table.primary_key, " AND ", |sql, name| {
        other(sql, name);
        sql.push("t.").name(name);
    });
    sql.push(")");
    if !table.shared {
        sql.push(" AND ");
        other(&mut sql, TENANT);
        sql.push("t.").name(TENANT);
    }
    for column in columns {
        sql.push(" AND ");
        other(&mut sql, &table.columns[*column].name);
        match sets.iter().find(|set| set.column() == *column) {
            Some(Set::Put(_, cell)) => sql.param(cell.clone()),
            Some(Set::Add(_, cell)) => sql.column(table, *column).push(" + ").param(cell.clone()),
            None => sql.column(table, *column),
        };
    }
    sql.push(") LIMIT 1");
    sql
}

/// Finds a row that matches and to which an update adds a number that it cannot hold, or that holds none. `None` where
/// nothing is added.
pub fn passes(dialect: Dialect, target: Target<'_>, sets: &[Set], filter: &Filter) -> Option<Statement> {
    let added = sets.iter().filter_map(|set| match set {
        Set::Add(column, cell) => Some((*column, room(cell)?)),
        Set::Put(..) => None,
    });
    let added: Vec<_> = added.collect();
    let mut sql = Statement::new(dialect);
    sql.push("SELECT 1 FROM ").table(target).push(" AS t").rows(target, filter).push(" AND (");
    sql.list(&added, " OR ", |sql, (column, (beyond, limit))| {
        sql.column(target.table, *column).push(" IS NULL OR ");
        sql.column(target.table, *column).push(beyond).param(limit.clone());
    });
    sql.push(") LIMIT 1");
    (!added.is_empty()).then_some(sql)
}

/// Which numbers pass what a column can hold when this one is added: those beyond a limit.
fn room(added: &Cell) -> Option<(&'static str, Cell)> {
    match added {
        Cell::Integer(number) if *number < 0 => Some((" < ", Cell::Integer(i64::MIN - number))),
        Cell::Integer(number) => Some((" > ", Cell::Integer(i64::MAX - number))),
        Cell::Real(number) if *number < 0.0 => Some((" < ", Cell::Real(f64::MIN - number))),
        Cell::Real(number) => Some((" > ", Cell::Real(f64::MAX - number))),
        Cell::Null | Cell::Bool(_) | Cell::Text(_) | Cell::Blob(_) => None,
    }
}

/// Finds a row that does not keep `check`, a condition of the schema: a row with these cells, or one that matches, as an
/// update makes it.
pub fn breaks(dialect: Dialect, target: Target<'_>, row: Row<'_>, check: &str) -> Statement {
    let mut sql = Statement::new(dialect);
    let table = target.table;
    sql.push("SELECT 1 FROM (SELECT ");
    sql.list(table.columns.iter().enumerate(), ", ", |sql, (at, column)| {
        let set = |sets: &[Set]| sets.iter().find(|set| set.column() == at).cloned();
        match row {
            Row::New(cells) => sql.typed(column.ty, cells[at].clone()),
            Row::Updated(sets, _) => match set(sets) {
                Some(Set::Put(_, cell)) => sql.typed(column.ty, cell),
                Some(Set::Add(_, cell)) => sql.column(table, at).push(" + ").param(cell),
                None => sql.column(table, at),
            },
        };
        sql.push(" AS ").name(&column.name);
    });
    if let Row::Updated(_, filter) = row {
        sql.push(" FROM ").table(target).push(" AS t").rows(target, filter);
    }
    sql.push(") AS made WHERE NOT (").push(check).push(") LIMIT 1");
    sql
}

/// Finds rows that match and have the same values in `columns`, none of them NULL.
pub fn alike(dialect: Dialect, target: Target<'_>, filter: &Filter, columns: &[usize]) -> Statement {
    let mut sql = Statement::new(dialect);
    sql.push("SELECT count(*) FROM ").table(target).push(" AS t").rows(target, filter);
    for column in columns {
        sql.push(" AND ").column(target.table, *column).push(" IS NOT NULL");
    }
    if !columns.is_empty() {
        sql.push(" GROUP BY ").list(columns, ", ", |sql, column| _ = sql.column(target.table, *column));
    }
    sql.push(" HAVING count(*) > 1 LIMIT 1");
    sql
}

impl Statement {
    /// A parameter that has the type of a column without being compared with it.
    fn typed(&mut self, ty: ColumnType, cell: Cell) -> &mut Self {
        let (ty, collate) = match (self.dialect, ty) {
            (Dialect::Sqlite, _) => return self.param(cell),
            (Dialect::Postgres, ColumnType::Integer) => ("BIGINT", ""),
            (Dialect::Postgres, ColumnType::Real) => ("DOUBLE PRECISION", ""),
            (Dialect::Postgres, ColumnType::Boolean) => ("BOOLEAN", ""),
            (Dialect::Postgres, ColumnType::Text | ColumnType::Json) => ("TEXT", " COLLATE \"C\""),
            (Dialect::Postgres, ColumnType::Blob) => ("BYTEA", ""),
            (Dialect::Postgres, ColumnType::Timestamp) => ("TIMESTAMPTZ", ""),
        };
        self.push("CAST(").param(cell).push(" AS ").push(ty).push(")").push(collate)
    }
}
