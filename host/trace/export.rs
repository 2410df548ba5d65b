//! Spans on their way to a collector: OTLP over HTTP, as JSON (OTLP 1.x, "JSON Protobuf Encoding").
//!
//! Written here and not taken from the OpenTelemetry crates: those bring a second executor, protobuf code and forty
//! seconds of compiling for what is one document and one POST.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{Request, Uri, header};
use hyper_util::rt::TokioIo;
use serde_json::{Value as Json, json};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::hex;

/// Spans that may wait to be sent; more are dropped and counted.
const WAITING: usize = 8192;
/// Spans of one request to the collector.
const BATCH: usize = 512;
/// How long a span waits for company.
const EVERY: Duration = Duration::from_secs(2);
/// How long the collector may take.
const TIME: Duration = Duration::from_secs(5);

/// One span.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    pub trace: [u8; 16],
    pub id: [u8; 8],
    pub parent: Option<[u8; 8]>,
    pub state: Option<String>,
    pub name: String,
    pub kind: Kind,
    /// Nanoseconds since 1970.
    pub start: u128,
    pub end: u128,
    pub attributes: Vec<(&'static str, Value)>,
    /// What went wrong, where something did.
    pub error: Option<String>,
}

/// The part that a span plays; the numbers are those of `SpanKind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Internal = 1,
    Server = 2,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Text(String),
    Number(i64),
}

/// Where spans go in. Never waits.
#[derive(Clone, Debug)]
pub struct Sink {
    spans: mpsc::Sender<Span>,
    dropped: Arc<AtomicU64>,
}

impl Sink {
    /// Hands a span over, or drops it where too many wait.
    pub fn send(&self, span: Span) {
        if self.spans.try_send(span).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Spans that were dropped: too many waited, or the collector did not take them.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

/// Sends spans to a collector.
#[derive(Debug)]
pub struct Exporter {
    spans: mpsc::Receiver<Span>,
    /// Taken, and not sent yet.
    batch: Vec<Span>,
    dropped: Arc<AtomicU64>,
    /// `http://HOST:PORT`, perhaps with a path.
    endpoint: String,
    failing: bool,
}

/// The two ends of the way to the collector at `endpoint`.
pub fn exporter(endpoint: &str) -> (Sink, Exporter) {
    let (sender, spans) = mpsc::channel(WAITING);
    let dropped = Arc::new(AtomicU64::new(0));
    let endpoint = endpoint.trim_end_matches('/').to_owned();
    (
        Sink { spans: sender, dropped: dropped.clone() },
        Exporter { spans, batch: Vec::new(), dropped, endpoint, failing: false },
    )
}

impl Exporter {
    /// Sends what comes, until nobody is left who could hand in more.
    pub async fn run(&mut self) {
        while self.spans.recv_many(&mut self.batch, BATCH).await > 0 {
            let (spans, batch) = (&mut self.spans, &mut self.batch);
            let more = async { while batch.len() < BATCH && spans.recv_many(batch, BATCH).await > 0 {} };
            let _whole = tokio::time::timeout(EVERY, more).await;
            self.send().await;
        }
    }

    /// Sends what is there, once.
    pub async fn rest(&mut self) {
        while let Ok(span) = self.spans.try_recv() {
            self.batch.push(span);
        }
        if !self.batch.is_empty() {
            self.send().await;
        }
    }

    async fn send(&mut self) {
        let spans = std::mem::take(&mut self.batch);
        let sent = tokio::time::timeout(TIME, post(&self.endpoint, &document(&spans))).await;
        let failed = match sent {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error),
            Err(_) => Some(format!("it did not answer within {} s", TIME.as_secs())),
        };
        // Told when it begins and when it ends, not each time.
        match (&failed, self.failing) {
            (Some(why), false) => tracing::warn!("spans do not reach the collector {}: {why}", self.endpoint),
            (None, true) => tracing::info!("spans reach the collector {} again", self.endpoint),
            _ => {}
        }
        self.failing = failed.is_some();
        if self.failing {
            self.dropped.fetch_add(u64::try_from(spans.len()).unwrap_or(0), Ordering::Relaxed);
        }
    }
}

async fn post(endpoint: &str, document: &Json) -> Result<(), String> {
    let uri: Uri = format!("{endpoint}/v1/traces").parse().map_err(|error| format!("{error}"))?;
    let authority = uri.authority().map(ToString::to_string).unwrap_or_default();
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
    let stream = TcpStream::connect((host, uri.port_u16().unwrap_or(80))).await.map_err(|error| error.to_string())?;
    let told = |error: hyper::Error| error.to_string();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(told)?;
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let request = Request::post(path)
        .header(header::HOST, authority)
        .header(header::CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(document.to_string())))
        .map_err(|error| error.to_string())?;
    let mut background = JoinSet::new();
    background.spawn(connection);
    let response = sender.send_request(request).await.map_err(told)?;
    let status = response.status();
    response.into_body().collect().await.map_err(told)?;
    if status.is_success() { Ok(()) } else { Err(format!("it answered {status}")) }
}

fn document(spans: &[Span]) -> Json {
    let service = [("service.name", "oncehost"), ("service.version", env!("CARGO_PKG_VERSION"))];
    let service = service.map(|(name, value)| attribute(name, &Value::Text(value.to_owned())));
    let spans: Vec<Json> = spans.iter().map(span).collect();
    json!({ "resourceSpans": [{
        "resource": { "attributes": service },
        "scopeSpans": [{ "scope": { "name": "oncehost", "version": env!("CARGO_PKG_VERSION") }, "spans": spans }],
    }] })
}

fn span(span: &Span) -> Json {
    let attributes: Vec<Json> = span.attributes.iter().map(|(name, value)| attribute(name, value)).collect();
    let mut out = json!({
        "traceId": hex(&span.trace), "spanId": hex(&span.id), "name": span.name, "kind": span.kind as u8,
        "startTimeUnixNano": span.start.to_string(), "endTimeUnixNano": span.end.to_string(),
        "attributes": attributes,
    });
    if let Some(parent) = span.parent {
        out["parentSpanId"] = json!(hex(&parent));
    }
    if let Some(state) = &span.state {
        out["traceState"] = json!(state);
    }
    if let Some(error) = &span.error {
        out["status"] = json!({ "code": 2, "message": error });
    }
    out
}

fn attribute(name: &str, value: &Value) -> Json {
    let value = match value {
        Value::Text(text) => json!({ "stringValue": text }),
        // 64-bit numbers are strings in this form.
        Value::Number(number) => json!({ "intValue": number.to_string() }),
    };
    json!({ "key": name, "value": value })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    fn example() -> Span {
        Span {
            trace: [0x4b; 16],
            id: [0xf0; 8],
            parent: Some([1; 8]),
            state: Some("a=1".to_owned()),
            name: "POST /x".to_owned(),
            kind: Kind::Server,
            start: 1_767_225_600_000_000_000,
            end: 1_767_225_600_000_000_005,
            attributes: vec![("http.response.status_code", Value::Number(500))],
            error: Some("LIMIT".to_owned()),
        }
    }

    #[test]
    fn span_has_the_form_of_otlp_json() {
        let want = json!({
            "traceId": "4b".repeat(16), "spanId": "f0".repeat(8), "name": "POST /x", "kind": 2,
            "startTimeUnixNano": "1767225600000000000", "endTimeUnixNano": "1767225600000000005",
            "attributes": [{ "key": "http.response.status_code", "value": { "intValue": "500" } }],
            "parentSpanId": "01".repeat(8), "traceState": "a=1", "status": { "code": 2, "message": "LIMIT" },
        });
        let document = document(&[example()]);
        assert_eq!(document["resourceSpans"][0]["scopeSpans"][0]["spans"], json!([want]));
        let service = &document["resourceSpans"][0]["resource"]["attributes"][0];
        assert_eq!(service["value"]["stringValue"], "oncehost");
    }

    #[tokio::test]
    async fn what_waits_is_sent_to_the_collector_and_what_it_refuses_is_counted() {
        let collector = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (sink, mut exporter) = exporter(&format!("http://{}/", collector.local_addr().unwrap()));
        for (status, dropped) in [("200 OK", 0), ("503 Service Unavailable", 2)] {
            sink.send(example());
            sink.send(example());
            let taking = async {
                let (mut stream, _) = collector.accept().await.unwrap();
                let mut request = Vec::new();
                while !String::from_utf8_lossy(&request).ends_with("]}]}]}") {
                    stream.read_buf(&mut request).await.unwrap();
                }
                let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 2\r\n\r\n{{}}");
                stream.write_all(answer.as_bytes()).await.unwrap();
                String::from_utf8(request).unwrap()
            };
            let (request, ()) = tokio::join!(taking, exporter.rest());
            assert!(request.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{request}");
            assert_eq!(request.matches("\"traceId\"").count(), 2);
            assert_eq!(sink.dropped(), dropped);
        }
    }

    #[tokio::test]
    async fn spans_past_the_limit_are_dropped_and_counted() {
        let (sink, _exporter) = exporter("http://127.0.0.1:9");
        for _ in 0..=WAITING {
            sink.send(example());
        }
        assert_eq!(sink.dropped(), 1);
    }
}
