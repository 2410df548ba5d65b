//! A sample input made from an action's JSON Schema, for the line to try that `dev` shows.

use serde_json::{Map, Value as Json, json};

const INSTANT: &str = "2026-01-02T03:04:05.000Z";

/// Levels of one schema in another; what goes deeper is left empty.
const DEPTH: usize = 12;

/// A value that fits the schema in the usual cases; an example of the schema's own where it has one. Texts are made
/// of the member's name.
pub(super) fn of(schema: &Json) -> Json {
    Sample { root: schema, depth: 0 }.member("text", schema)
}

struct Sample<'s> {
    root: &'s Json,
    depth: usize,
}

impl Sample<'_> {
    fn member(&self, name: &str, schema: &Json) -> Json {
        let inner = Sample { root: self.root, depth: self.depth + 1 };
        if self.depth > DEPTH {
            return json!({});
        }
        let list = |list: &str| schema.get(list).and_then(Json::as_array);
        let first = |name: &str| list(name).and_then(|items| items.first());
        let given = first("examples").or(schema.get("const")).or(schema.get("default")).or(first("enum"));
        if let Some(given) = given {
            return given.clone();
        }
        if let Some(target) = schema.get("$ref").and_then(Json::as_str).and_then(|it| it.strip_prefix('#')) {
            return self.root.pointer(target).map_or_else(|| json!({}), |target| inner.member(name, target));
        }
        if let Some(parts) = list("allOf") {
            return inner.together(name, schema, parts);
        }
        if let Some(option) = first("anyOf").or_else(|| first("oneOf")) {
            return inner.together(name, schema, std::slice::from_ref(option));
        }
        let kind = schema.get("type");
        let kind = kind.and_then(Json::as_str).or_else(|| kind?.as_array()?.first()?.as_str());
        match kind {
            Some("string") => text(name, schema),
            Some("integer" | "number") => schema.get("minimum").cloned().unwrap_or(json!(1)),
            Some("boolean") => json!(true),
            Some("array") => inner.items(name, schema),
            Some("null") => Json::Null,
            _ => Json::Object(inner.required(schema)),
        }
    }

    /// What fits a schema and others beside it: the members of all where those are objects, otherwise the first one's.
    fn together(&self, name: &str, schema: &Json, parts: &[Json]) -> Json {
        let mut members = self.required(schema);
        for part in parts {
            let value = self.member(name, part);
            let Json::Object(more) = value else { return value };
            members.extend(more);
        }
        Json::Object(members)
    }

    fn items(&self, name: &str, schema: &Json) -> Json {
        let least = schema.get("minItems").and_then(Json::as_u64).and_then(|it| usize::try_from(it).ok()).unwrap_or(0);
        let prefix = schema.get("prefixItems").and_then(Json::as_array).map_or(&[][..], Vec::as_slice);
        let rest = schema.get("items").unwrap_or(&Json::Null);
        (0..least.min(DEPTH)).map(|index| self.member(name, prefix.get(index).unwrap_or(rest))).collect()
    }

    fn required(&self, schema: &Json) -> Map<String, Json> {
        let names = schema.get("required").and_then(Json::as_array).map_or(&[][..], Vec::as_slice);
        let properties = schema.get("properties");
        let of = |name: &str| self.member(name, properties.and_then(|all| all.get(name)).unwrap_or(&Json::Null));
        names.iter().filter_map(Json::as_str).map(|name| (name.to_owned(), of(name))).collect()
    }
}

fn text(name: &str, schema: &Json) -> Json {
    match schema.get("format").and_then(Json::as_str) {
        Some("date-time") => json!(INSTANT),
        Some("date") => json!("2026-01-02"),
        Some("uuid") => json!("01890a5d-ac96-774b-bcce-b302099a8057"),
        Some("email") => json!("ada@example.com"),
        Some("uri") => json!("https://example.com/"),
        // Without a format the name tells.
        _ if name.ends_with("_at") || name.ends_with("At") => json!(INSTANT),
        _ => json!(sized(format!("{name}-1"), schema)),
    }
}

/// Texts longer than this are no sample to read.
const LONGEST: usize = 200;

/// A text made as long as the schema wants it.
fn sized(text: String, schema: &Json) -> String {
    let length = |name: &str| schema.get(name).and_then(Json::as_u64).and_then(|it| usize::try_from(it).ok());
    let least = length("minLength").unwrap_or(0).min(LONGEST);
    let most = length("maxLength").unwrap_or(usize::MAX);
    text.chars().chain(std::iter::repeat('1')).take(text.chars().count().max(least).min(most)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sample_has_the_required_members_in_fitting_types() {
        let schema = json!({ "type": "object", "required": ["key", "at", "sent_at", "who", "n", "in"], "properties": {
            "key": { "type": "string", "examples": ["k-1"] }, "at": { "type": "string", "format": "date-time" },
            "sent_at": { "type": "string" }, "who": { "type": "string" }, "n": { "type": ["integer", "null"], "minimum": 5 }, "free": { "type": "string" },
            "in": { "type": "object", "required": ["b"], "properties": { "b": { "enum": ["left", "right"] } } } } });
        let want =
            json!({ "key": "k-1", "at": INSTANT, "sent_at": INSTANT, "who": "who-1", "n": 5, "in": { "b": "left" } });
        assert_eq!(of(&schema), want);
        assert_eq!(of(&json!({})), json!({}));
        let lengths = |least, most| of(&json!({ "type": "string", "minLength": least, "maxLength": most }));
        assert_eq!((lengths(8, 9), lengths(1, 3)), (json!("text-111"), json!("tex")));
    }

    #[test]
    fn sample_follows_references_and_what_is_put_together() {
        let schema = json!({ "$ref": "#/$defs/Tree", "$defs": {
            "Tree": { "allOf": [{ "type": "object", "required": ["name", "parts"], "properties": {
                "name": { "type": "string" }, "parts": { "type": "array", "items": { "$ref": "#/$defs/Tree" } } } },
                { "anyOf": [{ "type": "object", "required": ["kind"], "properties": { "kind": { "const": "leaf" } } }, { "type": "null" }] }] } } });
        assert_eq!(of(&schema), json!({ "name": "name-1", "parts": [], "kind": "leaf" }));
        let pair = json!({ "type": "array", "minItems": 3, "prefixItems": [{ "type": "string" }], "items": { "type": "number" } });
        assert_eq!(of(&pair), json!(["text-1", 1, 1]));
        let endless = json!({ "$ref": "#/$defs/A", "$defs": { "A": { "type": "object", "required": ["a"], "properties": { "a": { "$ref": "#/$defs/A" } } } } });
        assert!(of(&endless).is_object());
    }
}
