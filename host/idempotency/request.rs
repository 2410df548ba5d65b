//! The input of a call: I-JSON (RFC 7493), and the hash that two tries of one intent share.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value as Json};
use sha2::{Digest, Sha256};
use siphasher::sip::SipHasher24;

use crate::codec::canonical;
use crate::failure::{Code, Failure};

/// The largest integer that every JSON reader takes exactly: 2^53−1.
const SAFE: i64 = (1 << 53) - 1;

/// Reads a request body: I-JSON, so that every reader of it sees the same thing.
///
/// # Errors
/// `VALIDATION`: broken JSON or UTF-8, doubled member names, lone surrogates, or integers outside ±(2^53−1),
/// however they are written.
pub fn parse(body: &[u8]) -> Result<Json, Failure> {
    let text = std::str::from_utf8(body)
        .map_err(|error| refused(&format!("it is not UTF-8 (byte {})", error.valid_up_to())))?;
    if text.starts_with('\u{feff}') {
        return Err(refused("it begins with a byte order mark (U+FEFF); send it without"));
    }
    if text.trim_start_matches([' ', '\t', '\r', '\n']).is_empty() {
        return Err(refused("it is empty; send the action's input, {} where it takes none"));
    }
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = Strict.deserialize(&mut reader).and_then(|value| reader.end().map(|()| value));
    value.map_err(|error| refused(&plainly(&error.to_string())))
}

/// What the JSON reader says of surrogates, in words that name the fault.
fn plainly(why: &str) -> String {
    let Some((what, place)) = why.split_once(" at line ") else { return why.to_owned() };
    if what.contains("surrogate") || what == "unexpected end of hex escape" {
        return format!(
            "a string holds half of a surrogate pair (\\uD800 to \\uDFFF alone), which is no Unicode character at line {place}"
        );
    }
    why.to_owned()
}

fn refused(why: &str) -> Failure {
    Failure::new(Code::Validation, format!("the request body is not I-JSON: {why}"))
}

/// Builds a [`Json`] and refuses what I-JSON does.
struct Strict;

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Json;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Json, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Json, E> {
        if value.abs_diff(0) > SAFE.abs_diff(0) { Err(unsafe_integer()) } else { Ok(Json::from(value)) }
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Json, E> {
        if value > SAFE.abs_diff(0) { Err(unsafe_integer()) } else { Ok(Json::from(value)) }
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Json, E> {
        #[expect(clippy::cast_precision_loss, reason = "2^53-1 is exact")]
        let safe = SAFE as f64;
        if value.abs() > safe {
            // From here on every double is a whole number.
            return Err(unsafe_integer());
        }
        Number::from_f64(value).map(Json::Number).ok_or_else(|| E::custom("a number is out of range"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(Json::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Json, E> {
        Ok(Json::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
        let mut array = Vec::new();
        while let Some(item) = items.next_element_seed(Strict)? {
            array.push(item);
        }
        Ok(Json::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Json, A::Error> {
        let mut object = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            let value = members.next_value_seed(Strict)?;
            if object.contains_key(&name) {
                return Err(serde::de::Error::custom(format!("the member {name:?} stands twice in one object")));
            }
            object.insert(name, value);
        }
        Ok(Json::Object(object))
    }
}

fn unsafe_integer<E: serde::de::Error>() -> E {
    E::custom("an integer is outside ±(2^53−1), which not every reader takes exactly; send it as a string")
}

/// What two calls under one key must share: the input, less its transient fields, and the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    /// SHA-256 over the RFC 8785 form of the input, less the transient fields, and the caller's subject.
    pub hash: [u8; 32],
    /// A byte for the form, and eight bytes for each top-level field, in the names' order: four of the hash of its name, four of the
    /// hash of its value. Enough to say which fields differ, too little to give any value away.
    pub fields: Vec<u8>,
}

/// The members of an input that count, in the order of their names.
fn members<'o>(object: &'o Map<String, Json>, transient: &[String]) -> Vec<(&'o str, String)> {
    let mut members = canonical::members(object);
    members.retain(|(name, _)| !transient.iter().any(|transient| transient == name));
    members
}

/// Top-level fields of which a record keeps hashes.
const FIELDS: usize = 64;

/// What the fields of a record begin with. Those of older versions, of hashes of another kind, have eight bytes a field and
/// no more; such a record no longer tells.
const FORM: u8 = 1;

/// Four bytes of a text's hash. They only tell texts apart: whether two requests are the same is for SHA-256 to say.
fn mark(text: &str) -> [u8; 4] {
    let [a, b, c, d, ..] = SipHasher24::new().hash(text.as_bytes()).to_be_bytes();
    [a, b, c, d]
}

/// The hashes in the fields of a record.
fn marks(fields: &[u8]) -> &[u8] {
    fields.strip_prefix(&[FORM]).filter(|marks| marks.len().is_multiple_of(8)).unwrap_or_default()
}

impl Fingerprint {
    /// Of an input, its action's transient fields, and the caller's subject (`None` without credentials).
    pub fn new(input: &Json, transient: &[String], subject: Option<&str>) -> Self {
        let members = input.as_object().map(|object| members(object, transient));
        let canonical = members.as_ref().map_or_else(|| canonical::text(input), |members| canonical::join(members));
        let mut hash = Sha256::new();
        hash.update(u64::try_from(canonical.len()).unwrap_or(u64::MAX).to_be_bytes());
        hash.update(canonical.as_bytes());
        if let Some(subject) = subject {
            hash.update(b"subject");
            hash.update(subject.as_bytes());
        }
        let mut fields = vec![FORM];
        for (name, value) in members.iter().flatten().take(FIELDS) {
            fields.extend_from_slice(&mark(name));
            fields.extend_from_slice(&mark(value));
        }
        Self { hash: hash.finalize().into(), fields }
    }

    /// One sentence about what differs from the recorded call, naming top-level fields at most. `input` and `transient` are
    /// those that this was made of; `recorded` is empty where the record no longer tells.
    pub fn difference(&self, input: &Json, transient: &[String], recorded: &[u8]) -> String {
        let recorded = marks(recorded);
        let other = match input {
            Json::Object(_) => None,
            Json::Null => Some("null"),
            Json::Bool(_) => Some("a boolean"),
            Json::Number(_) => Some("a number"),
            Json::String(_) => Some("a string"),
            Json::Array(_) => Some("an array"),
        };
        if let Some(other) = other {
            return match recorded.is_empty() {
                true => format!("the input, {other}, or the caller is another"),
                false => format!("the input was an object, and is {other} now"),
            };
        }
        let members = input.as_object().map(|object| members(object, transient)).unwrap_or_default();
        let before = |name: &[u8]| recorded.chunks_exact(8).find(|field| field[..4] == *name).map(|field| &field[4..]);
        let differing: Vec<&str> = marks(&self.fields)
            .chunks_exact(8)
            .zip(&members)
            .filter(|(field, _)| before(&field[..4]).is_none_or(|value| value != &field[4..]))
            .map(|(_, (name, _))| *name)
            .collect();
        let present = |name: &[u8]| marks(&self.fields).chunks_exact(8).any(|field| field[..4] == *name);
        let left_out = recorded.chunks_exact(8).filter(|field| !present(&field[..4])).count();
        match (differing.is_empty(), left_out, recorded.is_empty()) {
            (_, _, true) => "the input or the caller is another".to_owned(),
            (false, 0, false) => format!("these fields differ: {}", differing.join(", ")),
            (false, _, false) => format!("these fields differ: {}; and others are left out", differing.join(", ")),
            (true, 0, false) => "the caller is another".to_owned(),
            (true, _, false) => "fields are left out".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn hash(text: &str) -> [u8; 32] {
        Fingerprint::new(&parse(text.as_bytes()).unwrap(), &[], None).hash
    }

    #[test]
    fn spelling_of_numbers_and_order_of_members_do_not_matter() {
        assert_eq!(hash(r#"{"a":1.0,"b":2}"#), hash(r#"{"b":2e0,"a":1}"#));
        assert_eq!(hash(r#"{"a":"A"}"#), hash(r#"{"a":"\u0041"}"#));
        assert_eq!(hash(r#"{"a":-0}"#), hash(r#"{"a":0.0}"#));
        assert_ne!(hash(r#"{"a":1}"#), hash(r#"{"a":"1"}"#));
        assert_ne!(hash("[1,2]"), hash("[2,1]"));
    }

    #[test]
    fn what_is_wrong_with_the_text_is_said_plainly() {
        for (body, told) in [
            ("\u{feff}{}", "byte order mark"),
            (r#"{"a":"\ud800"}"#, "half of a surrogate pair"),
            (r#"{"a":"\udc00 x"}"#, "half of a surrogate pair"),
            (r#"{"a":"\ud800x"}"#, "half of a surrogate pair"),
            (r#"{"a":"\ud800\ud800"}"#, "half of a surrogate pair"),
            (r#"{"\udfff":1}"#, "half of a surrogate pair"),
        ] {
            let failure = parse(body.as_bytes()).unwrap_err();
            assert!(failure.detail.contains(told), "{body}: {}", failure.detail);
        }
    }

    #[test]
    fn an_input_without_fields_is_told_by_its_kind() {
        let object = Fingerprint::new(&json!({ "a": 1 }), &[], None);
        let list = Fingerprint::new(&json!([1]), &[], None);
        assert_eq!(list.difference(&json!([1]), &[], &list.fields), "the input, an array, or the caller is another");
        assert_eq!(list.difference(&json!([1]), &[], &object.fields), "the input was an object, and is an array now");
        assert_eq!(list.difference(&json!([1]), &[], &[]), "the input, an array, or the caller is another");
    }

    #[test]
    fn what_is_not_i_json_is_refused() {
        let bad: [&[u8]; 14] = [
            b"",
            b" ",
            b"{",
            b"{} x",
            b"{\"a\":1,\"a\":1}",
            b"{\"a\":1,\"\\u0061\":2}",
            b"{\"x\":{\"a\":1,\"a\":1}}",
            b"\"\\ud800\"",
            b"\"\xff\"",
            b"9007199254740993",
            b"9007199254740992",
            b"-9007199254740992",
            b"[1e16]",
            b"100000000000000000000",
        ];
        for body in bad {
            let failure = parse(body).unwrap_err();
            assert_eq!(failure.code, Code::Validation, "{}", String::from_utf8_lossy(body));
        }
        assert!(parse(b"[9007199254740991, -9007199254740991, 5e-324, 0.1]").is_ok());
    }

    #[test]
    fn nesting_has_an_end() {
        assert!(parse("[".repeat(100_000).as_bytes()).is_err());
    }

    #[test]
    fn transient_fields_and_only_those_are_left_out_of_the_hash() {
        let transient = ["at".to_owned()];
        let of = |input: Json| Fingerprint::new(&input, &transient, None).hash;
        assert_eq!(of(json!({"a": 1, "at": 1})), of(json!({"a": 1, "at": 2})));
        assert_eq!(of(json!({"a": 1, "at": 1})), of(json!({"a": 1})));
        assert_ne!(of(json!({"a": {"at": 1}})), of(json!({"a": {"at": 2}})));
    }

    #[test]
    fn difference_names_fields_and_the_caller_but_no_values() {
        let first = Fingerprint::new(&json!({"a": "secret", "b": 1}), &[], Some("ann"));
        let difference =
            |input: Json, subject| Fingerprint::new(&input, &[], Some(subject)).difference(&input, &[], &first.fields);
        assert_eq!(difference(json!({"a": "other", "b": 1}), "ann"), "these fields differ: a");
        assert_eq!(difference(json!({"a": "secret", "b": 1}), "bob"), "the caller is another");
        assert_eq!(difference(json!({"b": 1}), "ann"), "fields are left out");
        assert_eq!(difference(json!({"b": 1, "c": 1}), "ann"), "these fields differ: c; and others are left out");
        let older = &first.fields[1..];
        let told = Fingerprint::new(&json!({"a": 1}), &[], None).difference(&json!({"a": 1}), &[], older);
        assert_eq!(told, "the input or the caller is another");
    }
}
