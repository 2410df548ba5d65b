//! Values as JSON: what a JSON column holds, and what leaves a script.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Number, Value as Json};

use super::{SAFE, Value, time};

/// Levels of nesting that are taken, below what the JSON parser reads back.
pub const MAX_DEPTH: usize = 100;

/// A value that JSON cannot carry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfit {
    /// Where it stands, `.lines[2].price`; empty for the value itself.
    pub path: String,
    /// What stands there and what would be right, as the end of a sentence.
    pub problem: String,
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() { f.write_str(&self.problem) } else { write!(f, "at {}, {}", self.path, self.problem) }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Rule {
    /// Only what comes back as it went in.
    Exact,
    /// What leaves a script is written in documented forms (spec §4).
    Leaving,
}

/// What a script sees of a JSON value. Numbers are doubles, as in the script; whole ones become [`Value::Int`].
pub fn from_json(json: &Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(truth) => Value::Bool(*truth),
        Json::Number(number) => number_value(number.as_f64().unwrap_or(f64::NAN)),
        Json::String(text) => Value::Text(text.clone()),
        Json::Array(items) => Value::Array(items.iter().map(from_json).collect()),
        Json::Object(members) => {
            Value::Object(members.iter().map(|(name, member)| (name.clone(), from_json(member))).collect())
        }
    }
}

/// A script's number as a value: [`Value::Int`] where it is whole and within ±(2^53−1); −0 is 0.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "whole and within 2^53: both are exact"
)]
pub fn number_value(number: f64) -> Value {
    if number.fract() == 0.0 && number.abs() <= SAFE as f64 { Value::Int(number as i64) } else { Value::Real(number) }
}

/// A value that is JSON already, as JSON: what a JSON column takes. Members that are `undefined` are left out.
///
/// # Errors
/// For what would not come back as it went in: BigInt, Uint8Array, Date, NaN, `undefined` in an array, or too deep.
pub fn exact(value: &Value) -> Result<Json, Unfit> {
    convert(value, Rule::Exact, 0)
}

/// A value as it leaves a script (spec §4): BigInt as a decimal string, Uint8Array as base64, Date as ISO 8601;
/// members that are `undefined` are left out, in an array it becomes null.
///
/// # Errors
/// NaN, the infinities, a Date outside the years 0001 to 9999, or too deep.
pub fn leaving(value: &Value) -> Result<Json, Unfit> {
    convert(value, Rule::Leaving, 0)
}

fn convert(value: &Value, rule: Rule, depth: usize) -> Result<Json, Unfit> {
    let fail = |problem: &str| Err(Unfit { path: String::new(), problem: problem.to_owned() });
    if depth > MAX_DEPTH {
        return fail("the value is nested more than 100 levels deep");
    }
    Ok(match value {
        // As `JSON.stringify` has it in arrays.
        Value::Undefined if rule == Rule::Leaving => Json::Null,
        Value::Undefined => return fail("undefined is no JSON value; write null or leave it out"),
        Value::Null => Json::Null,
        Value::Bool(truth) => Json::Bool(*truth),
        Value::Int(number) => Json::Number((*number).into()),
        Value::Real(number) => match Number::from_f64(*number) {
            Some(number) => Json::Number(number),
            None => return fail(&format!("{number} is no JSON value")),
        },
        Value::Text(text) => Json::String(text.clone()),
        Value::BigInt(number) if rule == Rule::Leaving => Json::String(number.to_string()),
        Value::Huge(digits) if rule == Rule::Leaving => Json::String(digits.clone()),
        Value::BigInt(_) | Value::Huge(_) => return fail("a BigInt is no JSON value; write String(value)"),
        Value::Blob(bytes) if rule == Rule::Leaving => Json::String(STANDARD.encode(bytes)),
        Value::Blob(_) => {
            return fail("a Uint8Array is no JSON value; keep it in a BLOB column or write it as a string");
        }
        Value::Date(millis) => match time::iso(*millis) {
            Some(text) if rule == Rule::Leaving => Json::String(text),
            Some(_) => return fail("a Date is no JSON value; write date.toISOString()"),
            None => return fail("the Date is outside the years 0001 to 9999"),
        },
        Value::Array(items) => Json::Array(
            items
                .iter()
                .enumerate()
                .map(|(at, item)| convert(item, rule, depth + 1).map_err(|unfit| unfit.below(&format!("[{at}]"))))
                .collect::<Result<_, _>>()?,
        ),
        Value::Object(members) => {
            let mut object = Map::with_capacity(members.len());
            for (name, member) in members.iter().filter(|(_, member)| *member != Value::Undefined) {
                let json = convert(member, rule, depth + 1).map_err(|unfit| unfit.below(&format!(".{name}")))?;
                object.insert(name.clone(), json);
            }
            Json::Object(object)
        }
    })
}

impl Unfit {
    fn below(mut self, step: &str) -> Self {
        self.path.insert_str(0, step);
        self
    }
}
