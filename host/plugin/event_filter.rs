//! `filter` of a subscription: conditions on an event's attributes and data, in the operators of `store`'s `where`.

use std::cmp::Ordering;

use serde_json::Value as Json;

use crate::suggest;

const OPERATORS: [&str; 10] = ["eq", "ne", "gt", "gte", "lt", "lte", "in", "notIn", "isNull", "startsWith"];
/// Levels of `or` within `or`, and conditions in all.
const MAX_DEPTH: usize = 8;
const FORM: &str = "write { \"data.region\": { \"eq\": \"north\" } }";

/// Conditions that all hold, as they stand in `plugin.json`.
#[derive(Clone, Debug, PartialEq)]
pub struct EventFilter {
    all: Vec<Condition>,
    /// As it was written.
    source: Json,
}

#[derive(Clone, Debug, PartialEq)]
enum Condition {
    /// One member, by its path, tested by one operator.
    Member {
        path: Vec<String>,
        operator: String,
        operand: Json,
    },
    Any(Vec<EventFilter>),
}

impl EventFilter {
    /// Reads a filter.
    ///
    /// # Errors
    /// What is wrong and what would be right.
    pub fn parse(filter: &Json) -> Result<Self, String> {
        parse(filter, 0)
    }

    /// The filter as it was written.
    pub fn source(&self) -> &Json {
        &self.source
    }

    /// Whether an event (CloudEvents JSON) passes. What the event does not have counts as null.
    pub fn passes(&self, event: &Json) -> bool {
        self.all.iter().all(|condition| match condition {
            Condition::Any(branches) => branches.iter().any(|branch| branch.passes(event)),
            Condition::Member { path, operator, operand } => {
                let found = path.iter().try_fold(event, |value, name| value.get(name)).unwrap_or(&Json::Null);
                holds(found, operator, operand)
            }
        })
    }
}

fn parse(filter: &Json, depth: usize) -> Result<EventFilter, String> {
    let Some(members) = filter.as_object() else { return Err(format!("must be an object: {FORM}")) };
    if depth > MAX_DEPTH {
        return Err(format!("nests `or` more than {MAX_DEPTH} deep"));
    }
    let mut conditions = Vec::new();
    for (name, value) in members {
        if name == "or" {
            let branches = value.as_array().filter(|branches| !branches.is_empty());
            let branches = branches.ok_or("`or` takes an array of filters: { \"or\": [{ … }, { … }] }")?;
            let branches = branches.iter().map(|branch| parse(branch, depth + 1)).collect::<Result<_, _>>()?;
            conditions.push(Condition::Any(branches));
            continue;
        }
        let path = path(name)?;
        if is_plain(value) {
            // No script could mean anything else by it, so it need not be written out.
            conditions.push(Condition::Member { path, operator: "eq".to_owned(), operand: value.clone() });
            continue;
        }
        let Some(tests) = value.as_object().filter(|tests| !tests.is_empty()) else {
            return Err(format!(
                "\"{name}\" takes a string, a number, a boolean or an operator: {{ \"{name}\": {{ \"eq\": … }} }}"
            ));
        };
        for (operator, operand) in tests {
            check(name, operator, operand)?;
            conditions.push(Condition::Member {
                path: path.clone(),
                operator: operator.clone(),
                operand: operand.clone(),
            });
        }
    }
    Ok(EventFilter { all: conditions, source: filter.clone() })
}

/// `data.a.b`, or the name of an attribute.
fn path(name: &str) -> Result<Vec<String>, String> {
    let parts: Vec<String> = name.split('.').map(str::to_owned).collect();
    let first = parts.first().map_or("", String::as_str);
    let attribute = parts.len() == 1 && first.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    if parts.iter().any(String::is_empty) || !(attribute || first == "data") {
        let hint = if first == "data" || parts.len() == 1 {
            String::new()
        } else {
            format!("; did you mean \"data.{name}\"?")
        };
        return Err(format!("\"{name}\" is no attribute of events and no path into their data{hint}"));
    }
    Ok(parts)
}

fn check(name: &str, operator: &str, operand: &Json) -> Result<(), String> {
    let wrong = |right: &str| Err(format!("\"{name}\": \"{operator}\" takes {right}"));
    match operator {
        "eq" if operand.is_null() => Err(format!("\"{name}\": use {{ \"isNull\": true }} to ask for null")),
        "eq" | "ne" if is_plain(operand) => Ok(()),
        "eq" | "ne" => wrong("a string, a number or a boolean"),
        "gt" | "gte" | "lt" | "lte" if operand.is_string() || operand.is_number() => Ok(()),
        "gt" | "gte" | "lt" | "lte" => wrong("a string or a number"),
        "in" | "notIn" if operand.as_array().is_some_and(|list| list.iter().all(is_plain)) => Ok(()),
        "in" | "notIn" => wrong("an array of strings, numbers or booleans"),
        "isNull" if operand.is_boolean() => Ok(()),
        "isNull" => wrong("true or false"),
        "startsWith" if operand.is_string() => Ok(()),
        "startsWith" => wrong("a string"),
        _ => {
            let hint = suggest::hint(operator, OPERATORS);
            Err(format!("\"{name}\": there is no operator \"{operator}\"{hint} (there are {})", OPERATORS.join(", ")))
        }
    }
}

fn is_plain(value: &Json) -> bool {
    value.is_string() || value.is_number() || value.is_boolean()
}

fn holds(found: &Json, operator: &str, operand: &Json) -> bool {
    let among = || operand.as_array().is_some_and(|list| list.iter().any(|value| equal(found, value)));
    let ordered = |fits: fn(Ordering) -> bool| compare(found, operand).is_some_and(fits);
    match operator {
        "eq" => equal(found, operand),
        "ne" => !equal(found, operand),
        "gt" => ordered(Ordering::is_gt),
        "gte" => ordered(Ordering::is_ge),
        "lt" => ordered(Ordering::is_lt),
        "lte" => ordered(Ordering::is_le),
        "in" => among(),
        "notIn" => !among(),
        "isNull" => operand.as_bool() == Some(found.is_null()),
        "startsWith" => found.as_str().zip(operand.as_str()).is_some_and(|(text, start)| text.starts_with(start)),
        _ => false,
    }
}

/// Numbers are equal by their value, whatever their spelling.
fn equal(a: &Json, b: &Json) -> bool {
    if a.is_number() { compare(a, b) == Some(Ordering::Equal) } else { a == b }
}

/// Numbers with numbers, text with text by its bytes.
fn compare(a: &Json, b: &Json) -> Option<Ordering> {
    match (a, b) {
        (Json::String(a), Json::String(b)) => Some(a.as_bytes().cmp(b.as_bytes())),
        (Json::Number(a), Json::Number(b)) => match (a.as_i64(), b.as_i64()) {
            (Some(a), Some(b)) => Some(a.cmp(&b)),
            _ => a.as_f64()?.partial_cmp(&b.as_f64()?),
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn passes(filter: Json) -> bool {
        let event = json!({
            "type": "t", "source": "cam-1", "subject": "s1", "severity": 3,
            "data": { "region": "north", "n": 5, "ratio": 0.5, "nested": { "deep": true }, "none": null },
        });
        EventFilter::parse(&filter).unwrap().passes(&event)
    }

    #[test]
    fn conditions_of_all_operators_hold_as_in_where() {
        for yes in [
            json!({}),
            json!({ "subject": { "eq": "s1" }, "data.region": { "startsWith": "nor" } }),
            json!({ "subject": "s1", "data.n": 5 }),
            json!({ "data.n": { "gte": 5, "lt": 5.5 } }),
            json!({ "data.n": { "eq": 5.0 } }),
            json!({ "data.nested.deep": { "eq": true } }),
            json!({ "data.region": { "in": ["south", "north"] } }),
            json!({ "data.missing": { "isNull": true }, "data.none": { "isNull": true } }),
            json!({ "data.missing": { "ne": "x" } }),
            json!({ "data.missing": { "notIn": ["x"] } }),
            json!({ "severity": { "gt": 2 } }),
            json!({ "or": [{ "data.n": { "eq": 1 } }, { "source": { "eq": "cam-1" } }] }),
        ] {
            assert!(passes(yes.clone()), "{yes}");
        }
        for no in [
            json!({ "subject": { "eq": "s1" }, "data.region": { "eq": "south" } }),
            json!({ "data.n": { "gt": 5 } }),
            json!({ "data.n": { "eq": "5" } }),
            json!({ "data.region": { "in": [] } }),
            json!({ "data.region": { "isNull": true } }),
            json!({ "data.missing": { "gt": 0 } }),
            json!({ "or": [{ "data.n": { "eq": 1 } }, { "source": { "eq": "cam-2" } }] }),
        ] {
            assert!(!passes(no.clone()), "{no}");
        }
    }

    #[test]
    fn wrong_filters_are_refused_with_the_right_form() {
        for (filter, says) in [
            (json!([]), "must be an object"),
            (json!({ "data": {} }), "or an operator"),
            (json!({ "subject": { "equals": "s1" } }), "there is no operator \"equals\""),
            (json!({ "region.name": { "eq": "s1" } }), "did you mean \"data.region.name\"?"),
            (json!({ "Subject": { "eq": "s1" } }), "no attribute"),
            (json!({ "subject": { "eq": null } }), "isNull"),
            (json!({ "subject": { "in": "s1" } }), "an array"),
            (json!({ "or": {} }), "an array of filters"),
            (json!({ "data.": { "eq": 1 } }), "no attribute"),
        ] {
            let why = EventFilter::parse(&filter).unwrap_err();
            assert!(why.contains(says), "{filter}: {why}");
        }
    }
}
