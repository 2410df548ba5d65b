//! What options take, checked before anything is opened.

use crate::auth::{is_tenant, scope};
use crate::codec::time;
use crate::config;

/// A text that says something.
pub(super) fn named(text: &str) -> Result<String, String> {
    if text.trim().is_empty() { Err("write its name; this is empty".to_owned()) } else { Ok(text.to_owned()) }
}

pub(super) fn tenant(text: &str) -> Result<String, String> {
    if is_tenant(text.as_bytes()) {
        return Ok(text.to_owned());
    }
    Err("write 1 to 64 letters, digits, dots, underscores or hyphens".to_owned())
}

/// An instant, kept as it was written.
pub(super) fn instant(text: &str) -> Result<String, String> {
    time::normal(text).map(|_| text.to_owned()).map_err(|why| format!("{why}; write {}", time::WANTED))
}

/// A length of time of more than nothing, kept as it was written.
pub(super) fn time_span(text: &str) -> Result<String, String> {
    if config::duration(text)?.is_zero() {
        return Err("that is over at once; write a longer time, such as 90d".to_owned());
    }
    Ok(text.to_owned())
}

pub(super) fn scope_name(text: &str) -> Result<String, String> {
    scope::check(text).map(|()| text.to_owned())
}

/// Who calls with a token.
pub(super) fn subject(text: &str) -> Result<String, String> {
    if (1..=255).contains(&text.len()) && !text.chars().any(char::is_control) {
        return Ok(text.to_owned());
    }
    Err("write 1 to 255 bytes without control characters, such as till-3".to_owned())
}
