//! Reaching the host that runs on a data folder, over its local socket.

use std::io;
use std::path::Path;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{HeaderMap, Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tokio::task::JoinSet;

use super::Fail;
use crate::serve::Reach;

/// What the host answered.
#[derive(Debug)]
pub(super) struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub text: String,
}

impl Answer {
    /// The reply's JSON, or the problem's sentence as this command's failure.
    pub(super) fn json(self) -> Result<serde_json::Value, Fail> {
        let body: serde_json::Value = serde_json::from_str(&self.text)
            .map_err(|_| Fail::Failed(format!("the running host answered {} without JSON", self.status)))?;
        if self.status.is_success() {
            return Ok(body);
        }
        let part = |name: &str| body.get(name).and_then(serde_json::Value::as_str).unwrap_or_default();
        Err(Fail::Failed(format!("{}: {}", part("error"), part("detail"))))
    }
}

/// Sends a request to the host of `data`; `None` when none runs there.
pub(super) async fn ask(data: &Path, request: Request<Full<Bytes>>) -> Result<Option<Answer>, Fail> {
    let Some(stream) = connect(data).await? else { return Ok(None) };
    let lost = |error: hyper::Error| {
        Fail::Failed(format!(
            "the running host broke the connection ({error}); if this was a write, repeat it under the same key"
        ))
    };
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(lost)?;
    let mut background = JoinSet::new();
    background.spawn(connection);
    let (head, body) = sender.send_request(request).await.map_err(lost)?.into_parts();
    let bytes = body.collect().await.map_err(lost)?.to_bytes();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Ok(Some(Answer { status: head.status, headers: head.headers, text }))
}

async fn connect(data: &Path) -> Result<Option<UnixStream>, Fail> {
    let reached = match Reach::of(data) {
        Ok(reach) => UnixStream::connect(&reach.path).await,
        Err(error) => Err(error),
    };
    match reached {
        Ok(stream) => Ok(Some(stream)),
        // No folder, no socket, or one that a dead host left behind. Whether a host without a socket is there is for
        // the folder's lock to say.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let data = data.display();
            Err(Fail::Failed(format!(
                "not allowed to reach the host of {data}; run this as the user who runs the host"
            )))
        }
        Err(error) => Err(Fail::Failed(format!("cannot reach the host of {}: {error}", data.display()))),
    }
}

/// A request to the local host.
pub(super) fn request(method: &str, path: &str, body: Option<String>) -> Result<Request<Full<Bytes>>, Fail> {
    let mut request = Request::builder().method(method).uri(path).header("host", "oncehost");
    if body.is_some() {
        request = request.header("content-type", "application/json");
    }
    let body = Full::new(Bytes::from(body.unwrap_or_default()));
    request.body(body).map_err(|error| Fail::Usage(format!("{path:?} cannot be asked for: {error}")))
}

/// One segment of a path: everything but letters, digits, `.`, `_`, `~` and `-` percent-encoded.
pub(super) fn segment(text: &str) -> String {
    use std::fmt::Write;
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'~' | b'-') {
            out.push(char::from(byte));
        } else {
            let _infallible = write!(out, "%{byte:02X}");
        }
    }
    out
}
