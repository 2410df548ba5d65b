//! What is wrong with an input, field by field, in words for whoever sent it.

#![expect(clippy::wildcard_enum_match_arm, reason = "of the library's many kinds only a few have words of our own")]

use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind;
use serde_json::{Map, Value as Json};

use super::cost::cost;
use crate::failure::{Code, Failure, FieldFault};
use crate::plugin::InputSchema;
use crate::suggest;

/// More faults than this are not told.
const MOST: usize = 20;

/// Up to here the check takes a millisecond or so.
const QUICK: usize = 10_000;

/// More looks of the schema at the input than this are not made: a second or so.
const WORK: usize = 5_000_000;

/// Up to here the faults are collected, which the library does for every branch; above, an input only fits or does not.
const TOLD: usize = 200_000;

/// How much work the check of an input is; `None` where it takes long.
pub(super) fn quick(schema: &InputSchema, input: &Json) -> Option<usize> {
    if schema.is_flat { Some(0) } else { cost(&schema.source, input, QUICK) }
}

/// What is wrong with an input, if anything is.
pub(crate) fn check_input(schema: &InputSchema, input: &Json) -> Option<Failure> {
    check_after(schema, input, quick(schema, input))
}

/// The same, where [`quick`] is known.
pub(super) fn check_after(schema: &InputSchema, input: &Json, quick: Option<usize>) -> Option<Failure> {
    check(schema, input, quick.or_else(|| cost(&schema.source, input, WORK)))
}

/// The same, where it is so much work; `None` where that is too much.
fn check(schema: &InputSchema, input: &Json, work: Option<usize>) -> Option<Failure> {
    let Some(work) = work else {
        return Some(Failure::new(
            Code::Validation,
            "the input fits so many forms of the action's schema in so many ways that it cannot be checked; send less, \
             or nest it less (or let the schema tell its forms apart without a choice that holds itself)",
        ));
    };
    // What fits, as most does, is known sooner than where it does not.
    if schema.validator.is_valid(input) {
        return None;
    }
    if work > TOLD {
        return Some(Failure::new(
            Code::Validation,
            "the input is not what the action declares; it is too large to say where, send less to hear more",
        ));
    }
    let mut found = Found { schema: &schema.source, input, fields: Vec::new() };
    for error in schema.validator.iter_errors(input) {
        found.add(&error);
    }
    found.fields.truncate(MOST);
    let first = found.fields.first()?;
    let place = if first.pointer.is_empty() { String::new() } else { format!(" at {}", first.pointer) };
    let mut failure =
        Failure::new(Code::Validation, format!("the input is not what the action declares{place}: {}", first.message));
    failure.fields = found.fields;
    Some(failure)
}

struct Found<'f> {
    schema: &'f Json,
    input: &'f Json,
    fields: Vec<FieldFault>,
}

impl Found<'_> {
    fn add(&mut self, error: &ValidationError<'_>) {
        if self.fields.len() >= MOST {
            return;
        }
        let at = error.instance_path().as_str();
        match error.kind() {
            ValidationErrorKind::Required { property: Json::String(name) } => {
                let slip = self.slip(error, name);
                self.note(member(at, name), format!("is required{slip}"));
            }
            ValidationErrorKind::AdditionalProperties { unexpected }
            | ValidationErrorKind::UnevaluatedProperties { unexpected } => {
                let known = self.known(error);
                for name in unexpected.iter().take(MOST) {
                    let near = suggest::hint(name, known.iter().map(String::as_str));
                    self.note(member(at, name), format!("is not known here{near}"));
                }
            }
            ValidationErrorKind::FalseSchema => self.note(at.to_owned(), "may not be there".to_owned()),
            ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } => {
                match meant(context, at) {
                    Some(errors) => errors.iter().for_each(|error| self.add(error)),
                    None if let Some((place, kinds)) = kinds(context, at) => self.kind(place, &kinds),
                    None => self.note(at.to_owned(), "fits none of the forms that are allowed here".to_owned()),
                }
            }
            _ => self.note(at.to_owned(), self.said(error)),
        }
    }

    /// What is wrong, without the value, which may be a secret. A pattern speaks to machines: where its schema has a
    /// description, that is said instead.
    fn said(&self, error: &ValidationError<'_>) -> String {
        let path = error.schema_path().as_str();
        let place = path.strip_suffix("/pattern").and_then(|place| self.schema.pointer(place));
        match place.map(|place| (place["description"].as_str(), place["pattern"].as_str())) {
            Some((Some(wanted), _)) => format!("value has another form; wanted is {wanted}"),
            // As it was written, which is not always how the library has it.
            Some((None, Some(pattern))) => format!("value does not match \"{pattern}\""),
            Some((None, None)) | None => error.masked().to_string(),
        }
    }

    /// The member that tells forms apart has none of their constants.
    fn kind(&mut self, place: String, kinds: &[&Json]) {
        let texts = kinds.iter().filter_map(|kind| kind.as_str());
        let near = match self.input.pointer(&place).and_then(Json::as_str) {
            Some(written) => suggest::hint(written, texts),
            None => String::new(),
        };
        let kinds: Vec<String> = kinds.iter().map(ToString::to_string).collect();
        self.note(place, format!("is none of {}{near}", kinds.join(", ")));
    }

    fn note(&mut self, pointer: String, message: String) {
        let fault = FieldFault { pointer, message };
        if !self.fields.contains(&fault) {
            self.fields.push(fault);
        }
    }

    /// The members that the schema around an error names.
    fn known(&self, error: &ValidationError<'_>) -> Vec<String> {
        let path = error.schema_path().as_str();
        let around = path.rsplit_once('/').map_or("", |(around, _)| around);
        let members = self.schema.pointer(around).and_then(|it| it.get("properties")).and_then(Json::as_object);
        members.map_or_else(Vec::new, |members| members.keys().cloned().collect())
    }

    /// Whether a member that is missing is there under a name that nobody knows.
    fn slip(&self, error: &ValidationError<'_>, missing: &str) -> String {
        let known = self.known(error);
        let there = self.input.pointer(error.instance_path().as_str()).and_then(Json::as_object);
        let empty = Map::new();
        let unknown = there.unwrap_or(&empty).keys().filter(|name| !known.contains(name));
        match suggest::nearest(missing, unknown.map(String::as_str)) {
            Some(written) => format!("; there is \"{written}\", did you mean \"{missing}\"?"),
            None => String::new(),
        }
    }
}

/// A member's pointer.
fn member(at: &str, name: &str) -> String {
    format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"))
}

/// Which of several forms was meant, by its faults: the only one whose type fits, and whose constants do.
fn meant<'e>(forms: &'e [Vec<ValidationError<'static>>], at: &str) -> Option<&'e [ValidationError<'static>]> {
    let other = |error: &ValidationError<'_>| {
        let place = error.instance_path().as_str();
        match error.kind() {
            ValidationErrorKind::Type { .. } | ValidationErrorKind::Enum { .. } => place == at,
            ValidationErrorKind::Constant { .. } => true,
            _ => false,
        }
    };
    let mut fit = forms.iter().filter(|errors| !errors.iter().any(other));
    fit.next().filter(|_| fit.next().is_none()).map(Vec::as_slice)
}

/// Where several forms each want a constant, and which: what tells them apart. Forms of another type do not count.
fn kinds<'e>(forms: &'e [Vec<ValidationError<'static>>], at: &str) -> Option<(String, Vec<&'e Json>)> {
    let mut found: Option<(String, Vec<&Json>)> = None;
    let of_type = |error: &ValidationError<'_>| {
        matches!(error.kind(), ValidationErrorKind::Type { .. }) && error.instance_path().as_str() == at
    };
    for errors in forms.iter().filter(|errors| !errors.iter().any(of_type)) {
        let (place, kind) = errors.iter().find_map(|error| match error.kind() {
            ValidationErrorKind::Constant { expected_value } => {
                Some((error.instance_path().to_string(), &**expected_value))
            }
            _ => None,
        })?;
        let (first, kinds) = found.get_or_insert_with(|| (place.clone(), Vec::new()));
        if *first != place {
            return None;
        }
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn told(schema: &Json, input: &Json) -> Vec<(String, String)> {
        let schema = InputSchema::new(schema).unwrap();
        let failure = check_input(&schema, input);
        failure.map_or_else(Vec::new, |it| it.fields).into_iter().map(|it| (it.pointer, it.message)).collect()
    }

    fn one(schema: &Json, input: &Json) -> (String, String) {
        let mut all = told(schema, input);
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }

    #[test]
    fn missing_field_is_told_at_its_own_place() {
        let schema = json!({ "properties": { "a/b": { "required": ["c"] } } });
        assert_eq!(one(&schema, &json!({ "a/b": {} })), ("/a~1b/c".to_owned(), "is required".to_owned()));
    }

    #[test]
    fn slip_in_a_field_s_name_is_told_with_what_was_meant() {
        let open = json!({ "properties": { "title": {}, "text": {} }, "required": ["title"] });
        let (pointer, message) = one(&open, &json!({ "titel": 1, "text": 1 }));
        assert_eq!(
            (pointer.as_str(), message.as_str()),
            ("/title", "is required; there is \"titel\", did you mean \"title\"?")
        );
        let closed = json!({ "properties": { "text": {} }, "additionalProperties": false });
        let (pointer, message) = one(&closed, &json!({ "txet": 1 }));
        assert_eq!((pointer.as_str(), message.as_str()), ("/txet", "is not known here, did you mean \"text\"?"));
    }

    #[test]
    fn of_several_forms_the_one_that_was_meant_tells_its_faults() {
        let form = |kind: &str, size: &str| json!({ "type": "object", "properties": { "kind": { "const": kind }, size: { "type": "number" } }, "required": ["kind", size] });
        let schema = json!({ "anyOf": [form("circle", "r"), form("square", "side"), { "type": "null" }] });
        assert_eq!(one(&schema, &json!({ "kind": "circle", "side": 1 })).0, "/r");
        assert_eq!(one(&schema, &json!({ "kind": "square", "side": "1" })).0, "/side");
        let (pointer, message) = one(&schema, &json!({ "kind": "circel" }));
        assert_eq!(
            (pointer.as_str(), message.as_str()),
            ("/kind", "is none of \"circle\", \"square\", did you mean \"circle\"?")
        );
        let (pointer, message) = one(&json!({ "anyOf": [form("a", "b"), { "required": ["c"] }] }), &json!({ "d": 1 }));
        assert!(pointer.is_empty() && message.contains("none of the forms"), "{message}");
    }

    #[test]
    fn branches_that_hold_themselves_are_refused_before_they_take_all_time_and_memory() {
        let array = json!({ "type": "array", "items": { "$ref": "#/$defs/n" } });
        for branches in 2..4 {
            let n = json!({ "anyOf": vec![array.clone(); branches] });
            let schema = InputSchema::new(&json!({ "$defs": { "n": n }, "$ref": "#/$defs/n" })).unwrap();
            let deep = |levels| (0..levels).fold(json!(1), |inner, _| json!([inner]));
            let told = |levels| check_input(&schema, &deep(levels)).unwrap();
            assert!(told(4).fields[0].message.contains("none of the forms"));
            assert!(told(90).detail.contains("cannot be checked"), "{}", told(90).detail);
        }
        let wide = InputSchema::new(&json!({ "items": { "type": "number" } })).unwrap();
        let mut items = vec![json!(1); TOLD];
        assert!(check_input(&wide, &json!(items)).is_none());
        items.push(json!("1"));
        assert!(check_input(&wide, &json!(items)).unwrap().detail.contains("too large to say where"));
    }

    #[test]
    fn work_is_counted_where_a_schema_has_a_list_a_choice_or_a_reference() {
        let flat = json!({ "type": "object", "required": ["a"], "additionalProperties": false,
                           "properties": { "a": { "type": "string", "pattern": "^a" }, "b": { "properties": { "c": true } } } });
        assert!(InputSchema::new(&flat).unwrap().is_flat);
        let inner = json!({ "type": "number" });
        for (keyword, value) in [
            ("items", inner.clone()),
            ("anyOf", json!([inner])),
            ("not", inner.clone()),
            ("additionalProperties", inner.clone()),
            ("patternProperties", json!({ "a": inner })),
            ("$ref", json!("#")),
            ("properties", json!({ "a": { "contains": inner } })),
        ] {
            assert!(!InputSchema::new(&json!({ keyword: value })).unwrap().is_flat, "{keyword}");
        }
    }

    #[test]
    fn values_are_not_told() {
        for schema in [
            json!({ "type": "number" }),
            json!({ "pattern": "^a" }),
            json!({ "anyOf": [{ "type": "number" }, { "type": "null" }] }),
        ] {
            assert!(!one(&schema, &json!("secret")).1.contains("secret"));
        }
    }
}
