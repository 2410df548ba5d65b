//! What operators ask: the same data over HTTP and from the commands.

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Response, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use super::door::RequestId;
use super::{Shared, body, reply};
use crate::app::App;
use crate::clock::Millis;
use crate::failure::{Code, Failure};
use crate::metrics::{LaneStanding, Process};
use crate::plugin::{Fault, KeyRule, Kind, Plugin, Replay};
use crate::schema::{self, ApplyError, Plan};
use crate::store::sqlite::Shared as Database;

/// The plugins as they are loaded, and the faults of those that are not.
pub fn plugins(app: &App) -> Json {
    let registry = app.registry();
    let loaded: Vec<Json> = registry.plugins.values().map(|plugin| loaded(plugin)).collect();
    let broken: Vec<Json> = registry
        .broken
        .iter()
        .map(|(folder, faults)| json!({ "folder": folder, "faults": faults.iter().map(fault).collect::<Vec<_>>() }))
        .collect();
    json!({ "plugins": loaded, "broken": broken })
}

/// How the host stands: what `oncehost doctor` asks.
pub fn health(app: &App) -> Json {
    let registry = app.registry();
    let plugins: serde_json::Map<String, Json> =
        registry.plugins.iter().map(|(id, plugin)| (id.clone(), json!(plugin.hash))).collect();
    let lane = |lane: &LaneStanding| json!({ "plugin": lane.plugin, "waiting": lane.waiting, "threads": lane.threads, "reliefs": lane.reliefs });
    let lanes: Vec<Json> = app.standing().lanes.iter().map(lane).collect();
    json!({
        "version": env!("CARGO_PKG_VERSION"), "pid": std::process::id(), "threads": Process::look().threads,
        "unready": app.ready().err(), "plugins": plugins, "lanes": lanes,
    })
}

fn loaded(plugin: &Plugin) -> Json {
    let actions = plugin.actions.values().map(|action| {
        let kind = match action.kind {
            Kind::Write => "write",
            Kind::Read => "read",
        };
        let key = match action.key {
            KeyRule::Optional => "optional",
            KeyRule::Required => "required",
        };
        let replay = match action.replay {
            Replay::Response => "response",
            Replay::Rerun => "rerun",
        };
        json!({ "name": action.name, "kind": kind, "key": key, "replay": replay })
    });
    json!({
        "id": plugin.id,
        "version": plugin.version,
        "hash": plugin.hash,
        "actions": actions.collect::<Vec<_>>(),
        "flows": plugin.flows.keys().collect::<Vec<_>>(),
        "tables": plugin.schema.tables.keys().collect::<Vec<_>>(),
    })
}

fn fault(fault: &Fault) -> Json {
    json!({
        "file": fault.file, "line": fault.line, "column": fault.column,
        "message": fault.message, "snippet": fault.snippet,
    })
}

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

    fn from_name(name: &str) -> Option<Self> {
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

/// Plans, applies or shows changes of tables, one plugin after the other. Gives
/// `{ "plugins": [{ "plugin", "refused", "text", … }] }`; where `refused` is true nothing of that plugin was applied.
///
/// # Errors
/// `NOT_FOUND` for an unknown plugin, and what the database says.
pub async fn schema(app: &Arc<App>, verb: SchemaVerb, request: SchemaRequest) -> Result<Json, Failure> {
    let registry = app.registry();
    let plugins: Vec<_> = match &request.plugin {
        None => registry.plugins.values().cloned().collect(),
        Some(id) => vec![registry.plugins.get(id).cloned().ok_or_else(|| {
            let broken = if registry.broken.contains_key(id) { "; it did not load, see its faults" } else { "" };
            Failure::new(Code::NotFound, format!("no plugin \"{id}\" is loaded{broken}"))
        })?],
    };
    let mut done = Vec::new();
    for plugin in plugins {
        let (allow, now, id) = (request.allow_destructive.clone(), app.clock.now(), plugin.id.clone());
        let work = move |shared: &Arc<Database>| one_schema(shared, &plugin, verb, &allow, now);
        let mut told = app.lane(&id).exclusive(work).await??;
        told["plugin"] = json!(id);
        done.push(told);
    }
    Ok(json!({ "plugins": done }))
}

fn one_schema(
    shared: &Arc<Database>,
    plugin: &Plugin,
    verb: SchemaVerb,
    allow: &[String],
    now: Millis,
) -> Result<Json, Failure> {
    let mut connection = shared.lock();
    let headed = |text: &str| format!("{}\n{}", plugin.id, text.trim_end().replace('\n', "\n  "));
    let refused = |plan: &Plan| json!({ "refused": true, "plan": plan, "text": headed(&schema::render(plan)) });
    Ok(match verb {
        SchemaVerb::Plan => {
            let plan = schema::plan(&connection, &plugin.schema, allow)?;
            json!({ "refused": !plan.refusals.is_empty(), "plan": plan, "text": headed(&schema::render(&plan)) })
        }
        SchemaVerb::Apply => match schema::apply(&mut connection, &plugin.schema, allow, now) {
            Ok(applied) => {
                let text = match applied.plan.steps.len() {
                    0 => "  as schema.sql wants it; nothing to do".to_owned(),
                    steps => format!("  applied, {steps} steps: version {}", applied.version),
                };
                json!({ "refused": false, "applied": applied, "text": headed(&text) })
            }
            Err(ApplyError::Refused(plan)) => refused(&plan),
            Err(ApplyError::Store(error)) => return Err(error.into()),
        },
        SchemaVerb::Status => {
            let status = schema::status(&connection, &plugin.schema)?;
            let text = match status.state {
                schema::State::Equal => "  as schema.sql wants it".to_owned(),
                schema::State::Pending => {
                    format!("  changes to apply; run `oncehost schema plan {}` to see them", plugin.id)
                }
                schema::State::Drift => {
                    format!("  changed by hand; run `oncehost schema plan {}` to see what differs", plugin.id)
                }
            };
            json!({ "refused": false, "status": status, "text": headed(&text) })
        }
    })
}

pub(super) async fn show_health(State(shared): State<Arc<Shared>>) -> Response<Body> {
    reply::json(StatusCode::OK, &health(&shared.app))
}

pub(super) async fn show_plugins(State(shared): State<Arc<Shared>>) -> Response<Body> {
    reply::json(StatusCode::OK, &plugins(&shared.app))
}

pub(super) async fn change_schema(
    State(shared): State<Arc<Shared>>,
    Extension(id): Extension<RequestId>,
    Path(verb): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Response<Body> {
    let doing = async {
        let unknown = || Failure::new(Code::NotFound, "there is schema/plan, schema/apply and schema/status");
        let verb = SchemaVerb::from_name(&verb).ok_or_else(unknown)?;
        body::check_type(&headers)?;
        let body = body::read(&headers, body, shared.app.settings.body_limit).await?;
        let wrong = |error| Failure::new(Code::Validation, format!("the body is not what schema takes: {error}"));
        let request = serde_json::from_slice(&body).map_err(wrong)?;
        schema(&shared.app, verb, request).await
    };
    match doing.await {
        Ok(done) => reply::json(StatusCode::OK, &done),
        Err(failure) => shared.problem(failure, &id),
    }
}
