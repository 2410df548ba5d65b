//! `--json`: what each command prints has the members that docs/operations.md names, and no others.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value as Json;

use super::{body, run, shop};
use crate::support::process::Folders;

/// What the documentation names in the row of a command, in backticks.
fn documented(command: &str) -> BTreeSet<String> {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/operations.md")).unwrap();
    let table = text.split("## JSON of the commands").nth(1).unwrap().split("\n## ").next().unwrap().to_owned();
    let words = |line: &str| -> BTreeSet<String> { line.split('`').skip(1).step_by(2).map(str::to_owned).collect() };
    let rows = table.lines().filter(|line| line.starts_with("| `"));
    let mut found = BTreeSet::new();
    for row in rows {
        let named = row.split('|').nth(1).unwrap();
        if words(named).contains(command) {
            found = words(row);
            if row.contains("the same with") {
                found.extend(documented("schema plan"));
            }
            if row.contains("each as above") {
                found.extend(documented("token create"));
            }
            if row.contains("(as above)") {
                found.extend(documented("plugin list"));
            }
        }
    }
    assert!(found.len() > 3, "{command} has a row");
    found
}

/// Names of all members, less those of the plugin's own data.
fn members(document: &Json, into: &mut BTreeSet<String>) {
    match document {
        Json::Object(all) => all.iter().for_each(|(name, value)| {
            into.insert(name.clone());
            // What is within these is the plugin's.
            if !["data", "seed", "result"].contains(&name.as_str()) {
                members(value, into);
            }
        }),
        Json::Array(items) => items.iter().for_each(|item| members(item, into)),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {}
    }
}

#[track_caller]
fn check(folders: &Folders, command: &str, args: &[&str]) -> Json {
    let words: Vec<&str> = command.split(' ').chain(args.iter().copied()).chain(["--json"]).collect();
    let ended = run(folders.command(&words));
    let document: Json = serde_json::from_str(&ended.out)
        .unwrap_or_else(|error| panic!("{command}: {error}: {}{}", ended.out, ended.err));
    let (mut found, known) = (BTreeSet::new(), documented(command));
    members(&document, &mut found);
    let unknown: Vec<_> = found.difference(&known).collect();
    assert!(unknown.is_empty(), "{command} prints {unknown:?}, which docs/operations.md does not name");
    document
}

#[test]
fn json_of_each_command_has_the_documented_members() {
    let folders = shop();
    crate::support::host::write(&folders.plugins().join("bad/plugin.json"), "{");
    check(&folders, "schema plan", &[]);
    check(&folders, "schema apply", &["shop"]);
    folders.database("shop").execute_batch("CREATE TABLE by_hand (n INTEGER)").unwrap();
    assert_eq!(check(&folders, "schema plan", &["shop"])["plugins"][0]["refused"], true);
    check(&folders, "schema status", &["shop"]);
    check(&folders, "invoke", &["shop", "add", "--key", "k", "--input", &body("k")]);
    check(&folders, "plugin list", &[]);
    let made = check(&folders, "token create", &["--tenant", "a", "--subject", "s", "--scope", "operator"]);
    check(&folders, "token list", &[]);
    check(&folders, "token revoke", &[made["id"].as_str().unwrap()]);
    check(&folders, "events list", &[]);
    check(&folders, "events dead", &[]);
    check(&folders, "events replay", &["--all"]);
    check(&folders, "events discard", &["--all"]);
    check(&folders, "backup", &["copy"]);
    check(&folders, "restore", &["copy", "--data", "other"]);
    check(&folders, "doctor", &[]);
    let host = folders.dev();
    check(&folders, "plugin reload", &[]);
    host.post("shop", "fail-late", "f", r#"{"code":"json","fail":false}"#).data();
    check(&folders, "flow list", &[]);
    check(&folders, "flow show", &["ship-json"]);
}
