//! Patterns of JSON Schemas, which are those of ECMA-262 with the flag `u`, as the library that checks inputs takes them:
//! the compiler's parser says what is one.

use oxc::allocator::Allocator;
use oxc::diagnostics::OxcDiagnostic;
use oxc::regular_expression::{LiteralParser, Options};
use serde_json::{Map, Value as Json};

use super::written::written;

/// Something that a schema has as a pattern and is none.
#[derive(Debug, PartialEq, Eq)]
pub struct Misfit {
    /// Where it stands, as a JSON Pointer.
    pub pointer: String,
    /// What is wrong with it, as the end of a sentence.
    pub why: String,
}

/// A schema whose patterns the library takes and means the same by, and what in it is no pattern, which stays as it is.
pub fn checkable(schema: &Json) -> (Json, Vec<Misfit>) {
    let mut misfits = Vec::new();
    let made = whole(schema, "", &mut misfits);
    (made, misfits)
}

fn whole(schema: &Json, at: &str, misfits: &mut Vec<Misfit>) -> Json {
    match schema {
        Json::Array(schemas) => {
            let each = |(index, inner)| whole(inner, &format!("{at}/{index}"), misfits);
            Json::Array(schemas.iter().enumerate().map(each).collect())
        }
        Json::Object(members) => {
            let made = members.iter().map(|(keyword, inner)| {
                let at = member(at, keyword);
                let inner = match (keyword.as_str(), inner) {
                    ("pattern", Json::String(source)) => Json::String(noted(source, &at, misfits)),
                    ("patternProperties", Json::Object(named)) => {
                        let each = |(name, inner): (&String, &Json)| {
                            let at = member(&at, name);
                            (noted(name, &at, misfits), whole(inner, &at, misfits))
                        };
                        Json::Object(named.iter().map(each).collect())
                    }
                    (
                        "properties" | "$defs" | "definitions" | "dependentSchemas" | "dependencies",
                        Json::Object(named),
                    ) => {
                        let each =
                            |(name, inner): (&String, &Json)| (name.clone(), whole(inner, &member(&at, name), misfits));
                        Json::Object(named.iter().map(each).collect())
                    }
                    // Values, not schemas.
                    ("const" | "enum" | "default" | "examples", _) => inner.clone(),
                    _ => whole(inner, &at, misfits),
                };
                (keyword.clone(), inner)
            });
            Json::Object(made.collect::<Map<_, _>>())
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => schema.clone(),
    }
}

fn member(at: &str, name: &str) -> String {
    format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"))
}

fn noted(source: &str, at: &str, misfits: &mut Vec<Misfit>) -> String {
    checked(source).unwrap_or_else(|why| {
        misfits.push(Misfit { pointer: at.to_owned(), why });
        source.to_owned()
    })
}

/// A pattern of a schema as the library takes it.
///
/// # Errors
/// Why it is none, as the end of a sentence.
pub fn checked(source: &str) -> Result<String, String> {
    if source.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1 {
        return Err(
            "ends in a backslash, behind which a sign has to stand; write `\\\\` for the backslash itself".to_owned()
        );
    }
    let allocator = Allocator::default();
    let parsed = LiteralParser::new(&allocator, source, Some("u"), Options::default()).parse();
    let pattern = parsed.map_err(|error| refusal(source, &error))?;
    Ok(written(&pattern))
}

fn refusal(source: &str, error: &OxcDiagnostic) -> String {
    let at = error.labels.first().map_or(0, |label| label.offset() as usize);
    let (before, rest) = source.split_at_checked(at).unwrap_or((source, ""));
    // The parser may stumble behind the backslash.
    let rest = if before.ends_with('\\') { &source[at - 1..] } else { rest };
    let near: String = rest.chars().take(12).collect();
    let what = match error.message.trim_start_matches("Invalid regular expression:").trim() {
        "Could not parse the entire pattern" => "this means nothing",
        what => what,
    };
    let instead = instead(before, rest).map_or_else(String::new, |right| format!("; write {right}"));
    format!(
        "is no regular expression of ECMA-262 as it is with the flag `u`: {what}, at `{near}`{instead}, or leave to the \
         handler what cannot be said so"
    )
}

/// What to write for what other languages have.
fn instead(before: &str, rest: &str) -> Option<String> {
    if before.ends_with("(?") && rest.starts_with(['i', 'm', 's', 'x', 'u', '-']) {
        return Some("`[Aa]`, both cases, for a flag".to_owned());
    }
    if let Some(sign) = rest.chars().next().filter(|sign| "{}]".contains(*sign)) {
        return Some(format!("`\\{sign}` for the sign itself"));
    }
    match rest.strip_prefix('\\')?.chars().next()? {
        'A' => Some("`^`".to_owned()),
        'z' | 'Z' => Some("`$`".to_owned()),
        sign if sign.is_ascii_punctuation() => Some(format!("`{sign}` without the backslash")),
        _ => None,
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
            (r"^[\w-]+$", "a-b", "a b"),
            (r"^[&&~~|-]+$", "-&~|", "a"),
            (r"^[^\D]$", "1", "a"),
            (r"^[\D\s]$", "\u{665}", "5"),
            (r"^\cA\x41\u0042\/$", "\u{1}AB/", "AAB/"),
            (r"^[\p{L}\d_]+$", "é1_", "-"),
            (r"^\P{Script=Greek}$", "a", "α"),
            (r"^a{2,3}?$", "aaa", "a"),
            (r"^(?i:ab)c$", "ABc", "ABC"),
            (r"^(?s:.).$", "\na", "\n\n"),
            (r"^a(?m:$)", "a\nb", "ab"),
            ("", "a", "(none fails)"),
        ] {
            assert!(is_valid(pattern, fits), "{pattern} {fits:?}");
            assert!(pattern.is_empty() || !is_valid(pattern, fails), "{pattern} {fails:?}");
        }
    }

    fn is_valid(pattern: &str, text: &str) -> bool {
        let schema = InputSchema::new(&json!({ "properties": { "a": { "pattern": pattern } } })).unwrap();
        schema.validator.is_valid(&json!({ "a": text }))
    }

    #[test]
    fn words_and_digits_are_those_of_ascii_also_beside_a_look_around() {
        for (pattern, fits, fails) in [
            (r"a\bé", "aé", "ab"),
            (r"^é\Bé$", "éé", "eé"),
            (r"\bfoo\b", "a foo.", "a_foo"),
            (r"^(?=\d+$)..$", "12", "\u{663}\u{664}"),
            (r"^(?!x)\w$", "a", "é"),
            (r"^(?!x)\s$", "\u{feff}", "\u{85}"),
            (r"^(?!x).$", "\u{85}", "\u{2028}"),
        ] {
            assert!(is_valid(pattern, fits), "{pattern} {fits:?}");
            assert!(!is_valid(pattern, fails), "{pattern} {fails:?}");
        }
    }

    #[test]
    fn a_reference_to_a_group_that_took_no_part_matches_nothing_at_all() {
        for (pattern, fits, fails) in [
            (r"^(?:(a)|b)\1$", &["b", "aa"][..], &["ba", "a"][..]),
            (r"^\1(a)$", &["a"], &["aa"]),
            (r"^(a)?b\1c$", &["bc", "abac"], &["abc", "bac"]),
            (r"^(?:(?<x>a)|(?<x>b))\k<x>$", &["aa", "bb"], &["ab", "a"]),
            (r"^(a)\1{2}$", &["aaa"], &["aa"]),
        ] {
            fits.iter().for_each(|text| assert!(is_valid(pattern, text), "{pattern} {text:?}"));
            fails.iter().for_each(|text| assert!(!is_valid(pattern, text), "{pattern} {text:?}"));
        }
    }

    #[test]
    fn halves_of_a_character_that_stand_together_are_that_character() {
        for (pattern, fits, fails) in [
            (r"^\ud83d\ude00$", "😀", "x"),
            (r"^\u{1f600}$", "😀", "x"),
            (r"^[\ud83d\ude00-\ud83d\ude02]$", "😁", "😃"),
            (r"^[^\ud800]$", "😁", ""),
            (r"^[\ud7ff-\uffff]$", "\u{e000}", "a"),
            (r"^(?:[\ud800-\udfff]|\udc00|a)$", "a", "b"),
        ] {
            assert!(is_valid(pattern, fits), "{pattern} {fits:?}");
            assert!(!is_valid(pattern, fails), "{pattern} {fails:?}");
        }
    }

    #[test]
    fn what_the_flag_u_refuses_is_refused_with_the_way_out() {
        for (pattern, said) in [
            ("(?i)abc", "write `[Aa]`, both cases, for a flag"),
            (r"\Aabc", r"at `\Aabc`; write `^`"),
            (r"abc\Z", "write `$`"),
            (r"a\-b", "write `-` without the backslash"),
            (r"[\_]", "write `_` without the backslash"),
            ("a++", "at `+`"),
            ("a{,3}", r"at `{,3}`; write `\{` for the sign itself"),
            ("a{2,1}", ""),
            ("^(", ""),
            ("]", r"write `\]`"),
            ("(?>a)", ""),
            ("(?#x)", ""),
            (r"\1", ""),
            (r"\k<n>", ""),
            ("(?<n>a)(?<n>b)", ""),
            ("[z-a]", ""),
            (r"\p{Nonsense}", ""),
            (r"\u12", ""),
            (r"\07", ""),
            (r"[\d-z]", ""),
        ] {
            let why = checked(pattern).unwrap_err();
            assert!(why.starts_with("is no regular expression of ECMA-262") && why.contains(said), "{pattern}: {why}");
        }
        assert!(checked(r"ab\\").is_ok());
        assert!(checked(r"ab\\\").unwrap_err().starts_with("ends in a backslash"));
    }

    #[test]
    fn only_what_a_schema_means_as_a_pattern_is_one() {
        let schema = json!({
            "properties": { "pattern": { "pattern": "[^]" }, "const": { "pattern": "[]" } },
            "patternProperties": { r"^\0": { "type": "string" }, "a++": {} },
            "allOf": [{ "items": { "pattern": r"\0" } }, { "pattern": "(" }],
            "const": { "pattern": "[^]" }, "enum": [{ "pattern": "[^]" }], "not": { "pattern": 5 },
        });
        let made = json!({
            "properties": { "pattern": { "pattern": r"[\x{0}-\x{10ffff}]" }, "const": { "pattern": r"[^\x{0}-\x{10ffff}]" } },
            "patternProperties": { r"^\x{0}": { "type": "string" }, "a++": {} },
            "allOf": [{ "items": { "pattern": r"\x{0}" } }, { "pattern": "(" }],
            "const": { "pattern": "[^]" }, "enum": [{ "pattern": "[^]" }], "not": { "pattern": 5 },
        });
        let (found, misfits) = checkable(&schema);
        assert_eq!(found, made);
        let places: Vec<&str> = misfits.iter().map(|misfit| misfit.pointer.as_str()).collect();
        assert_eq!(places, ["/patternProperties/a++", "/allOf/1/pattern"]);
    }
}
