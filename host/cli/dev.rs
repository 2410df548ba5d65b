//! `oncehost dev`

use std::fmt::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;

use super::{Fail, plugin, print, sample};
use crate::app::App;
use crate::config::Settings;
use crate::http::admin;
use crate::plugin::{Action, KeyRule, Kind};
use crate::reload;
use crate::serve::{self, Server, Signals};
use crate::tables::{self, Pending};
use crate::types;

/// Run a host for development: on this machine only, without credentials, and talkative
#[derive(Debug, Args)]
#[command(after_help = "Example: oncehost dev --apply-schema")]
pub(super) struct Dev {
    /// Bring the tables up to schema.sql, at start and on reload; nothing that loses data
    #[arg(long)]
    apply_schema: bool,
    /// Also keep the types of the actions, for `@oncehost/sdk`, in this file: at start and on each reload
    #[arg(long, value_name = "FILE")]
    client: Option<PathBuf>,
}

impl Dev {
    pub(super) async fn run(self, settings: Settings) -> Result<(), Fail> {
        serve::check_loopback(settings.listen).map_err(|error| Fail::Usage(error.0))?;
        let (stop, hurry) = Signals::take()?.stop_and_hurry();
        let app = serve::open(Settings {
            dev: true,
            apply_schema: self.apply_schema,
            client_types: self.client,
            ..settings
        })?;
        let server = Server::start(app).await?;
        let tables = if self.apply_schema { apply(server.app()).await } else { pending(server.app()).await };
        let types = types::write_all(&server.app().registry(), None, server.app().settings.client_types.as_deref());
        let types: String = types.iter().map(|line| format!("\n{line}\n")).collect();
        let greeted = print(&format!("{}{tables}{types}", greeting(server.app(), server.address())));
        if greeted != Err(Fail::Pipe) {
            greeted?;
        }
        let app = server.app().clone();
        // A terminal that went away does not end the host.
        let following = reload::follow(&app, |text| drop(print(text)));
        tokio::select! {
            ended = server.run(stop, hurry) => Ok(ended?),
            () = following => Ok(()),
        }
    }
}

/// Brings all tables up to date, and tells what came of it. What is refused does not keep the host from running.
async fn apply(app: &Arc<App>) -> String {
    let plugins: Vec<_> = app.registry().plugins.values().cloned().collect();
    match tables::apply(app, &plugins, &[], &tables::quiet()).await {
        Ok(done) => format!("\ntables\n{}\n", tables::shown(&serde_json::json!({ "plugins": done }))),
        Err(failure) => format!("\ntables: not all were applied; {}\n", failure.detail),
    }
}

/// The plugins whose tables are not as their schema.sql says, each with what to run.
async fn pending(app: &Arc<App>) -> String {
    let mut out = String::new();
    for (id, plugin) in &app.registry().plugins {
        let Some(pending) = tables::pending(app, plugin).await else { continue };
        let (says, data) = (pending.says(), tables::data_flag(app));
        let run = match pending {
            Pending::Unknown(_) => format!("oncehost doctor{data}"),
            Pending::Missing | Pending::Differ | Pending::Changed(_) => {
                format!("oncehost schema plan {id}{data}\n  oncehost schema apply {id}{data}")
            }
        };
        let _infallible = writeln!(out, "\nthe tables of {id} {says}; in another terminal, run\n  {run}");
    }
    out
}

/// What a developer wants to see first: where it is, what is loaded, what is broken, and a line to try.
fn greeting(app: &App, address: SocketAddr) -> String {
    let mut out = format!(
        "oncehost {} dev on http://{address} (tenant dev; the header X-Tenant-Id picks another)\n\
         plugins in {}, data in {}\n\n",
        env!("CARGO_PKG_VERSION"),
        app.settings.plugins.display(),
        app.settings.data.display()
    );
    out.push_str(&plugin::list(&admin::plugins(&app.registry())));
    let registry = app.registry();
    let actions =
        registry.plugins.values().flat_map(|plugin| plugin.actions.values().map(|action| (&plugin.id, action)));
    let tries = actions.map(|(id, action)| (id, action, Trial::of(action)));
    // A line that is refused helps nobody. A write shows more of what this is about, and one that creates works on an
    // empty database.
    let rank =
        |action: &Action, trial: &Trial| (!trial.fits, action.kind == Kind::Read, !action.name.contains("create"));
    if let Some((id, action, trial)) = tries.min_by_key(|(_, action, trial)| rank(action, trial)) {
        let how = if trial.fits { "" } else { ", with values that its input takes" };
        let _infallible = writeln!(out, "\ntry it{how}:\n{}", line(id, action, address, &trial.input));
    }
    out
}

/// An input to try an action with.
struct Trial {
    input: serde_json::Value,
    /// Whether the action takes it: no sample is made of a pattern.
    fits: bool,
}

impl Trial {
    fn of(action: &Action) -> Self {
        let Some(schema) = &action.input else { return Self { input: serde_json::json!({}), fits: true } };
        let input = sample::of(&schema.source);
        Self { fits: schema.validator.is_valid(&input), input }
    }
}

fn line(plugin: &str, action: &Action, address: SocketAddr, input: &serde_json::Value) -> String {
    let input = input.to_string().replace('\'', r"'\''");
    let key = if action.kind == Kind::Write || action.key == KeyRule::Required {
        " \\\n    -H 'Idempotency-Key: try-1'"
    } else {
        ""
    };
    let name = &action.name;
    format!(
        "  curl -i http://{address}/plugins/{plugin}/invoke/{name} \\\n    \
         -H 'Content-Type: application/json'{key} \\\n    -d '{input}'"
    )
}
