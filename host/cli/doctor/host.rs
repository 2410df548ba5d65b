//! The host that runs on the data folder, if one does.

use std::fs::{File, TryLockError};
use std::path::Path;

use serde_json::Value as Json;

use super::{Finding, local};

/// What the running host says about itself, and what is to be said about it.
pub(super) async fn look(data: &Path) -> (Vec<Finding>, Option<Json>) {
    let running = is_locked(data);
    let answer = match local::request("GET", "/admin/health", None) {
        Ok(request) => local::ask(data, request).await,
        Err(error) => Err(error),
    };
    let unreachable = |why: String| {
        let fix = "run this as the user who runs the host; if it hangs, stop it with SIGTERM and start it again";
        (vec![Finding::fail("host", format!("one runs and cannot be reached over its local socket: {why}"), fix)], None)
    };
    match answer {
        Ok(Some(answer)) => match answer.json() {
            Ok(health) => (of(&health), Some(health)),
            Err(error) => unreachable(format!("{error:?}")),
        },
        Ok(None) if running => unreachable("there is no socket".to_owned()),
        Ok(None) => (vec![Finding::ok("host", "none runs on this data folder")], None),
        Err(error) => unreachable(format!("{error:?}")),
    }
}

/// Whether a process holds the folder's lock.
fn is_locked(data: &Path) -> bool {
    File::open(data.join("lock")).is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
}

fn of(health: &Json) -> Vec<Finding> {
    let number = |name: &str| health[name].as_u64().unwrap_or(0);
    let version = health["version"].as_str().unwrap_or_default();
    let (process, own) = (number("pid"), env!("CARGO_PKG_VERSION"));
    let text = format!("oncehost {version} runs as process {process} with {} threads", number("threads"));
    let mut findings = vec![if version == own {
        Finding::ok("host", text)
    } else {
        Finding::warn("host", text, format!("this command is oncehost {own}: restart the host to bring it there"))
    }];
    if let Some(why) = health["unready"].as_str() {
        findings.push(Finding::fail(
            "host",
            format!("it is not ready: {why}"),
            "take the cause away; it goes on by itself",
        ));
    }
    let lanes = health["lanes"].as_array().map_or(&[][..], Vec::as_slice);
    for lane in lanes {
        let plugin = lane["plugin"].as_str().unwrap_or_default();
        let reliefs = lane["reliefs"].as_u64().unwrap_or(0);
        if reliefs > 0 {
            let text = format!("{reliefs} runs could not be interrupted and were given up, each with its thread");
            let fix = "the log names the actions (\"a stuck handler was given up\"): let them work on less data at once, and \
                       restart the host to get the threads back";
            findings.push(Finding::warn("runs", text, fix).of(plugin));
        }
    }
    findings
}
