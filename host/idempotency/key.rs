//! The `Idempotency-Key` header in its three forms.

use sfv::{BareItem, Item, Parser};

use crate::failure::{Code, Failure};

/// The most bytes of UTF-8 that a key may have.
pub const KEY_LIMIT: usize = 255;

/// Reads the header's lines: a structured-field String (`"…"`, RFC 9651 section 3.3.3, as the IETF draft on the
/// Idempotency-Key header says), a Display String (`%"…"`, section 3.3.8), or bare text that begins with neither.
/// The same text is the same key in each form. Gives `None` without a header.
///
/// # Errors
/// `KEY_INVALID`: several lines, empty, too long, control characters, not UTF-8, or anything after the closing quote.
pub fn parse(lines: &[Vec<u8>]) -> Result<Option<String>, Failure> {
    let line = match lines {
        [] => return Ok(None),
        [line] => line,
        _ => return Err(invalid("the header was sent several times; send one key for one intent")),
    };
    let key = if line.starts_with(b"\"") || line.starts_with(b"%\"") {
        quoted(line)?
    } else {
        String::from_utf8(line.clone()).map_err(|_| invalid("it is not UTF-8"))?
    };
    check(&key)?;
    Ok(Some(key))
}

/// Checks a key's text.
///
/// # Errors
/// `KEY_INVALID`, see [`parse`].
pub fn check(key: &str) -> Result<(), Failure> {
    if key.is_empty() {
        return Err(invalid("it is empty"));
    }
    if key.len() > KEY_LIMIT {
        return Err(invalid(&format!("it has {} bytes of UTF-8, the most is {KEY_LIMIT}", key.len())));
    }
    if key.chars().any(char::is_control) {
        return Err(invalid("it holds control characters"));
    }
    Ok(())
}

fn quoted(line: &[u8]) -> Result<String, Failure> {
    let item: Item = Parser::new(line).parse().map_err(|_| {
        invalid(
            "what begins with a quote must be one structured-field String, as in \"order-17\", or Display String, as in \
             %\"caf%c3%a9\", with nothing after the closing quote",
        )
    })?;
    if !item.params.is_empty() {
        return Err(invalid("nothing may follow the closing quote"));
    }
    if let BareItem::String(text) = item.bare_item {
        Ok(text.as_str().to_owned())
    } else if let BareItem::DisplayString(text) = item.bare_item {
        Ok(text)
    } else {
        Err(invalid("it is neither a String nor a Display String"))
    }
}

/// A key as the header carries it: a structured-field String, or a Display String (RFC 9651) where it is not ASCII.
pub fn written(key: &str) -> String {
    use std::fmt::Write;
    let mut out = String::new();
    if key.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        out.push('"');
        for part in key.chars() {
            if matches!(part, '"' | '\\') {
                out.push('\\');
            }
            out.push(part);
        }
    } else {
        out.push_str("%\"");
        for byte in key.bytes() {
            if matches!(byte, b' '..=b'~') && !matches!(byte, b'%' | b'"') {
                out.push(char::from(byte));
            } else {
                let _infallible = write!(out, "%{byte:02x}");
            }
        }
    }
    out.push('"');
    out
}

fn invalid(why: &str) -> Failure {
    Failure::new(
        Code::KeyInvalid,
        format!(
            "Idempotency-Key cannot be used: {why}. A key is 1 to {KEY_LIMIT} bytes of text without control characters"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn one(line: &str) -> Result<Option<String>, Failure> {
        parse(&[line.as_bytes().to_vec()])
    }

    #[test]
    fn keys_travel_as_string_or_display_string() {
        assert_eq!(written("a-1"), r#""a-1""#);
        assert_eq!(written(r#"a"b\c"#), r#""a\"b\\c""#);
        assert_eq!(written("键%\"\n"), r#"%"%e9%94%ae%25%22%0a""#);
        assert_eq!(written(""), r#""""#);
    }

    #[test]
    fn all_three_forms_of_one_text_are_one_key() {
        let key = Some("order-17".to_owned());
        assert_eq!(one("order-17").unwrap(), key);
        assert_eq!(one("\"order-17\"").unwrap(), key);
        assert_eq!(one("%\"order-17\"").unwrap(), key);
        assert_eq!(one("%\"caf%c3%a9\"").unwrap(), one("café").unwrap());
    }

    #[test]
    fn quotes_and_backslashes_are_unescaped_in_strings_and_kept_in_bare_keys() {
        assert_eq!(one(r#""a\"b\\c""#).unwrap().as_deref(), Some(r#"a"b\c"#));
        assert_eq!(one(r#"a"b\c"#).unwrap().as_deref(), Some(r#"a"b\c"#));
        assert_eq!(one("%41").unwrap().as_deref(), Some("%41"));
    }

    #[test]
    fn malformed_keys_are_refused() {
        let long = "k".repeat(256);
        for line in ["", "\"\"", "\"a", "\"a\"b", "\"a\";p=1", "\"a\", \"b\"", "\"é\"", "%\"%ff\"", "a\u{7}b", &long] {
            assert_eq!(one(line).unwrap_err().code, Code::KeyInvalid, "{line:?}");
        }
        assert_eq!(parse(&[b"a".to_vec(), b"a".to_vec()]).unwrap_err().code, Code::KeyInvalid);
        assert_eq!(parse(&[vec![0xff]]).unwrap_err().code, Code::KeyInvalid);
    }

    #[test]
    fn length_counts_bytes() {
        assert!(one(&"é".repeat(127)).is_ok());
        assert!(one(&"é".repeat(128)).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_give_a_key_within_the_limits_or_an_error(line in proptest::collection::vec(any::<u8>(), 0..300)) {
            if let Ok(Some(key)) = parse(&[line]) {
                prop_assert!(!key.is_empty() && key.len() <= KEY_LIMIT && !key.chars().any(char::is_control));
            }
        }
    }
}
