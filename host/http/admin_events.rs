//! `/admin/events…`: deliveries and dead letters, for operators.

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Response, StatusCode, Uri};
use serde_json::Value as Json;

use super::door::RequestId;
use super::{Shared, body};
use crate::events::admin::{self, Selection};
use crate::failure::{Code, Failure};

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

/// The members of a selection as parameters of the address: `?state=dead&plugin=orders`.
fn query(uri: &Uri) -> Result<Selection, Failure> {
    let mut members = serde_json::Map::new();
    for (name, value) in url::form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()) {
        let value = match (name.as_ref(), value.parse::<u64>()) {
            ("limit", Ok(number)) => Json::from(number),
            _ => Json::from(value.into_owned()),
        };
        members.insert(name.into_owned(), value);
    }
    read(Json::Object(members))
}

async fn selection(shared: &Shared, headers: &HeaderMap, body: Body) -> Result<Selection, Failure> {
    body::check_type(headers)?;
    let body = body::read(headers, body, shared.app.settings.body_limit).await?;
    let wrong = |error| Failure::new(Code::Validation, format!("the body is not JSON: {error}"));
    read(serde_json::from_slice(&body).map_err(wrong)?)
}

fn read(members: Json) -> Result<Selection, Failure> {
    serde_json::from_value(members).map_err(|error| {
        let form = r#"{"eventIds": ["…"]}, or filters such as {"plugin": "orders", "type": "…", "tenant": "…"}"#;
        Failure::new(
            Code::Validation,
            format!("this does not say which deliveries are meant: {error}; the form is {form}"),
        )
    })
}
