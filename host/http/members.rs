//! The bodies of operators' requests, read strictly: every member that is wrong is named, with what it takes.

use axum::body::Body;
use axum::http::HeaderMap;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value as Json};

use super::{Shared, body};
use crate::failure::{Code, Failure, FieldFault};
use crate::idempotency::request;
use crate::suggest;

/// What a member takes; all but the required ones may be left out, or be null.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Takes {
    Text,
    RequiredText,
    Texts,
    RequiredTexts,
    Flag,
    Number,
}

impl Takes {
    fn is_required(self) -> bool {
        matches!(self, Takes::RequiredText | Takes::RequiredTexts)
    }

    fn fits(self, value: &Json) -> bool {
        match self {
            Takes::Text | Takes::RequiredText => value.is_string(),
            Takes::Texts | Takes::RequiredTexts => {
                value.as_array().is_some_and(|items| items.iter().all(Json::is_string))
            }
            Takes::Flag => value.is_boolean(),
            Takes::Number => value.as_u64().is_some_and(|number| u32::try_from(number).is_ok()),
        }
    }

    /// With an article, for sentences.
    fn what(self) -> &'static str {
        match self {
            Takes::Text | Takes::RequiredText => "a text",
            Takes::Texts | Takes::RequiredTexts => "an array of texts",
            Takes::Flag => "true or false",
            Takes::Number => "a whole number",
        }
    }
}

/// Reads a body that is an object with these members.
///
/// # Errors
/// `VALIDATION` with all that is wrong; see also [`body::read`] and [`body::check_type`].
pub(super) async fn read<T: DeserializeOwned>(
    shared: &Shared,
    headers: &HeaderMap,
    body: Body,
    known: &[(&str, Takes)],
) -> Result<T, Failure> {
    body::check_type(headers)?;
    let bytes = body::read(headers, body, shared.app.settings.body_limit).await?;
    if bytes.trim_ascii().is_empty() {
        return Err(not_an_object("empty", known));
    }
    let Json::Object(mut members) = request::parse(&bytes)? else {
        return Err(not_an_object("no JSON object", known));
    };
    // What is null is left out.
    members.retain(|_, value| !value.is_null());
    let faults = faults(&members, known);
    if !faults.is_empty() {
        let told = faults.iter().map(|(name, message)| format!("`{name}` {message}")).collect::<Vec<_>>().join("; ");
        let fields = faults.into_iter().map(|(name, message)| FieldFault { pointer: format!("/{name}"), message });
        return Err(Failure { fields: fields.collect(), ..Failure::new(Code::Validation, told) });
    }
    // Whatever is left has the type that it is read as.
    serde_json::from_value(Json::Object(members)).map_err(|error| Failure::new(Code::Validation, error.to_string()))
}

fn not_an_object(what: &str, known: &[(&str, Takes)]) -> Failure {
    let form = match known.iter().map(|(name, _)| *name).collect::<Vec<_>>() {
        names if known.iter().any(|(_, takes)| takes.is_required()) => format!("one with {}", names.join(", ")),
        names => format!("{{}}, or one with some of {}", names.join(", ")),
    };
    Failure::new(Code::Validation, format!("the body is {what}: send a JSON object, {form}"))
}

/// Names of members, and what is wrong with each: the sentence goes on after the name.
fn faults(members: &Map<String, Json>, known: &[(&str, Takes)]) -> Vec<(String, String)> {
    let mut faults = Vec::new();
    for name in members.keys().filter(|name| !known.iter().any(|(it, _)| it == name)) {
        let names = || known.iter().map(|(name, _)| *name);
        let (short, hint) = (name.chars().take(40).collect::<String>(), suggest::hint(name, names()));
        faults.push((short, format!("is no member here{hint}; there are {}", names().collect::<Vec<_>>().join(", "))));
    }
    for (name, takes) in known {
        match members.get(*name) {
            None if takes.is_required() => {
                faults.push(((*name).to_owned(), format!("is missing: it must be {}", takes.what())));
            }
            Some(value) if !takes.fits(value) => {
                faults.push(((*name).to_owned(), format!("must be {}", takes.what())));
            }
            None | Some(_) => {}
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const KNOWN: [(&str, Takes); 4] = [
        ("tenant", Takes::RequiredText),
        ("scopes", Takes::RequiredTexts),
        ("all", Takes::Flag),
        ("rate", Takes::Number),
    ];

    fn told(members: Json) -> Vec<String> {
        let Json::Object(members) = members else { panic!("no object") };
        faults(&members, &KNOWN).into_iter().map(|(name, message)| format!("{name} {message}")).collect()
    }

    #[test]
    fn members_of_the_right_types_have_no_fault() {
        assert_eq!(told(json!({ "tenant": "a", "scopes": ["b"], "all": true, "rate": 5 })), [""; 0]);
        assert_eq!(told(json!({ "tenant": "a", "scopes": [] })), [""; 0]);
    }

    #[test]
    fn all_wrong_members_are_named_with_what_they_take() {
        let got = told(json!({ "tenent": "a", "scopes": ["b", 1], "all": "yes", "rate": -1 }));
        let want = [
            "tenent is no member here, did you mean \"tenant\"?; there are tenant, scopes, all, rate",
            "tenant is missing: it must be a text",
            "scopes must be an array of texts",
            "all must be true or false",
            "rate must be a whole number",
        ];
        assert_eq!(got, want);
    }

    #[test]
    fn what_is_no_object_says_the_form() {
        let told = not_an_object("empty", &KNOWN).detail;
        assert_eq!(told, "the body is empty: send a JSON object, one with tenant, scopes, all, rate");
        let told = not_an_object("no JSON object", &[("plugin", Takes::Text)]).detail;
        assert_eq!(told, "the body is no JSON object: send a JSON object, {}, or one with some of plugin");
    }
}
