//! Where a call comes from: its request's id for the log, and its place in a distributed trace (W3C Trace Context).

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use uuid::Uuid;

use crate::clock::Millis;
use crate::ids::Ids;

mod export;
mod parent;

pub use export::{Exporter, Kind, Sink, Span, Value, exporter};
pub use parent::Parent;

/// Where a call comes from.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    /// Empty where there was no request.
    pub request_id: Arc<str>,
    pub trace: Option<Arc<Trace>>,
    /// Filled in by the call for whoever writes about the request as a whole; `None` when nobody does.
    pub facts: Option<Arc<OnceLock<Facts>>>,
}

impl Origin {
    /// The request's id, where there was a request.
    pub fn request(&self) -> Option<&str> {
        Some(self.request_id.as_ref()).filter(|id| !id.is_empty())
    }

    /// The trace's id for log lines, 32 hex digits.
    pub fn trace_id(&self) -> Option<String> {
        self.trace.as_ref().map(|trace| hex(&trace.id))
    }

    /// Records a part of the call, from `began` until now, where the trace is collected.
    pub fn part(&self, name: &'static str, began: Instant, ids: &dyn Ids) {
        let Some(trace) = &self.trace else { return };
        if let Some(sink) = trace.sink.as_ref().filter(|_| trace.sampled) {
            let (start, end) = (trace.nanos(began), trace.nanos(Instant::now()));
            let span = Span {
                trace: trace.id,
                id: span_id(ids, trace.began_at),
                parent: Some(trace.span),
                state: trace.state.clone(),
                name: name.to_owned(),
                kind: Kind::Internal,
                start,
                end,
                attributes: Vec::new(),
                error: None,
            };
            sink.send(span);
        }
    }
}

/// What a call turned out to be.
#[derive(Clone, Debug)]
pub struct Facts {
    pub plugin: String,
    pub action: String,
    pub tenant: String,
    pub invocation: String,
    /// `ok`, `replayed`, `refused`, or the name of an error.
    pub outcome: &'static str,
}

/// A request's span in a trace.
#[derive(Debug)]
pub struct Trace {
    pub id: [u8; 16],
    /// This request's own span.
    pub span: [u8; 8],
    pub parent: Option<[u8; 8]>,
    /// Whether the trace is collected.
    pub sampled: bool,
    /// `tracestate`, passed on as it came.
    pub state: Option<String>,
    began: Instant,
    began_at: Millis,
    sink: Option<Sink>,
}

impl Trace {
    /// Goes on with the caller's trace, or begins one where `sink` wants them all.
    pub fn begin(parent: Option<Parent>, sink: Option<&Sink>, ids: &dyn Ids, now: Millis) -> Option<Self> {
        let span = || span_id(ids, now);
        let (id, parent, sampled, state) = match parent {
            Some(Parent { trace, span, sampled, state }) => (trace, Some(span), sampled, state),
            None => (*sink.map(|_| ids.rising(now))?.as_bytes(), None, true, None),
        };
        Some(Self {
            id,
            span: span(),
            parent,
            sampled,
            state,
            began: Instant::now(),
            began_at: now,
            sink: sink.cloned(),
        })
    }

    /// The header for what this request calls in turn.
    pub fn traceparent(&self) -> String {
        format!("00-{}-{}-{:02x}", hex(&self.id), hex(&self.span), u8::from(self.sampled))
    }

    /// Records the request's own span, which ends now.
    pub fn end(&self, name: String, attributes: Vec<(&'static str, Value)>, error: Option<String>) {
        let Some(sink) = self.sink.as_ref().filter(|_| self.sampled) else { return };
        sink.send(Span {
            trace: self.id,
            id: self.span,
            parent: self.parent,
            state: self.state.clone(),
            name,
            kind: Kind::Server,
            start: self.nanos(self.began),
            end: self.nanos(Instant::now()),
            attributes,
            error,
        });
    }

    /// Nanoseconds since 1970 of an instant during this request.
    fn nanos(&self, at: Instant) -> u128 {
        let since = at.saturating_duration_since(self.began);
        let began = Duration::from_millis(u64::try_from(self.began_at).unwrap_or(0));
        (began + since).as_nanos()
    }
}

/// The half of a fresh id that is random.
fn span_id(ids: &dyn Ids, now: Millis) -> [u8; 8] {
    let id: Uuid = ids.rising(now);
    id.as_u64_pair().1.to_be_bytes()
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _infallible = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::SystemIds;

    #[test]
    fn trace_goes_on_under_the_callers_id_with_a_span_of_its_own() {
        let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let parent = Parent::parse([header.as_bytes()], [b"a=1".as_slice()]);
        let trace = Trace::begin(parent, None, &SystemIds::default(), 0).unwrap();
        assert_eq!(hex(&trace.parent.unwrap()), "00f067aa0ba902b7");
        assert_ne!(trace.span, trace.parent.unwrap());
        let next = trace.traceparent();
        assert!(next.starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-") && next.ends_with("-01"), "{next}");
        assert_eq!(trace.state.as_deref(), Some("a=1"));
    }

    #[test]
    fn trace_begins_only_where_somebody_collects_it() {
        let ids = SystemIds::default();
        assert!(Trace::begin(None, None, &ids, 0).is_none());
        let (sink, _exporter) = exporter("http://127.0.0.1:4318");
        let (one, other) = (Trace::begin(None, Some(&sink), &ids, 0), Trace::begin(None, Some(&sink), &ids, 0));
        assert_ne!(one.unwrap().id, other.unwrap().id);
    }
}
