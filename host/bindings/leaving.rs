//! What leaves a script as JSON: payloads and seeds (spec §4, last rule). Results of handlers take the same form,
//! straight from the engine.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value as Json};

use crate::clock;
use crate::codec::Value;
use crate::failure::{Code, Failure};

/// A value as RFC 8785 text of at most `limit` bytes; `what` names it in errors.
///
/// # Errors
/// `CONTRACT` with the path where JSON cannot carry it, `LIMIT` where it is too long.
pub fn canonical(value: &Value, what: &str, limit: usize) -> Result<String, Failure> {
    let text = canonical_text(&json(value, what)?);
    if text.len() > limit {
        return Err(Failure::new(
            Code::Limit,
            format!("{what} has {} bytes as JSON, the limit is {limit}; store the data and pass its id", text.len()),
        ));
    }
    Ok(text)
}

/// RFC 8785 text of JSON that is known to be fit for it.
pub fn canonical_text(json: &Json) -> String {
    // It fails only for what `Json` cannot hold: keys that are no strings, NaN.
    serde_json_canonicalizer::to_string(json).unwrap_or_else(|_| json.to_string())
}

/// A value as JSON: BigInt a decimal string, bytes base64, a date ISO 8601; `undefined` members are left out.
///
/// # Errors
/// `CONTRACT` with the path for NaN and the infinities.
pub fn json(value: &Value, path: &str) -> Result<Json, Failure> {
    Ok(match value {
        Value::Undefined | Value::Null => Json::Null,
        Value::Bool(flag) => Json::Bool(*flag),
        Value::Int(number) => Json::from(*number),
        Value::BigInt(number) => Json::String(number.to_string()),
        Value::Real(number) => serde_json::Number::from_f64(*number).map(Json::Number).ok_or_else(|| {
            Failure::contract(format!("{path} is {number}, which JSON cannot carry; send null or a string instead"))
        })?,
        Value::Text(text) => Json::String(text.clone()),
        Value::Blob(bytes) => Json::String(STANDARD.encode(bytes)),
        Value::Date(at) => Json::String(clock::iso(*at)),
        Value::Array(items) => Json::Array(
            items
                .iter()
                .enumerate()
                .map(|(index, item)| json(item, &format!("{path}[{index}]")))
                .collect::<Result<_, _>>()?,
        ),
        Value::Object(members) => {
            let mut object = Map::new();
            for (name, member) in members.iter().filter(|(_, member)| *member != Value::Undefined) {
                object.insert(name.clone(), json(member, &format!("{path}.{name}"))?);
            }
            Json::Object(object)
        }
    })
}
