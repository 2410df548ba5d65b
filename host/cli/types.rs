//! `oncehost types`

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use serde_json::{Value as Json, json};

use super::{Fail, complain, given, print};
use crate::app::unread;
use crate::clock::{Clock, SystemClock};
use crate::config::Settings;
use crate::plugin::{Plugin, Registry};
use crate::suggest;
use crate::types;

/// Write TypeScript types of tables, flows and actions
#[derive(Debug, Args)]
#[command(
    after_help = "Each plugin gets its types as oncehost.d.ts in its folder, where tsc finds them. A page or program that calls \
    gets its types with --client.\n\nExample: oncehost types --client actions.d.ts"
)]
pub(super) struct Types {
    /// Id of the plugin; all of them without it
    #[arg(value_parser = given::named)]
    plugin: Option<String>,
    /// Also write the types of the actions, for `@oncehost/sdk`, to this file
    #[arg(long, value_name = "FILE")]
    client: Option<PathBuf>,
    /// Write nothing; fail when a file is not as it would be written
    #[arg(long)]
    check: bool,
    /// Print JSON: the files, and each action with the JSON Schemas of its input and output
    #[arg(long)]
    json: bool,
}

/// One file, and what became of it.
struct Done {
    path: PathBuf,
    what: &'static str,
}

impl Types {
    #[expect(clippy::unused_async, reason = "the commands are all called in the same way")]
    pub(super) async fn run(self, settings: Settings) -> Result<(), Fail> {
        let folder = settings.plugins.display().to_string();
        let registry = Registry::load(&settings.plugins, SystemClock.now());
        let registry = registry.map_err(|error| unread(&settings.plugins, &error))?;
        let plugins = self.chosen(&registry, &folder)?;
        let mut done = Vec::new();
        for plugin in &plugins {
            done.push(self.bring(&plugin.dir.join(types::FILE), &types::author(plugin, &registry))?);
        }
        let broken: Vec<&String> =
            registry.broken.keys().filter(|name| self.plugin.as_ref().is_none_or(|it| it == *name)).collect();
        // Without those of a plugin that does not load, callers' types would lack what they call.
        if let Some(path) = self.client.as_ref().filter(|_| broken.is_empty()) {
            done.push(self.bring(path, &types::caller(plugins.iter().map(AsRef::as_ref)))?);
        }
        print(&if self.json { format!("{:#}", as_json(&plugins, &done)) } else { shown(&done) + &silent(&plugins) })?;
        for (name, faults) in registry.broken.iter().filter(|(name, _)| broken.contains(name)) {
            complain(&format!("{name} does not load, and so has no types:"));
            faults.iter().for_each(|fault| complain(&format!("  {}", fault.to_string().replace('\n', "\n  "))));
        }
        if let Some(path) = self.client.as_ref().filter(|_| !broken.is_empty()) {
            complain(&format!("{} is left as it is, until all plugins load", path.display()));
        }
        if self.check && done.iter().any(|file| file.what == "stale") {
            return Err(Fail::Failed(
                "types are not up to date; run oncehost types and commit what it writes".to_owned(),
            ));
        }
        if broken.is_empty() { Ok(()) } else { Err(Fail::Said) }
    }

    fn chosen(&self, registry: &Registry, folder: &str) -> Result<Vec<Arc<Plugin>>, Fail> {
        let Some(name) = &self.plugin else { return Ok(registry.plugins.values().cloned().collect()) };
        match registry.plugins.get(name) {
            Some(plugin) => Ok(vec![plugin.clone()]),
            None if registry.broken.contains_key(name) => Ok(Vec::new()),
            None => {
                let known: Vec<&str> = registry.plugins.keys().map(String::as_str).collect();
                let hint = suggest::hint(name, known.iter().copied());
                Err(Fail::Failed(format!(
                    "there is no plugin \"{name}\" in {folder}{hint}; there is {}",
                    known.join(", ")
                )))
            }
        }
    }

    fn bring(&self, path: &Path, text: &str) -> Result<Done, Fail> {
        let what = if self.check {
            if types::is_current(path, text) { "current" } else { "stale" }
        } else {
            let written = types::write(path, text);
            let written = written.map_err(|error| Fail::Failed(format!("cannot write {}: {error}", path.display())))?;
            if written { "written" } else { "current" }
        };
        Ok(Done { path: path.to_owned(), what })
    }
}

fn shown(done: &[Done]) -> String {
    done.iter().map(|file| format!("{:<8} {}\n", file.what, file.path.display())).collect()
}

/// The actions whose results callers know nothing of, and what would tell them.
fn silent(plugins: &[Arc<Plugin>]) -> String {
    let actions = plugins.iter().flat_map(|plugin| plugin.actions.values());
    let names: Vec<&str> =
        actions.filter(|action| action.output.is_none()).map(|action| action.name.as_str()).collect();
    if names.is_empty() {
        return String::new();
    }
    format!(
        "\nwhat these give is unknown to callers: {}; write the type of the result, `handle(…): {}`\n",
        names.join(", "),
        "{ id: string }"
    )
}

fn as_json(plugins: &[Arc<Plugin>], done: &[Done]) -> Json {
    let files: Vec<Json> = done.iter().map(|file| json!({ "file": file.path, "state": file.what })).collect();
    let action = |action: &crate::plugin::Action| json!({ "name": action.name, "input": action.input.as_ref().map(|input| &input.source), "output": action.output });
    let of = |plugin: &Arc<Plugin>| {
        json!({
            "id": plugin.id, "topics": plugin.topics,
            "actions": plugin.actions.values().map(|it| action(it)).collect::<Vec<_>>(),
            "flows": plugin.flows.values().map(|flow| json!({ "name": flow.name, "seed": flow.seed })).collect::<Vec<_>>(),
            "tables": plugin.schema.tables.keys().collect::<Vec<_>>(),
        })
    };
    json!({ "files": files, "plugins": plugins.iter().map(of).collect::<Vec<_>>() })
}
