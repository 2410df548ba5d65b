//! The host that runs on the data folder, if one does.

use std::path::Path;

use serde_json::Value as Json;

use super::{Fail, Finding, local};
use crate::app::lock::{self, Holder};

/// What the running host says about itself, and what is to be said about it.
pub(super) async fn look(data: &Path) -> (Vec<Finding>, Option<Json>) {
    let holder = lock::holder(data);
    let asked = async {
        let answer = local::ask(data, local::request("GET", "/admin/health", None)?).await?;
        answer.map(local::Answer::json).transpose()
    };
    let findings = match (asked.await, holder) {
        (Ok(Some(health)), _) => return (of(&health), Some(health)),
        (Ok(None), Some((Holder::Host, process))) => vec![Finding::fail(
            "host",
            format!("one runs ({process}) and has no local socket in the folder"),
            "where it just starts or stops, run this again; otherwise its log says why, and a restart makes the socket",
        )],
        (Ok(None), Some((Holder::Command, process))) => {
            vec![Finding::ok("host", format!("none runs on this data folder; another command ({process}) works on it"))]
        }
        (Ok(None), None) => vec![Finding::ok("host", "none runs on this data folder")],
        (Err(Fail::Failed(why) | Fail::Usage(why)), _) => {
            // What is the matter, and what to do about it.
            let (text, fix) = why.split_once("; ").unwrap_or((&why, "its log says why"));
            vec![Finding::fail("host", text, fix)]
        }
        (Err(Fail::Said | Fail::Pipe), _) => Vec::new(),
    };
    (findings, None)
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
    let (open, most) = (number("openFiles"), health["mostFiles"].as_u64().unwrap_or(u64::MAX));
    if open >= most / 5 * 4 {
        let text = format!("it has {open} files open, of {most} that it may");
        let fix = "restart it with a higher limit (LimitNOFILE=65536 in its unit, or `ulimit -n 65536`), or set connections \
                   lower";
        findings.push(Finding::warn("host", text, fix));
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
