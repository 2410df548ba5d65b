//! Libraries from npm, run as they are: each case of `fixtures/npm` gives in the host what it gives under Node.js.

use std::path::Path;
use std::process::Command;

use crate::support::host::Host;

fn fixture() -> std::path::PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/npm");
    assert!(
        folder.join("libs/node_modules/.package-lock.json").is_file(),
        "the libraries are not installed: npm ci --prefix tests/fixtures/npm/libs (tests/run does it)"
    );
    folder
}

#[test]
fn package_cloudevents_reads_back_what_it_sent() {
    let folder = fixture().join("events");
    assert!(
        folder.join("node_modules/.package-lock.json").is_file(),
        "the package is not installed: npm ci --prefix tests/fixtures/npm/events (tests/run does it)"
    );
    let host = Host::new([("quiet/plugin.json", r#"{ "id": "quiet", "version": "1.0.0" }"#)]);
    let ran = Command::new("node").arg(folder.join("round-trip.mjs")).arg(&host.url).output().unwrap();
    let told = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{told}{}", String::from_utf8_lossy(&ran.stderr));
    assert_eq!(told.trim(), "6 events in three forms");
}

fn under_node(library: &str) -> Vec<String> {
    let ran = Command::new("node").arg(fixture().join("under-node.mjs")).arg(library).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    serde_json::from_slice(&ran.stdout).unwrap()
}

#[track_caller]
fn same_as_under_node(library: &str, at_least: usize) {
    let host = Host::with([("", ""); 0], |settings| {
        settings.plugins = fixture();
    });
    let told = host.read("libs", library, "{}").data();
    let told: Vec<&str> = told.as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
    let expected = under_node(library);
    assert!(expected.len() >= at_least, "{} cases", expected.len());
    let differ: Vec<String> = told
        .iter()
        .zip(&expected)
        .filter(|(told, expected)| told != expected)
        .map(|(told, expected)| format!("host {told}\nnode {expected}"))
        .collect();
    assert!(differ.is_empty() && told.len() == expected.len(), "{} differ:\n{}", differ.len(), differ.join("\n"));
}

#[test]
fn lodash_es_runs_as_it_does_under_node() {
    same_as_under_node("lodash", 30);
}

#[test]
fn zod_runs_as_it_does_under_node() {
    same_as_under_node("zod", 25);
}

#[test]
fn date_fns_runs_as_it_does_under_node() {
    same_as_under_node("dates", 120);
}

#[test]
fn decimal_js_runs_as_it_does_under_node() {
    same_as_under_node("decimal", 50);
}
