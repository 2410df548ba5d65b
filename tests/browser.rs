//! Real pages in a real Chromium: each script of `browser/` is one test.

use std::path::Path;
use std::process::Command;

use crate::support::process::binary;

fn run(script: &str, argument: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser");
    assert!(
        folder.join("node_modules/.package-lock.json").is_file(),
        "playwright-core is not installed: npm ci --prefix tests/browser (tests/run does it)"
    );
    let ran = Command::new("node").arg(folder.join(script)).arg(binary()).arg(argument).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{out}{err}");
}

#[test]
fn page_that_loses_its_connection_misses_nothing_and_hears_nothing_twice() {
    run("notifications.mjs", "10000");
}
