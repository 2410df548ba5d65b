//! `/admin/flows`: workflows for operators.

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Response, StatusCode, Uri};
use serde::Deserialize;

use super::Shared;
use super::door::RequestId;
use super::members::{self, Takes};
use super::parameters::Parameters;
use crate::failure::{Code, Failure};
use crate::flow::operate::{self, Named, Query, Verb};

const CHANGE: [(&str, Takes); 3] = [("plugin", Takes::Text), ("tenant", Takes::Text), ("reason", Takes::Text)];

/// What a change takes: what tells workflows of one name apart, and why.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Change {
    plugin: Option<String>,
    tenant: Option<String>,
    reason: Option<String>,
}

pub(super) async fn list(
    State(shared): State<Arc<Shared>>,
    Extension(id): Extension<RequestId>,
    uri: Uri,
) -> Response<Body> {
    let listed = async { operate::list(&shared.app, query(&uri)?).await };
    let listed = listed.await;
    shared.answer(&id, StatusCode::OK, listed)
}

fn query(uri: &Uri) -> Result<Query, Failure> {
    let mut given = Parameters::read(uri, &["plugin", "tenant", "flow", "status", "limit", "cursor"])?;
    Ok(Query {
        plugin: given.text("plugin"),
        tenant: given.text("tenant"),
        flow: given.text("flow"),
        status: given.text("status"),
        limit: given.number("limit", 1..=1000)?.map(i64::from),
        cursor: given.text("cursor"),
    })
}

pub(super) async fn show(
    State(shared): State<Arc<Shared>>,
    Extension(id): Extension<RequestId>,
    Path(workflow_id): Path<String>,
    uri: Uri,
) -> Response<Body> {
    let found = async {
        let mut given = Parameters::read(&uri, &["plugin", "tenant"])?;
        let (plugin, tenant) = (given.text("plugin"), given.text("tenant"));
        operate::show(&shared.app, Named { workflow_id, plugin, tenant, reason: None }).await
    };
    let found = found.await;
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
        let Change { plugin, tenant, reason } = members::read(&shared, &headers, body, &CHANGE).await?;
        operate::change(&shared.app, verb, Named { workflow_id, plugin, tenant, reason }).await
    };
    let changed = changing.await;
    shared.answer(&id, StatusCode::OK, changed)
}
