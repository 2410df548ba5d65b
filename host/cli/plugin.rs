//! `oncehost plugin`

use std::fmt::Write;
use std::sync::Arc;

use clap::{Args, Subcommand};
use serde_json::Value as Json;

use super::{Fail, given, items, local, print, text};
use crate::app::{check_data, unread};
use crate::clock::{Clock, SystemClock};
use crate::config::Settings;
use crate::plugin::{Fault, Registry};
use crate::{http, serve};

/// Plugins: what is loaded and what is broken
#[derive(Debug, Args)]
#[command(after_help = "Example: oncehost plugin list")]
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
    /// Have the running host load plugins anew; one that does not load goes on as it was
    #[command(after_help = "Example: oncehost plugin reload lane-change")]
    Reload {
        /// Id of the plugin, or the name of its folder; all of them without it
        #[arg(value_parser = given::named)]
        plugin: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

impl Plugin {
    pub(super) async fn run(self, settings: Settings) -> Result<(), Fail> {
        match self.command {
            Command::List { json } => {
                let found = listed(settings).await?;
                print(&if json { format!("{found:#}") } else { list(&found) })
            }
            Command::Reload { plugin, json } => reload(&settings, plugin, json).await,
        }
    }
}

/// What the running host has; where none runs, what the folder has, on the data where there are some: where there are
/// none, none are made to look at plugins.
async fn listed(settings: Settings) -> Result<Json, Fail> {
    if let Some(asked) = asked(&settings).await? {
        return Ok(asked);
    }
    if check_data(&settings).is_err() {
        return in_folder(&settings);
    }
    let app = serve::open_for_command(settings)?;
    let found = http::admin::plugins(&app.registry());
    app.close().await;
    Ok(found)
}

/// What the running host has; where none runs, what the folder has.
pub(super) async fn known(settings: &Settings) -> Result<Json, Fail> {
    match asked(settings).await? {
        Some(asked) => Ok(asked),
        None => in_folder(settings),
    }
}

async fn asked(settings: &Settings) -> Result<Option<Json>, Fail> {
    let answer = local::ask(&settings.data, local::request("GET", "/admin/plugins", None)?).await?;
    answer.map(local::Answer::json).transpose()
}

fn in_folder(settings: &Settings) -> Result<Json, Fail> {
    let given = Arc::new(settings.given_settings.clone());
    let registry = Registry::load_given(&settings.plugins, SystemClock.now(), given);
    Ok(http::admin::plugins(&registry.map_err(|error| unread(&settings.plugins, &error))?))
}

async fn reload(settings: &Settings, plugin: Option<String>, json: bool) -> Result<(), Fail> {
    let body = serde_json::json!({ "plugin": plugin }).to_string();
    let request = local::request("POST", "/admin/plugins/reload", Some(body))?;
    let Some(answer) = local::ask(&settings.data, request).await? else {
        let data = settings.data.display();
        return Err(Fail::Failed(format!(
            "no host runs on the data folder {data}, so there is nothing to reload; a host loads all plugins when it starts"
        )));
    };
    let report = answer.json()?;
    let changed = text(&report, "text");
    print(&match (json, changed) {
        (true, _) => format!("{report:#}"),
        (false, "") => "nothing changed".to_owned(),
        (false, changed) => changed.to_owned(),
    })?;
    let broken = items(&report, "changes").iter().any(|change| text(change, "what") == "broken");
    if broken { Err(Fail::Said) } else { Ok(()) }
}

/// The plugins for people to read; takes what `/admin/plugins` gives.
pub(super) fn list(found: &Json) -> String {
    let mut out = String::new();
    let plugins = items(found, "plugins");
    let broken = items(found, "broken");
    if plugins.is_empty() && broken.is_empty() {
        return "no plugins: a plugin is a folder with a plugin.json in the plugins folder; `oncehost new NAME` makes one\n".to_owned();
    }
    for plugin in plugins {
        let _infallible = writeln!(out, "{} {}", text(plugin, "id"), text(plugin, "version"));
        for action in items(plugin, "actions") {
            let (name, kind, key) = (text(action, "name"), text(action, "kind"), text(action, "key"));
            let key = if key == "required" { ", key required" } else { "" };
            let rerun = if text(action, "replay") == "rerun" { ", rerun" } else { "" };
            let _infallible = writeln!(out, "  {name:<40} {kind}{key}{rerun}");
        }
        for note in items(plugin, "notes") {
            let _infallible = write!(out, "  note:\n  {}", place(note).replace('\n', "\n  ").trim_end_matches(' '));
        }
    }
    for folder in broken {
        let name = text(folder, "folder");
        let serving = plugins.iter().find(|plugin| text(plugin, "folder") == name);
        let still = serving.map_or_else(String::new, |plugin| {
            format!("; the version before ({}) goes on serving", text(plugin, "version"))
        });
        let _infallible = writeln!(out, "{name} does not load{still}:");
        for fault in items(folder, "faults") {
            out.push_str(&place(fault));
        }
    }
    out
}

/// One fault: where, what, and the line of source with a caret under the place.
fn place(fault: &Json) -> String {
    let number = |name: &str| fault.get(name).and_then(Json::as_u64).and_then(|number| u32::try_from(number).ok());
    let fault = Fault {
        file: text(fault, "file").to_owned(),
        line: number("line"),
        column: number("column"),
        message: text(fault, "message").to_owned(),
        snippet: fault.get("snippet").and_then(Json::as_str).map(str::to_owned),
    };
    format!("  {}\n", fault.to_string().replace('\n', "\n  "))
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
                { "name": "orders.get", "kind": "read", "key": "optional", "replay": "response" }],
                "notes": [{ "file": "orders/handlers/get.ts", "line": 1, "column": 2, "message": "not checked", "snippet": "ab" }] }],
            "broken": [{ "folder": "bad", "faults": [{ "file": "bad/handlers/a.ts", "line": 3, "column": 9,
                "message": "i is a const", "snippet": "for (const i = 0;;i++)" }] }],
        });
        let want = "orders 1.0.0\n  orders.pay                               write, key required, rerun\n  \
            orders.get                               read\n  note:\n    orders/handlers/get.ts:1:2: not checked\n      1 | ab\n        |  ^\nbad does not load:\n  bad/handlers/a.ts:3:9: i is a const\n    \
            3 | for (const i = 0;;i++)\n      |         ^\n";
        assert_eq!(list(&found), want);
    }
}
