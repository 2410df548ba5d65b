//! JSDoc comments: a description, and tags that say more than a type can.

use serde_json::{Map, Value as Json, json};

use super::combine::{both, close};
use crate::plugin::pattern;
use crate::suggest;

/// What a comment says.
#[derive(Clone, Debug, Default)]
pub(super) struct Doc {
    pub text: String,
    /// Name and the rest of the line, in order.
    pub tags: Vec<(String, String)>,
}

/// What a tag's value is, and which JSON types it holds of (empty: any).
#[derive(Clone, Copy)]
enum Value {
    Count,
    Number,
    Pattern,
    Text,
    Flag,
    Json,
}

const STRING: &[&str] = &["string"];
const NUMBER: &[&str] = &["number", "integer"];
const ARRAY: &[&str] = &["array"];
const OBJECT: &[&str] = &["object"];

/// The keywords of JSON Schema that a tag can give.
const KEYWORDS: [(&str, Value, &[&str]); 20] = [
    ("minLength", Value::Count, STRING),
    ("maxLength", Value::Count, STRING),
    ("pattern", Value::Pattern, STRING),
    ("format", Value::Text, STRING),
    ("minimum", Value::Number, NUMBER),
    ("maximum", Value::Number, NUMBER),
    ("exclusiveMinimum", Value::Number, NUMBER),
    ("exclusiveMaximum", Value::Number, NUMBER),
    ("multipleOf", Value::Number, NUMBER),
    ("integer", Value::Flag, NUMBER),
    ("minItems", Value::Count, ARRAY),
    ("maxItems", Value::Count, ARRAY),
    ("uniqueItems", Value::Flag, ARRAY),
    ("minProperties", Value::Count, OBJECT),
    ("maxProperties", Value::Count, OBJECT),
    ("additionalProperties", Value::Json, OBJECT),
    ("default", Value::Json, &[]),
    ("example", Value::Json, &[]),
    ("title", Value::Text, &[]),
    ("deprecated", Value::Flag, &[]),
];

/// Reads a comment, delimiters included.
pub(super) fn read(comment: &str) -> Doc {
    let inner = comment.trim_start_matches('/').trim_start_matches('*');
    let inner = inner.trim_end_matches('/').trim_end_matches('*');
    let mut doc = Doc::default();
    let mut text: Vec<&str> = Vec::new();
    for line in inner.lines() {
        let line = line.trim();
        let line = line.strip_prefix('*').map_or(line, |rest| rest.strip_prefix(' ').unwrap_or(rest));
        // Several tags may stand in one line: `@minimum 1 @maximum 5`; a pattern may hold an `@`.
        for part in parts(line) {
            match part.strip_prefix('@') {
                Some(tag) => {
                    let (name, rest) = tag.split_once(char::is_whitespace).unwrap_or((tag, ""));
                    doc.tags.push((name.to_owned(), rest.trim().to_owned()));
                }
                None => match doc.tags.last_mut() {
                    None => text.push(part.trim()),
                    // An example may stand in the lines below its tag, as code.
                    Some((tag, rest)) if tag == "example" && !part.starts_with("```") => {
                        rest.push('\n');
                        rest.push_str(part);
                    }
                    // The further lines of a tag's text.
                    Some(_) => {}
                },
            }
        }
    }
    doc.text = text.join(" ").split_whitespace().collect::<Vec<_>>().join(" ");
    doc
}

/// Cuts a line where a known tag begins after a space.
fn parts(line: &str) -> Vec<&str> {
    let mut cuts = vec![0];
    for (at, _) in line.match_indices(" @") {
        let word: String = line[at + 2..].chars().take_while(char::is_ascii_alphabetic).collect();
        let free = !line.trim_start().starts_with("@pattern") && !line.trim_start().starts_with("@example");
        if free && is_known(&word) {
            cuts.push(at + 1);
        }
    }
    cuts.push(line.len());
    cuts.windows(2).map(|pair| line[pair[0]..pair[1]].trim()).filter(|part| !part.is_empty()).collect()
}

fn is_known(tag: &str) -> bool {
    KEYWORDS.iter().any(|(known, ..)| *known == tag)
}

/// Whether a comment says what only some values of a type are.
pub(super) fn narrows(doc: &Doc) -> bool {
    let narrowing = |name: &str| KEYWORDS.iter().any(|(known, _, of)| *known == name && !of.is_empty());
    doc.tags.iter().any(|(name, _)| narrowing(name))
}

/// Puts a comment into a schema.
///
/// # Errors
/// What is wrong with a tag.
pub(super) fn add(doc: &Doc, mut schema: Json) -> Result<Json, String> {
    let mut about = Map::new();
    for (name, text) in &doc.tags {
        let Some((keyword, kind, holds_of)) = KEYWORDS.iter().find(|(known, ..)| known == name) else {
            let near = suggest::hint(name, KEYWORDS.iter().map(|(known, ..)| *known));
            if near.is_empty() {
                continue;
            }
            return Err(format!("has the tag `@{name}`, which says nothing here{near}"));
        };
        // One in prose, or of how to call, is for readers.
        let example_in_lines = *keyword == "example" && (text.is_empty() || text.contains('\n'));
        let text = text.trim();
        if example_in_lines && serde_json::from_str::<Json>(text).is_err() {
            continue;
        }
        // Lines are cut at tags, but for those whose value may hold an `@`.
        let mut words = text.lines().next().unwrap_or_default().split_whitespace();
        if let Some(other) = words.find(|word| word.strip_prefix('@').is_some_and(is_known)) {
            return Err(format!("has the tag `@{name}` with `{other}` in its value: write one tag a line"));
        }
        let value = value(keyword, *kind, text)?;
        if holds_of.is_empty() {
            let (keyword, value) =
                if *keyword == "example" { ("examples", Json::Array(vec![value])) } else { (*keyword, value) };
            match (about.get_mut(keyword), value) {
                (Some(Json::Array(all)), Json::Array(more)) => all.extend(more),
                (_, value) => drop(about.insert(keyword.to_owned(), value)),
            }
        } else if *keyword == "additionalProperties" && value == Json::Bool(false) {
            if !holds_objects(&schema) {
                return Err("has the tag `@additionalProperties`, which holds of objects only".to_owned());
            }
            close(&mut schema);
        } else if !constrain(&mut schema, keyword, &value, holds_of) {
            let of = holds_of.first().copied().unwrap_or_default();
            return Err(format!("has the tag `@{name}`, which holds of {of}s only"));
        }
    }
    if !doc.text.is_empty() {
        about.insert("description".to_owned(), Json::String(doc.text.clone()));
    }
    if about.is_empty() {
        return Ok(schema);
    }
    // What can never be is no more with a description.
    if schema == Json::Bool(false) {
        return Ok(schema);
    }
    // `true` with a description is an object, too.
    let mut whole = if let Json::Object(members) = schema { members } else { Map::new() };
    whole.extend(about);
    Ok(Json::Object(whole))
}

fn value(name: &str, kind: Value, text: &str) -> Result<Json, String> {
    let wrong = |right: &str| format!("has the tag `@{name} {text}`: write {right}");
    match kind {
        Value::Count => text.parse::<u64>().map(Json::from).map_err(|_| wrong(&format!("`@{name} 1`"))),
        Value::Number => match serde_json::from_str(text) {
            Ok(number @ Json::Number(_)) => Ok(number),
            Ok(_) | Err(_) => Err(wrong(&format!("`@{name} 1`"))),
        },
        Value::Pattern => {
            let pattern = text.strip_prefix('/').and_then(|rest| rest.strip_suffix('/')).unwrap_or(text);
            match pattern::checked(pattern) {
                _ if pattern.is_empty() => Err(wrong("`@pattern ^[a-z]+$`")),
                Ok(_) => Ok(Json::from(pattern)),
                Err(why) => Err(format!("has the tag `@{name} {text}`, which {why}")),
            }
        }
        Value::Text if text.is_empty() => Err(wrong(&format!("what it is after `@{name}`"))),
        Value::Text => Ok(Json::from(text)),
        Value::Flag => match text {
            "false" => Ok(Json::Bool(false)),
            _ => Ok(Json::Bool(true)),
        },
        // An example is often a bare word.
        Value::Json if name == "example" => Ok(serde_json::from_str(text).unwrap_or_else(|_| Json::from(text))),
        Value::Json => serde_json::from_str(text).map_err(|_| wrong("a JSON value after it")),
    }
}

/// Whether an object may be of this schema.
fn holds_objects(schema: &Json) -> bool {
    let all = ["anyOf", "allOf"].iter().filter_map(|list| schema.get(*list)?.as_array()).flatten();
    let here = schema
        .get("type")
        .is_some_and(|kind| kind == "object" || kind.as_array().is_some_and(|all| all.contains(&"object".into())));
    here || schema.get("$ref").is_some() || all.into_iter().any(holds_objects)
}

/// Adds a keyword wherever the schema has a type that it holds of; gives whether there was one.
fn constrain(schema: &mut Json, keyword: &str, value: &Json, holds_of: &[&str]) -> bool {
    let Some(members) = schema.as_object_mut() else { return false };
    let mut done = false;
    for list in ["anyOf", "allOf"] {
        for part in members.get_mut(list).and_then(Json::as_array_mut).into_iter().flatten() {
            done |= constrain(part, keyword, value, holds_of);
        }
    }
    let fits = |kind: &Json| kind.as_str().is_some_and(|kind| holds_of.contains(&kind));
    let here = match members.get("type") {
        Some(Json::Array(kinds)) => kinds.iter().any(fits),
        Some(kind) => fits(kind),
        None => false,
    };
    if !here {
        return done;
    }
    if keyword == "integer" {
        if *value == Json::Bool(false) {
            return true;
        }
        match members.get_mut("type") {
            Some(Json::Array(kinds)) => {
                kinds.iter_mut().filter(|kind| *kind == "number").for_each(|kind| *kind = "integer".into())
            }
            _ => drop(members.insert("type".to_owned(), Json::from("integer"))),
        }
    } else {
        narrow(members, keyword, value);
    }
    true
}

/// Adds a keyword to those of a schema; where it is there already, both hold.
fn narrow(members: &mut Map<String, Json>, keyword: &str, value: &Json) {
    let Some(before) = members.get(keyword).filter(|before| *before != value) else {
        members.insert(keyword.to_owned(), value.clone());
        return;
    };
    let larger = value.as_f64() > before.as_f64();
    let narrower = match keyword {
        "minLength" | "minimum" | "exclusiveMinimum" | "minItems" | "minProperties" => larger,
        "maxLength" | "maximum" | "exclusiveMaximum" | "maxItems" | "maxProperties" => !larger,
        "uniqueItems" => *value == Json::Bool(true),
        "additionalProperties" => {
            // Of members that are not named here: a part of its own names none.
            let both = if *value == Json::Bool(true) { before.clone() } else { both(before, value) };
            members.insert(keyword.to_owned(), both);
            return;
        }
        _ => {
            let all = members.entry("allOf").or_insert_with(|| Json::Array(Vec::new()));
            all.as_array_mut().into_iter().for_each(|all| all.push(json!({ keyword: value })));
            return;
        }
    };
    if narrower {
        members.insert(keyword.to_owned(), value.clone());
    }
}
