//! Cursors: where a page ended, bound to the tenant, table, `where` and `orderBy` it was made for.
//!
//! A cursor is no secret and no permission: the tenant's filter is applied whatever it says.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::Value as Json;
use sha2::{Digest, Sha256};

use super::column::Cell;
use super::filter::Filter;
use super::order::Order;
use super::sql::{Statement, Target};
use crate::failure::Failure;
use crate::schema::{ColumnType, Table};

/// What a cursor is bound to, as a hash.
pub fn binding(target: Target<'_>, filter: &Filter, order: &Order) -> String {
    let mut hash = Sha256::new();
    let mut part = |bytes: &[u8]| {
        hash.update(u64::try_from(bytes.len()).unwrap_or(u64::MAX).to_be_bytes());
        hash.update(bytes);
    };
    let mut sql = Statement::default();
    sql.filter(target.table, filter);
    part(target.tenant.as_bytes());
    part(target.table.name.as_bytes());
    part(sql.text.as_bytes());
    for cell in &sql.params {
        part(write(cell).to_string().as_bytes());
    }
    for term in &order.0 {
        part(target.table.columns[term.column].name.as_bytes());
        part(if term.descending { b"desc" } else { b"asc" });
    }
    URL_SAFE_NO_PAD.encode(&hash.finalize()[..16])
}

/// The cursor that stands behind the row whose order terms have these values.
pub fn encode(binding: &str, values: &[Cell]) -> String {
    let mut parts = vec![Json::from(binding)];
    parts.extend(values.iter().map(write));
    URL_SAFE_NO_PAD.encode(Json::Array(parts).to_string())
}

/// The values of the order's terms at which a cursor stands.
///
/// # Errors
/// `CONTRACT` for anything but a cursor made by [`encode`] for the same binding.
pub fn decode(text: &str, binding: &str, table: &Table, order: &Order) -> Result<Vec<Cell>, Failure> {
    let parts = URL_SAFE_NO_PAD.decode(text).ok().and_then(|bytes| serde_json::from_slice::<Vec<Json>>(&bytes).ok());
    let parts = parts.ok_or_else(|| {
        Failure::contract("this is no cursor; pass the nextCursor of the page before as it is, or leave cursor out")
    })?;
    let values =
        parts.split_first().filter(|(first, rest)| first.as_str() == Some(binding) && rest.len() == order.0.len());
    let cells = values.and_then(|(_, rest)| {
        rest.iter().zip(&order.0).map(|(json, term)| read(table.columns[term.column].ty, json)).collect()
    });
    cells.ok_or_else(|| {
        Failure::contract(
            "this cursor was made for another tenant, table, where or orderBy; go on with those it was made for, or \
             leave cursor out to begin anew",
        )
    })
}

/// Each cell as a string that says its form, so that no number passes through JSON.
fn write(cell: &Cell) -> Json {
    match cell {
        Cell::Null => Json::Null,
        // As SQLite gives a BOOLEAN back: 0 or 1.
        Cell::Bool(truth) => Json::String(u8::from(*truth).to_string()),
        Cell::Integer(number) => Json::String(number.to_string()),
        Cell::Real(number) => Json::String(number.to_bits().to_string()),
        Cell::Text(text) => Json::String(text.clone()),
        Cell::Blob(bytes) => Json::String(STANDARD.encode(bytes)),
    }
}

fn read(ty: ColumnType, json: &Json) -> Option<Cell> {
    if json.is_null() {
        return Some(Cell::Null);
    }
    Some(match ty {
        ColumnType::Boolean => Cell::Bool(json.as_str()?.parse::<u8>().ok()? == 1),
        ColumnType::Integer => Cell::Integer(json.as_str()?.parse().ok()?),
        ColumnType::Real => Cell::Real(Some(f64::from_bits(json.as_str()?.parse().ok()?)).filter(|n| n.is_finite())?),
        ColumnType::Text | ColumnType::Timestamp | ColumnType::Json => {
            Cell::Text(Some(json.as_str()?.to_owned()).filter(|text| !text.contains('\0'))?)
        }
        ColumnType::Blob => Cell::Blob(STANDARD.decode(json.as_str()?).ok()?),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::codec::time;
    use crate::query::order::Term;
    use crate::schema;

    fn table() -> Table {
        let sql = "CREATE TABLE t (a INTEGER, b REAL, c BOOLEAN, d TEXT, e BLOB, f TIMESTAMP, id TEXT PRIMARY KEY);";
        schema::parse(sql, &[]).unwrap().tables.remove("t").unwrap()
    }

    fn every_column() -> Order {
        Order((0..7).map(|column| Term { column, descending: column % 2 == 0 }).collect())
    }

    fn cells() -> impl Strategy<Value = Vec<Cell>> {
        let text = any::<String>().prop_map(|text| text.replace('\0', ""));
        let instant = (0_i64..4_000_000_000_000).prop_map(|millis| Cell::Text(time::shown(millis)));
        let real = any::<f64>().prop_filter("finite", |number| number.is_finite()).prop_map(Cell::Real);
        let nullable = |cell: BoxedStrategy<Cell>| prop_oneof![1 => Just(Cell::Null), 4 => cell].boxed();
        vec![
            nullable(any::<i64>().prop_map(Cell::Integer).boxed()),
            nullable(real.boxed()),
            nullable(any::<bool>().prop_map(Cell::Bool).boxed()),
            nullable(text.clone().prop_map(Cell::Text).boxed()),
            nullable(any::<Vec<u8>>().prop_map(Cell::Blob).boxed()),
            nullable(instant.boxed()),
            text.prop_map(Cell::Text).boxed(),
        ]
    }

    proptest! {
        #[test]
        fn a_cursor_gives_back_the_values_it_was_made_of(cells in cells()) {
            let text = encode("binding", &cells);
            prop_assert_eq!(decode(&text, "binding", &table(), &every_column()), Ok(cells));
            prop_assert!(decode(&text, "other", &table(), &every_column()).is_err());
        }

        #[test]
        fn no_text_makes_decoding_panic(parts in proptest::collection::vec("[a-z0-9\"]{0,5}", 0..9), text in ".{0,20}") {
            let forged = URL_SAFE_NO_PAD.encode(serde_json::json!(parts).to_string());
            for text in [forged, text] {
                let _either = decode(&text, "", &table(), &every_column());
            }
        }
    }
}
