//! Statements on plugins' tables, run.

use super::errors;
use super::{Gave, Guess, StoreError, Tx, Want, gone};
use crate::query::Cell;
use crate::query::sql::Statement;
use crate::store::records::{About, Cells, PAGE_BYTES, page_too_large};

/// Runs a statement that writes, and gives the number of rows that it changed.
pub fn execute(tx: &Tx, about: About<'_>, statement: &Statement) -> Result<usize, StoreError> {
    match tx.run(&statement.text, &statement.params, Want::Changed, |error| errors::explain(about, error))? {
        Gave::Changed(changed) => Ok(usize::try_from(changed).unwrap_or(usize::MAX)),
        Gave::Rows(_) => Err(gone()),
    }
}

/// Leaves an insert that does nothing where there is such a row to the COMMIT, or to the next statement: as a rule there is
/// none. Where there is, or the row is not made for another reason, the invocation runs again and looks.
pub fn leave(tx: &Tx, insert: &Statement) -> Result<bool, StoreError> {
    if tx.shared.is_wary(Guess::Row) {
        return Ok(false);
    }
    // Without a row to count it divides by zero: whatever kept the row away, nothing is committed.
    let sure = || format!("WITH made AS ({} RETURNING 1) SELECT 1 / count(*) FROM made", insert.text);
    tx.guess(Guess::Row, sure, &insert.params)
}

/// The rows that a statement finds, with all columns of the table.
pub fn rows(tx: &Tx, about: About<'_>, statement: &Statement) -> Result<Vec<Cells>, StoreError> {
    let Gave::Rows(found) =
        tx.run(&statement.text, &statement.params, Want::Rows, |error| errors::explain(about, error))?
    else {
        return Err(gone());
    };
    let mut bytes = 0;
    let mut rows = Vec::with_capacity(found.len());
    for row in &found {
        let cells = (0..about.target.table.columns.len()).map(|at| row.try_get(at)).collect::<Result<Cells, _>>();
        let cells = cells.map_err(|error| errors::explain(about, &error))?;
        bytes += cells.iter().map(Cell::key_bytes).sum::<usize>();
        if bytes > PAGE_BYTES {
            return Err(page_too_large(about.target));
        }
        rows.push(cells);
    }
    Ok(rows)
}

/// The number that a statement gives in its first row; `None` without a row.
pub fn number(tx: &Tx, about: About<'_>, statement: &Statement) -> Result<Option<i64>, StoreError> {
    let Gave::Rows(found) =
        tx.run(&statement.text, &statement.params, Want::Rows, |error| errors::explain(about, error))?
    else {
        return Err(gone());
    };
    let Some(row) = found.first() else { return Ok(None) };
    match row.try_get(0).map_err(|error| errors::explain(about, &error))? {
        Cell::Integer(number) => Ok(Some(number)),
        Cell::Null | Cell::Bool(_) | Cell::Real(_) | Cell::Text(_) | Cell::Blob(_) => Ok(None),
    }
}
