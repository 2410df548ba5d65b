//! `oncehost events …`, with a host running and without.

use serde_json::{Value as Json, json};

use super::EAR;
use crate::support::host::{answer, ureq_agent};
use crate::support::process::Folders;
use crate::support::scenario::files;
use crate::support::stores;

fn run(folders: &Folders, args: &[&str]) -> (Option<i32>, String) {
    let ran = folders.command(&[&["events"], args].concat()).output().unwrap();
    (ran.status.code(), String::from_utf8(ran.stdout).unwrap() + &String::from_utf8(ran.stderr).unwrap())
}

fn json(folders: &Folders, args: &[&str]) -> Json {
    let (code, told) = run(folders, &[args, &["--json"]].concat());
    assert_eq!(code, Some(0), "{told}");
    serde_json::from_str(&told).unwrap()
}

#[test]
fn dead_letters_are_listed_shown_tried_and_given_up_with_or_without_a_host() {
    for store in stores() {
        all_commands(&Folders::on(&store, files(EAR)));
    }
}

fn all_commands(folders: &Folders) {
    let host = folders.dev();
    let event = json!({ "specversion": "1.0", "type": "refused", "source": "test", "id": "7", "data": { "a": 1 } });
    let sent = ureq_agent().post(format!("{}/events", host.url)).header("Content-Type", "application/cloudevents+json");
    let event_id = answer(sent.send(event.to_string()).unwrap()).json()["eventId"].as_str().unwrap().to_owned();
    while json(folders, &["dead"])["events"].as_array().unwrap().is_empty() {}
    let check = || {
        let dead = json(folders, &["dead", "--type", "refused"])["events"][0].clone();
        let told =
            ["eventId", "id", "source", "type", "tenant", "subscription", "tries", "error"].map(|it| dead[it].clone());
        let expected = json!([
            event_id,
            "7",
            "test",
            "refused",
            "dev",
            "ear/events/refuse",
            1,
            "discarded by the handler: nobody wants this"
        ]);
        assert_eq!(json!(told), expected);
        let (code, told) = run(folders, &["show", &event_id]);
        assert_eq!(code, Some(0));
        assert!(told.contains("\"a\": 1") && told.contains("dead"), "{told}");
        let (code, told) = run(folders, &["replay", &event_id, "--dry-run"]);
        assert_eq!(code, Some(0));
        assert!(told.contains("failed: discarded by the handler") && told.ends_with("nothing was kept\n"), "{told}");
        assert_eq!(run(folders, &["replay"]).0, Some(2), "it must say which");
        assert_eq!(run(folders, &["list", "--since", "monday"]).0, Some(2));
        assert_eq!(json(folders, &["list", "--plugin", "other"])["events"], json!([]));
    };
    check();
    assert!(host.terminate().success());
    check();
    assert_eq!(run(folders, &["discard", "--type", "refused"]), (Some(0), "discarded 1\n".to_owned()));
    let (code, told) = run(folders, &["replay", &event_id]);
    assert!(code == Some(1) && told.contains("it is discarded; force it"), "{told}");
    assert_eq!(run(folders, &["replay", &event_id, "--force"]), (Some(0), "replayed 1\n".to_owned()));
    let (_, told) = run(folders, &["list"]);
    assert!(told.contains("waiting") && told.contains("refused → ear/events/refuse"), "{told}");
}
