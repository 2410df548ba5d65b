//! `config` of a handler: how its action is to be called.

use serde_json::Value as Json;

use super::fault::did_you_mean;
use super::read::Reader;
use super::{Action, InputSchema, KeyRule, Kind, Replay};

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
        let hint = did_you_mean(text, properties.keys().map(String::as_str));
        it.fault(format!("names \"{text}\", which `input` does not allow{hint}"));
    }
}

fn input(schema: &Reader<'_>) -> Option<InputSchema> {
    if !schema.value.is_object() && !schema.value.is_boolean() {
        schema.fault("must be a JSON Schema, an object such as { type: 'object', properties: { … } }");
        return None;
    }
    match InputSchema::new(schema.value) {
        Ok(input) => Some(input),
        Err(error) => {
            let pointer = error.instance_path().to_string();
            let mut at = schema.again();
            for step in pointer.split('/').skip(1) {
                at = at.step(&step.replace("~1", "/").replace("~0", "~"));
            }
            at.fault(format!("is no valid JSON Schema: {error}"));
            None
        }
    }
}
