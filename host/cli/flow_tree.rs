//! Workflows for people to read; takes what `/admin/flows` gives.

use std::fmt::Write;

use serde_json::Value as Json;

use super::{items, text};

/// Characters of a result or a seed that are shown on its line.
const SHOWN: usize = 200;

/// One line a workflow.
pub(super) fn list(listed: &Json) -> String {
    let workflows = items(listed, "workflows");
    if workflows.is_empty() {
        return "no workflows\n".to_owned();
    }
    let mut out = String::new();
    for workflow in workflows {
        let (id, status, since) = (text(workflow, "workflowId"), text(workflow, "status"), text(workflow, "since"));
        let (plugin, tenant) = (text(workflow, "plugin"), text(workflow, "tenant"));
        let _infallible = write!(out, "{status:<9} since {since}  {id}  ({plugin}, tenant {tenant})");
        if let Some(error) = workflow["error"].as_str() {
            let _infallible = write!(out, "\n          {}", first_line(error));
        }
        out.push('\n');
    }
    if let Some(cursor) = listed["nextCursor"].as_str() {
        let _infallible = writeln!(out, "there are more: --cursor {cursor}");
    }
    out
}

/// A workflow with its steps as a tree.
pub(super) fn show(workflow: &Json) -> String {
    let mut out = String::new();
    let part = |name: &str| text(workflow, name);
    let _infallible = writeln!(
        out,
        "{}  {} since {}\nplugin {}, tenant {}, started {}",
        part("workflowId"),
        part("status"),
        part("since"),
        part("plugin"),
        part("tenant"),
        part("startedAt")
    );
    if workflow["seed"].as_object().is_some_and(|seed| !seed.is_empty()) {
        let _infallible = writeln!(out, "seed {}", short(&workflow["seed"]));
    }
    if let Some(error) = workflow["error"].as_str() {
        let _infallible = writeln!(out, "error {error}");
    }
    let steps = items(workflow, "steps");
    for (index, step) in steps.iter().enumerate() {
        let last = index + 1 == steps.len();
        let above = index.checked_sub(1).map(|above| text(&steps[above], "id"));
        one_step(&mut out, step, above, last);
    }
    out
}

fn one_step(out: &mut String, step: &Json, above: Option<&str>, last: bool) {
    let (branch, bar) = if last { ("└─", "  ") } else { ("├─", "│ ") };
    let _infallible = write!(out, "{branch} {}  {} {}", text(step, "id"), text(step, "uses"), text(step, "state"));
    let after: Vec<&str> = items(step, "after").iter().filter_map(Json::as_str).collect();
    if !(after.is_empty() && above.is_none()) && Some(after.as_slice()) != above.as_ref().map(std::slice::from_ref) {
        let after = if after.is_empty() { "nothing".to_owned() } else { after.join(", ") };
        let _infallible = write!(out, "  after {after}");
    }
    if let Some(tries) = step["attempts"].as_u64().filter(|tries| *tries > 0) {
        let _infallible = write!(out, "  {tries} {}", if tries == 1 { "try" } else { "tries" });
    }
    for (name, word) in [("begunAt", "begun"), ("endedAt", "ended"), ("nextAt", "next")] {
        if let Some(at) = step[name].as_str() {
            let _infallible = write!(out, "  {word} {at}");
        }
    }
    out.push('\n');
    if !step["result"].is_null() {
        let _infallible = writeln!(out, "{bar}   result {}", short(&step["result"]));
    }
    if let Some(error) = step["error"].as_str() {
        let _infallible = writeln!(out, "{bar}   error {}", error.replace('\n', &format!("\n{bar}   ")));
    }
    if !step["details"].is_null() {
        let _infallible = writeln!(out, "{bar}   details {}", short(&step["details"]));
    }
}

fn short(value: &Json) -> String {
    let text = value.to_string();
    if text.chars().count() <= SHOWN {
        return text;
    }
    text.chars().take(SHOWN).chain(std::iter::once('…')).collect()
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn steps_show_as_a_tree_with_tries_results_and_errors() {
        let workflow = json!({
            "workflowId": "f-1", "status": "failing", "since": "T1", "plugin": "p", "tenant": "t", "startedAt": "T0",
            "seed": { "a": 1 }, "error": "step \"b\": no", "steps": [
                { "id": "a", "uses": "script", "state": "done", "after": [], "attempts": 1, "begunAt": "T0", "endedAt": "T1", "result": { "ok": true } },
                { "id": "b", "uses": "action", "state": "retry", "after": ["a"], "attempts": 2, "begunAt": "T1", "nextAt": "T2", "error": "no\nat x" },
                { "id": "c", "uses": "sleep", "state": "pending", "after": ["a", "b"] }] });
        let want = "f-1  failing since T1\nplugin p, tenant t, started T0\nseed {\"a\":1}\nerror step \"b\": no\n\
            ├─ a  script done  1 try  begun T0  ended T1\n│    result {\"ok\":true}\n\
            ├─ b  action retry  2 tries  begun T1  next T2\n│    error no\n│    at x\n\
            └─ c  sleep pending  after a, b\n";
        assert_eq!(show(&workflow), want);
    }
}
