//! A sample input made from an action's JSON Schema, for the line to try that `dev` shows.

use serde_json::{Map, Value as Json, json};

const INSTANT: &str = "2026-01-02T03:04:05.000Z";

/// A value that fits the schema in the usual cases; an example of the schema's own where it has one. Texts are made
/// of the member's name.
pub(super) fn of(schema: &Json) -> Json {
    member("text", schema)
}

fn member(name: &str, schema: &Json) -> Json {
    let first = |list: &str| schema.get(list).and_then(Json::as_array).and_then(|items| items.first()).cloned();
    let given = schema.get("const").or(schema.get("default")).cloned();
    if let Some(given) = first("examples").or(given).or_else(|| first("enum")) {
        return given;
    }
    let kind = schema.get("type");
    let kind = kind.and_then(Json::as_str).or_else(|| kind?.as_array()?.first()?.as_str());
    match kind {
        Some("string") => match schema.get("format").and_then(Json::as_str) {
            Some("date-time") => json!(INSTANT),
            Some("date") => json!("2026-01-02"),
            Some("uuid") => json!("01890a5d-ac96-774b-bcce-b302099a8057"),
            // Without a format the name tells.
            _ if name.ends_with("_at") || name.ends_with("At") => json!(INSTANT),
            _ => json!(format!("{name}-1")),
        },
        Some("integer" | "number") => schema.get("minimum").cloned().unwrap_or(json!(1)),
        Some("boolean") => json!(true),
        Some("array") => json!([]),
        Some("null") => Json::Null,
        _ => Json::Object(required(schema)),
    }
}

fn required(schema: &Json) -> Map<String, Json> {
    let names = schema.get("required").and_then(Json::as_array).map_or(&[][..], Vec::as_slice);
    let of = |name: &str| member(name, schema.get("properties").and_then(|all| all.get(name)).unwrap_or(&Json::Null));
    names.iter().filter_map(Json::as_str).map(|name| (name.to_owned(), of(name))).collect()
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
    }
}
