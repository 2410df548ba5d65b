//! Plugins' tables: what `schema.sql` asks for, planned, applied or compared, in each plugin's lane.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use crate::app::App;
use crate::clock::Millis;
use crate::failure::{Code, Failure};
use crate::plugin::Plugin;
use crate::schema::{self, ApplyError, Plan};
use crate::store::{Shared, tables};
use crate::suggest::shell_word;

/// What to do about plugins' tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemaVerb {
    Plan,
    Apply,
    Status,
}

impl SchemaVerb {
    /// The verb as it stands in paths and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            SchemaVerb::Plan => "plan",
            SchemaVerb::Apply => "apply",
            SchemaVerb::Status => "status",
        }
    }

    /// The verb of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Plan, Self::Apply, Self::Status].into_iter().find(|verb| verb.name() == name)
    }
}

/// Which plugin, and what may be lost.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SchemaRequest {
    /// `None`: all of them.
    pub plugin: Option<String>,
    /// Names of tables and columns (`table.column`) whose data may be lost.
    pub allow_destructive: Vec<String>,
}

/// How far an apply is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    pub plugin: String,
    /// From 1.
    pub step: usize,
    pub steps: usize,
    /// What the step does.
    pub why: String,
}

/// Hears how far an apply is, on the lane's thread.
pub type Tell = Arc<dyn Fn(Progress) + Send + Sync>;

/// Plans, applies or shows changes of tables, one plugin after the other. Gives
/// `{ "plugins": [{ "plugin", "refused", "text", … }] }`; where `refused` is true nothing of that plugin was applied, and
/// `failed` says what the database said, if that is why.
///
/// # Errors
/// `NOT_FOUND` for an unknown plugin, and what the database of a single plugin says.
pub async fn schema(app: &Arc<App>, verb: SchemaVerb, request: SchemaRequest) -> Result<Json, Failure> {
    schema_telling(app, verb, request, Arc::new(|_| ())).await
}

/// The same; `tell` hears of each step of an apply.
///
/// # Errors
/// As [`schema`].
pub async fn schema_telling(
    app: &Arc<App>,
    verb: SchemaVerb,
    request: SchemaRequest,
    tell: Tell,
) -> Result<Json, Failure> {
    let registry = app.registry();
    let plugins: Vec<_> = match &request.plugin {
        None => registry.plugins.values().cloned().collect(),
        Some(id) => vec![registry.plugins.get(id).cloned().ok_or_else(|| {
            let broken = match registry.broken.contains_key(id) {
                true => "; it did not load: `oncehost plugin list` shows why",
                false => "; `oncehost plugin list` shows what there is",
            };
            Failure::new(Code::NotFound, format!("no plugin \"{id}\" is loaded{broken}"))
        })?],
    };
    schema_of(app, &plugins, verb, &request.allow_destructive, &tell).await
}

/// The same for these plugins, loaded or about to be.
///
/// # Errors
/// What the database of a single plugin says.
pub async fn schema_of(
    app: &Arc<App>,
    plugins: &[Arc<Plugin>],
    verb: SchemaVerb,
    allow_destructive: &[String],
    tell: &Tell,
) -> Result<Json, Failure> {
    let mut done = Vec::new();
    for plugin in plugins.iter().cloned() {
        let (allow, now, id) = (allow_destructive.to_vec(), app.clock.now(), plugin.id.clone());
        let tell = tell.clone();
        let work = move |shared: &Shared| one_schema(shared, &plugin, verb, &allow, now, &tell);
        let mut told = match app.lane(&id).exclusive(work).await.and_then(|told| told) {
            // Of several, the others are to be heard of all the same.
            Err(failure) if plugins.len() > 1 => {
                let text = format!("{id}\n  failed: {}", failure.detail);
                json!({ "refused": true, "failed": failure.detail, "text": text })
            }
            told => told?,
        };
        told["plugin"] = json!(id);
        done.push(told);
    }
    Ok(json!({ "plugins": done }))
}

fn one_schema(
    shared: &Shared,
    plugin: &Plugin,
    verb: SchemaVerb,
    allow: &[String],
    now: Millis,
    tell: &Tell,
) -> Result<Json, Failure> {
    let headed = |text: &str| {
        let indented = |line: &str| if line.is_empty() { "\n".to_owned() } else { format!("\n  {line}") };
        plugin.id.clone() + &text.trim_end().lines().map(indented).collect::<String>()
    };
    // The steps are for `plan` to show: here they would hide what stands against them.
    let refused = |plan: &Plan| {
        let text = schema::render(&Plan { steps: Vec::new(), ..plan.clone() });
        json!({ "refused": true, "plan": plan, "text": headed(text.trim_start()) })
    };
    Ok(match verb {
        SchemaVerb::Plan => {
            let plan = tables::plan(shared, &plugin.schema, allow)?;
            json!({ "refused": !plan.refusals.is_empty(), "plan": plan, "text": headed(&schema::render(&plan)) })
        }
        SchemaVerb::Apply => match tables::apply_telling(shared, &plugin.schema, allow, now, &step_of(plugin, tell)) {
            Ok(applied) => {
                let text = match applied.plan.steps.len() {
                    0 => "as schema.sql wants it; nothing to do".to_owned(),
                    1 => format!("applied, 1 step: version {}", applied.version),
                    steps => format!("applied, {steps} steps: version {}", applied.version),
                };
                json!({ "refused": false, "applied": applied, "text": headed(&text) })
            }
            Err(ApplyError::Refused(plan)) => refused(&plan),
            Err(ApplyError::Store(error)) => return Err(error.into()),
        },
        SchemaVerb::Status => {
            let status = tables::status(shared, &plugin.schema)?;
            let text = match status.state {
                schema::State::Equal => "as schema.sql wants it".to_owned(),
                schema::State::Pending => {
                    format!("changes to apply; run `oncehost schema plan {}` to see them", plugin.id)
                }
                schema::State::Drift => {
                    format!("changed by hand; run `oncehost schema plan {}` to see what differs", plugin.id)
                }
            };
            json!({ "refused": false, "status": status, "text": headed(&text) })
        }
    })
}

fn step_of(plugin: &Plugin, tell: &Tell) -> impl Fn(usize, usize, &str) {
    move |step, steps, why| tell(Progress { plugin: plugin.id.clone(), step, steps, why: why.to_owned() })
}

/// For people to read: the text that goes with each plugin.
pub fn shown(done: &Json) -> String {
    let text = |plugin: &Json| plugin["text"].as_str().unwrap_or_default().trim_end().to_owned();
    let texts: Vec<String> = done["plugins"].as_array().into_iter().flatten().map(text).collect();
    if texts.is_empty() { "no plugins".to_owned() } else { texts.join("\n") }
}

/// Why a plugin's tables are not as its `schema.sql` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pending {
    Missing,
    Differ,
    /// They cannot be looked at, for this reason: an apply would not help.
    Unknown(String),
}

impl Pending {
    /// What is to be said of the tables: `are not there yet`.
    pub fn says(&self) -> String {
        match self {
            Pending::Missing => "are not there yet".to_owned(),
            Pending::Differ => "are not as schema.sql says".to_owned(),
            Pending::Unknown(why) => format!("cannot be looked at: {why}"),
        }
    }
}

/// Whether the tables of a plugin are as its `schema.sql` says, and if not, why.
pub async fn pending(app: &Arc<App>, plugin: &Plugin) -> Option<Pending> {
    if !app.database(&plugin.id).exists() {
        // Without a database there is nothing to compare, and no reason to make one.
        return (!plugin.schema.tables.is_empty()).then_some(Pending::Missing);
    }
    let wanted = plugin.schema.clone();
    let look = move |shared: &Shared| tables::status(shared, &wanted);
    let looked = app.lane(&plugin.id).exclusive(look).await;
    match looked.and_then(|status| status.map_err(Failure::from)) {
        Ok(status) if status.state == schema::State::Equal => None,
        Ok(_) => Some(Pending::Differ),
        Err(failure) => Some(Pending::Unknown(failure.detail)),
    }
}

/// The flag that has a command meet this host's data: empty where that is the usual folder.
pub fn data_flag(app: &App) -> String {
    let data = &app.settings.data;
    let usual = *data == crate::config::Settings::default().data;
    if usual { String::new() } else { format!(" --data {}", shell_word(&data.display().to_string())) }
}
