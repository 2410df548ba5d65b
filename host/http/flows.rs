//! `/admin/flows`: workflows for operators.

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query as AxumQuery, State};
use axum::http::{HeaderMap, Response, StatusCode};
use serde::Deserialize;

use super::door::RequestId;
use super::{Shared, body};
use crate::failure::{Code, Failure};
use crate::flow::operate::{self, Named, Query, Verb};

/// What tells workflows of one name apart.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Which {
    plugin: Option<String>,
    tenant: Option<String>,
}

/// What a change takes: the same, and why.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Change {
    plugin: Option<String>,
    tenant: Option<String>,
    reason: Option<String>,
}

pub(super) async fn list(
    State(shared): State<Arc<Shared>>,
    Extension(id): Extension<RequestId>,
    query: Result<AxumQuery<Query>, QueryRejection>,
) -> Response<Body> {
    let listed = match query {
        Ok(AxumQuery(query)) => operate::list(&shared.app, query).await,
        Err(error) => Err(wrong(&error)),
    };
    shared.answer(&id, StatusCode::OK, listed)
}

pub(super) async fn show(
    State(shared): State<Arc<Shared>>,
    Extension(id): Extension<RequestId>,
    Path(workflow_id): Path<String>,
    query: Result<AxumQuery<Which>, QueryRejection>,
) -> Response<Body> {
    let found = match query {
        Ok(AxumQuery(Which { plugin, tenant })) => {
            operate::show(&shared.app, Named { workflow_id, plugin, tenant, reason: None }).await
        }
        Err(error) => Err(wrong(&error)),
    };
    shared.answer(&id, StatusCode::OK, found)
}

pub(super) async fn change(
    State(shared): State<Arc<Shared>>,
    Extension(id): Extension<RequestId>,
    Path((workflow_id, verb)): Path<(String, String)>,
    headers: HeaderMap,
    body: Body,
) -> Response<Body> {
    let changing = async {
        let verb = match verb.as_str() {
            "retry" => Verb::Retry,
            "cancel" => Verb::Cancel,
            _ => return Err(Failure::new(Code::NotFound, "there is /admin/flows/ID/retry and /admin/flows/ID/cancel")),
        };
        body::check_type(&headers)?;
        let body = body::read(&headers, body, shared.app.settings.body_limit).await?;
        let wrong = |error| {
            let form = r#"{"plugin": …, "tenant": …, "reason": …}, each of them where it is needed"#;
            Failure::new(Code::Validation, format!("the body is not what this takes: {error}; send {form}"))
        };
        let Change { plugin, tenant, reason } = serde_json::from_slice(&body).map_err(wrong)?;
        operate::change(&shared.app, verb, Named { workflow_id, plugin, tenant, reason }).await
    };
    let changed = changing.await;
    shared.answer(&id, StatusCode::OK, changed)
}

fn wrong(error: &QueryRejection) -> Failure {
    let text = format!("the query of this path is wrong: {}", error.body_text());
    Failure::new(Code::Validation, text)
}
