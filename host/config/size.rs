//! Sizes in bytes, and what the script engine's may be.

use std::ops::RangeInclusive;

/// Bytes of heap below which an engine has no room for a script beside what it needs itself.
pub const LEAST_MEMORY: usize = 4 << 20;
/// Bytes of stack below which the realm cannot be made.
pub const LEAST_STACK: usize = 64 << 10;
/// Bytes of stack that the threads of scripts have room for, with all that the host and the engine need beyond it.
pub const MOST_STACK: usize = 4 << 20;
/// The most that any size may be.
pub(super) const MOST_SIZE: usize = 1 << 40;

/// A number of bytes: a whole number, alone or with `KiB`, `MiB` or `GiB`.
pub(super) fn size(text: &str, within: RangeInclusive<usize>) -> Result<usize, String> {
    let wrong =
        || format!("{text:?} is no size; write bytes as a whole number, or with KiB, MiB or GiB, such as 64MiB");
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let number: usize = number.parse().map_err(|_| wrong())?;
    let bytes = match unit.trim_start() {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return Err(wrong()),
    };
    match number.checked_mul(bytes) {
        Some(bytes) if bytes < *within.start() => {
            Err(format!("{text:?} is too little; the least is {} bytes", within.start()))
        }
        Some(bytes) if bytes <= *within.end() => Ok(bytes),
        _ => Err(format!("{text:?} is too much; the most is {} bytes", within.end())),
    }
}
