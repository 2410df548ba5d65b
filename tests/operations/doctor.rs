//! `oncehost doctor` on folders in all states.

use serde_json::{Value as Json, json};

use super::{run, shop};
use crate::support::host::write;
use crate::support::process::Folders;

/// The levels that are not `ok`, by check and subject.
fn complaints(folders: &Folders, code: i32) -> Vec<(String, String, String)> {
    let ended = run(folders.command(&["doctor", "--json"]));
    assert_eq!((ended.code, ended.err.as_str()), (Some(code), ""), "{}", ended.out);
    let report: Json = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(report["ok"], json!(code == 0));
    let text = |finding: &Json, name: &str| finding[name].as_str().unwrap_or_default().to_owned();
    let findings = report["findings"].as_array().unwrap().iter().filter(|finding| finding["level"] != "ok");
    findings
        .map(|finding| {
            assert!(finding["fix"].is_string(), "every complaint says what to do: {finding}");
            (text(finding, "check"), text(finding, "subject"), text(finding, "level"))
        })
        .filter(|(check, _, _)| !["disk", "files"].contains(&check.as_str()))
        .collect()
}

fn fails(check: &str, subject: &str) -> (String, String, String) {
    (check.to_owned(), subject.to_owned(), "fail".to_owned())
}

#[test]
fn healthy_host_has_no_complaints_while_it_runs_and_after() {
    let folders = shop();
    let host = folders.dev();
    host.post("shop", "add", "a", r#"{"code":"a"}"#).data();
    assert_eq!(complaints(&folders, 0), []);
    assert!(host.terminate().success());
    assert_eq!(complaints(&folders, 0), []);
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    let folders = shop();
    drop(folders.dev());
    write(
        &folders.plugins().join("shop/handlers/add.ts"),
        "export function handle() {\n  for (const i = 0; ; i++) {}\n}\n",
    );
    write(&folders.data().join("other.db"), &"no database ".repeat(1000));
    assert_eq!(complaints(&folders, 1), [fails("database", "other.db"), fails("plugin", "shop")]);
    let ended = run(folders.command(&["doctor"]));
    assert!(ended.out.contains("FAIL  plugin shop: shop/handlers/add.ts:2:"), "{}", ended.out);
}

#[test]
fn tables_that_wait_and_half_a_restore_are_found() {
    let folders = shop();
    std::fs::create_dir_all(folders.data().join(".restoring")).unwrap();
    let data = folders.data().display().to_string();
    assert_eq!(complaints(&folders, 1), [fails("data", &data), fails("tables", "shop")]);
    assert!(run(folders.command(&["doctor"])).out.contains("oncehost schema apply shop"));
}
