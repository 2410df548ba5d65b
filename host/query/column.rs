//! What a column makes of a value: the rules of spec §4, "Values", in both directions.

use crate::codec::{SAFE, Value, canonical, json, time};
use crate::schema::ColumnType;

/// A value as a column stores it. JSON is its RFC 8785 text, TIMESTAMP its one form (see [`time`]).
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    Null,
    Bool(bool),
    Integer(i64),
    /// Finite, and never −0.
    Real(f64),
    Text(String),
    Blob(Vec<u8>),
}

impl Cell {
    /// Bytes that this adds to a key or index, counted alike on every database.
    pub fn key_bytes(&self) -> usize {
        match self {
            Cell::Null => 0,
            Cell::Bool(_) => 1,
            Cell::Integer(_) | Cell::Real(_) => 8,
            Cell::Text(text) => text.len(),
            Cell::Blob(bytes) => bytes.len(),
        }
    }
}

fn wanted(ty: ColumnType) -> &'static str {
    match ty {
        ColumnType::Integer => "a number without a fraction within ±(2^53−1), or a BigInt within 64 bits",
        ColumnType::Real => "a finite number",
        ColumnType::Boolean => "true or false",
        ColumnType::Text => "a string without NUL characters",
        ColumnType::Blob => "a Uint8Array",
        ColumnType::Json => "a JSON value",
        ColumnType::Timestamp => time::WANTED,
    }
}

/// Checks a value for a column and gives it as it is stored. `null` is NULL for every type, JSON too: a JSON column
/// cannot tell the JSON value `null` from NULL (within arrays and objects `null` is kept).
///
/// # Errors
/// What came and what is wanted: `is INTEGER and takes …; it got 1.5`. The caller puts the field in front.
pub fn encode(ty: ColumnType, value: &Value) -> Result<Cell, String> {
    if *value == Value::Null {
        return Ok(Cell::Null);
    }
    let refuse = |got: String| Err(format!("is {} and takes {}; it got {got}", ty.name(), wanted(ty)));
    match (ty, value) {
        (ColumnType::Integer, Value::Int(number) | Value::BigInt(number)) => Ok(Cell::Integer(*number)),
        (ColumnType::Integer, Value::Real(number)) if number.fract() == 0.0 => {
            refuse(format!("the number {number}, which may have lost digits already; write it as a BigInt"))
        }
        #[expect(clippy::cast_precision_loss, reason = "a script's whole number is within 2^53")]
        (ColumnType::Real, Value::Int(number)) => Ok(Cell::Real(*number as f64)),
        // Adding 0 turns −0 into 0.
        (ColumnType::Real, Value::Real(number)) if number.is_finite() => Ok(Cell::Real(number + 0.0)),
        (ColumnType::Real, Value::BigInt(_)) => refuse("a BigInt; write Number(value)".to_owned()),
        (ColumnType::Boolean, Value::Bool(truth)) => Ok(Cell::Bool(*truth)),
        (ColumnType::Text, Value::Text(text)) if text.contains('\0') => refuse("one with a NUL character".to_owned()),
        (ColumnType::Text, Value::Text(text)) => Ok(Cell::Text(text.clone())),
        (ColumnType::Blob, Value::Blob(bytes)) => Ok(Cell::Blob(bytes.clone())),
        (ColumnType::Json, value) => {
            let json = json::exact(value).map_err(|unfit| format!("is JSON and takes a JSON value; {unfit}"))?;
            Ok(Cell::Text(canonical::text(&json)))
        }
        (ColumnType::Timestamp, Value::Text(text)) => time::normal(text)
            .map(Cell::Text)
            .or_else(|why| refuse(format!("\"{}\": {why}", text.chars().take(40).collect::<String>()))),
        (ColumnType::Timestamp, Value::Date(millis)) => match time::iso(*millis) {
            Some(text) => Ok(Cell::Text(text)),
            None => refuse("a Date outside the years 0001 to 9999".to_owned()),
        },
        (_, other) => refuse(came(other)),
    }
}

/// What came, in the words of an error message; numbers are shown, other contents are not.
pub fn came(value: &Value) -> String {
    match value {
        Value::Int(number) => format!("the number {number}"),
        Value::Real(number) => format!("the number {number}"),
        Value::Undefined
        | Value::Null
        | Value::Bool(_)
        | Value::BigInt(_)
        | Value::Huge(_)
        | Value::Text(_)
        | Value::Blob(_)
        | Value::Date(_)
        | Value::Array(_)
        | Value::Object(_) => value.kind().to_owned(),
    }
}

/// What a script sees of a stored value.
///
/// # Errors
/// When the stored value is none of this type, which only a change by hand can bring about: what is stored instead.
pub fn decode(ty: ColumnType, cell: Cell) -> Result<Value, &'static str> {
    Ok(match (ty, cell) {
        (_, Cell::Null) => Value::Null,
        (ColumnType::Integer, Cell::Integer(number)) => {
            if (-SAFE..=SAFE).contains(&number) {
                Value::Int(number)
            } else {
                Value::BigInt(number)
            }
        }
        (ColumnType::Real, Cell::Real(number)) if number.is_finite() => json::number_value(number),
        (ColumnType::Boolean, Cell::Bool(truth)) => Value::Bool(truth),
        (ColumnType::Boolean, Cell::Integer(number @ (0 | 1))) => Value::Bool(number == 1),
        (ColumnType::Text | ColumnType::Timestamp, Cell::Text(text)) => Value::Text(text),
        (ColumnType::Blob, Cell::Blob(bytes)) => Value::Blob(bytes),
        (ColumnType::Json, Cell::Text(text)) => {
            json::from_json(&serde_json::from_str(&text).map_err(|_| "text that is no JSON")?)
        }
        (_, Cell::Bool(_)) => return Err("a boolean"),
        (_, Cell::Integer(_)) => return Err("an integer"),
        (_, Cell::Real(_)) => return Err("a floating-point number"),
        (_, Cell::Text(_)) => return Err("text"),
        (_, Cell::Blob(_)) => return Err("bytes"),
    })
}
