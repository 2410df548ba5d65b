//! `POST /events`: CloudEvents in structured, binary and batch mode.

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Response, StatusCode, header};
use serde_json::{Value as Json, json};

use super::door::{self, RequestId};
use super::problem::Problem;
use super::{Shared, body, reply};
use crate::aside::{ANYBODY, LONG, aside};
use crate::auth::scope::EVENTS_WRITE;
use crate::events::cloudevent::CloudEvent;
use crate::events::ingest::{self, Receipt};
use crate::failure::{Code, Failure};

const STRUCTURED: &str = "application/cloudevents+json";
const BATCH: &str = "application/cloudevents-batch+json";
/// What the names of headers begin with that carry attributes.
const ATTRIBUTE: &str = "ce-";

/// Accepts events; the answer leaves when they are on disk.
pub(super) async fn accept(
    State(shared): State<Arc<Shared>>,
    Extension(id): Extension<RequestId>,
    headers: HeaderMap,
    body: Body,
) -> Response<Body> {
    match run(&shared, &id, &headers, body).await {
        Ok(response) => response,
        Err(failure) => shared.problem(failure, &id),
    }
}

async fn run(shared: &Shared, id: &RequestId, headers: &HeaderMap, body: Body) -> Result<Response<Body>, Failure> {
    let mode = mode(headers)?;
    let bytes = body::read(headers, body, shared.app.settings.body_limit).await?;
    let events = aside(bytes.len() > LONG, ANYBODY, || match mode {
        Mode::Structured => Ok(vec![Ok(CloudEvent::structured(&bytes)?)]),
        Mode::Batch => CloudEvent::batch(&bytes),
        Mode::Binary { content_type } => {
            let attributes: Vec<(&str, &[u8])> = headers
                .iter()
                .filter_map(|(name, value)| Some((name.as_str().strip_prefix(ATTRIBUTE)?, value.as_bytes())))
                .collect();
            Ok(vec![Ok(CloudEvent::binary(&attributes, content_type.as_deref(), &bytes)?)])
        }
    })
    .await?;
    let caller = door::caller(shared, headers).await?;
    caller.need(EVENTS_WRITE)?;
    let mut faults = Vec::new();
    let mut good = Vec::new();
    for event in events {
        match event {
            Ok(event) => {
                good.push(event);
                faults.push(None);
            }
            Err(failure) => faults.push(Some(failure)),
        }
    }
    let mut accepted = ingest::accept(&shared.app, &caller.tenant, good).await?.into_iter();
    let gone = || Err(Failure::new(Code::Unavailable, "the outcome is unknown; send the same event again"));
    let mut results = faults.into_iter().map(|fault| fault.map_or_else(|| accepted.next().unwrap_or_else(gone), Err));
    if matches!(headers.get(header::CONTENT_TYPE), Some(value) if is(value.to_str().unwrap_or_default(), BATCH)) {
        let results: Vec<Json> = results.map(|result| told(result, id)).collect();
        return Ok(reply::json(StatusCode::OK, &json!({ "results": results })));
    }
    let receipt = results.next().unwrap_or_else(gone)?;
    Ok(reply::json(StatusCode::ACCEPTED, &shown(&receipt)))
}

fn shown(receipt: &Receipt) -> Json {
    json!({ "eventId": receipt.event_id, "already": receipt.already })
}

/// One event's result in a batch: as its reply would have been, had it come alone.
fn told(result: Result<Receipt, Failure>, RequestId(id): &RequestId) -> Json {
    match result {
        Ok(receipt) => {
            let mut told = shown(&receipt);
            told["status"] = json!(StatusCode::ACCEPTED.as_u16());
            told
        }
        Err(failure) => Problem::new(&failure.into(), id, false).body,
    }
}

enum Mode {
    Structured,
    Batch,
    Binary { content_type: Option<String> },
}

fn is(content_type: &str, wanted: &str) -> bool {
    content_type.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(wanted)
}

/// How the event is sent, by the binding's rules: the Content-Type first, then whether there are attributes in headers.
fn mode(headers: &HeaderMap) -> Result<Mode, Failure> {
    let refused = |why: String| {
        let text = format!(
            "{why}; send one event as {STRUCTURED}, several as {BATCH}, or the attributes as {ATTRIBUTE}… headers and \
             the data as the body"
        );
        Err(Failure::new(Code::MediaType, text))
    };
    body::check_coding(headers)?;
    let mut types = headers.get_all(header::CONTENT_TYPE).iter();
    let first = types.next();
    if types.next().is_some() {
        return refused("there are several Content-Type headers".to_owned());
    }
    let Ok(content_type) = first.map(|value| value.to_str().map(str::to_owned)).transpose() else {
        return refused("the header Content-Type is not ASCII".to_owned());
    };
    let text = content_type.as_deref().unwrap_or_default();
    let shown: String = text.chars().take(80).collect();
    if body::other_charset(text).is_some() {
        return refused(format!("the body is declared as {shown:?}, and this host reads UTF-8 only"));
    }
    if is(text, STRUCTURED) {
        Ok(Mode::Structured)
    } else if is(text, BATCH) {
        Ok(Mode::Batch)
    } else if text.trim_start().to_ascii_lowercase().starts_with("application/cloudevents") {
        refused(format!("this host does not read {shown:?}"))
    } else if headers.keys().any(|name| name.as_str().starts_with(ATTRIBUTE)) {
        Ok(Mode::Binary { content_type })
    } else {
        refused(format!("this is no CloudEvent: its Content-Type is {shown:?}, and it has no {ATTRIBUTE}… headers"))
    }
}
