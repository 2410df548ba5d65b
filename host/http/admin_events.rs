//! `/admin/events…`: deliveries and dead letters, for operators.

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Response, StatusCode, Uri};

use super::Shared;
use super::door::RequestId;
use super::members::{self, Takes};
use super::parameters::Parameters;
use crate::events::admin::{self, MOST_LISTED, Selection};
use crate::failure::Failure;

pub(super) async fn list(
    State(shared): State<Arc<Shared>>,
    Extension(id): Extension<RequestId>,
    uri: Uri,
) -> Response<Body> {
    let listed = async { admin::list(&shared.app, &query(&uri)?).await };
    let listed = listed.await;
    shared.answer(&id, StatusCode::OK, listed)
}

pub(super) async fn show(
    State(shared): State<Arc<Shared>>,
    Extension(id): Extension<RequestId>,
    Path(event): Path<String>,
) -> Response<Body> {
    let shown = admin::show(&shared.app, &event).await;
    shared.answer(&id, StatusCode::OK, shown)
}

pub(super) async fn replay(
    State(shared): State<Arc<Shared>>,
    Extension(id): Extension<RequestId>,
    headers: HeaderMap,
    body: Body,
) -> Response<Body> {
    let done = async { admin::replay(&shared.app, &selection(&shared, &headers, body).await?).await };
    let done = done.await;
    shared.answer(&id, StatusCode::OK, done)
}

pub(super) async fn discard(
    State(shared): State<Arc<Shared>>,
    Extension(id): Extension<RequestId>,
    headers: HeaderMap,
    body: Body,
) -> Response<Body> {
    let done = async { admin::discard(&shared.app, &selection(&shared, &headers, body).await?).await };
    let done = done.await;
    shared.answer(&id, StatusCode::OK, done)
}

/// What a list may say as parameters of the address: `?state=dead&plugin=orders`.
const LISTING: [&str; 12] = [
    "plugin",
    "tenant",
    "type",
    "source",
    "subject",
    "subscription",
    "error",
    "state",
    "since",
    "until",
    "limit",
    "cursor",
];

fn query(uri: &Uri) -> Result<Selection, Failure> {
    let mut given = Parameters::read(uri, &LISTING)?;
    Ok(Selection {
        plugin: given.text("plugin"),
        tenant: given.text("tenant"),
        event_type: given.text("type"),
        source: given.text("source"),
        subject: given.text("subject"),
        subscription: given.text("subscription"),
        error: given.text("error"),
        state: given.text("state"),
        since: given.text("since"),
        until: given.text("until"),
        limit: given.number("limit", 1..=MOST_LISTED)?,
        cursor: given.text("cursor"),
        ..Selection::default()
    })
}

/// What says which deliveries are meant, and what is asked of them.
const SELECTION: [(&str, Takes); 15] = [
    ("eventIds", Takes::Texts),
    ("plugin", Takes::Text),
    ("tenant", Takes::Text),
    ("type", Takes::Text),
    ("source", Takes::Text),
    ("subject", Takes::Text),
    ("subscription", Takes::Text),
    ("error", Takes::Text),
    ("state", Takes::Text),
    ("since", Takes::Text),
    ("until", Takes::Text),
    ("all", Takes::Flag),
    ("force", Takes::Flag),
    ("rate", Takes::Number),
    ("dryRun", Takes::Flag),
];

async fn selection(shared: &Shared, headers: &HeaderMap, body: Body) -> Result<Selection, Failure> {
    members::read(shared, headers, body, &SELECTION).await
}
