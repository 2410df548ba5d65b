//! The one form that values take between script, store and JSON.
//!
//! What a column makes of a value stands in `query::column`, since that needs the schema model.

pub mod canonical;
pub mod json;
pub mod time;

/// The largest whole number that a script's number holds exactly: 2^53−1.
pub const SAFE: i64 = (1 << 53) - 1;

/// A value on its way between a script, a table and JSON (spec §4, "Values").
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `undefined`; left out of records, refused in a `where`.
    Undefined,
    Null,
    Bool(bool),
    /// A script's number without a fraction within ±(2^53−1). −0 is 0.
    Int(i64),
    /// A script's BigInt, within 64 bits; also an INTEGER outside ±(2^53−1) on its way to a script.
    BigInt(i64),
    /// A script's BigInt beyond 64 bits, in decimal digits: it may leave a script, and no column takes it.
    Huge(String),
    /// Any other number, NaN and the infinities included (the codec refuses those).
    Real(f64),
    Text(String),
    Blob(Vec<u8>),
    /// A `Date`, in milliseconds since 1970.
    Date(i64),
    Array(Vec<Value>),
    /// A plain object's own enumerable members, in order.
    Object(Vec<(String, Value)>),
}

impl Value {
    /// What this is, in the words of an error message: `a number`, `null`, `an array`.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Undefined => "undefined",
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Int(_) | Value::Real(_) => "a number",
            Value::BigInt(_) => "a BigInt",
            Value::Huge(_) => "a BigInt beyond 64 bits",
            Value::Text(_) => "a string",
            Value::Blob(_) => "a Uint8Array",
            Value::Date(_) => "a Date",
            Value::Array(_) => "an array",
            Value::Object(_) => "an object",
        }
    }

    /// The member `name` of an object; `None` for a missing member, `undefined`, or anything but an object.
    pub fn get(&self, name: &str) -> Option<&Value> {
        let Value::Object(members) = self else { return None };
        members.iter().find(|(key, value)| key == name && *value != Value::Undefined).map(|(_, value)| value)
    }

    /// A string's text.
    pub fn as_text(&self) -> Option<&str> {
        let Value::Text(text) = self else { return None };
        Some(text)
    }
}
