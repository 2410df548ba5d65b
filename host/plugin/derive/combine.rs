//! Schemas put together: unions, intersections, and the language's helpers that change an object's members.

use serde_json::{Map, Value as Json, json};

use super::typed;

pub(super) fn properties(schema: &Json) -> Option<&Map<String, Json>> {
    schema.get("properties").and_then(Json::as_object)
}

/// The values of a schema that is a choice of literals.
pub(super) fn literals(schema: &Json) -> Option<Vec<Json>> {
    if let Some(value) = schema.get("const") {
        return Some(vec![value.clone()]);
    }
    schema.get("enum").and_then(Json::as_array).cloned()
}

/// A choice of literals.
pub(super) fn one_of(mut values: Vec<Json>) -> Json {
    if values.len() == 1 {
        return json!({ "const": values.remove(0) });
    }
    json!({ "enum": values })
}

/// The kinds of a schema that says nothing but those.
fn kinds(schema: &Json) -> Option<Vec<Json>> {
    let members = schema.as_object().filter(|members| members.len() == 1)?;
    let kinds = members.get("type")?;
    Some(kinds.as_array().cloned().unwrap_or_else(|| vec![kinds.clone()]))
}

/// One of several.
pub(super) fn union(options: Vec<Json>) -> Json {
    let mut flat: Vec<Json> = Vec::new();
    for option in options {
        // A choice inside of a choice is the same choice.
        let inner = option.as_object().filter(|members| members.len() == 1).and_then(|members| members.get("anyOf"));
        match inner.and_then(Json::as_array) {
            Some(inner) => flat.extend(inner.iter().cloned()),
            None => flat.push(option),
        }
    }
    let mut seen = Vec::new();
    flat.retain(|option| {
        !seen.contains(option) && {
            seen.push(option.clone());
            true
        }
    });
    if flat.iter().any(|option| *option == json!({})) {
        return json!({});
    }
    flat.retain(|option| *option != json!(false));
    if flat.len() == 1 {
        return flat.remove(0);
    }
    let null = typed("null");
    let values = |option: &Json| if *option == null { Some(vec![Json::Null]) } else { literals(option) };
    if let Some(values) = flat.iter().map(values).collect::<Option<Vec<_>>>()
        && flat.iter().any(|option| *option != null)
    {
        return one_of(values.concat());
    }
    if let Some(all) = flat.iter().map(kinds).collect::<Option<Vec<_>>>() {
        let mut all = all.concat();
        let mut seen = Vec::new();
        all.retain(|kind| {
            !seen.contains(kind) && {
                seen.push(kind.clone());
                true
            }
        });
        return json!({ "type": all });
    }
    json!({ "anyOf": flat })
}

/// All of several: objects are put together. `None` where nothing can be all of them.
pub(super) fn intersection(mut parts: Vec<Json>) -> Option<Json> {
    // `{}` as a type is whatever is not null.
    let free = [json!({}), typed("object")];
    if parts.iter().any(|part| !free.contains(part)) {
        parts.retain(|part| !free.contains(part));
    } else {
        parts.truncate(1);
    }
    if parts.len() == 1 {
        return parts.pop();
    }
    let mut possible: Option<Vec<&str>> = None;
    for kinds in parts.iter().filter_map(possible_kinds) {
        possible = Some(match possible {
            None => kinds,
            Some(before) => before.into_iter().filter(|kind| kinds.contains(kind)).collect(),
        });
    }
    if possible.is_some_and(|kinds| kinds.is_empty()) {
        return None;
    }
    // What is put together is closed where a part is; a part that stayed closed would refuse the others' members.
    let mut closed = false;
    for part in &mut parts {
        closed |= opened(part);
    }
    let mut schema = if parts.iter().all(is_plain) { merged(&parts) } else { json!({ "allOf": parts }) };
    if closed {
        close(&mut schema);
    }
    Some(schema)
}

/// Refuses members that an object's schema does not name.
pub(super) fn close(schema: &mut Json) {
    let Some(members) = schema.as_object_mut() else { return };
    let composed = ["$ref", "anyOf", "allOf"].iter().any(|it| members.contains_key(*it));
    let keyword = if composed { "unevaluatedProperties" } else { "additionalProperties" };
    members.insert(keyword.to_owned(), json!(false));
}

/// Takes the closing out of a schema and what it is composed of; gives whether there was one.
fn opened(schema: &mut Json) -> bool {
    let Some(members) = schema.as_object_mut() else { return false };
    let mut found = false;
    for keyword in ["additionalProperties", "unevaluatedProperties"] {
        if members.get(keyword) == Some(&json!(false)) {
            members.remove(keyword);
            found = true;
        }
    }
    for list in ["anyOf", "allOf"] {
        for part in members.get_mut(list).and_then(Json::as_array_mut).into_iter().flatten() {
            found |= opened(part);
        }
    }
    found
}

/// The types that values of a schema may have, where that can be seen; `number` stands for `integer`, too.
fn possible_kinds(schema: &Json) -> Option<Vec<&str>> {
    let of_value = |value: &Json| match value {
        Json::Null => "null",
        Json::Bool(_) => "boolean",
        Json::Number(_) => "number",
        Json::String(_) => "string",
        Json::Array(_) => "array",
        Json::Object(_) => "object",
    };
    if let Some(values) = literals(schema) {
        return Some(values.iter().map(of_value).collect());
    }
    if let Some(options) = schema.get("anyOf").and_then(Json::as_array) {
        return options.iter().map(possible_kinds).collect::<Option<Vec<_>>>().map(|all| all.concat());
    }
    let kind = schema.get("type")?;
    let kinds: Vec<&str> = match kind.as_array() {
        Some(kinds) => kinds.iter().filter_map(Json::as_str).collect(),
        None => vec![kind.as_str()?],
    };
    Some(kinds.into_iter().map(|kind| if kind == "integer" { "number" } else { kind }).collect())
}

/// Whether a schema is of an object, and says nothing but its members.
fn is_plain(part: &Json) -> bool {
    let known = ["type", "properties", "required", "description"];
    let says_more = |(key, value): (&String, &Json)| {
        // What other members are; that there are none is for `opened` to take out first.
        let others = key == "additionalProperties" && value.is_object();
        !(others || known.contains(&key.as_str()))
    };
    is_object(part) && !part.as_object().is_some_and(|members| members.iter().any(says_more))
}

/// Both of two schemas.
pub(super) fn both(first: &Json, second: &Json) -> Json {
    if first == second || *first == json!(false) || *second == json!({}) {
        return first.clone();
    }
    if *first == json!({}) || *second == json!(false) { second.clone() } else { json!({ "allOf": [first, second] }) }
}

/// The members of several objects as those of one.
fn merged(parts: &[Json]) -> Json {
    let (mut named, mut required, mut rest) = (Map::new(), Vec::new(), None::<Json>);
    for part in parts {
        for (name, schema) in properties(part).into_iter().flatten() {
            let schema = named.get(name).map_or_else(|| schema.clone(), |before| both(before, schema));
            named.insert(name.clone(), schema);
        }
        for name in part.get("required").and_then(Json::as_array).into_iter().flatten() {
            if !required.contains(name) {
                required.push(name.clone());
            }
        }
    }
    // A part that says what its other members are says it of those that only other parts name.
    for (index, part) in parts.iter().enumerate() {
        let Some(others) = part.get("additionalProperties").filter(|it| it.is_object()) else { continue };
        rest = Some(rest.map_or_else(|| others.clone(), |before| both(&before, others)));
        let own = properties(&parts[index]);
        for (name, schema) in &mut named {
            if own.is_none_or(|own| !own.contains_key(name)) {
                *schema = both(schema, others);
            }
        }
    }
    let mut schema = json!({ "type": "object", "properties": named });
    if !required.is_empty() {
        schema["required"] = Json::Array(required);
    }
    if let Some(rest) = rest {
        schema["additionalProperties"] = rest;
    }
    schema
}

/// What members have in common that are one of several objects: their names, and of each one of its types.
fn common(options: &[Json]) -> Option<Json> {
    let (first, others) = options.split_first()?;
    let mut named = properties(first).cloned().unwrap_or_default();
    for other in others {
        named.retain(|name, _| properties(other).is_some_and(|it| it.contains_key(name)));
    }
    for (name, schema) in &mut named {
        *schema = union(options.iter().filter_map(|option| properties(option)?.get(name).cloned()).collect());
    }
    let required: Vec<&String> = named.keys().filter(|name| options.iter().all(|it| needs(it, name))).collect();
    Some(json!({ "type": "object", "required": required, "properties": named }))
}

/// Whether a member of an object is always there.
pub(super) fn needs(object: &Json, name: &str) -> bool {
    object.get("required").and_then(Json::as_array).is_some_and(|names| names.contains(&json!(name)))
}

/// An object without what its tags say of it as a whole.
fn only_members(mut object: Json) -> Json {
    if let Some(members) = object.as_object_mut() {
        members.retain(|key, _| ["type", "properties", "required", "additionalProperties"].contains(&key.as_str()));
    }
    object
}

/// An object with all its members in one place, whatever it is composed of. `None` where it is no object, or one whose
/// definition is not known yet.
pub(super) fn flat(schema: &Json, defs: &Map<String, Json>) -> Option<Json> {
    if let Some(reference) = schema.get("$ref").and_then(Json::as_str) {
        return flat(defs.get(reference.strip_prefix("#/$defs/")?)?, defs);
    }
    let parts = |list: &str| schema.get(list).and_then(Json::as_array);
    let all = |parts: &Vec<Json>| parts.iter().map(|part| flat(part, defs)).collect::<Option<Vec<_>>>();
    let mut whole = match (parts("allOf"), parts("anyOf")) {
        (Some(parts), _) => intersection(all(parts)?.into_iter().map(only_members).collect())?,
        (None, Some(options)) => common(&all(options)?)?,
        (None, None) => return is_object(schema).then(|| schema.clone()),
    };
    if schema.get("unevaluatedProperties") == Some(&json!(false)) {
        close(&mut whole);
    }
    Some(whole)
}

/// What the names of an object's members are. `None` as for [`flat`], and where no member has a name.
pub(super) fn keys(schema: &Json, defs: &Map<String, Json>) -> Option<Json> {
    let parts = |list: &str| schema.get(list).and_then(Json::as_array).into_iter().flatten();
    let object = flat(schema, defs)?;
    let of_any_name = |it: &Json| it.get("additionalProperties").is_some_and(Json::is_object);
    if of_any_name(&object) || parts("anyOf").any(|option| flat(option, defs).is_some_and(|it| of_any_name(&it))) {
        return Some(any_key());
    }
    Some(one_of(properties(&object)?.keys().map(|name| json!(name)).collect()))
}

/// The names of an object whose members may have any: `keyof` of it has numbers, too.
pub(super) fn any_key() -> Json {
    json!({ "type": ["string", "number"] })
}

pub(super) fn without_null(mut schema: Json) -> Json {
    let is_null = |it: &Json| *it == typed("null") || *it == json!("null") || it.is_null();
    for list in ["anyOf", "enum", "type"] {
        if let Some(all) = schema.get_mut(list).and_then(Json::as_array_mut) {
            all.retain(|it| !is_null(it));
        }
    }
    if let Some([only]) = schema.get("anyOf").and_then(Json::as_array).map(Vec::as_slice) {
        return only.clone();
    }
    schema
}

fn is_object(schema: &Json) -> bool {
    schema.get("type") == Some(&json!("object"))
}

/// `Partial`, `Required`, `Pick` and `Omit`. The first two are of each option of a union, and leave what has no members
/// as it is; the others of what all options have. `None` where that cannot be said.
pub(super) fn changed(how: &str, schema: &Json, keys: Option<&Json>, defs: &Map<String, Json>) -> Option<Json> {
    let each = ["Partial", "Required"].contains(&how);
    if let Some(options) = schema.get("anyOf").and_then(Json::as_array).filter(|_| each) {
        let options = options.iter().map(|option| changed(how, option, None, defs)).collect::<Option<Vec<_>>>()?;
        return Some(union(options));
    }
    let single = possible_kinds(schema).filter(|kinds| !kinds.contains(&"object") && !kinds.contains(&"array"));
    if each && single.is_some() {
        return Some(schema.clone());
    }
    let object = flat(schema, defs)?;
    let named = properties(&object).cloned().unwrap_or_default();
    let others = object.get("additionalProperties").filter(|it| it.is_object());
    let names = if each { Vec::new() } else { literals(keys?)? };
    let kept: Map<String, Json> = if how == "Pick" {
        let of = |name: &str| Some((name.to_owned(), named.get(name).or(others)?.clone()));
        names.iter().filter_map(|name| of(name.as_str()?)).collect()
    } else {
        named
            .iter()
            .filter(|(name, _)| !names.contains(&json!(name)))
            .map(|(name, it)| (name.clone(), it.clone()))
            .collect()
    };
    let needed = |name: &str| match how {
        "Partial" => false,
        "Required" => true,
        _ => needs(&object, name) || !named.contains_key(name),
    };
    let required: Vec<&String> = kept.keys().filter(|name| needed(name)).collect();
    let mut schema = object.clone();
    let members = schema.as_object_mut()?;
    members.remove("required");
    if !required.is_empty() {
        members.insert("required".to_owned(), json!(required));
    }
    if how == "Pick" && others.is_some() {
        members.remove("additionalProperties");
    }
    members.remove("properties");
    if !kept.is_empty() {
        members.insert("properties".to_owned(), Json::Object(kept));
    }
    Some(schema)
}
