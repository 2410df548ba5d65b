//! What operators see of workflows and do to them, with the built binary and over HTTP.

use std::fs;
use std::process::Output;

use serde_json::{Value as Json, json};

use super::until;
use crate::support::process::Folders;
use crate::support::scenario::files;

const SHIP: &str = r#"
//- /ship/plugin.json
{ "id": "ship", "version": "1.0.0", "permissions": ["flow:start"] }
//- /ship/handlers/start.ts
export function handle(input: any) {
  const started = flow.start('ship', input.id, { ok: input.ok ?? true })
  if (!started.ok) throw started.error
  return started.data.workflowId
}
//- /ship/scripts/send.ts
export function handle(input: any) {
  if (!input.ok) throw new Error('the carrier is closed')
  return { parcel: 7 }
}
//- /ship/flows/ship.json
{ "name": "ship", "job": { "seed": ["ok"] }, "steps": [
  { "id": "send", "uses": "script", "inputs": { "script": { "const": "send" }, "ok": { "from": "trigger.ok" } }, "retry": { "maxAttempts": 1 } },
  { "id": "rest", "uses": "sleep", "for": "1h" } ] }
"#;

fn flow(folders: &Folders, args: &[&str]) -> Output {
    folders.command(&[&["flow"], args].concat()).output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn workflow_is_listed_shown_retried_after_a_fix_and_cancelled() {
    let folders = Folders::new(files(SHIP));
    let host = folders.dev();
    host.post("ship", "start", "k1", r#"{"id":"a/b %'é","ok":false}"#).data();
    let id = "ship-a/b %'é";
    until(|| text(&flow(&folders, &["list"])), |told| told.starts_with("failed"));
    let listed: Json = serde_json::from_str(&text(&flow(&folders, &["list", "--status", "failed", "--json"]))).unwrap();
    assert_eq!(listed["workflows"][0]["workflowId"], id);
    assert!(text(&flow(&folders, &["list", "--status", "running"])).contains("no workflows"));
    let shown = text(&flow(&folders, &["show", id]));
    assert!(shown.contains("├─ send  script failed  1 try"), "{shown}");
    assert!(
        shown.contains("error try 1 of 1: SCRIPT: Error: the carrier is closed (ship/scripts/send.ts:2:"),
        "{shown}"
    );
    assert!(shown.contains("└─ rest  sleep pending"), "{shown}");
    // Mended, tried again, and it goes on.
    fs::write(folders.plugins().join("ship/scripts/send.ts"), "export function handle() { return run.attempt }")
        .unwrap();
    assert!(folders.command(&["plugin", "reload"]).status().unwrap().success());
    let retried = flow(&folders, &["retry", id]);
    assert!(retried.status.success(), "{}", text(&retried));
    let shown = until(
        || -> Json { serde_json::from_str(&text(&flow(&folders, &["show", id, "--json"]))).unwrap() },
        |shown| shown["status"] == "waiting",
    );
    assert_eq!(shown["steps"][0]["result"], json!(2), "the second try of the same step: {shown}");
    let again = flow(&folders, &["retry", id]);
    assert_eq!(again.status.code(), Some(1), "{}", text(&again));
    let cancelled = flow(&folders, &["cancel", id, "--reason", "no need"]);
    assert!(
        text(&cancelled).contains("cancelled since") && text(&cancelled).contains("error no need"),
        "{}",
        text(&cancelled)
    );
    let ended = flow(&folders, &["cancel", id]);
    assert_eq!(ended.status.code(), Some(1));
    assert!(text(&ended).contains("CONSTRAINT: the workflow ship-a/b %'é is cancelled already"), "{}", text(&ended));
    // The same without a host.
    assert_eq!(host.terminate().code(), Some(0));
    assert!(text(&flow(&folders, &["show", id])).contains("cancelled since"));
    for verb in ["retry", "cancel"] {
        assert_eq!(flow(&folders, &[verb, id]).status.code(), Some(1), "{verb}");
    }
}

#[test]
fn change_that_came_too_late_is_the_callers_fault() {
    let folders = Folders::new(files(SHIP));
    let host = folders.dev();
    host.post("ship", "start", "k", r#"{"id":"1"}"#).data();
    let ask = |verb: &str| host.post_to(&format!("/admin/flows/ship-1/{verb}"), "{}");
    assert_eq!(ask("cancel").status, 200);
    for (verb, says) in
        [("cancel", "is cancelled already, and cannot be cancelled"), ("retry", "is cancelled; only a failed")]
    {
        let answer = ask(verb);
        assert_eq!((answer.status, answer.error().as_str()), (409, "CONSTRAINT"), "{}", answer.body);
        assert!(answer.body.contains(says), "{}", answer.body);
    }
}

#[test]
fn id_of_several_tenants_needs_to_say_whose() {
    let folders = Folders::new(files(SHIP));
    let host = folders.dev();
    for tenant in ["acme", "zeta"] {
        host.post_as(tenant, "ship", "start", "k", r#"{"id":"1"}"#).data();
    }
    let unsure = flow(&folders, &["show", "ship-1"]);
    assert_eq!(unsure.status.code(), Some(2), "{}", text(&unsure));
    assert!(text(&unsure).contains("--tenant"), "{}", text(&unsure));
    let sure = text(&flow(&folders, &["show", "ship-1", "--tenant", "zeta", "--plugin", "ship", "--json"]));
    assert_eq!(serde_json::from_str::<Json>(&sure).unwrap()["tenant"], "zeta");
    let none = flow(&folders, &["show", "ship-2"]);
    assert_eq!(none.status.code(), Some(1));
    assert!(text(&none).contains("NOT_FOUND: there is no workflow \"ship-2\""), "{}", text(&none));
    assert_eq!(flow(&folders, &["show"]).status.code(), Some(2));
}

#[test]
fn pages_follow_each_other_and_end() {
    let folders = Folders::new(files(SHIP));
    let host = folders.dev();
    for number in 0..5 {
        host.post("ship", "start", &format!("k{number}"), &format!(r#"{{"id":"{number}"}}"#)).data();
    }
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = host.get(&format!("/admin/flows?plugin=ship&limit=2{cursor}")).json();
        for workflow in page["workflows"].as_array().unwrap() {
            seen.push(workflow["bizId"].as_str().unwrap().to_owned());
        }
        let Some(next) = page["nextCursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(seen, ["4", "3", "2", "1", "0"]);
    assert_eq!(host.get("/admin/flows?limit=0").error(), "VALIDATION");
    assert_eq!(host.get("/admin/flows?status=bad").error(), "VALIDATION");
    assert_eq!(host.get("/admin/flows/none").error(), "NOT_FOUND");
}

#[test]
fn workflow_of_a_plugin_that_is_not_loaded_waits_and_says_so() {
    let folders = Folders::new(files(SHIP));
    let host = folders.dev();
    host.post("ship", "start", "k", r#"{"id":"1"}"#).data();
    until(|| host.get("/admin/flows/ship-1").json()["status"].clone(), |status| status == "waiting");
    assert_eq!(host.terminate().code(), Some(0));
    fs::rename(folders.plugins().join("ship"), folders.data().join("away")).unwrap();
    let shown: Json = serde_json::from_str(&text(&flow(&folders, &["show", "ship-1", "--json"]))).unwrap();
    assert_eq!(shown["status"], "waiting");
    assert_eq!(shown["error"], "the plugin ship is not loaded; it goes on when it is");
}
