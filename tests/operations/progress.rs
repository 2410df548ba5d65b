//! How far long work is, on a terminal.

use std::process::Command;

use super::{run, shop};
use crate::support::process::{Folders, binary};

/// A command on a terminal of its own; what it printed comes with what only a terminal gets to see.
fn on_a_terminal(folders: &Folders, line: &str) -> String {
    let mut script = Command::new("script");
    script.args(["-qec", &format!("'{}' {line}", binary().display()), "/dev/null"]);
    let ended = run(folders.onto(script));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    ended.out
}

/// Enough tables to take longer than the eye.
fn many_tables(folders: &Folders, name: &str) {
    let tables: String = (0..400)
        .map(|number| format!("CREATE TABLE {name}_{number} (id TEXT PRIMARY KEY, n INTEGER UNIQUE);\n"))
        .collect();
    let path = folders.plugins().join("shop/schema.sql");
    let all = std::fs::read_to_string(&path).unwrap() + &tables;
    std::fs::write(path, all).unwrap();
}

#[test]
fn apply_shows_its_steps_on_a_terminal_with_a_host_and_without_one() {
    let folders = shop();
    many_tables(&folders, "a");
    let seen = on_a_terminal(&folders, "schema apply shop");
    assert!(seen.contains("schema shop: ") && seen.contains(" of 803, "), "{seen}");
    assert!(seen.contains("applied, 803 steps"), "{seen}");
    let host = folders.dev();
    many_tables(&folders, "b");
    host.wait_for("reloaded shop", 0);
    let seen = on_a_terminal(&folders, "schema status shop");
    assert!(seen.contains("as schema.sql wants it"), "{seen}");
    drop(host);
    let host = crate::support::process::Process::start(folders.command(&["dev"]));
    many_tables(&folders, "c");
    host.wait_for("reloaded shop", 0);
    let seen = on_a_terminal(&folders, "schema apply shop");
    assert!(seen.contains("schema shop: ") && seen.contains(" of 800, "), "{seen}");
    assert!(seen.contains("applied, 800 steps"), "{seen}");
}

#[test]
fn apply_is_quiet_where_nobody_looks() {
    let folders = shop();
    many_tables(&folders, "a");
    let ended = run(folders.command(&["schema", "apply", "shop"]));
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
    assert_eq!(ended.out.lines().count(), 2, "{}", ended.out);
}
