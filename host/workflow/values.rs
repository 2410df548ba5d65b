//! What the paths, conditions and inputs of a definition come to for one workflow.

use std::cmp::Ordering;

use serde_json::{Map, Value as Json};

use super::definition::{Path, Source, Step, When};
use super::{Facts, Results};
use crate::clock::{Millis, millis};
use crate::codec::time;
use crate::config::duration;

/// Everything that a step's paths can reach.
pub(super) struct View<'v> {
    pub facts: &'v Facts,
    pub plugin: &'v str,
    pub step: &'v Step,
    pub results: &'v Results,
}

impl View<'_> {
    /// The value at a path; `None` where there is nothing.
    fn at(&self, path: &Path) -> Option<Json> {
        match path {
            Path::Trigger(way) => descend(&self.facts.seed, way).cloned(),
            Path::Step(step, way) => descend(self.results.get(step)?, way).cloned(),
            Path::IdempotencyKey => Some(Json::String(self.facts.step_key(&self.step.id))),
            Path::ScopedKey => Some(Json::String(self.facts.scoped_key(self.plugin, &self.step.id))),
            Path::WorkflowId => Some(Json::String(self.facts.workflow_id.clone())),
            Path::TenantId => Some(Json::String(self.facts.tenant.clone())),
        }
    }

    pub fn value(&self, source: &Source) -> Option<Json> {
        match source {
            Source::Const(value) => Some(value.clone()),
            Source::From(path) => self.at(path),
        }
    }

    /// What the script or action gets, as JSON text. Where a path leads to nothing, the member is left out.
    pub fn input(&self) -> String {
        let members = self.step.inputs.iter().filter_map(|(name, source)| Some((name.clone(), self.value(source)?)));
        Json::Object(members.collect::<Map<_, _>>()).to_string()
    }

    /// Whether the step's condition holds.
    pub fn holds(&self) -> bool {
        let Some(When { from, tests }) = &self.step.when else { return true };
        let value = self.at(from).unwrap_or(Json::Null);
        if tests.is_empty() { truthy(&value) } else { tests.iter().all(|(name, to)| test(name, &value, to)) }
    }

    /// When a sleep ends that begins now.
    pub fn wakes_after(&self, span: &Source, now: Millis) -> Result<Millis, String> {
        let value = self.value(span).unwrap_or(Json::Null);
        let span = value.as_str().map_or_else(|| Err(String::new()), duration);
        match span {
            Ok(span) => Ok(now.saturating_add(millis(span))),
            Err(_) => Err(format!(
                "`for` of the step \"{}\" comes to {}, which is no length of time: write a whole number and ms, s, m, h \
                 or d, such as \"30s\"",
                self.step.id,
                short(&value)
            )),
        }
    }

    /// When a sleep ends that has an instant.
    pub fn wakes_at(&self, instant: &Source) -> Result<Millis, String> {
        let value = self.value(instant).unwrap_or(Json::Null);
        let read = value.as_str().and_then(|text| text.parse::<jiff::Timestamp>().ok());
        read.map(jiff::Timestamp::as_millisecond).ok_or_else(|| {
            format!(
                "`until` of the step \"{}\" comes to {}, which is no instant: it needs a date, a time and a zone, such as \
                 \"2026-01-31T08:00:00Z\"",
                self.step.id,
                short(&value)
            )
        })
    }

    /// The type of event that the step waits for, and the values that its fields must have.
    pub fn wait(&self, kind: &Source, fields: &[(String, Source)]) -> Result<(String, Json), String> {
        let value = self.value(kind).unwrap_or(Json::Null);
        let Some(kind) = value.as_str().filter(|text| !text.is_empty()) else {
            return Err(format!(
                "`type` of the step \"{}\" comes to {}, which is no type of an event",
                self.step.id,
                short(&value)
            ));
        };
        let fields = fields.iter().map(|(name, source)| (name.clone(), self.value(source).unwrap_or(Json::Null)));
        Ok((kind.to_owned(), Json::Object(fields.collect())))
    }
}

fn descend<'j>(from: &'j Json, way: &[String]) -> Option<&'j Json> {
    way.iter().try_fold(from, |value, name| match value.as_array() {
        Some(items) => items.get(name.parse::<usize>().ok()?),
        None => value.get(name),
    })
}

fn short(value: &Json) -> String {
    let text = value.to_string();
    if text.len() <= 60 { text } else { format!("{}…", &text[..text.floor_char_boundary(60)]) }
}

/// As scripts see it.
fn truthy(value: &Json) -> bool {
    match value {
        Json::Null => false,
        Json::Bool(truth) => *truth,
        Json::Number(number) => number.as_f64() != Some(0.0),
        Json::String(text) => !text.is_empty(),
        Json::Array(_) | Json::Object(_) => true,
    }
}

fn test(operator: &str, value: &Json, to: &Json) -> bool {
    let order = || compare(value, to);
    match operator {
        "eq" => same(value, to),
        "ne" => !same(value, to),
        "gt" => order() == Some(Ordering::Greater),
        "gte" => matches!(order(), Some(Ordering::Greater | Ordering::Equal)),
        "lt" => order() == Some(Ordering::Less),
        "lte" => matches!(order(), Some(Ordering::Less | Ordering::Equal)),
        "in" => to.as_array().is_some_and(|items| items.iter().any(|item| same(value, item))),
        "notIn" => to.as_array().is_some_and(|items| !items.iter().any(|item| same(value, item))),
        "isNull" => value.is_null() == (to.as_bool() == Some(true)),
        "startsWith" => value.as_str().zip(to.as_str()).is_some_and(|(text, start)| text.starts_with(start)),
        _ => false,
    }
}

fn compare(value: &Json, to: &Json) -> Option<Ordering> {
    match (value, to) {
        (Json::Number(a), Json::Number(b)) => a.as_f64()?.partial_cmp(&b.as_f64()?),
        (Json::String(a), Json::String(b)) => Some(a.as_bytes().cmp(b.as_bytes())),
        _ => None,
    }
}

/// Equal as JSON: 1 and 1.0 are one number, and the order of members says nothing.
fn same(a: &Json, b: &Json) -> bool {
    match (a, b) {
        (Json::Number(a), Json::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Json::Array(a), Json::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Json::Object(a), Json::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(name, a)| b.get(name).is_some_and(|b| same(a, b)))
        }
        _ => a == b,
    }
}

/// Whether an event is the one that a step waits for. `fields` are paths with the value each must have: into the
/// event's `data`, or `subject`, `source`, `id` and `type` of the event itself; `data.X` says the same as `X`.
pub(super) fn matches(event: &Json, fields: &Json) -> bool {
    let fields = fields.as_object().into_iter().flatten();
    fields.into_iter().all(|(path, wanted)| {
        let way: Vec<String> = path.split('.').map(str::to_owned).collect();
        let of_the_event = ["data", "subject", "source", "id", "type"].contains(&way[0].as_str());
        let root = if of_the_event { event } else { &event["data"] };
        same(descend(root, &way).unwrap_or(&Json::Null), wanted)
    })
}

/// An instant for people, where there is one.
pub(super) fn shown(at: Option<Millis>) -> Json {
    at.map_or(Json::Null, |at| Json::String(time::shown(at)))
}

/// From 0 to 1, the same for each host that asks about the same try, and spread over workflows.
pub(super) fn jitter(facts: &Facts, step: &str, attempt: u32) -> f64 {
    let digest = crate::ids::digest(&[&facts.tenant, &facts.step_key(step), &attempt.to_string()]);
    f64::from(u16::from_be_bytes([digest[0], digest[1]])) / f64::from(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn conditions_compare_as_json_does() {
        for (operator, value, to, holds) in [
            ("eq", json!(1), json!(1.0), true),
            ("eq", json!({ "a": 1, "b": [2] }), json!({ "b": [2.0], "a": 1 }), true),
            ("ne", json!(null), json!("x"), true),
            ("gt", json!(2), json!(1), true),
            ("gt", json!("2"), json!(1), false),
            ("lte", json!("a"), json!("b"), true),
            ("in", json!("a"), json!(["a", "b"]), true),
            ("notIn", json!("a"), json!([]), true),
            ("isNull", json!(null), json!(true), true),
            ("isNull", json!(0), json!(true), false),
            ("startsWith", json!("clip-7"), json!("clip-"), true),
        ] {
            assert_eq!(test(operator, &value, &to), holds, "{value} {operator} {to}");
        }
    }

    #[test]
    fn events_match_by_their_data_and_by_what_stands_around_it() {
        let event = json!({ "id": "e1", "subject": "s", "data": { "file": { "id": 7 }, "kind": "clip" } });
        assert!(matches(&event, &json!({})));
        assert!(matches(&event, &json!({ "file.id": 7, "data.kind": "clip", "subject": "s" })));
        assert!(!matches(&event, &json!({ "file.id": 8 })));
        assert!(!matches(&event, &json!({ "none": "clip" })));
    }
}
