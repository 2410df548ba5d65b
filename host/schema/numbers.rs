//! Numbers as text and back, for changes of a column's type on SQLite, whose own casts are not exact at either end of
//! what a REAL holds. Postgres's are, and say the same in SQL.

use rusqlite::Connection;
use rusqlite::functions::FunctionFlags;

use super::rows::EXACT;

/// Gives the text of a REAL.
pub(super) const TEXT: &str = "oncehost_text";
/// Gives the REAL that a text is, or NULL where going back would give another number.
pub(super) const REAL: &str = "oncehost_real";

/// Makes the two functions known to a connection.
///
/// # Errors
/// When the database fails.
pub fn install(conn: &Connection) -> rusqlite::Result<()> {
    // No schema may call them: another program could not read that.
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC | FunctionFlags::SQLITE_DIRECTONLY;
    conn.create_scalar_function(TEXT, 1, flags, |call| Ok(call.get::<Option<f64>>(0)?.map(shortest)))?;
    conn.create_scalar_function(REAL, 1, flags, |call| Ok(call.get::<Option<String>>(0)?.and_then(|it| exact(&it))))
}

/// The shortest text that means a number, as scripts write it; whole numbers of 64 bits with all their digits.
fn shortest(number: f64) -> String {
    if number.trunc() == number && number.abs() < 9e18 {
        return format!("{:.0}", number + 0.0);
    }
    ryu_js::Buffer::new().format_finite(number).to_owned()
}

/// The number that a text means, where it says no more and no less than that.
fn exact(text: &str) -> Option<f64> {
    let plain = text.len() <= 100 && text.bytes().all(|byte| b"+-.eE".contains(&byte) || byte.is_ascii_digit());
    if !plain || serde_json::from_str::<&serde_json::value::RawValue>(text).is_err() {
        return None;
    }
    let number: f64 = text.parse().ok()?;
    let said = digits(text);
    let sure = said.is_empty() || (said.len() <= EXACT && (1e-290..=1e290).contains(&number.abs()));
    (number.is_finite() && (sure || said == digits(&shortest(number)))).then_some(number + 0.0)
}

/// The digits of a number that say more than its size.
fn digits(text: &str) -> String {
    let mantissa = text.split(['e', 'E']).next().unwrap_or_default().replace('.', "");
    mantissa.trim_start_matches(['-', '0']).trim_end_matches('0').to_owned()
}
