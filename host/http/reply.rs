//! Answers: the success form, problems, and plain JSON.

use std::convert::Infallible;
use std::time::{Duration, UNIX_EPOCH};

use axum::body::{Body, Bytes};
use axum::http::{HeaderName, HeaderValue, Response, StatusCode, header};
use futures_util::{Stream, StreamExt, stream};
use serde_json::Value as Json;
use tokio::sync::mpsc;

use super::problem::Problem;
use crate::clock::Millis;
use crate::invoke::Outcome;

pub(super) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
pub(super) const TENANT: HeaderName = HeaderName::from_static("x-tenant-id");
pub(super) const KEY: HeaderName = HeaderName::from_static("idempotency-key");
pub(super) const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
pub(super) const EXPIRES: HeaderName = HeaderName::from_static("idempotency-expires");

/// The type of a body of JSON lines.
pub(super) const LINES: &str = "application/x-ndjson";

/// The answer of one JSON line after the other, for as long as there are some.
pub(super) fn lines(lines: impl Stream<Item = Json> + Send + 'static) -> Response<Body> {
    let lines = lines.map(|line| Ok::<_, Infallible>(Bytes::from(format!("{line}\n"))));
    with_body(StatusCode::OK, LINES, Body::from_stream(lines))
}

/// What comes through a channel, until nobody sends any more.
pub(super) fn received(mut from: mpsc::UnboundedReceiver<Json>) -> impl Stream<Item = Json> + Send {
    stream::poll_fn(move |context| from.poll_recv(context))
}

/// The body of a success: the recorded text goes out as it is, byte for byte.
pub fn success_text(reply: &Outcome) -> String {
    let mut text = String::with_capacity(reply.data.len() + 20);
    text.push_str(r#"{"code":0,"data":"#);
    text.push_str(&reply.data);
    text.push('}');
    text
}

/// The answer to a call that succeeded.
pub(super) fn success(reply: &Outcome) -> Response<Body> {
    let mut response = with_body(StatusCode::OK, "application/json", success_text(reply));
    let headers = response.headers_mut();
    if reply.replayed {
        headers.insert(REPLAYED, HeaderValue::from_static("true"));
    }
    if let Some(expires) = reply.expires.and_then(|at| HeaderValue::try_from(http_date(at)).ok()) {
        headers.insert(EXPIRES, expires);
    }
    response
}

/// An instant as an HTTP date, cut to the second; before 1970 counts as 1970, past 9999 as 9999.
pub fn http_date(at: Millis) -> String {
    const LAST: u64 = 253_402_300_799;
    let seconds = u64::try_from(at / 1000).unwrap_or(0).min(LAST);
    httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(seconds))
}

/// An error's answer.
pub(super) fn problem(problem: &Problem) -> Response<Body> {
    let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = with_body(status, "application/problem+json", problem.body.to_string());
    if let Some(seconds) = problem.retry_after {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    if let Some(challenge) = challenge(&problem.body) {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    }
    response
}

/// `WWW-Authenticate`: how to get in (RFC 6750, section 3).
fn challenge(problem: &Json) -> Option<HeaderValue> {
    let detail = |name: &str| problem.get("details").and_then(|details| details.get(name)).and_then(Json::as_str);
    let text = match problem.get("error").and_then(Json::as_str)? {
        "UNAUTHENTICATED" => match detail("error") {
            Some(error) => format!("Bearer realm=\"oncehost\", error=\"{error}\""),
            None => "Bearer realm=\"oncehost\"".to_owned(),
        },
        "FORBIDDEN" => {
            format!("Bearer realm=\"oncehost\", error=\"insufficient_scope\", scope=\"{}\"", detail("scope")?)
        }
        _ => return None,
    };
    HeaderValue::try_from(text).ok()
}

/// Plain JSON.
pub(super) fn json(status: StatusCode, body: &Json) -> Response<Body> {
    with_body(status, "application/json", body.to_string())
}

pub(super) fn with_body(status: StatusCode, media_type: &'static str, body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn success_carries_the_recorded_text_untouched() {
        let text = r#"{ "b":1.0,  "a":"\u0041" }"#;
        let reply = Outcome { replayed: true, expires: Some(1_700_000_000_999), ..Outcome::new(text) };
        assert_eq!(success_text(&reply), format!(r#"{{"code":0,"data":{text}}}"#));
        let response = success(&reply);
        assert_eq!(response.headers()["idempotent-replayed"], "true");
        assert_eq!(response.headers()["idempotency-expires"], "Tue, 14 Nov 2023 22:13:20 GMT");
    }

    #[test]
    fn reply_that_was_not_recorded_has_no_key_headers() {
        let response = success(&Outcome::new("null"));
        assert!(!response.headers().contains_key("idempotent-replayed"));
        assert!(!response.headers().contains_key("idempotency-expires"));
    }

    #[test]
    fn dates_outside_the_calendar_are_held_at_its_ends() {
        assert_eq!(http_date(-5), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(http_date(Millis::MAX), "Fri, 31 Dec 9999 23:59:59 GMT");
    }
}
