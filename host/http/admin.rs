//! What operators ask: the same data over HTTP and from the commands.

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Response, StatusCode, header};
use futures_util::stream;
use serde::Deserialize;
use serde_json::{Value as Json, json};
use tokio::sync::mpsc;

use super::door::RequestId;
use super::members::{self, Takes};
use super::{Shared, reply};
use crate::app::App;
use crate::codec::time;
use crate::failure::{Code, Failure};
use crate::metrics::{LaneStanding, Process, open_files_limit};
use crate::plugin::{Fault, KeyRule, Kind, Plugin, Registry, Replay};
use crate::reload;
pub use crate::tables::{SchemaRequest, SchemaVerb, schema};
use crate::tables::{Tell, schema_telling};

/// The plugins as they serve now, and the faults of folders that do not load. A plugin that serves an older version
/// than its folder holds is in both, and has the folder's faults.
pub fn plugins(registry: &Registry) -> Json {
    let loaded: Vec<Json> = registry.plugins.values().map(|plugin| loaded(registry, plugin)).collect();
    let broken: Vec<Json> = registry
        .broken
        .iter()
        .map(|(folder, faults)| json!({ "folder": folder, "faults": faults.iter().map(Fault::json).collect::<Vec<_>>() }))
        .collect();
    json!({ "plugins": loaded, "broken": broken })
}

/// How the host stands: what `oncehost doctor` and `new` ask.
pub async fn health(app: &Arc<App>) -> Json {
    let unready = app.is_ready().await.err();
    let registry = app.registry();
    let plugins: serde_json::Map<String, Json> =
        registry.plugins.iter().map(|(id, plugin)| (id.clone(), json!(plugin.hash))).collect();
    let lane = |lane: &LaneStanding| json!({ "plugin": lane.plugin, "waiting": lane.waiting, "threads": lane.threads, "reliefs": lane.reliefs });
    let lanes: Vec<Json> = app.standing().lanes.iter().map(lane).collect();
    let process = Process::look();
    json!({
        "version": env!("CARGO_PKG_VERSION"), "pid": std::process::id(), "threads": process.threads,
        "openFiles": process.open_files, "mostFiles": open_files_limit(),
        "unready": unready, "plugins": plugins, "lanes": lanes,
        "dev": app.settings.dev, "address": app.address.get(),
    })
}

fn loaded(registry: &Registry, plugin: &Plugin) -> Json {
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
        "folder": plugin.folder(),
        "loadedAt": time::shown(plugin.loaded_at),
        "faults": registry.faults_of(plugin).iter().map(Fault::json).collect::<Vec<_>>(),
        "notes": plugin.notes.iter().map(Fault::json).collect::<Vec<_>>(),
        "actions": actions.collect::<Vec<_>>(),
        "flows": plugin.flows.keys().collect::<Vec<_>>(),
        "tables": plugin.schema.tables.keys().collect::<Vec<_>>(),
    })
}

pub(super) async fn show_health(State(shared): State<Arc<Shared>>) -> Response<Body> {
    reply::json(StatusCode::OK, &health(&shared.app).await)
}

pub(super) async fn show_plugins(State(shared): State<Arc<Shared>>) -> Response<Body> {
    reply::json(StatusCode::OK, &plugins(&shared.app.registry()))
}

/// Who accepts lines hears of each step of an apply: `{ "progress": … }`, and last `{ "done": … }` or `{ "failed": … }`.
pub(super) async fn change_schema(
    State(shared): State<Arc<Shared>>,
    Extension(id): Extension<RequestId>,
    Path(verb): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Response<Body> {
    let asked: Result<_, Failure> = async {
        let unknown = || Failure::new(Code::NotFound, "there is schema/plan, schema/apply and schema/status");
        let verb = SchemaVerb::from_name(&verb).ok_or_else(unknown)?;
        let takes = [("plugin", Takes::Text), ("allow_destructive", Takes::Texts)];
        Ok((verb, members::read(&shared, &headers, body, &takes).await?))
    }
    .await;
    let (verb, request) = match asked {
        Ok(asked) => asked,
        Err(failure) => return shared.problem(failure, &id),
    };
    if headers.get(header::ACCEPT).is_none_or(|accept| accept.as_bytes() != reply::LINES.as_bytes()) {
        let done = schema(&shared.app, verb, request).await;
        return shared.answer(&id, StatusCode::OK, done);
    }
    let (lines, receiver) = mpsc::unbounded_channel();
    let tell: Tell = Arc::new(move |progress| drop(lines.send(json!({ "progress": progress }))));
    let app = shared.app.clone();
    let last = stream::once(async move {
        match schema_telling(&app, verb, request, tell).await {
            Ok(done) => json!({ "done": done }),
            Err(failure) => json!({ "failed": failure.to_string() }),
        }
    });
    reply::lines(stream::select(reply::received(receiver), last))
}

/// What `POST /admin/plugins/reload` takes.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ReloadRequest {
    /// An id or a folder's name; `None`: all.
    plugin: Option<String>,
}

pub(super) async fn reload_plugins(
    State(shared): State<Arc<Shared>>,
    Extension(id): Extension<RequestId>,
    headers: HeaderMap,
    body: Body,
) -> Response<Body> {
    let doing = async {
        let request: ReloadRequest = members::read(&shared, &headers, body, &[("plugin", Takes::Text)]).await?;
        reload::reload_named(&shared.app, request.plugin.as_deref()).await
    };
    match doing.await {
        Ok(report) => {
            let text = report.text();
            let done = if text.is_empty() { "nothing changed" } else { text.trim_end() };
            tracing::info!("reload of plugins on request: {done}");
            reply::json(StatusCode::OK, &report.json())
        }
        Err(failure) => shared.problem(failure, &id),
    }
}
