//! What only the stored text of a table tells: its CHECKs, hence the types, and clauses that no pragma lists.

use std::collections::BTreeMap;

use sqlparser::ast::{ColumnOption, Expr, TableConstraint};
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::parse::Faults;
use super::tokens::{self, Tokens};
use super::{Check, ColumnType, Table, checks, constants, ddl};

/// Completes `table` from `sql`, its CREATE TABLE as the database keeps it: types, CHECKs, defaults. What the host
/// would not have written goes to `odd`.
pub(super) fn complete(table: &mut Table, sql: &str, defaults: &BTreeMap<&str, &str>, odd: &mut Vec<String>) {
    let mut conditions = Vec::new();
    if !read(sql, &mut conditions, odd) {
        odd.push("its definition is none that the host would write".to_owned());
    }
    conditions.retain(|(_, expr)| !takes_type(table, expr));
    for (name, expr) in conditions {
        match checks::condition(&expr, table) {
            Ok(sql) => table.checks.push(Check { name, sql, line: 0 }),
            Err(_) => odd.push(format!("it has CHECK ({expr})")),
        }
    }
    for column in &mut table.columns {
        let Some(text) = defaults.get(column.name.as_str()) else { continue };
        match expression(text).map(|expr| constants::constant(&expr, column.ty)) {
            Some(Ok(value)) => column.default = value,
            _ => odd.push(format!("column {} has DEFAULT {text}", column.name)),
        }
    }
}

fn expression(text: &str) -> Option<Expr> {
    let tokens = bare(text)?;
    tokens::read(&tokens, &mut Faults::default(), |parser| parser.parse_expr())
}

fn bare(text: &str) -> Option<Vec<TokenWithSpan>> {
    let mut tokens = tokens::tokens(text).ok()?;
    tokens.retain(|token| !matches!(token.token, Token::Whitespace(_) | Token::EOF));
    Some(tokens)
}

/// Gives a column its type, if `expr` is the condition that the host writes for that type.
fn takes_type(table: &mut Table, expr: &Expr) -> bool {
    for column in &mut table.columns {
        for ty in [ColumnType::Boolean, ColumnType::Json, ColumnType::Timestamp] {
            let mut other = column.clone();
            other.ty = ty;
            let stored = if ty == ColumnType::Boolean { ColumnType::Integer } else { ColumnType::Text };
            let own = ddl::type_check(&other).and_then(|sql| expression(&sql));
            if column.ty == stored && own.as_ref() == Some(expr) {
                column.ty = ty;
                return true;
            }
        }
    }
    false
}

/// Collects the conditions; `false` when the text cannot be read.
fn read(sql: &str, conditions: &mut Vec<(Option<String>, Expr)>, odd: &mut Vec<String>) -> bool {
    let Some(tokens) = bare(sql) else { return false };
    let Some(open) = tokens.iter().position(|token| token.token == Token::LParen) else { return false };
    let Some((elements, _)) = tokens.get(open..).and_then(tokens::elements) else { return false };
    elements.into_iter().all(|element| self::element(element, conditions, odd).is_some())
}

fn element(element: Tokens, conditions: &mut Vec<(Option<String>, Expr)>, odd: &mut Vec<String>) -> Option<()> {
    let mut faults = Faults::default();
    let constraint =
        matches!(tokens::word(element, 0).as_deref(), Some("CONSTRAINT" | "PRIMARY" | "UNIQUE" | "CHECK" | "FOREIGN"));
    if constraint {
        let parsed = tokens::read(element, &mut faults, |parser| parser.parse_optional_table_constraint())??;
        if let TableConstraint::Check(check) = parsed {
            conditions.push((check.name.map(|name| name.value), *check.expr));
        } else if let TableConstraint::ForeignKey(key) = parsed
            && key.characteristics.is_some()
        {
            odd.push("it has a DEFERRABLE foreign key".to_owned());
        }
        return Some(());
    }
    let column = tokens::read(element, &mut faults, |parser| parser.parse_column_def())?;
    for option in column.options {
        if let ColumnOption::Check(check) = option.option {
            conditions.push((option.name.or(check.name).map(|name| name.value), *check.expr));
        } else if !matches!(option.option, ColumnOption::NotNull | ColumnOption::Default(_)) {
            odd.push(format!("column {} has {}", column.name, option.option));
        }
    }
    Some(())
}
