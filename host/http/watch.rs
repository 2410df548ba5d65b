//! A request as it looks from outside, for the access line and for its span in a trace.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use axum::extract::Request;
use axum::http::{Method, StatusCode};
use tracing::Level;

use super::door::RequestId;
use crate::app::App;
use crate::trace::{Origin, Parent, Trace, Value};

/// A request under way.
pub(super) struct Watched {
    pub origin: Origin,
    method: Method,
    path: String,
    begun: Instant,
}

impl Watched {
    /// Begins when the request's head has been read.
    pub fn begin(request: &Request, RequestId(id): &RequestId, app: &App) -> Self {
        let lines = |name: &'static str| request.headers().get_all(name).iter().map(|line| line.as_bytes());
        let parent = Parent::parse(lines("traceparent"), lines("tracestate"));
        let trace = Trace::begin(parent, app.spans.as_ref(), app.ids.as_ref(), app.clock.now()).map(Arc::new);
        let told = tracing::enabled!(target: "access", Level::DEBUG) || (app.spans.is_some() && trace.is_some());
        let origin = Origin { request_id: id.clone(), trace, facts: told.then(|| Arc::new(OnceLock::new())) };
        let path = if told { request.uri().path().to_owned() } else { String::new() };
        Self { origin, method: request.method().clone(), path, begun: Instant::now() }
    }

    /// Ends when the reply's head is made.
    pub fn end(self, status: StatusCode) {
        let Self { origin, method, path, begun } = self;
        let Some(facts) = &origin.facts else { return };
        let (facts, status) = (facts.get(), status.as_u16());
        let elapsed_us = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        tracing::debug!(
            target: "access",
            request_id = origin.request_id.as_ref(),
            trace_id = origin.trace_id(),
            %method,
            path,
            status,
            elapsed_us,
            plugin = facts.map(|facts| facts.plugin.as_str()),
            action = facts.map(|facts| facts.action.as_str()),
            tenant = facts.map(|facts| facts.tenant.as_str()),
            invocation = facts.map(|facts| facts.invocation.as_str()),
            outcome = facts.map(|facts| facts.outcome),
            "answered"
        );
        let Some(trace) = &origin.trace else { return };
        let text = |text: &str| Value::Text(text.to_owned());
        let mut attributes = vec![
            ("http.request.method", text(method.as_str())),
            ("url.path", text(&path)),
            ("http.response.status_code", Value::Number(status.into())),
            ("oncehost.request_id", text(&origin.request_id)),
        ];
        // A name must not have as many forms as there are paths.
        let mut name = method.as_str().to_owned();
        if let Some(facts) = facts {
            name = format!("{method} /plugins/{}/invoke/{}", facts.plugin, facts.action);
            attributes.extend([
                ("oncehost.plugin", text(&facts.plugin)),
                ("oncehost.action", text(&facts.action)),
                ("oncehost.tenant", text(&facts.tenant)),
                ("oncehost.invocation", text(&facts.invocation)),
                ("oncehost.outcome", text(facts.outcome)),
            ]);
        }
        let error = (status >= 500).then(|| facts.map_or_else(|| status.to_string(), |facts| facts.outcome.to_owned()));
        trace.end(name, attributes, error);
    }
}
