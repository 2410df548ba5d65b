//! `POST /plugins/{plugin}/invoke/{action}`.

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Response};

use super::door::{self, RequestId};
use super::reply::{self, KEY};
use super::{Shared, body};
use crate::failure::{Code, Failure};
use crate::idempotency::{self, Request};
use crate::invoke::{InvokeError, Outcome};
use crate::trace::Origin;

/// Invokes an action.
pub(super) async fn invoke(
    State(shared): State<Arc<Shared>>,
    Extension(id): Extension<RequestId>,
    Extension(origin): Extension<Origin>,
    path: Result<Path<(String, String)>, PathRejection>,
    headers: HeaderMap,
    body: Body,
) -> Response<Body> {
    let Ok(Path((plugin, action))) = path else {
        return shared.problem(Failure::new(Code::NotFound, "the path is not UTF-8"), &id);
    };
    match run(&shared, (plugin, action), origin, &headers, body).await {
        Ok(reply) => reply::success(&reply),
        Err(error) => shared.problem(error, &id),
    }
}

async fn run(
    shared: &Shared,
    (plugin, action): (String, String),
    origin: Origin,
    headers: &HeaderMap,
    body: Body,
) -> Result<Outcome, InvokeError> {
    body::check_type(headers)?;
    let body = body::read(headers, body, shared.app.settings.body_limit).await?;
    let key = headers.get_all(KEY).iter().map(|line| line.as_bytes().to_vec()).collect();
    let request = Request { plugin, action, key, body, origin };
    idempotency::call(&shared.app, request, door::caller(shared, headers)).await
}
