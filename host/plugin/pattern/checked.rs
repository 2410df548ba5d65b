//! Patterns of JSON Schemas, which are those of ECMA-262, as the library that checks inputs takes them.

use std::iter::Peekable;
use std::str::Chars;

use serde_json::{Map, Value as Json};

/// A schema whose patterns the library takes and means the same by. What it takes as it is, and what is no pattern, stays.
pub fn checkable(schema: &Json) -> Json {
    let all = |it: &Json| match it.as_object() {
        Some(named) => Json::Object(named.iter().map(|(name, inner)| (name.clone(), checkable(inner))).collect()),
        None => checkable(it),
    };
    match schema {
        Json::Array(schemas) => Json::Array(schemas.iter().map(checkable).collect()),
        Json::Object(members) => {
            let made = members.iter().map(|(keyword, inner)| {
                let inner = match (keyword.as_str(), inner) {
                    ("pattern", Json::String(source)) => Json::String(translated(source)),
                    ("patternProperties", Json::Object(named)) => {
                        Json::Object(named.iter().map(|(name, inner)| (translated(name), checkable(inner))).collect())
                    }
                    ("properties" | "$defs" | "definitions" | "dependentSchemas" | "dependencies", _) => all(inner),
                    // Values, not schemas.
                    ("const" | "enum" | "default" | "examples", _) => inner.clone(),
                    _ => checkable(inner),
                };
                (keyword.clone(), inner)
            });
            Json::Object(made.collect::<Map<_, _>>())
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => schema.clone(),
    }
}

/// `[^]` and `[]`, `\0`, `[\b]`, and references by name, which the library takes only where all are.
fn translated(source: &str) -> String {
    let names = if source.contains(r"\k<") { names(source) } else { Vec::new() };
    let mut made = String::with_capacity(source.len());
    let mut rest = source.chars().peekable();
    while let Some(sign) = rest.next() {
        match sign {
            '\\' => escape(&mut made, &mut rest, &names, false),
            '[' => class(&mut made, &mut rest),
            // With their names, groups could not be referred to by number.
            '(' if !names.is_empty() && begins_name(&rest) => {
                made.push('(');
                rest.by_ref().find(|sign| *sign == '>');
            }
            _ => made.push(sign),
        }
    }
    made
}

/// Whether `?<name>` comes next, and no look-behind.
fn begins_name(rest: &Peekable<Chars<'_>>) -> bool {
    let text: String = rest.clone().take(3).collect();
    text.starts_with("?<") && !text.ends_with(['=', '!'])
}

/// The groups of a pattern by their numbers, less one: their names, or nothing.
fn names(source: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut rest = source.chars().peekable();
    let mut inside = false;
    while let Some(sign) = rest.next() {
        match sign {
            '\\' => drop(rest.next()),
            '[' => inside = true,
            ']' => inside = false,
            '(' if !inside && begins_name(&rest) => {
                names.push(rest.by_ref().skip(2).take_while(|it| *it != '>').collect())
            }
            '(' if !inside && rest.peek() != Some(&'?') => names.push(String::new()),
            _ => {}
        }
    }
    names
}

fn escape(made: &mut String, rest: &mut Peekable<Chars<'_>>, names: &[String], in_class: bool) {
    let Some(sign) = rest.next() else { return made.push('\\') };
    match sign {
        '0' if !rest.peek().is_some_and(char::is_ascii_digit) => made.push_str(r"\x00"),
        'b' if in_class => made.push_str(r"\x08"),
        'k' if !in_class && rest.peek() == Some(&'<') => {
            let name: String = rest.by_ref().skip(1).take_while(|it| *it != '>').collect();
            match names.iter().position(|known| *known == name) {
                Some(at) => made.push_str(&format!(r"(?:\{})", at + 1)),
                None => made.push_str(&format!(r"\k<{name}>")),
            }
        }
        _ => made.extend(['\\', sign]),
    }
}

/// The class whose `[` was read.
fn class(made: &mut String, rest: &mut Peekable<Chars<'_>>) {
    let negated = rest.next_if_eq(&'^').is_some();
    if rest.next_if_eq(&']').is_some() {
        return made.push_str(if negated { r"[\s\S]" } else { r"[^\s\S]" });
    }
    made.push_str(if negated { "[^" } else { "[" });
    while let Some(sign) = rest.next() {
        match sign {
            '\\' => escape(made, rest, &[], true),
            _ => made.push(sign),
        }
        if sign == ']' {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plugin::InputSchema;

    #[test]
    fn patterns_of_ecma_262_load_and_mean_what_they_say() {
        for (pattern, fits, fails) in [
            ("^[^]$", "\n", ""),
            ("^a[^]*b$", "a\u{2028}\nb", "a"),
            ("^(?:[]|a)$", "a", "b"),
            (r"^\0$", "\0", "0"),
            (r"^[\0-\x02]$", "\u{1}", "3"),
            (r"^[\b]$", "\u{8}", "b"),
            (r"^(?<q>['\x22])[a-z]+\k<q>$", "'a'", "'a\""),
            (r"^(a)(?<n>b|c)\k<n>1$", "acc1", "acb1"),
            (r"^(?<y>\d{4})-(?<m>\d\d)$", "2026-01", "2026-1"),
            (r"^(?=(?<a>x|y))\k<a>z$", "yz", "z"),
            (r"^[[\]]$", "]", "a"),
        ] {
            let schema = InputSchema::new(&json!({ "properties": { "a": { "pattern": pattern } } })).unwrap();
            assert!(schema.validator.is_valid(&json!({ "a": fits })), "{pattern} {fits:?}");
            assert!(!schema.validator.is_valid(&json!({ "a": fails })), "{pattern} {fails:?}");
        }
    }

    #[test]
    fn only_what_a_schema_means_as_a_pattern_is_one() {
        let schema = json!({
            "properties": { "pattern": { "pattern": "[^]" }, "const": { "pattern": "[]" } },
            "patternProperties": { r"^\0": { "type": "string" } },
            "allOf": [{ "items": { "pattern": r"\0" } }],
            "const": { "pattern": "[^]" }, "enum": [{ "pattern": "[^]" }],
        });
        let made = json!({
            "properties": { "pattern": { "pattern": r"[\s\S]" }, "const": { "pattern": r"[^\s\S]" } },
            "patternProperties": { r"^\x00": { "type": "string" } },
            "allOf": [{ "items": { "pattern": r"\x00" } }],
            "const": { "pattern": "[^]" }, "enum": [{ "pattern": "[^]" }],
        });
        assert_eq!(checkable(&schema), made);
    }
}
