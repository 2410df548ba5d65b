//! What leaves a script as JSON text: payloads and seeds (spec §4, last rule). Results of handlers take the same form,
//! straight from the engine.

use serde_json::Value as Json;

use crate::codec::{Value, json};
use crate::failure::{Code, Failure};

/// A value as RFC 8785 text of at most `limit` bytes; `what` names it in errors.
///
/// # Errors
/// `CONTRACT` with the path where JSON cannot carry it, `LIMIT` where it is too long.
pub fn canonical(value: &Value, what: &str, limit: usize) -> Result<String, Failure> {
    let json = json::leaving(value).map_err(|unfit| {
        Failure::contract(format!("{what}{} cannot leave the script: {}", unfit.path, unfit.problem))
    })?;
    let text = canonical_text(&json);
    if text.len() > limit {
        return Err(Failure::new(
            Code::Limit,
            format!(
                "{what} has {} bytes as JSON, the limit is {limit} (limits.payload); store the data and pass its id",
                text.len()
            ),
        ));
    }
    Ok(text)
}

/// RFC 8785 text of JSON that is known to be fit for it.
pub fn canonical_text(json: &Json) -> String {
    // It fails only for what `Json` cannot hold: keys that are no strings, NaN.
    serde_json_canonicalizer::to_string(json).unwrap_or_else(|_| json.to_string())
}
