//! `oncehost schema`

use std::sync::{Arc, Mutex, PoisonError};

use clap::{Args, Subcommand};
use hyper::header::HeaderValue;
use serde_json::Value as Json;

use super::progress::Bar;
use super::{Fail, complain, given, local, print};
use crate::app::lock::Holder;
use crate::app::{blocking, check_beginning, refuse_unfinished, take_folder, unread};
use crate::clock::{Clock, SystemClock};
use crate::config::Settings;
use crate::failure::{Code, Failure};
use crate::plugin::Registry;
use crate::serve;
use crate::store::Stores;
use crate::tables::{self, Progress, SchemaRequest, SchemaVerb};

/// The name by which an empty one is asked for, where the one that was there is lost.
const HOST_DB: &str = "host.db";

/// Tables: what schema.sql asks for, against what the database has
#[derive(Debug, Args)]
#[command(after_help = "Example: oncehost schema plan lane-change")]
pub(super) struct Schema {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show the DDL that would be run
    #[command(
        after_help = "Changes nothing. The exit code is 1 where something stands against the plan.\n\nExample: oncehost schema plan lane-change"
    )]
    Plan(Choice),
    /// Change the tables
    #[command(
        after_help = "Example: oncehost schema apply lane-change --allow-destructive lane_change_event.camera_id"
    )]
    Apply(Choice),
    /// Show which plugins' tables are as schema.sql says
    #[command(after_help = "Example: oncehost schema status --json")]
    Status(Choice),
}

#[derive(Debug, Args)]
struct Choice {
    /// Id of the plugin; all of them without it
    #[arg(value_parser = given::named)]
    plugin: Option<String>,
    /// Table or column (TABLE.COLUMN) whose data may be lost; may be given several times
    #[arg(long, value_name = "NAME", value_parser = given::named)]
    allow_destructive: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Schema {
    pub(super) async fn run(self, settings: Settings) -> Result<(), Fail> {
        let (verb, choice) = match self.command {
            Command::Plan(choice) => (SchemaVerb::Plan, choice),
            Command::Apply(choice) => (SchemaVerb::Apply, choice),
            Command::Status(choice) => (SchemaVerb::Status, choice),
        };
        let Choice { plugin, allow_destructive, json } = choice;
        let bar = Bar::new("schema");
        let step = Arc::default();
        let asking = ask(&settings, verb, SchemaRequest { plugin, allow_destructive }, bar.is_seen().then_some(&step));
        let done = bar.wait_for(asking, &step).await?;
        print(&if json { format!("{done:#}") } else { tables::shown(&done) })?;
        if !refused(&done) {
            return Ok(());
        }
        let short = match verb {
            SchemaVerb::Apply => "not everything was applied",
            SchemaVerb::Plan => "not everything can be applied",
            SchemaVerb::Status => "not everything could be compared",
        };
        Err(Fail::Failed(format!("{short}; what stands against it is above")))
    }
}

/// Asks the running host, or opens the data here where none runs. `step` is kept at what is done just now, where
/// somebody looks.
async fn ask(
    settings: &Settings,
    verb: SchemaVerb,
    request: SchemaRequest,
    step: Option<&Arc<Mutex<String>>>,
) -> Result<Json, Fail> {
    let body = serde_json::to_string(&request).map_err(|error| Fail::Failed(error.to_string()))?;
    let mut sent = local::request("POST", &format!("/admin/schema/{}", verb.name()), Some(body))?;
    if let Some(step) = step {
        sent.headers_mut().insert("accept", HeaderValue::from_static("application/x-ndjson"));
        let mut last = Json::Null;
        let heard = local::lines(&settings.data, sent, |line| match serde_json::from_value(line["progress"].clone()) {
            Ok(progress) => show(step, &progress),
            Err(_) => last = line,
        });
        if heard.await? {
            return outcome(last);
        }
    } else if let Some(answer) = local::ask(&settings.data, sent).await? {
        return answer.json();
    }
    if verb != SchemaVerb::Apply {
        let settings = settings.clone();
        // Before the first start there is none; one that was named may be a slip.
        let named = settings.given.iter().any(|(name, from)| *name == "data" && from.starts_with("--"));
        if named && settings.store.is_files() && !settings.data.is_dir() {
            complain(&format!("there is no data folder {} yet; this is for a new one", settings.data.display()));
        }
        return Ok(blocking("a look at tables", move || look(&settings, verb, &request)).await??);
    }
    check_beginning(settings)?;
    let mut request = request;
    let before = request.allow_destructive.len();
    request.allow_destructive.retain(|name| name != HOST_DB);
    if request.allow_destructive.len() < before {
        make_host_db(settings)?;
    }
    let app = serve::open_for_command(settings.clone())?;
    let step = step.cloned().unwrap_or_default();
    let done = tables::schema_telling(&app, verb, request, Arc::new(move |progress| show(&step, &progress))).await;
    app.close().await;
    Ok(done?)
}

/// Makes an empty `host.db` where it was lost.
fn make_host_db(settings: &Settings) -> Result<(), Fail> {
    let _lock = take_folder(&settings.data, Holder::Command)?;
    let stores = Stores::new(settings)?;
    if stores.check_host_db().is_ok() {
        let text = format!("--allow-destructive {HOST_DB}: it is there, or there is nothing beside it; leave this out");
        return Err(Fail::Usage(text));
    }
    let _made = stores.host_db()?;
    Ok(())
}

fn show(step: &Mutex<String>, Progress { plugin, step: number, steps, why }: &Progress) {
    *step.lock().unwrap_or_else(PoisonError::into_inner) = format!("{plugin}: {number} of {steps}, {why}");
}

/// What the running host said last.
fn outcome(mut last: Json) -> Result<Json, Fail> {
    match (last["done"].take(), last["failed"].take()) {
        (done @ Json::Object(_), _) => Ok(done),
        (_, Json::String(why)) => Err(Fail::Failed(why)),
        _ => Err(Fail::Failed("the running host ended before it said what became of this; run it again".to_owned())),
    }
}

/// Looks at the tables without a host, and so without making what a host would make.
fn look(settings: &Settings, verb: SchemaVerb, request: &SchemaRequest) -> Result<Json, Failure> {
    refuse_unfinished(&settings.data).map_err(|error| Failure::new(Code::Unavailable, error.0))?;
    let given = Arc::new(settings.given_settings.clone());
    let unread = |error| Failure::new(Code::Unavailable, unread(&settings.plugins, &error).0);
    let registry = Registry::load_given(&settings.plugins, SystemClock.now(), given).map_err(unread)?;
    let stores = Stores::new(settings)?;
    tables::look(&registry, |id| stores.plugin(id), verb, request)
}

fn plugins(done: &Json) -> &[Json] {
    done.get("plugins").and_then(Json::as_array).map_or(&[][..], Vec::as_slice)
}

/// Whether a plugin's changes were refused.
fn refused(done: &Json) -> bool {
    plugins(done).iter().any(|plugin| plugin["refused"] == true)
}
