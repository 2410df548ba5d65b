//! Flow definitions: everything that can be wrong with one is found when it loads.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Flow;
use super::manifest::{is_event_type, retry};
use super::read::{Reader, kind};
use crate::workflow::Definition;
use crate::workflow::definition::camel;

use crate::suggest;

/// What the plugin has that a flow may name.
pub(super) struct Known<'k> {
    pub scripts: BTreeSet<&'k str>,
    pub actions: BTreeSet<&'k str>,
}

const USES: [&str; 4] = ["script", "action", "sleep", "waitForEvent"];
const RUN: [&str; 4] = ["idempotencyKey", "scopedKey", "workflowId", "tenantId"];
const OPERATORS: [&str; 10] = ["eq", "ne", "gt", "gte", "lt", "lte", "in", "notIn", "isNull", "startsWith"];

/// More steps are not read: every one is compared with all that come before it.
const MOST_STEPS: usize = 1000;

/// One step, as far as the others need to know it.
struct Step<'v> {
    /// `None` where it has none that it can keep: that is told, and the rest of it is checked all the same.
    id: Option<&'v str>,
    reader: &'v Reader<'v>,
    /// Indices of the steps that end before it begins.
    before: Vec<usize>,
}

/// Reads a definition; what is wrong is noted in its findings.
pub(super) fn read(root: &Reader<'_>, known: &Known<'_>) -> Option<Flow> {
    if !root.object(&["$schema", "name", "job", "steps"]) {
        return None;
    }
    root.field("$schema").map(|it| it.text());
    let rule = "lower-case letters, digits, `-` and `_`, at most 64";
    let name = root.required("name", "\"name\": \"my-flow\"").and_then(|it| it.name(is_name, rule));
    let seed = root.field("job").map(|job| seed(&job)).unwrap_or_default();
    let list = root.required("steps", "\"steps\": [{ \"id\": \"…\", \"uses\": \"script\", … }]")?;
    let items = list.items();
    if list.value.as_array().is_some_and(Vec::is_empty) {
        list.fault("must have a step at least");
    }
    if items.len() > MOST_STEPS {
        list.fault(format!(
            "has {} steps, and a flow has {MOST_STEPS} at most: make several flows of it, one starting the next",
            items.len()
        ));
        return None;
    }
    let steps = order(&items);
    for (index, step) in steps.iter().enumerate() {
        let earlier = ancestors(&steps, index);
        let earlier =
            steps.iter().zip(&earlier).filter(|(_, before)| **before).filter_map(|(step, _)| step.id).collect();
        let paths = Paths { seed: &seed, earlier, all: &steps };
        check_step(step.reader, &paths, known);
    }
    // What was found wrong so far may make it unreadable; then that has been told.
    let told = root.is_faulty();
    match Definition::read(root.value) {
        Ok(definition) => Some(Flow { name: name?.to_owned(), seed, definition: Arc::new(definition) }),
        Err(_) if told => None,
        Err(error) => {
            root.fault(error.to_string());
            None
        }
    }
}

/// `[a-z0-9_-]{1,64}`
fn is_name(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_')
}

fn seed(job: &Reader<'_>) -> Vec<String> {
    if !job.object(&["seed"]) {
        return Vec::new();
    }
    let Some(list) = job.required("seed", "\"seed\": [\"event_id\"]") else { return Vec::new() };
    let mut keys: BTreeMap<String, &str> = BTreeMap::new();
    let mut seed = Vec::new();
    let fits = |text: &str| (1..=100).contains(&text.len()) && !text.contains(|c: char| c == '.' || c.is_whitespace());
    for (text, it) in list.texts() {
        if it.name(fits, "the name of a key, without `.` and spaces").is_none() {
            continue;
        }
        if let Some(other) = keys.insert(camel(text), text).filter(|other| *other != text) {
            it.fault(format!(
                "is \"{text}\", and \"{other}\" is there too: both would be `trigger.{}`, so keep one",
                camel(text)
            ));
        }
        seed.push(text.to_owned());
    }
    seed
}

/// The steps, each with those that come before it: the ones in `after`, or the one above it.
fn order<'v>(items: &'v [Reader<'v>]) -> Vec<Step<'v>> {
    let mut steps: Vec<Step<'v>> = Vec::new();
    for reader in items {
        if !reader.value.is_object() {
            reader.fault(format!("must be an object, it is {}", kind(reader.value)));
            continue;
        }
        let rule = "lower-case letters, digits, `-` and `_`, at most 64";
        let id = reader.required("id", "\"id\": \"push\"").and_then(|it| it.name(is_name, rule));
        let doubled = id.filter(|id| steps.iter().any(|step| step.id == Some(*id)));
        if let Some(id) = doubled {
            reader.fault(format!("has the id \"{id}\", which another step has: choose another"));
        }
        steps.push(Step { id: id.filter(|_| doubled.is_none()), reader, before: Vec::new() });
    }
    let ids: Vec<Option<&str>> = steps.iter().map(|step| step.id).collect();
    for (index, step) in steps.iter_mut().enumerate() {
        step.before = match step.reader.field("after") {
            Some(after) => after_of(&after, &ids),
            None => index.checked_sub(1).into_iter().collect(),
        };
    }
    refuse_cycles(&steps);
    steps
}

fn after_of(after: &Reader<'_>, ids: &[Option<&str>]) -> Vec<usize> {
    let place = |text: &str, it: &Reader<'_>| {
        let found = ids.iter().position(|id| *id == Some(text));
        if found.is_none() {
            let hint = suggest::hint(text, ids.iter().copied().flatten());
            it.fault(format!("names the step \"{text}\", which is not there{hint}"));
        }
        found
    };
    match after.value.as_str() {
        Some(text) => place(text, after).into_iter().collect(),
        None => after.texts().into_iter().filter_map(|(text, it)| place(text, &it)).collect(),
    }
}

fn refuse_cycles(steps: &[Step<'_>]) {
    let looped: Vec<usize> = (0..steps.len()).filter(|index| ancestors(steps, *index)[*index]).collect();
    let Some(first) = looped.first() else { return };
    let names: Vec<&str> = looped.iter().map(|index| steps[*index].id.unwrap_or("without an id")).collect();
    steps[*first].reader.fault(format!(
        "waits for itself: the steps {} wait for one another; change their `after` (a step without it waits for \
         the one above it)",
        names.join(", ")
    ));
}

/// Of every step whether it ends before this one begins.
fn ancestors(steps: &[Step<'_>], index: usize) -> Vec<bool> {
    let mut found = vec![false; steps.len()];
    let mut open = steps[index].before.clone();
    while let Some(next) = open.pop() {
        if !found[next] {
            found[next] = true;
            open.extend(&steps[next].before);
        }
    }
    found
}

/// What a `from` of one step may name.
struct Paths<'p> {
    seed: &'p [String],
    earlier: BTreeSet<&'p str>,
    all: &'p [Step<'p>],
}

fn check_step(step: &Reader<'_>, paths: &Paths<'_>, known: &Known<'_>) {
    let uses = step.required("uses", "\"uses\": \"script\"").and_then(|it| it.one_of(&USES)).map(|at| USES[at]);
    let common = ["id", "uses", "after", "when"];
    let own: &[&str] = match uses {
        Some("script" | "action") => &["inputs", "retry", "timeout"],
        Some("sleep") => &["inputs", "for", "until"],
        Some("waitForEvent") => &["inputs", "type", "match", "timeout"],
        _ => &["inputs", "retry", "timeout", "for", "until", "type", "match"],
    };
    step.object(&[&common, own].concat());
    step.field("retry").map(|it| retry(&it));
    step.field("timeout").map(|it| it.duration());
    if let Some(when) = step.field("when") {
        check_when(&when, paths);
    }
    let inputs = step.field("inputs");
    for (_, input) in inputs.as_ref().map(Reader::members).unwrap_or_default() {
        check_input(&input, paths);
    }
    match uses {
        Some(target @ ("script" | "action")) => {
            let names = if target == "script" { &known.scripts } else { &known.actions };
            check_target(step, inputs.as_ref(), target, names);
        }
        Some("sleep") => check_sleep(step, inputs.as_ref(), paths),
        Some("waitForEvent") => check_wait(step, inputs.as_ref(), paths),
        _ => {}
    }
}

/// `{ "const": … }` or `{ "from": "…" }`.
fn check_input(input: &Reader<'_>, paths: &Paths<'_>) {
    if !input.value.is_object() {
        input.fault(format!("must be {{ \"const\": … }} or {{ \"from\": \"…\" }}, it is {}", kind(input.value)));
        return;
    }
    input.object(&["const", "from"]);
    match (input.field("const"), input.field("from")) {
        (None, Some(from)) => check_from(&from, paths),
        (Some(_), Some(_)) => input.fault("has both `const` and `from`: keep one"),
        (None, None) => input.fault("must have `const` or `from`"),
        (Some(_), None) => {}
    }
}

fn check_from(from: &Reader<'_>, paths: &Paths<'_>) {
    let Some(text) = from.text() else { return };
    let mut parts = text.split('.');
    let (root, name) = (parts.next().unwrap_or_default(), parts.next());
    if text.split('.').any(str::is_empty) {
        return from.fault(format!("is \"{text}\": there is nothing before, between or after a `.`"));
    }
    match (root, name) {
        ("trigger", Some(key)) => {
            if !paths.seed.iter().any(|seed| seed == key || camel(seed) == key) {
                let known = paths.seed.iter().map(String::as_str);
                let list = if paths.seed.is_empty() { "it lists none".to_owned() } else { paths.seed.join(", ") };
                let hint = suggest::hint(key, known);
                from.fault(format!("is \"{text}\", but `job.seed` has no key \"{key}\"{hint} ({list})"));
            }
        }
        ("run", Some(key)) if RUN.contains(&key) && parts.next().is_none() => {}
        ("run", Some(key)) => {
            let hint = suggest::hint(key, RUN);
            from.fault(format!("is \"{text}\", which is not there{hint} (there are run.{})", RUN.join(", run.")));
        }
        ("steps", Some(id)) => check_from_step(from, text, id, paths),
        ("trigger" | "steps", None) => from.fault(format!("is \"{text}\": name what of it, \"{root}.…\"")),
        _ => from.fault(format!("is \"{text}\": it must begin with `trigger.`, `run.` or `steps.`")),
    }
}

fn check_from_step(from: &Reader<'_>, text: &str, id: &str, paths: &Paths<'_>) {
    if paths.earlier.contains(id) {
        let sleeps = paths.all.iter().any(|step| step.id == Some(id) && step.reader.value["uses"] == "sleep");
        if sleeps && text.split('.').count() > 2 {
            from.fault(format!("is \"{text}\", but the step \"{id}\" sleeps, and its result is null"));
        }
        return;
    }
    if paths.all.iter().any(|step| step.id == Some(id)) {
        return from.fault(format!(
            "is \"{text}\", but the step \"{id}\" does not end before this one begins: add it to `after`"
        ));
    }
    let hint = suggest::hint(id, paths.all.iter().filter_map(|step| step.id));
    from.fault(format!("is \"{text}\", but there is no step \"{id}\"{hint}"));
}

/// `{ "from": "…", OPERATOR: … }`; without an operator the value must be truthy.
fn check_when(when: &Reader<'_>, paths: &Paths<'_>) {
    if !when.object(&[&["from"], &OPERATORS[..]].concat()) {
        return;
    }
    if let Some(from) = when.required("from", "\"from\": \"steps.push.accepted\"") {
        check_from(&from, paths);
    }
    for name in ["in", "notIn"] {
        when.field(name).map(|list| list.items());
    }
    when.field("isNull").map(|it| it.boolean());
}

/// The script or action that a step runs is named by a constant.
fn check_target(step: &Reader<'_>, inputs: Option<&Reader<'_>>, target: &str, names: &BTreeSet<&str>) {
    let right = format!("\"inputs\": {{ \"{target}\": {{ \"const\": \"NAME\" }} }}");
    let Some(input) = inputs.and_then(|inputs| inputs.field(target)) else {
        return step.fault(format!("does not say which {target} it runs: write {right}"));
    };
    let Some(constant) = input.field("const") else {
        return input.fault(format!("must be a constant: write {right}"));
    };
    let Some(name) = constant.text() else { return };
    if !names.contains(name) {
        let hint = suggest::hint(name, names.iter().copied());
        let place = if target == "script" { format!("scripts/{name}.ts") } else { "handlers/".to_owned() };
        constant.fault(format!("names the {target} \"{name}\", which is not there (looked in {place}){hint}"));
    }
}

/// A parameter of a step: a member of its own, or one of its `inputs`. Gives the value where it is a constant.
fn parameter<'v>(step: &Reader<'v>, inputs: Option<&Reader<'v>>, name: &str) -> Option<Reader<'v>> {
    step.field(name).or_else(|| inputs?.field(name))
}

fn constant<'v>(it: Reader<'v>, paths: &Paths<'_>) -> Option<Reader<'v>> {
    if !it.value.is_object() {
        return Some(it);
    }
    check_input(&it, paths);
    it.field("const")
}

fn check_sleep(step: &Reader<'_>, inputs: Option<&Reader<'_>>, paths: &Paths<'_>) {
    match (parameter(step, inputs, "for"), parameter(step, inputs, "until")) {
        (Some(span), None) => {
            constant(span, paths).map(|it| it.duration());
        }
        (None, Some(instant)) => {
            let instant = constant(instant, paths);
            let fits = |text: &str| text.parse::<jiff::Timestamp>().is_ok();
            instant.map(|it| it.name(fits, "an instant with its zone, such as \"2026-01-31T08:00:00Z\""));
        }
        (Some(_), Some(until)) => until.fault("is there beside `for`: keep one"),
        (None, None) => {
            step.fault("does not say how long it sleeps: write \"for\": \"1h\" or \"until\": { \"from\": … }")
        }
    }
}

fn check_wait(step: &Reader<'_>, inputs: Option<&Reader<'_>>, paths: &Paths<'_>) {
    match parameter(step, inputs, "type") {
        Some(it) => {
            let rule = "the type of an event, such as \"video.uploaded\"";
            constant(it, paths).map(|it| it.name(is_event_type, rule));
        }
        None => step.fault("does not say which event it waits for: write \"type\": \"video.uploaded\""),
    }
    let Some(fields) = step.field("match") else { return };
    for (_, it) in fields.members() {
        if it.value.is_object() {
            check_input(&it, paths);
        }
    }
}
