//! The canonical form of JSON (RFC 8785): what is hashed, compared and stored. The hard parts, escapes and the digits
//! of numbers, are those of libraries; the order of members and the joining are here, since a generic serializer makes a
//! buffer of each member, and that took an eighth of a write.

use serde_json::{Map, Value as Json};

/// RFC 8785 text of JSON.
pub fn text(json: &Json) -> String {
    let mut text = String::with_capacity(128);
    write(json, &mut text);
    text
}

/// The members of an object in their canonical order, each with the canonical text of its value.
pub fn members(object: &Map<String, Json>) -> Vec<(&str, String)> {
    sorted(object).into_iter().map(|(name, value)| (name.as_str(), text(value))).collect()
}

/// The text of an object from [its members](members).
pub fn join(members: &[(&str, String)]) -> String {
    let mut text = String::with_capacity(members.iter().map(|(name, value)| name.len() + value.len() + 4).sum());
    text.push('{');
    for (index, (name, value)) in members.iter().enumerate() {
        begin_member(index, name, &mut text);
        text.push_str(value);
    }
    text.push('}');
    text
}

fn write(json: &Json, text: &mut String) {
    match json {
        Json::Null => text.push_str("null"),
        Json::Bool(truth) => text.push_str(if *truth { "true" } else { "false" }),
        // `Json` holds no NaN and no infinity.
        Json::Number(number) => {
            text.push_str(ryu_js::Buffer::new().format_finite(number.as_f64().unwrap_or_default()));
        }
        Json::String(string) => quote(string, text),
        Json::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                write(item, text);
            }
            text.push(']');
        }
        Json::Object(object) => {
            text.push('{');
            for (index, (name, value)) in sorted(object).into_iter().enumerate() {
                begin_member(index, name, text);
                write(value, text);
            }
            text.push('}');
        }
    }
}

fn begin_member(index: usize, name: &str, text: &mut String) {
    if index > 0 {
        text.push(',');
    }
    quote(name, text);
    text.push(':');
}

/// Members by the UTF-16 units of their names (RFC 8785, section 3.2.3).
fn sorted(object: &Map<String, Json>) -> Vec<(&String, &Json)> {
    let mut members: Vec<_> = object.iter().collect();
    members.sort_unstable_by(|(a, _), (b, _)| {
        // For what is all ASCII the bytes have the same order.
        if a.is_ascii() && b.is_ascii() { a.cmp(b) } else { a.encode_utf16().cmp(b.encode_utf16()) }
    });
    members
}

/// Adds a string with its quotes; what RFC 8259 asks to be escaped is, and nothing else.
pub fn quote(string: &str, text: &mut String) {
    let plain = |byte: u8| byte >= 0x20 && byte != b'"' && byte != b'\\';
    if string.bytes().all(plain) {
        text.push('"');
        text.push_str(string);
        text.push('"');
    } else {
        // serde_json escapes as ECMA-262's JSON.stringify does, which RFC 8785 asks for. A string always serializes.
        text.push_str(&serde_json::to_string(string).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn any_json() -> impl Strategy<Value = Json> {
        let leaf = prop_oneof![
            Just(Json::Null),
            any::<bool>().prop_map(Json::from),
            any::<f64>().prop_map(Json::from),
            any::<i64>().prop_map(Json::from),
            any::<String>().prop_map(Json::from),
            "[\\x00-\\x7f\u{e000}\u{10000}]{0,6}".prop_map(Json::from),
        ];
        leaf.prop_recursive(4, 40, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Json::from),
                prop::collection::vec((".{0,3}", inner), 0..6)
                    .prop_map(|members| Json::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn text_is_what_another_implementation_writes(json in any_json()) {
            prop_assert_eq!(text(&json), serde_json_canonicalizer::to_string(&json).unwrap());
        }

        #[test]
        fn members_joined_are_the_text_of_the_object(json in any_json()) {
            if let Json::Object(object) = &json {
                prop_assert_eq!(join(&members(object)), text(&json));
            }
        }
    }

    #[test]
    fn members_stand_in_the_order_of_utf_16() {
        // U+FB33 comes after the surrogates of U+1F600, although its code point is lower (RFC 8785, section 3.2.3).
        let json = json!({ "\u{fb33}": 1, "\u{1f600}": 2, "\r": 3, "1": 4, "\u{80}": 5, "\u{f6}": 6, "\u{20ac}": 7 });
        assert_eq!(
            text(&json),
            "{\"\\r\":3,\"1\":4,\"\u{80}\":5,\"\u{f6}\":6,\"\u{20ac}\":7,\"\u{1f600}\":2,\"\u{fb33}\":1}"
        );
    }

    #[test]
    fn numbers_are_written_as_in_ecmascript() {
        let json = json!([
            333333333.3333333,
            1E30,
            4.50,
            2e-3,
            0.000000000000000000000000001,
            -0.0,
            1.0,
            9007199254740991_i64
        ]);
        assert_eq!(text(&json), "[333333333.3333333,1e+30,4.5,0.002,1e-27,0,1,9007199254740991]");
    }
}
