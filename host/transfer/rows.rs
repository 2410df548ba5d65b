//! Rows on their way, and what they come to.

use sha2::{Digest, Sha256};

use crate::query::Cell;
use crate::schema::Dialect;
use crate::store::moving::{self, Shape};
use crate::store::records::Cells;
use crate::store::{Shared, StoreError, Tx};

/// Rows that are read at a time, at first and at most.
const FIRST: usize = 32;
const MOST: usize = 256;
/// About how many bytes rows that are read at a time should hold.
const BYTES: usize = 4 << 20;
/// Parameters that one statement has at most; SQLite takes 32,766, Postgres 65,535.
const PARAMETERS: usize = 16_000;

/// Reads a table to its end, from behind a key, in steps that are small in rows and bytes.
fn each(
    from: &Shared,
    shape: &Shape,
    mut after: Option<Cells>,
    work: &mut dyn FnMut(&[Cells]) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut limit = FIRST;
    loop {
        let rows = from.look(|tx| moving::rows(tx, shape, after.as_ref(), limit))?;
        let Some(last) = rows.last() else { return Ok(()) };
        after = Some(shape.key_of(last));
        work(&rows)?;
        let bytes: usize = rows.iter().flatten().map(Cell::key_bytes).sum();
        let fitting = BYTES / (bytes / rows.len()).max(1);
        limit = fitting.clamp(1, (2 * limit).min(MOST));
    }
}

/// Puts all rows of a table that are not there yet into the other database; `tell` hears how many at a time.
pub(super) fn copy(from: &Shared, to: &Shared, shape: &Shape, tell: &mut dyn FnMut(u64)) -> Result<(), StoreError> {
    let after = to.look(|tx| moving::last(tx, shape))?;
    if after.is_some() {
        tell(to.look(|tx| moving::count(tx, shape))?);
    }
    let at_once = (PARAMETERS / shape.columns.len().max(1)).max(1);
    each(from, shape, after, &mut |rows| {
        to.transact(|tx| {
            refuse_nul(tx, shape, rows)?;
            rows.chunks(at_once).try_for_each(|rows| moving::put(tx, shape, rows))
        })?;
        crate::crash_point!("copy-batch");
        tell(u64::try_from(rows.len()).unwrap_or(0));
        Ok(())
    })
}

/// Refuses text that Postgres cannot keep. The host writes none; another hand may have.
fn refuse_nul(tx: &Tx, shape: &Shape, rows: &[Cells]) -> Result<(), StoreError> {
    let nul = |cell: &Cell| matches!(cell, Cell::Text(text) if text.contains('\0'));
    let place = |row: &&Cells| row.iter().position(nul);
    let Some((row, at)) = rows.iter().find_map(|row| Some((row, place(&row)?))) else { return Ok(()) };
    if tx.dialect() == Dialect::Sqlite {
        return Ok(());
    }
    let told = |cell: &Cell| if let Cell::Text(text) = cell { text.clone() } else { format!("{cell:?}") };
    let key = shape.key_of(row).iter().map(told).collect::<Vec<_>>().join(", ");
    let column = shape.columns.get(at).map_or("", |(name, _)| name);
    Err(StoreError::Constraint(format!(
        "{}: there is a NUL character in {column} of the row with the key {key}, and Postgres keeps none in text: take it \
         out at the source, and run this again",
        shape.name
    )))
}

/// What all rows of a table come to; `tell` hears how many at a time.
pub(super) fn sum(of: &Shared, shape: &Shape, tell: &mut dyn FnMut(u64)) -> Result<Sum, StoreError> {
    let mut sum = Sum::default();
    each(of, shape, None, &mut |rows| {
        rows.iter().for_each(|row| sum.add(row));
        tell(u64::try_from(rows.len()).unwrap_or(0));
        Ok(())
    })?;
    Ok(sum)
}

/// The sum of the rows' SHA-256, as numbers of 256 bits, and their count: the same whatever the order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sum {
    pub rows: u64,
    /// The lowest first.
    words: [u64; 4],
}

impl Sum {
    fn add(&mut self, row: &[Cell]) {
        let digest: [u8; 32] = digest(row).into();
        let mut carry = false;
        for (word, bytes) in self.words.iter_mut().zip(digest.chunks_exact(8)) {
            let more = u64::from_le_bytes(bytes.try_into().unwrap_or_default());
            let (sum, first) = word.overflowing_add(more);
            let (sum, second) = sum.overflowing_add(u64::from(carry));
            (*word, carry) = (sum, first || second);
        }
        self.rows += 1;
    }

    /// Hex.
    pub fn hash(&self) -> String {
        self.words.iter().rev().map(|word| format!("{word:016x}")).collect()
    }
}

/// Each value with its kind and, where they vary, its length.
fn digest(row: &[Cell]) -> sha2::digest::Output<Sha256> {
    let mut hash = Sha256::new();
    for cell in row {
        let sized = |hash: &mut Sha256, kind: u8, bytes: &[u8]| {
            hash.update([kind]);
            hash.update(u64::try_from(bytes.len()).unwrap_or(u64::MAX).to_be_bytes());
            hash.update(bytes);
        };
        match cell {
            Cell::Null => hash.update([0]),
            Cell::Bool(truth) => hash.update([1, u8::from(*truth)]),
            Cell::Integer(number) => sized(&mut hash, 2, &number.to_be_bytes()),
            Cell::Real(number) => sized(&mut hash, 3, &(number + 0.0).to_bits().to_be_bytes()),
            Cell::Text(text) => sized(&mut hash, 4, text.as_bytes()),
            Cell::Blob(bytes) => sized(&mut hash, 5, bytes),
        }
    }
    hash.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(rows: &[&[Cell]]) -> Sum {
        let mut sum = Sum::default();
        rows.iter().for_each(|row| sum.add(row));
        sum
    }

    #[test]
    fn sum_is_the_same_in_any_order_and_other_for_any_other_value() {
        let (one, two) = ([Cell::Text("a".into()), Cell::Integer(i64::MAX)], [Cell::Text("b".into()), Cell::Null]);
        assert_eq!(sum(&[&one, &two]), sum(&[&two, &one]));
        let others: [&[&[Cell]]; 5] = [
            &[&one],
            &[&one, &one],
            &[&one, &[Cell::Text("b".into()), Cell::Text(String::new())]],
            &[&one, &[Cell::Blob(b"b".to_vec()), Cell::Null]],
            &[&[Cell::Text("a".into()), Cell::Integer(i64::MAX - 1)], &two],
        ];
        for other in others {
            assert_ne!(sum(&[&one, &two]).hash(), sum(other).hash(), "{other:?}");
        }
    }

    #[test]
    fn cells_do_not_run_into_each_other() {
        let text = |text: &str| Cell::Text(text.to_owned());
        assert_ne!(sum(&[&[text("ab"), text("c")]]), sum(&[&[text("a"), text("bc")]]));
    }
}
