//! Constants of DEFAULT clauses and CHECK conditions, brought into the form in which they are stored.

use sqlparser::ast::{Expr, UnaryOperator, Value as Literal};

use super::ColumnType;
use crate::codec::{Value, canonical, time};

/// Integers that a script's number holds without loss go up to here, both ways.
const MAX_SAFE: i64 = (1 << 53) - 1;

/// The constant that `expr` writes, for a column of type `ty`; `None` for NULL.
///
/// # Errors
/// What to write instead.
pub(super) fn constant(expr: &Expr, ty: ColumnType) -> Result<Option<Value>, String> {
    let literal = match literal(expr) {
        Some(Plain::Null) => return Ok(None),
        Some(literal) => literal,
        None => return Err(format!("only a constant can stand here, such as {}", example(ty))),
    };
    let value = match (ty, literal) {
        (ColumnType::Integer, Plain::Number(text)) => integer(&text)?,
        (ColumnType::Real, Plain::Number(text)) => real(&text)?,
        (ColumnType::Boolean, Plain::Bool(value)) => Value::Bool(value),
        (ColumnType::Text, Plain::Text(text)) => Value::Text(without_nul(text)?),
        (ColumnType::Blob, Plain::Hex(digits)) => Value::Blob(bytes(&digits)?),
        (ColumnType::Json, Plain::Text(text)) => match canonical_json(&text)? {
            // As everywhere in a JSON column: the value `null` is NULL.
            null if null == "null" => return Ok(None),
            json => Value::Text(json),
        },
        (ColumnType::Timestamp, Plain::Text(text)) => Value::Text(canonical_time(&text)?),
        _ => return Err(format!("{expr} does not fit the type {}: write {}", ty.name(), example(ty))),
    };
    Ok(Some(value))
}

/// A literal with its sign, freed from parentheses.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Plain {
    Null,
    Bool(bool),
    /// With a `-` in front where there is one.
    Number(String),
    Text(String),
    Hex(String),
}

/// The literal that `expr` is, if it is one.
pub(super) fn literal(expr: &Expr) -> Option<Plain> {
    if let Expr::Nested(inner) = expr {
        return literal(inner);
    }
    if let Expr::UnaryOp { op, expr } = expr {
        return match (op, literal(expr)?) {
            (UnaryOperator::Minus, Plain::Number(text)) if !text.starts_with('-') => {
                Some(Plain::Number(format!("-{text}")))
            }
            (UnaryOperator::Plus, Plain::Number(text)) => Some(Plain::Number(text)),
            _ => None,
        };
    }
    let Expr::Value(value) = expr else { return None };
    if let Literal::Number(text, false) = &value.value {
        return Some(Plain::Number(text.clone()));
    }
    if let Literal::SingleQuotedString(text) = &value.value {
        return Some(Plain::Text(text.clone()));
    }
    if let Literal::HexStringLiteral(digits) = &value.value {
        return Some(Plain::Hex(digits.clone()));
    }
    if let Literal::Boolean(value) = &value.value {
        return Some(Plain::Bool(*value));
    }
    matches!(value.value, Literal::Null).then_some(Plain::Null)
}

/// How a constant of this type is written.
fn example(ty: ColumnType) -> &'static str {
    match ty {
        ColumnType::Integer => "0 or -5",
        ColumnType::Real => "0.5",
        ColumnType::Boolean => "TRUE or FALSE",
        ColumnType::Text => "'text'",
        ColumnType::Blob => "X'00ff'",
        ColumnType::Json => "'{}' or '[1, 2]'",
        ColumnType::Timestamp => "'2026-01-31T12:00:00Z'",
    }
}

fn integer(text: &str) -> Result<Value, String> {
    let number: i64 = text.parse().map_err(|_| {
        format!("{text} is not a whole number of 64 bits: write one such as {}", example(ColumnType::Integer))
    })?;
    let safe = (-MAX_SAFE..=MAX_SAFE).contains(&number);
    Ok(if safe { Value::Int(number) } else { Value::BigInt(number) })
}

/// The number that a decimal literal writes; −0 is 0.
///
/// # Errors
/// When it is too large for a REAL.
pub(super) fn float(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(number + 0.0),
        _ => Err(format!("{text} is not a number that a REAL can hold")),
    }
}

fn real(text: &str) -> Result<Value, String> {
    float(text).map(Value::Real)
}

/// `text` itself, unless it holds NUL, which not every database takes.
pub(super) fn without_nul(text: String) -> Result<String, String> {
    if text.contains('\0') { Err("text cannot hold the character NUL: leave it out".into()) } else { Ok(text) }
}

fn bytes(digits: &str) -> Result<Vec<u8>, String> {
    let fault = || format!("X'{digits}' is not a BLOB: write two hexadecimal digits for each byte");
    if !digits.is_ascii() || digits.len() % 2 == 1 {
        return Err(fault());
    }
    (0..digits.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(digits.get(at..at + 2).unwrap_or_default(), 16).map_err(|_| fault()))
        .collect()
}

fn canonical_json(text: &str) -> Result<String, String> {
    let value: serde_json::Value = serde_json::from_str(text)
        .map_err(|error| format!("'{text}' is not JSON ({error}): write one such as '{{}}'"))?;
    Ok(canonical::text(&value))
}

/// A time in the one form that is stored.
///
/// # Errors
/// What is wrong with it and what to write.
pub(super) fn canonical_time(text: &str) -> Result<String, String> {
    time::normal(text).map_err(|why| {
        let right = example(ColumnType::Timestamp);
        format!("'{text}' is not a TIMESTAMP ({why}): write date, time and offset, or Z, such as {right}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_brought_into_the_stored_form() {
        assert_eq!(canonical_time("2026-01-31T12:00:00+08:00").unwrap(), "2026-01-31T04:00:00.000Z");
        assert_eq!(canonical_time("0001-01-01T00:00:00.25Z").unwrap(), "0001-01-01T00:00:00.250Z");
        assert_eq!(canonical_time("9999-12-31T23:59:59.999Z").unwrap(), "9999-12-31T23:59:59.999Z");
        assert_eq!(canonical_time("9999-12-31T23:59:59+00:30").unwrap(), "9999-12-31T23:29:59.000Z");
    }

    #[test]
    fn times_without_offset_or_out_of_range_are_refused() {
        for text in [
            "2026-01-31T12:00:00",
            "2026-01-31",
            "0001-01-01T00:00:00+01:00",
            "2026-01-31T12:00:00.0001Z",
            "9999-12-31T23:59:59-00:30",
            "2026-01-31T12:00:00[UTC]",
        ] {
            assert!(canonical_time(text).is_err(), "{text}");
        }
    }

    #[test]
    fn json_is_kept_in_canonical_form() {
        assert_eq!(canonical_json("{ \"b\": 1.0, \"a\": [] }").unwrap(), r#"{"a":[],"b":1}"#);
        assert!(canonical_json("{a: 1}").is_err());
    }

    #[test]
    fn integers_past_the_safe_range_are_bigints_and_past_64_bits_refused() {
        assert_eq!(integer("9007199254740991").unwrap(), Value::Int(9_007_199_254_740_991));
        assert_eq!(integer("-9007199254740992").unwrap(), Value::BigInt(-9_007_199_254_740_992));
        assert!(integer("9223372036854775808").is_err());
        assert!(integer("1.5").is_err());
    }
}
