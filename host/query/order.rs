//! `orderBy`: columns and directions, made total by the primary key.

use super::names;
use crate::codec::Value;
use crate::failure::Failure;
use crate::schema::{ColumnType, Table};

/// Members that one `orderBy` may have.
const MAX_MEMBERS: usize = 16;

/// A total order of a table's rows. NULLs come first in ascending and last in descending terms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order(pub Vec<Term>);

/// One column of an order, by its place in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Term {
    pub column: usize,
    pub descending: bool,
}

/// Reads an `orderBy`, `None` where it was left out, and adds the primary key behind it.
///
/// # Errors
/// `CONTRACT`, with the right form.
pub fn parse(table: &Table, value: Option<&Value>) -> Result<Order, Failure> {
    let mut terms = Vec::new();
    match value {
        None => {}
        Some(Value::Array(items)) => {
            for item in items {
                object(table, item, &mut terms)?;
            }
        }
        Some(value) => object(table, value, &mut terms)?,
    }
    for name in &table.primary_key {
        let Some(column) = table.columns.iter().position(|column| column.name == *name) else { continue };
        if terms.iter().all(|term| term.column != column) {
            terms.push(Term { column, descending: false });
        }
    }
    Ok(Order(terms))
}

fn object(table: &Table, value: &Value, terms: &mut Vec<Term>) -> Result<(), Failure> {
    let Value::Object(members) = value else {
        return Err(Failure::contract(format!(
            "orderBy takes {{ field: 'asc' | 'desc' }} or an array of those; it got {}",
            value.kind()
        )));
    };
    for (name, direction) in members {
        let column = names::column(table, name)?;
        if table.columns[column].ty == ColumnType::Json {
            return Err(Failure::contract(format!(
                "orderBy.{name} is JSON, which has no order; order by another column"
            )));
        }
        if terms.iter().any(|term| term.column == column) {
            return Err(Failure::contract(format!("orderBy names {name} twice; once is enough")));
        }
        let descending = match direction.as_text() {
            Some("asc") => false,
            Some("desc") => true,
            _ => return Err(Failure::contract(format!("orderBy.{name} is 'asc' or 'desc', in lower case"))),
        };
        terms.push(Term { column, descending });
    }
    if terms.len() > MAX_MEMBERS {
        return Err(Failure::contract("orderBy takes at most 16 columns"));
    }
    Ok(())
}
