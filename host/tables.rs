//! Plugins' tables: what `schema.sql` asks for, planned, applied or compared, in each plugin's lane.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use crate::app::{App, blocking};
use crate::clock::Millis;
use crate::failure::{Code, Failure};
use crate::plugin::{Fault, Plugin, Registry};
use crate::schema::{self, ApplyError, Plan, State};
use crate::store::{Database, Notice, Shared, StoreError, steps, tables};
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

/// Tells nobody.
pub fn quiet() -> Tell {
    Arc::new(|_| ())
}

/// Plans, applies or shows changes of tables, one plugin after the other. Gives
/// `{ "plugins": [{ "plugin", "refused", "text", … }] }`; where `refused` is true nothing of that plugin was applied:
/// `failed` says what the database said, `faults` why the plugin does not load, if that is why.
///
/// # Errors
/// `NOT_FOUND` for an unknown plugin, `VALIDATION` for a name of what may be lost that names nothing, and what the
/// database of a single plugin says.
pub async fn schema(app: &Arc<App>, verb: SchemaVerb, request: SchemaRequest) -> Result<Json, Failure> {
    schema_telling(app, verb, request, quiet()).await
}

/// The same; `tell` hears of each step of an apply.
///
/// # Errors
/// As [`schema()`].
pub async fn schema_telling(
    app: &Arc<App>,
    verb: SchemaVerb,
    request: SchemaRequest,
    tell: Tell,
) -> Result<Json, Failure> {
    let (registry, host, asked) = (app.registry(), app.clone(), request.clone());
    let snapshot = registry.clone();
    let looking = move || look(&snapshot, |id| host.database(id), verb, &asked);
    let looked = blocking("a look at tables", looking).await??;
    if verb != SchemaVerb::Apply {
        return Ok(looked);
    }
    let (plugins, broken) = chosen(&registry, request.plugin.as_deref())?;
    let mut done = apply(app, &plugins, &request.allow_destructive, &tell).await?;
    done.extend(broken);
    Ok(json!({ "plugins": done }))
}

/// The same for a plan or a status without a host: nothing is made or changed. Of an `apply` it only checks the request.
///
/// # Errors
/// As [`schema()`].
pub fn look(
    registry: &Registry,
    database: impl Fn(&str) -> Database,
    verb: SchemaVerb,
    request: &SchemaRequest,
) -> Result<Json, Failure> {
    let (plugins, broken) = chosen(registry, request.plugin.as_deref())?;
    // A name may be that of something in a schema.sql that does not load: its faults come first.
    if broken.is_empty() {
        check_names(&plugins, &database, &request.allow_destructive)?;
    }
    let mut done = Vec::new();
    for plugin in plugins.iter().filter(|_| verb != SchemaVerb::Apply) {
        let told = match verb {
            SchemaVerb::Status => show_status(plugin, &database(&plugin.id)),
            SchemaVerb::Plan | SchemaVerb::Apply => {
                show_plan(plugin, &database(&plugin.id), &request.allow_destructive)
            }
        };
        done.push(told_of(plugin, told, plugins.len() == 1)?);
    }
    done.extend(broken);
    Ok(json!({ "plugins": done }))
}

/// The plugins that are meant, and what is to be said of those that do not load.
fn chosen(registry: &Registry, id: Option<&str>) -> Result<(Vec<Arc<Plugin>>, Vec<Json>), Failure> {
    let Some(id) = id else {
        let broken = registry.broken.iter().map(|(folder, faults)| show_faults(folder, faults));
        return Ok((registry.plugins.values().cloned().collect(), broken.collect()));
    };
    let plugin = registry.plugins.get(id);
    let folder = plugin.map_or_else(|| id.to_owned(), |plugin| plugin.folder());
    let broken = registry.broken.get(&folder).map(|faults| show_faults(&folder, faults));
    if plugin.is_none() && broken.is_none() {
        let known = registry.plugins.keys().chain(registry.broken.keys()).map(String::as_str);
        let hint = crate::suggest::hint(id, known);
        let text = format!("no plugin \"{id}\" is loaded{hint}; `oncehost plugin list` shows what there is");
        return Err(Failure::new(Code::NotFound, text));
    }
    Ok((plugin.cloned().into_iter().collect(), broken.into_iter().collect()))
}

fn show_faults(folder: &str, faults: &[Fault]) -> Json {
    let lines: String = faults.iter().map(|fault| format!("\n  {}", fault.to_string().replace('\n', "\n  "))).collect();
    let text = format!("{folder}\n  does not load, so its tables are not looked at:{lines}");
    let faults: Vec<Json> = faults.iter().map(Fault::json).collect();
    json!({ "plugin": folder, "refused": true, "faults": faults, "text": text })
}

/// Refuses names of what may be lost that name nothing in any of the plugins: a slip there would show too late.
fn check_names(
    plugins: &[Arc<Plugin>],
    database: impl Fn(&str) -> Database,
    allowed: &[String],
) -> Result<(), Failure> {
    let mut known = BTreeSet::new();
    for plugin in plugins.iter().filter(|_| !allowed.is_empty()) {
        match tables::names(&database(&plugin.id), &plugin.schema) {
            Ok(names) => known.extend(names),
            // What cannot be read is said where it is planned.
            Err(_) => return Ok(()),
        }
    }
    let Some(unknown) = allowed.iter().find(|name| !known.contains(*name)) else { return Ok(()) };
    let hint = crate::suggest::hint(unknown, known.iter().map(String::as_str));
    let text = format!(
        "--allow-destructive {unknown}: it takes TABLE or TABLE.COLUMN, as `oncehost schema plan` names them, and nothing is \
         called so, in the database or in schema.sql{hint}"
    );
    Err(Failure::new(Code::Validation, text))
}

/// Brings the tables of these plugins, loaded or about to be, to their `schema.sql`. Gives what [`schema()`] gives for
/// each.
///
/// # Errors
/// What the database of a single plugin says.
pub async fn apply(
    app: &Arc<App>,
    plugins: &[Arc<Plugin>],
    allow: &[String],
    tell: &Tell,
) -> Result<Vec<Json>, Failure> {
    let mut done = Vec::new();
    for plugin in plugins {
        let (allow, now, of, tell) = (allow.to_vec(), app.clock.now(), plugin.clone(), tell.clone());
        let me = app.flows.desk.owner.clone();
        let work = move |shared: &Shared| {
            let told = show_applied(&of, shared, &allow, now, &tell)?;
            // What waited for these tables, on whichever host.
            if let Err(error) = shared.adjust(|tx| steps::take_over(tx, &me, now)) {
                let error: StoreError = error;
                tracing::warn!(plugin = of.id, %error, "steps that wait for these tables go on later");
            }
            Ok(told)
        };
        let told = app.lane(&plugin.id).exclusive(work).await.and_then(|told: Result<Json, Failure>| told);
        done.push(told_of(plugin, told, plugins.len() == 1)?);
        app.flows.reloaded(std::iter::once(plugin.id.clone()));
        app.events.resume(&plugin.id);
        app.stores.tell(&Notice::Steps(plugin.id.clone()));
        app.stores.tell(&Notice::Arrived(plugin.id.clone()));
    }
    Ok(done)
}

/// What came of one plugin; of several, the others are to be heard of all the same where one fails.
fn told_of(plugin: &Plugin, told: Result<Json, Failure>, alone: bool) -> Result<Json, Failure> {
    let id = &plugin.id;
    let mut told = match told {
        Err(failure) if !alone => {
            let text = format!("{id}\n  failed: {}", failure.detail);
            json!({ "refused": true, "failed": failure.detail, "text": text })
        }
        told => told?,
    };
    told["plugin"] = json!(id);
    Ok(told)
}

/// `text` under the plugin's id.
fn headed(plugin: &Plugin, text: &str) -> String {
    let indented = |line: &str| if line.is_empty() { "\n".to_owned() } else { format!("\n  {line}") };
    plugin.id.clone() + &text.trim_end().lines().map(indented).collect::<String>()
}

fn show_plan(plugin: &Plugin, database: &Database, allow: &[String]) -> Result<Json, Failure> {
    let plan = tables::plan(database, &plugin.schema, allow)?;
    let text = headed(plugin, &schema::render(&plan));
    Ok(json!({ "refused": !plan.refusals.is_empty(), "plan": plan, "text": text }))
}

fn show_applied(plugin: &Plugin, shared: &Shared, allow: &[String], now: Millis, tell: &Tell) -> Result<Json, Failure> {
    let step = |step, steps, why: &str| tell(Progress { plugin: plugin.id.clone(), step, steps, why: why.to_owned() });
    match tables::apply_telling(shared, &plugin.schema, allow, now, &step) {
        Ok(applied) => {
            let text = match applied.plan.steps.len() {
                0 => "as schema.sql wants it; nothing to do".to_owned(),
                1 => format!("applied, 1 step: version {}", applied.version),
                steps => format!("applied, {steps} steps: version {}", applied.version),
            };
            Ok(json!({ "refused": false, "applied": applied, "text": headed(plugin, &text) }))
        }
        Err(ApplyError::Refused(plan)) => {
            // The steps are for `plan` to show: here they would hide what stands against them.
            let text = schema::render(&Plan { steps: Vec::new(), ..plan.clone() });
            Ok(json!({ "refused": true, "plan": plan, "text": headed(plugin, text.trim_start()) }))
        }
        Err(ApplyError::Store(error)) => Err(error.into()),
    }
}

fn show_status(plugin: &Plugin, database: &Database) -> Result<Json, Failure> {
    let status = tables::status(database, &plugin.schema)?;
    let mut text = match status.state {
        State::Equal => "as schema.sql wants it".to_owned(),
        State::Pending => "changes of schema.sql are to be applied".to_owned(),
        State::Drift => "changed by other hands since schema.sql was applied last".to_owned(),
    };
    let mut list = |heading: &str, lines: &mut dyn Iterator<Item = &str>| {
        let lines: String = lines.map(|line| format!("\n  - {line}")).collect();
        if !lines.is_empty() {
            text += &format!("{heading}{lines}");
        }
    };
    let plan = &status.plan;
    list(":", &mut plan.drift.iter().map(String::as_str));
    list(if plan.drift.is_empty() { ":" } else { "\nto apply:" }, &mut plan.steps.iter().map(|step| step.why.as_str()));
    if status.state != State::Equal {
        text += &format!("\n`oncehost schema plan {}` shows the SQL and what stands against it", plugin.id);
    }
    Ok(json!({ "refused": false, "status": status, "text": headed(plugin, &text) }))
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
    /// By other hands; what was found first.
    Changed(String),
    /// They cannot be looked at, for this reason: an apply would not help.
    Unknown(String),
}

impl Pending {
    /// What is to be said of the tables: `are not there yet`.
    pub fn says(&self) -> String {
        match self {
            Pending::Missing => "are not there yet".to_owned(),
            Pending::Differ => "are not as schema.sql says".to_owned(),
            Pending::Changed(what) => {
                format!("were changed by other hands since schema.sql was applied last ({what})")
            }
            Pending::Unknown(why) => format!("cannot be looked at: {why}"),
        }
    }
}

/// Whether the tables of a plugin are as its `schema.sql` says, and if not, why.
pub async fn pending(app: &Arc<App>, plugin: &Plugin) -> Option<Pending> {
    let database = app.database(&plugin.id);
    let is_there = database.exists();
    if !is_there && plugin.schema.tables.is_empty() {
        return None;
    }
    let wanted = plugin.schema.clone();
    let looked = blocking("a look at tables", move || tables::status(&database, &wanted)).await;
    match looked.and_then(|status| status.map_err(Failure::from)) {
        Ok(status) => match status.state {
            State::Equal => None,
            State::Pending => Some(if is_there { Pending::Differ } else { Pending::Missing }),
            State::Drift => Some(Pending::Changed(status.plan.drift.first().cloned().unwrap_or_default())),
        },
        Err(failure) => Some(Pending::Unknown(failure.detail)),
    }
}

/// The flag that has a command meet this host's data: empty where that is the usual folder.
pub fn data_flag(app: &App) -> String {
    let data = &app.settings.data;
    let usual = *data == crate::config::Settings::default().data;
    if usual { String::new() } else { format!(" --data {}", shell_word(&data.display().to_string())) }
}
