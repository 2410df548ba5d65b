//! Names of members that would keep the engine busy far too long. Its tables of names hash in a way that anybody can
//! compute, so that a text of a megabyte can hold 80,000 names with one hash: each is compared with all others, natively,
//! with no look at the clock. What holds too many of them is refused before the engine sees it.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

use crate::codec::Value;
use crate::failure::{Code, Failure};

/// Bytes of a JSON text that cannot hold enough names to take long: some 2,500, and a few milliseconds.
const SHORT: usize = 16 << 10;
/// As many names of a value take no longer.
const FEW: usize = 2_500;
/// Bits of the hash that tell names apart. Where the engine's table is smaller, it has few names.
const BITS: u32 = 16;
/// Different names with the same bits that are taken. With nothing but such names a megabyte takes the engine some 60 ms
/// more; 16 MiB of ordinary ones, be they counted, dates or random, come to a quarter of it at most.
const MOST: u16 = 250;
/// Numbers below this are no texts to the engine.
const INDEXES: u32 = 1 << 31;

/// What is wrong with the input of a run, a JSON text.
pub(super) fn check_input(json: &str) -> Result<(), Failure> {
    let way = "send what has so many names as a list, like [{ \"name\": …, \"value\": … }]";
    match is_crowded(json) {
        true => Err(Failure::new(Code::Validation, told("the input", way))),
        false => Ok(()),
    }
}

/// Why the engine does not read a JSON text.
pub(super) fn refusal(json: &str) -> Option<String> {
    is_crowded(json).then(|| told("the JSON text", "keep what has so many names as a list of pairs, [name, value]"))
}

/// Why no script gets a value.
pub(super) fn refusal_of(value: &Value) -> Option<String> {
    let way = "read fewer rows at a time, or keep what has so many names as a list of pairs, [name, value]";
    (count(value) > FEW && crowded(|with| each_member(value, with))).then(|| told("what was read", way))
}

fn told(what: &str, way: &str) -> String {
    format!(
        "{what} holds more than {MOST} names of members that have the same hash, which takes the script engine too long: {way}"
    )
}

fn is_crowded(json: &str) -> bool {
    json.len() >= SHORT && crowded(|with| each_name(json, with))
}

/// Whether more than [`MOST`] different names have the same bits. `each` gives hash and text of every name, and is asked
/// again where the same names often come back.
fn crowded(each: impl Fn(&mut dyn FnMut(u32, &str))) -> bool {
    let bucket = |hash: u32| usize::try_from(hash & ((1 << BITS) - 1)).unwrap_or_default();
    let mut met = vec![0_u16; 1 << BITS];
    let mut many = false;
    each(&mut |hash, _| {
        let count = &mut met[bucket(hash)];
        *count = count.saturating_add(1);
        many |= *count > MOST;
    });
    if !many {
        return false;
    }
    let (seed, mut known, mut different) = (RandomState::new(), HashSet::new(), vec![0_u16; 1 << BITS]);
    let mut too_many = false;
    each(&mut |hash, name| {
        let bucket = bucket(hash);
        if !too_many && met[bucket] > MOST && known.insert(seed.hash_one(name)) {
            different[bucket] += 1;
            too_many = different[bucket] > MOST;
        }
    });
    too_many
}

/// Goes through the names in a JSON text, as they are written: strings with a colon behind. What is no JSON is no matter:
/// the engine reads up to the fault.
fn each_name(json: &str, with: &mut dyn FnMut(u32, &str)) {
    let bytes = json.as_bytes();
    let mut at = 0;
    while let Some(begin) = bytes[at..].iter().position(|byte| *byte == b'"').map(|ahead| at + ahead + 1) {
        let mut end = begin;
        loop {
            match bytes.get(end) {
                Some(b'"') => break,
                Some(b'\\') => end += 2,
                Some(_) => end += 1,
                None => return,
            }
        }
        at = end + 1;
        let space = |byte: &&u8| !matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
        if bytes[at..].iter().find(space) == Some(&b':') {
            let name = &json[begin..end];
            let hash = match name.contains('\\') {
                true => hash(decoded(name)),
                false => hash(name.encode_utf16()),
            };
            with(hash, name);
        }
    }
}

/// Goes through the names of members in a value.
fn each_member(value: &Value, with: &mut dyn FnMut(u32, &str)) {
    if let Value::Array(items) = value {
        items.iter().for_each(|item| each_member(item, with));
    } else if let Value::Object(members) = value {
        for (name, member) in members {
            with(hash(name.encode_utf16()), name);
            each_member(member, with);
        }
    }
}

fn count(value: &Value) -> usize {
    if let Value::Array(items) = value {
        items.iter().map(count).sum()
    } else if let Value::Object(members) = value {
        members.iter().map(|(_, member)| 1 + count(member)).sum()
    } else {
        0
    }
}

/// The UTF-16 units that a string of JSON with escapes stands for.
fn decoded(raw: &str) -> impl Iterator<Item = u16> {
    let mut units = raw.encode_utf16();
    std::iter::from_fn(move || {
        let unit = units.next()?;
        if unit != u16::from(b'\\') {
            return Some(unit);
        }
        let escaped = units.next()?;
        Some(match u8::try_from(escaped).unwrap_or_default() {
            b'b' => 8,
            b't' => 9,
            b'n' => 10,
            b'f' => 12,
            b'r' => 13,
            b'u' => units.by_ref().take(4).fold(0, |sum, digit| {
                let digit = char::from_u32(digit.into()).and_then(|digit| digit.to_digit(16)).unwrap_or_default();
                sum << 4 | u16::try_from(digit).unwrap_or_default()
            }),
            _ => escaped,
        })
    })
}

/// What the engine hashes a name to (`__JS_NewAtom` in quickjs.c). An index stands only in the tables of single objects,
/// which take the upper bits of another hash (`hash_atom`).
fn hash(units: impl Iterator<Item = u16>) -> u32 {
    let (mut hash, mut length, mut index) = (1_u32, 0_u32, Some(0_u32));
    for unit in units {
        hash = hash.wrapping_mul(263).wrapping_add(unit.into());
        index = index.filter(|before| *before > 0 || length == 0).and_then(|before| {
            let digit = u32::from(unit).checked_sub(u32::from(b'0')).filter(|digit| *digit < 10)?;
            before.checked_mul(10)?.checked_add(digit).filter(|number| *number < INDEXES)
        });
        length = length.wrapping_add(1);
    }
    match index {
        Some(number) if length > 0 => {
            let hash = u64::from(number | INDEXES).wrapping_mul(0x61c8_8646_80b5_83eb);
            u32::try_from(hash >> (u64::BITS - BITS)).unwrap_or_default()
        }
        _ => hash ^ length.wrapping_mul(0x61c8_8647),
    }
}
