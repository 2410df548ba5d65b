//! `config` of a handler: how its action is to be called.

use serde_json::Value as Json;

use super::pattern;
use super::read::Reader;
use super::{Action, InputSchema, KeyRule, Kind, Replay};
use crate::suggest;

const FIELDS: [&str; 5] = ["kind", "key", "replay", "transient", "input"];

/// Reads the value of `config`; what is wrong is noted in its findings.
pub(super) fn read(root: &Reader<'_>, action: &mut Action) {
    if !root.object(&FIELDS) {
        return;
    }
    if let Some(kind) = root.field("kind").and_then(|it| it.one_of(&["write", "read"])) {
        action.kind = [Kind::Write, Kind::Read][kind];
    }
    if let Some(key) = root.field("key").and_then(|it| it.one_of(&["optional", "required"])) {
        action.key = [KeyRule::Optional, KeyRule::Required][key];
    }
    if let Some(replay) = root.field("replay") {
        if let Some(chosen) = replay.one_of(&["response", "rerun"]) {
            action.replay = [Replay::Response, Replay::Rerun][chosen];
        }
        if action.replay == Replay::Rerun && action.kind == Kind::Read {
            replay.fault("is \"rerun\", which a read action has no use for, as it runs each time: take it out");
        }
    }
    if let Some(list) = root.field("transient") {
        let texts = list.texts();
        action.transient = texts.iter().map(|(text, _)| (*text).to_owned()).collect();
        if let Some(schema) = root.field("input") {
            texts.iter().for_each(|(text, it)| check_transient(text, it, schema.value));
        }
    }
    if let Some(schema) = root.field("input") {
        action.input = input(&schema);
    }
}

/// A transient field that a closed schema does not have is a slip: nothing would be left out of the hash.
fn check_transient(text: &str, it: &Reader<'_>, schema: &Json) {
    let closed = schema.get("additionalProperties") == Some(&Json::Bool(false));
    let Some(properties) = schema.get("properties").and_then(Json::as_object).filter(|_| closed) else { return };
    if !properties.contains_key(text) && schema.get("patternProperties").is_none() {
        let hint = suggest::hint(text, properties.keys().map(String::as_str));
        it.fault(format!("names \"{text}\", which `input` does not allow{hint}"));
    }
}

fn input(schema: &Reader<'_>) -> Option<InputSchema> {
    if !schema.value.is_object() && !schema.value.is_boolean() {
        schema.fault("must be a JSON Schema, an object such as { type: 'object', properties: { … } }");
        return None;
    }
    let mut sound = references_hold(schema);
    let (_, misfits) = pattern::checkable(schema.value);
    for misfit in &misfits {
        sound = false;
        place(schema, &misfit.pointer).fault(&misfit.why);
    }
    // All that the language of schemas says against it, rather than the first thing.
    for error in jsonschema::draft202012::meta::validator().iter_errors(schema.value) {
        sound = false;
        let pointer = error.instance_path().as_str();
        if !misfits.iter().any(|misfit| misfit.pointer == pointer) {
            invalid(schema, pointer, &error);
        }
    }
    if !sound {
        return None;
    }
    InputSchema::new(schema.value).map_err(|error| invalid(schema, error.schema_path().as_str(), &error)).ok()
}

/// A place within a schema.
fn place<'v>(schema: &Reader<'v>, pointer: &str) -> Reader<'v> {
    let steps = pointer.split('/').skip(1);
    steps.fold(schema.again(), |at, step| at.step(&step.replace("~1", "/").replace("~0", "~")))
}

/// Notes what is wrong at a place within a schema.
fn invalid(schema: &Reader<'_>, pointer: &str, error: &jsonschema::ValidationError<'_>) {
    let at = place(schema, pointer);
    if pointer.ends_with("/type") {
        at.fault(format!("is no type of JSON Schema{}: {TYPES} or an array of some", near_type(at.value)));
    } else if pointer.contains("/pattern") && error.instance().is_string() {
        at.fault(
            "is no pattern that an input can be checked with: write a simpler one, and leave to the handler what cannot \
             be said so",
        );
    } else {
        at.fault(format!("is no valid JSON Schema: {error}"));
    }
}

const TYPES: &str = "there are string, number, integer, boolean, object, array, null,";

fn near_type(value: &Json) -> String {
    let known = ["string", "number", "integer", "boolean", "object", "array", "null"];
    value.as_str().map_or_else(String::new, |written| suggest::hint(written, known))
}

/// Whether each `$ref` leads to a place within the schema; one that does not is noted.
fn references_hold(schema: &Reader<'_>) -> bool {
    let mut hold = true;
    let mut waiting = vec![schema.again()];
    while let Some(it) = waiting.pop() {
        if let Some((reference, text)) =
            it.field("$ref").and_then(|it| it.value.as_str().map(|text| (it.again(), text)))
        {
            let place = text.strip_prefix('#');
            // A name (`#item`) is for the schema's own `$anchor` to say.
            let within = place.is_some_and(|at| !at.starts_with('/') || schema.value.pointer(at).is_some());
            if !within {
                hold = false;
                reference.fault(match place {
                    Some(at) => format!("is \"{text}\", and the schema has nothing at {at}"),
                    None => format!("is \"{text}\": only places within the schema can be meant, \"#/$defs/NAME\""),
                });
            }
        }
        match it.value {
            Json::Object(_) => waiting.extend(it.members().into_iter().map(|(_, member)| member)),
            Json::Array(_) => waiting.extend(it.items()),
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {}
        }
    }
    hold
}
