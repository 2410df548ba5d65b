//! `oncehost plugin`

use std::fmt::Write;

use clap::{Args, Subcommand};
use serde_json::Value as Json;

use super::{Fail, local, print};
use crate::config::Settings;
use crate::{http, serve};

/// Plugins: what is loaded and what is broken
#[derive(Debug, Args)]
pub(super) struct Plugin {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the plugins with their actions, and the faults of those that do not load
    #[command(after_help = "Example: oncehost plugin list --json")]
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

impl Plugin {
    pub(super) async fn run(self, settings: Settings) -> Result<(), Fail> {
        let Command::List { json } = self.command;
        let found = match local::ask(&settings.data, local::request("GET", "/admin/plugins", None)?).await? {
            Some(answer) => answer.json()?,
            None => {
                let app = serve::open(settings)?;
                let found = http::admin::plugins(&app);
                app.close().await;
                found
            }
        };
        print(&if json { format!("{found:#}") } else { list(&found) })
    }
}

/// The plugins for people to read; takes what `/admin/plugins` gives.
pub(super) fn list(found: &Json) -> String {
    let mut out = String::new();
    let plugins = items(found, "plugins");
    let broken = items(found, "broken");
    if plugins.is_empty() && broken.is_empty() {
        return "no plugins: a plugin is a folder with a plugin.json in the plugins folder\n".to_owned();
    }
    for plugin in plugins {
        let _infallible = writeln!(out, "{} {}", text(plugin, "id"), text(plugin, "version"));
        for action in items(plugin, "actions") {
            let (name, kind, key) = (text(action, "name"), text(action, "kind"), text(action, "key"));
            let key = if key == "required" { ", key required" } else { "" };
            let rerun = if text(action, "replay") == "rerun" { ", rerun" } else { "" };
            let _infallible = writeln!(out, "  {name:<40} {kind}{key}{rerun}");
        }
    }
    for folder in broken {
        let _infallible = writeln!(out, "{} does not load:", text(folder, "folder"));
        for fault in items(folder, "faults") {
            out.push_str(&place(fault));
        }
    }
    out
}

/// One fault: where, what, and the line of source.
fn place(fault: &Json) -> String {
    let mut out = format!("  {}", text(fault, "file"));
    for number in [fault.get("line"), fault.get("column")].into_iter().flatten().filter_map(Json::as_u64) {
        let _infallible = write!(out, ":{number}");
    }
    let _infallible = writeln!(out, "  {}", text(fault, "message"));
    if let Some(snippet) = fault.get("snippet").and_then(Json::as_str) {
        for line in snippet.lines() {
            let _infallible = writeln!(out, "    | {line}");
        }
    }
    out
}

fn items<'a>(of: &'a Json, name: &str) -> &'a [Json] {
    of.get(name).and_then(Json::as_array).map_or(&[], Vec::as_slice)
}

fn text<'a>(of: &'a Json, name: &str) -> &'a str {
    of.get(name).and_then(Json::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn list_shows_actions_and_the_place_and_line_of_faults() {
        let found = json!({
            "plugins": [{ "id": "orders", "version": "1.0.0", "actions": [
                { "name": "orders.pay", "kind": "write", "key": "required", "replay": "rerun" },
                { "name": "orders.get", "kind": "read", "key": "optional", "replay": "response" }] }],
            "broken": [{ "folder": "bad", "faults": [{ "file": "bad/handlers/a.ts", "line": 3, "column": 9,
                "message": "i is a const", "snippet": "for (const i = 0;;i++)" }] }],
        });
        let want = "orders 1.0.0\n  orders.pay                               write, key required, rerun\n  \
            orders.get                               read\nbad does not load:\n  bad/handlers/a.ts:3:9  i is a const\n    \
            | for (const i = 0;;i++)\n";
        assert_eq!(list(&found), want);
    }
}
