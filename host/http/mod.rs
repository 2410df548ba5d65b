//! HTTP: the only place that knows axum.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{Method, Request, Response, StatusCode, Uri};
use axum::routing::{delete, get, post};
use axum::{Extension, Router};
use serde_json::json;

use crate::app::App;
use crate::failure::{Code, Failure};
use door::RequestId;
use seats::Streams;

pub mod admin;
mod admin_events;
mod backup;
mod body;
mod call;
pub mod door;
mod events;
mod flows;
pub mod listen;
mod members;
mod notifications;
pub mod openapi;
mod parameters;
pub mod problem;
pub mod reply;
mod seats;
pub mod tokens;
mod watch;
mod wire;

/// The way by which requests come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// The socket in the data folder: only the owner's processes can open it, so they may do all that commands do.
    Local,
    /// TCP in `dev`: no credentials, loopback only; `port` is the one that is bound.
    Dev { port: u16 },
    /// TCP in `serve`: credentials for everything but `/healthz` and `/readyz`.
    Serve,
}

/// What every handler gets.
struct Shared {
    app: Arc<App>,
    door: Door,
    streams: Arc<Streams>,
}

/// What answers requests.
#[derive(Clone)]
pub struct Site {
    shared: Arc<Shared>,
    paths: Router,
}

impl Site {
    /// The answer to one request. The door stands around the paths: within, the header Allow would not be there yet.
    pub async fn answer(self, request: Request<Body>) -> Response<Body> {
        door::pass(&self.shared, self.paths, request).await
    }
}

/// All paths that can be asked by way of `door`, where there may be so many connections.
pub fn site(app: Arc<App>, door: Door, connections: usize) -> Site {
    let streams = Streams::new(connections / 2, app.settings.streams);
    let shared = Arc::new(Shared { app, door, streams });
    let mut router = Router::new()
        .route("/plugins/{plugin}/invoke/{action}", post(call::invoke))
        .route("/events", post(events::accept))
        .route("/notifications", get(notifications::listen))
        .route("/openapi.json", get(openapi::show))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz));
    let mut guarded = Router::new()
        .route("/admin/plugins", get(admin::show_plugins))
        .route("/admin/events", get(admin_events::list))
        .route("/admin/events/{event}", get(admin_events::show))
        .route("/admin/events/replay", post(admin_events::replay))
        .route("/admin/events/discard", post(admin_events::discard))
        .route("/metrics", get(metrics))
        .route("/admin/flows", get(flows::list))
        .route("/admin/flows/{id}", get(flows::show))
        .route("/admin/flows/{id}/{verb}", post(flows::change));
    if matches!(door, Door::Local | Door::Serve) {
        guarded = guarded
            .route("/admin/tokens", get(tokens::list).post(tokens::create))
            .route("/admin/tokens/{id}", delete(tokens::revoke));
    }
    if door == Door::Local {
        guarded = guarded
            .route("/admin/health", get(admin::show_health))
            .route("/admin/schema/{verb}", post(admin::change_schema))
            .route("/admin/plugins/reload", post(admin::reload_plugins))
            .route("/admin/backup", post(backup::take));
    }
    router = router.merge(guarded.route_layer(axum::middleware::from_fn_with_state(shared.clone(), door::guard)));
    let paths = router.fallback(not_found).method_not_allowed_fallback(wrong_method).with_state(shared.clone());
    Site { shared, paths }
}

/// The process is alive.
async fn healthz() -> Response<Body> {
    reply::json(StatusCode::OK, &json!({ "status": "ok" }))
}

/// Whether calls can be served, and why not.
async fn readyz(State(shared): State<Arc<Shared>>) -> Response<Body> {
    match shared.app.is_ready().await {
        Ok(()) => reply::json(StatusCode::OK, &json!({ "ready": true, "reasons": [] })),
        Err(why) => reply::json(StatusCode::SERVICE_UNAVAILABLE, &json!({ "ready": false, "reasons": [why] })),
    }
}

/// The counters, for Prometheus to collect.
async fn metrics(State(shared): State<Arc<Shared>>) -> Response<Body> {
    let text = shared.app.metrics.text(&shared.app.standing());
    reply::with_body(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", text)
}

async fn not_found(State(shared): State<Arc<Shared>>, Extension(id): Extension<RequestId>, uri: Uri) -> Response<Body> {
    let path: String = uri.path().chars().take(200).collect();
    let text = format!("there is no path {path}; actions are at POST /plugins/PLUGIN/invoke/ACTION");
    shared.problem(Failure::new(Code::NotFound, text), &id)
}

async fn wrong_method(
    State(shared): State<Arc<Shared>>,
    Extension(id): Extension<RequestId>,
    method: Method,
    uri: Uri,
) -> Response<Body> {
    let (path, method): (String, String) =
        (uri.path().chars().take(200).collect(), method.as_str().chars().take(40).collect());
    let text = format!("{path} does not take {method}; the header Allow says what it takes");
    shared.problem(Failure::new(Code::Method, text), &id)
}

#[cfg(test)]
mod tests;
