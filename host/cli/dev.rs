//! `oncehost dev`

use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::Arc;

use clap::Args;

use super::{Fail, plugin, print, sample, schema};
use crate::app::App;
use crate::config::Settings;
use crate::http::admin::{self, SchemaRequest, SchemaVerb};
use crate::plugin::{Action, KeyRule, Kind};
use crate::serve::{self, Server, Signals};

/// Run a host for development: on this machine only, without credentials, and talkative
#[derive(Debug, Args)]
#[command(after_help = "Example: oncehost dev --apply-schema")]
pub(super) struct Dev {
    /// Bring the tables up to schema.sql at start; nothing that loses data
    #[arg(long)]
    apply_schema: bool,
}

impl Dev {
    pub(super) async fn run(self, settings: Settings) -> Result<(), Fail> {
        serve::check_loopback(settings.listen).map_err(|error| Fail::Usage(error.0))?;
        let mut first = Signals::take()?;
        let mut second = Signals::take()?;
        let app = serve::open(Settings { dev: true, ..settings })?;
        let server = Server::start(app).await?;
        let tables = if self.apply_schema { apply(server.app()).await } else { pending(server.app()).await };
        let greeted = print(&format!("{}{tables}", greeting(server.app(), server.address())));
        if greeted != Err(Fail::Pipe) {
            greeted?;
        }
        let hurry = async {
            second.next().await;
            second.next().await;
        };
        Ok(server.run(first.next(), hurry).await?)
    }
}

/// Brings all tables up to date, and tells what came of it. What is refused does not keep the host from running.
async fn apply(app: &Arc<App>) -> String {
    match admin::schema(app, SchemaVerb::Apply, SchemaRequest::default()).await {
        Ok(done) => format!("\ntables\n{}\n", schema::shown(&done)),
        Err(failure) => format!("\ntables: not all were applied; {}\n", failure.detail),
    }
}

/// The plugins whose tables are not as their schema.sql says, each with what to run.
async fn pending(app: &Arc<App>) -> String {
    let mut out = String::new();
    for (id, plugin) in &app.registry().plugins {
        let says = if app.database(id).exists() {
            let request = SchemaRequest { plugin: Some(id.clone()), ..SchemaRequest::default() };
            match admin::schema(app, SchemaVerb::Status, request).await.map(|done| schema::state(&done)) {
                Ok(Some(state)) if state == "equal" => continue,
                Ok(_) => "are not as schema.sql says".to_owned(),
                Err(failure) => format!("cannot be looked at: {}", failure.detail),
            }
        } else if plugin.schema.tables.is_empty() {
            continue;
        } else {
            // Without a database there is nothing to compare, and no reason to make one.
            "are not there yet".to_owned()
        };
        let data = &app.settings.data;
        let usual = *data == Settings::default().data;
        let folder = if usual { String::new() } else { format!(" --data {}", data.display()) };
        let run = format!("oncehost schema plan {id}{folder}\n  oncehost schema apply {id}{folder}");
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
    out.push_str(&plugin::list(&admin::plugins(app)));
    let registry = app.registry();
    let actions =
        registry.plugins.values().flat_map(|plugin| plugin.actions.values().map(|action| (&plugin.id, action)));
    // A write shows more of what this is about, and one that creates works on an empty database.
    let rank = |action: &Action| (action.kind == Kind::Read, !action.name.contains("create"));
    if let Some((id, action)) = actions.min_by_key(|(_, action)| rank(action)) {
        let _infallible = writeln!(out, "\ntry it:\n{}", trial(id, action, address));
    }
    out
}

fn trial(plugin: &str, action: &Action, address: SocketAddr) -> String {
    let input = action.input.as_ref().map_or_else(|| serde_json::json!({}), |input| sample::of(&input.source));
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
