//! Scenarios as data: a fixture is files and steps, and what comes of it is a transcript.
//!
//! Files stand after `//- /PATH` lines; the steps after `//- steps`, one a line:
//! - `> POST PLUGIN/ACTION key=K tenant=T {…}` calls an action and prints the status and the body
//! - `> event TYPE id=I source=S subject=X tenant=T {…}` sends an event
//! - `> drain` relays, ticks and delivers until nothing is left to do at this instant
//! - `> sql PLUGIN SELECT …` prints the rows
//! - `> rows PLUGIN` prints how many rows each table has
//! - `> advance 90m` moves the clock, `> set-back 1h` moves it back, `> clear` clears expired records, `> restart` stops and starts the host

use std::collections::BTreeMap;
use std::fmt::Write as _;

use oncehost::config::Store;
use serde_json::Value as Json;

use super::host::{Answer, Call, Host};

/// Runs a fixture on each database and compares its transcript with what is expected, which is the same for all.
/// Identifiers show as `<1>`, `<2>`… in the order in which they appear.
#[track_caller]
pub fn check(fixture: &str, expected: &str) {
    for store in super::stores() {
        let name = format!("{store:?}");
        let transcript = run(fixture, store);
        let (got, want) = (trimmed(&transcript), trimmed(expected));
        assert!(got == want, "the transcript on {name} differs\n--- got\n{got}\n--- expected\n{want}");
    }
}

fn trimmed(text: &str) -> String {
    text.trim().lines().map(str::trim).collect::<Vec<_>>().join("\n")
}

fn run(fixture: &str, store: Store) -> String {
    let (files, steps) = split(fixture);
    let mut host = Host::with(files, |settings| settings.store = store);
    let mut transcript = String::new();
    for step in steps {
        writeln!(transcript, "{step}").unwrap();
        let told = take(&mut host, step.trim_start_matches("> "));
        if !told.is_empty() {
            writeln!(transcript, "{told}").unwrap();
        }
    }
    numbered(&transcript)
}

/// The files of a fixture, as path and text.
pub fn files(fixture: &str) -> Vec<(String, String)> {
    split(fixture).0
}

fn split(fixture: &str) -> (Vec<(String, String)>, Vec<String>) {
    let (mut files, mut steps, mut in_steps) = (Vec::<(String, String)>::new(), Vec::new(), false);
    for line in fixture.lines() {
        if let Some(name) = line.trim_start().strip_prefix("//- ") {
            in_steps = name.trim() == "steps";
            if !in_steps {
                files.push((name.trim().trim_start_matches('/').to_owned(), String::new()));
            }
        } else if in_steps {
            let line = line.trim();
            if !line.is_empty() {
                assert!(line.starts_with("> "), "a step begins with `> `: {line}");
                steps.push(line.to_owned());
            }
        } else if let Some((_, text)) = files.last_mut() {
            text.push_str(line);
            text.push('\n');
        }
    }
    (files, steps)
}

fn take(host: &mut Host, step: &str) -> String {
    let (verb, rest) = step.split_once(' ').unwrap_or((step, ""));
    match verb {
        "POST" => post(host, rest),
        "sql" => {
            let (plugin, sql) = rest.split_once(' ').expect("sql PLUGIN SELECT …");
            rows(host, plugin, sql)
        }
        "rows" => counts(host, rest),
        "advance" | "set-back" => {
            let by = i64::try_from(oncehost::config::duration(rest).unwrap().as_millis()).unwrap();
            host.clock.advance(if verb == "advance" { by } else { -by });
            String::new()
        }
        "event" => event(host, rest),
        "drain" => {
            host.drain();
            String::new()
        }
        "clear-events" => format!("{} rows", host.block_on(oncehost::events::clear(&host.app)).unwrap()),
        "clear" => {
            let (replies, marks) = host.block_on(host.app.clear_expired()).unwrap();
            format!("{replies} replies, {marks} marks")
        }
        "restart" => {
            host.restart();
            String::new()
        }
        _ => panic!("no such step: {step}"),
    }
}

/// `event TYPE source=S id=I subject=X tenant=T {data}`
fn event(host: &Host, rest: &str) -> String {
    let (event_type, mut rest) = rest.split_once(' ').unwrap_or((rest, ""));
    let mut event = serde_json::json!({ "specversion": "1.0", "type": event_type, "source": "test" });
    let mut tenant = "dev";
    while let Some((name, value)) = rest.split(' ').next().and_then(|word| word.split_once('='))
        && !name.starts_with('{')
    {
        if name == "tenant" {
            tenant = value
        } else {
            event[name] = value.into()
        }
        rest = rest.split_once(' ').map_or("", |(_, after)| after);
    }
    if !rest.is_empty() {
        event["data"] = serde_json::from_str(rest).unwrap();
    }
    let answer = host.send_event(tenant, &event);
    let json = answer.json();
    match answer.status {
        202 => format!("202 {json}"),
        status => format!("{status} {}: {}", json["error"].as_str().unwrap(), json["detail"].as_str().unwrap()),
    }
}

fn post(host: &Host, rest: &str) -> String {
    let (target, mut rest) = rest.split_once(' ').unwrap_or((rest, ""));
    let (plugin, action) = target.split_once('/').expect("PLUGIN/ACTION");
    let (mut key, mut tenant) = (None, None);
    loop {
        let (word, after) = rest.split_once(' ').unwrap_or((rest, ""));
        if let Some(value) = word.strip_prefix("key=") {
            key = Some(value);
        } else if let Some(value) = word.strip_prefix("tenant=") {
            tenant = Some(value);
        } else {
            break;
        }
        rest = after;
    }
    let answer = host.call(plugin, action, &Call { key, tenant, body: rest.as_bytes() });
    tell(&answer)
}

/// A success as its status and data; a failure as its status, name and sentence.
fn tell(answer: &Answer) -> String {
    let json = answer.json();
    if answer.status == 200 {
        let replayed = if answer.replayed { " (replayed)" } else { "" };
        return format!("200{replayed} {}", json["data"]);
    }
    let text = |member: &str| json[member].as_str().unwrap_or_default().to_owned();
    format!("{} {}: {}", answer.status, text("error"), text("detail"))
}

fn rows(host: &Host, plugin: &str, sql: &str) -> String {
    let lines: Vec<String> = host.rows(plugin, sql).into_iter().map(|row| Json::Array(row).to_string()).collect();
    if lines.is_empty() { "no rows".to_owned() } else { lines.join("\n") }
}

fn counts(host: &Host, plugin: &str) -> String {
    let kept = ["_oncehost_keys", "_oncehost_events", "_oncehost_workflows"];
    let tables = host.tables(plugin).into_iter();
    let tables = tables.filter(|table| !table.starts_with("_oncehost_") || kept.contains(&table.as_str()));
    let told = tables.map(|table| format!("{} {}", table.trim_start_matches("_oncehost_"), host.count(plugin, &table)));
    told.collect::<Vec<_>>().join(", ")
}

/// Replaces UUIDs by numbers.
fn numbered(text: &str) -> String {
    let mut seen = BTreeMap::new();
    let mut out = String::new();
    let mut rest = text;
    while let Some((at, id)) = (0..rest.len())
        .filter(|at| rest.is_char_boundary(*at))
        .find_map(|at| rest.get(at..at + 36).filter(|id| is_uuid(id)).map(|id| (at, id)))
    {
        let next = seen.len() + 1;
        let number = *seen.entry(id.to_owned()).or_insert(next);
        write!(out, "{}<{number}>", &rest[..at]).unwrap();
        rest = &rest[at + 36..];
    }
    out + rest
}

fn is_uuid(text: &str) -> bool {
    text.bytes().enumerate().all(|(index, byte)| match index {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    })
}
