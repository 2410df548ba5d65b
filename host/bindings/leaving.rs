//! What leaves a script as JSON text: payloads and seeds (spec §4, last rule). Results of handlers take the same form,
//! straight from the engine.

use crate::codec::{Value, canonical, json};
use crate::failure::{Code, Failure};

/// A value as RFC 8785 text of at most `limit` bytes; `what` names it in errors.
///
/// # Errors
/// `CONTRACT` with the path where JSON cannot carry it, `LIMIT` where it is too long.
pub fn text(value: &Value, what: &str, limit: usize) -> Result<String, Failure> {
    let json = json::leaving(value).map_err(|unfit| {
        Failure::contract(format!("{what}{} cannot leave the script: {}", unfit.path, unfit.problem))
    })?;
    let text = canonical::text(&json);
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
