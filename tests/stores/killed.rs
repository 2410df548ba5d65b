//! `store copy` by the built binary, killed on the way: neither side is used meanwhile, and running it again ends it.

use std::process::{Command, Output};

use serde_json::{Value as Json, json};

use super::EDGE;
use crate::support::postgres;
use crate::support::process::{Folders, Process};
use crate::support::scenario::files;

/// What a command came to.
fn run(mut command: Command) -> (Option<i32>, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    (status.code(), String::from_utf8_lossy(&stdout).into_owned() + &String::from_utf8_lossy(&stderr))
}

fn copy(folders: &Folders, url: &str, more: &[&str]) -> Command {
    let mut command = folders.command(&["store", "copy", "edge", "--from", "sqlite", "--to", "env:OTHER"]);
    command.args(more).env("OTHER", url);
    command
}

fn list(folders: &Folders, url: Option<&str>) -> (Option<i32>, String) {
    let mut command = folders.command(&["flow", "list"]);
    if let Some(url) = url {
        command.env("ONCEHOST_STORES_EDGE", url);
    }
    run(command)
}

fn filled() -> (Folders, String) {
    let folders = Folders::new(files(EDGE));
    let host = folders.dev();
    let answer = host.post("edge", "fill", "k", r#"{"lines":500}"#);
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert!(host.terminate().success());
    (folders, answer.body)
}

#[test]
fn copy_that_was_killed_anywhere_goes_on_and_neither_side_is_used_meanwhile() {
    for point in ["copy-source-marked", "copy-target-marked", "copy-batch:1", "copy-batch:5", "copy-source-done"] {
        let ((folders, reply), url) = (filled(), postgres::database());
        let killed = copy(&folders, &url, &[]).env("ONCEHOST_CRASH_AT", point).output().unwrap();
        assert_eq!(killed.status.code(), None, "{point}: {}", String::from_utf8_lossy(&killed.stderr));
        let (code, told) = list(&folders, None);
        assert_eq!(code, Some(1), "{point}: {told}");
        let done = point == "copy-source-done";
        assert!(told.contains(if done { "go on there" } else { "has not ended since" }), "{point}: {told}");
        let (code, told) = list(&folders, Some(&url));
        if point != "copy-source-marked" {
            assert_eq!(code, Some(1), "{point}: {told}");
            assert!(told.contains("are being copied here from"), "{point}: {told}");
        }
        let (code, told) = run(copy(&folders, &url, &["--json"]));
        assert_eq!(code, Some(0), "{point}: {told}");
        let told: Json = serde_json::from_str(&told).unwrap();
        let tables = told["copied"][0]["tables"].as_array().unwrap();
        let lines = tables.iter().find(|table| table["table"] == "line").unwrap();
        assert_eq!(lines["rows"], 500, "{point}");
        let mut command = folders.command(&["dev"]);
        command.env("ONCEHOST_STORES_EDGE", &url);
        let host = Process::start(command);
        let again = host.post("edge", "fill", "k", r#"{"lines":500}"#);
        assert_eq!((again.replayed, &again.body), (true, &reply), "{point}");
        drop(host);
        let (code, told) = run(copy(&folders, &url, &[]));
        assert_eq!(code, Some(0), "{told}");
        assert!(told.contains("already"), "{told}");
    }
}

#[test]
fn abandoned_copy_leaves_the_source_as_it_was_and_nothing_on_the_other_side() {
    let ((folders, reply), url) = (filled(), postgres::database());
    let killed = copy(&folders, &url, &[]).env("ONCEHOST_CRASH_AT", "copy-batch:4").output().unwrap();
    assert_eq!(killed.status.code(), None);
    let (code, told) = run(copy(&folders, &url, &["--abandon"]));
    assert_eq!(code, Some(0), "{told}");
    let (code, told) = run(copy(&folders, &url, &["--abandon"]));
    assert_eq!(code, Some(1), "{told}");
    let host = folders.dev();
    assert_eq!(host.post("edge", "fill", "k", r#"{"lines":500}"#).body, reply);
    drop(host);
    let database = url.rsplit('/').next().unwrap();
    let schemas = postgres::cluster().psql(database, "SELECT count(*) FROM pg_namespace WHERE nspname = 'edge'");
    assert_eq!(String::from_utf8_lossy(&schemas.stdout).trim(), "0");
    assert_eq!(json!(run(copy(&folders, &url, &[])).0), json!(0), "and it can begin anew");
}
