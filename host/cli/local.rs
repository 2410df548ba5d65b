//! Reaching the host that runs on a data folder, over its local socket.

use std::io;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{HeaderMap, Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tokio::task::JoinSet;

use super::Fail;
use crate::app::{App, StartError, check_data};
use crate::config::Settings;
use crate::failure::Code;
use crate::serve::{self, Reach};

/// How long a host may be silent before it is asked for a sign of life, and how long that may take.
const SILENCE: Duration = Duration::from_secs(1);
const SIGN: Duration = Duration::from_secs(5);

/// What the host answered.
#[derive(Debug)]
pub(super) struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub text: String,
}

impl Answer {
    /// The reply's JSON, or the problem's sentence as this command's failure: what is not valid was given wrong.
    pub(super) fn json(self) -> Result<serde_json::Value, Fail> {
        let body: serde_json::Value = serde_json::from_str(&self.text)
            .map_err(|_| Fail::Failed(format!("the running host answered {} without JSON", self.status)))?;
        if self.status.is_success() {
            return Ok(body);
        }
        let part = |name: &str| body.get(name).and_then(serde_json::Value::as_str).unwrap_or_default();
        if part("error") == Code::Validation.name() {
            return Err(Fail::Usage(part("detail").to_owned()));
        }
        Err(Fail::Failed(format!("{}: {}", part("error"), part("detail"))))
    }
}

/// Sends a request to the host of `data`; `None` when none runs there.
pub(super) async fn ask(data: &Path, request: Request<Full<Bytes>>) -> Result<Option<Answer>, Fail> {
    let Some(stream) = connect(data).await? else { return Ok(None) };
    while_it_lives(data, process(&stream), send(stream, request)).await.map(Some)
}

async fn send(stream: UnixStream, request: Request<Full<Bytes>>) -> Result<Answer, Fail> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(lost)?;
    let mut background = JoinSet::new();
    background.spawn(connection);
    let (head, body) = sender.send_request(request).await.map_err(lost)?.into_parts();
    let bytes = body.collect().await.map_err(lost)?.to_bytes();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Ok(Answer { status: head.status, headers: head.headers, text })
}

/// Which process listens at the other end.
fn process(stream: &UnixStream) -> Option<i32> {
    stream.peer_cred().ok()?.pid()
}

/// Waits for `work`, however long it takes, as long as the host shows signs of life.
async fn while_it_lives<R>(
    data: &Path,
    process: Option<i32>,
    work: impl Future<Output = Result<R, Fail>>,
) -> Result<R, Fail> {
    let mut work = pin!(work);
    loop {
        tokio::select! { biased; done = work.as_mut() => return done, () = tokio::time::sleep(SILENCE) => {} }
        let sign = tokio::time::timeout(SIGN, sign_of_life(data));
        tokio::select! { biased;
            done = work.as_mut() => return done,
            sign = sign => sign.map_err(|_| silent(data, process))?,
        }
    }
}

/// Ends when the host has answered anything, or nobody listens any more: then `work` ends by itself.
async fn sign_of_life(data: &Path) {
    if let (Ok(Some(stream)), Ok(request)) = (connect(data).await, request("GET", "/healthz", None)) {
        let _answered = send(stream, request).await;
    }
}

/// What is to be said of a host that does not answer, and to be done about it.
fn silent(data: &Path, process: Option<i32>) -> Fail {
    let data = data.display();
    let Some(id) = process else {
        return Fail::Failed(format!("the host of {data} does not answer; look at its log, and start it again"));
    };
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let state = status.lines().find_map(|line| line.strip_prefix("State:")).unwrap_or_default().trim_start();
    // Stopped, or stopped by a debugger.
    Fail::Failed(if state.starts_with(['T', 't']) {
        format!(
            "the host of {data} (process {id}) is stopped and does not answer; let it go on with `kill -CONT {id}`: what was \
             asked of it may be done then"
        )
    } else {
        format!(
            "the host of {data} (process {id}) runs and does not answer; look at its log, or end it with `kill -9 {id}` and \
             start it again: what it acknowledged is on disk"
        )
    })
}

fn lost(error: hyper::Error) -> Fail {
    Fail::Failed(format!(
        "the running host broke the connection ({error}); if this was a write, repeat it under the same key"
    ))
}

/// Sends a request whose answer is lines of JSON, and gives each to `take` as it comes; `false` when no host runs.
pub(super) async fn lines(
    data: &Path,
    request: Request<Full<Bytes>>,
    mut take: impl FnMut(serde_json::Value),
) -> Result<bool, Fail> {
    let Some(stream) = connect(data).await? else { return Ok(false) };
    while_it_lives(data, process(&stream), receive(stream, request, &mut take)).await.map(|()| true)
}

async fn receive(
    stream: UnixStream,
    request: Request<Full<Bytes>>,
    take: &mut impl FnMut(serde_json::Value),
) -> Result<(), Fail> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(lost)?;
    let mut background = JoinSet::new();
    background.spawn(connection);
    let (head, mut body) = sender.send_request(request).await.map_err(lost)?.into_parts();
    let mut waiting = Vec::new();
    while let Some(frame) = body.frame().await {
        // What is cut off shows in the last line that came.
        let Ok(Ok(data)) = frame.map(hyper::body::Frame::into_data) else { break };
        waiting.extend_from_slice(&data);
        while head.status.is_success()
            && let Some(end) = waiting.iter().position(|byte| *byte == b'\n')
        {
            let line: Vec<u8> = waiting.drain(..=end).collect();
            take(serde_json::from_slice(&line).unwrap_or_default());
        }
    }
    if head.status.is_success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&waiting).into_owned();
    Answer { status: head.status, headers: head.headers, text }.json().map(drop)
}

/// Opens the data where no host runs, for a command that only asks what is there: it makes no data where there are none, since then the folder is
/// most likely another one than was meant.
///
/// # Errors
/// As [`serve::open_for_command`]; also when no host ever worked on the data folder.
pub(super) fn open_to_ask(settings: Settings) -> Result<Arc<App>, StartError> {
    check_data(&settings)?;
    serve::open_for_command(settings)
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
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::ConnectionRefused
            ) =>
        {
            Ok(None)
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::Server;

    fn plugins() -> Request<Full<Bytes>> {
        request("GET", "/admin/plugins", None).unwrap()
    }

    #[tokio::test]
    async fn nobody_answers_where_no_host_runs() {
        let folder = tempfile::tempdir().unwrap();
        assert!(ask(&folder.path().join("none"), plugins()).await.unwrap().is_none());
        assert!(ask(folder.path(), plugins()).await.unwrap().is_none());
        drop(tokio::net::UnixListener::bind(folder.path().join("oncehost.sock")).unwrap());
        assert!(ask(folder.path(), plugins()).await.unwrap().is_none(), "a socket that a dead host left behind");
    }

    #[tokio::test]
    async fn running_host_answers_commands_over_its_socket() {
        let folder = tempfile::tempdir().unwrap();
        let (plugins_folder, data) = (folder.path().join("plugins"), folder.path().join("data"));
        std::fs::create_dir(&plugins_folder).unwrap();
        let listen = ([127, 0, 0, 1], 0).into();
        let settings = Settings { plugins: plugins_folder, data: data.clone(), listen, ..Settings::default() };
        let server = Server::start(serve::open(settings).unwrap()).await.unwrap();
        let asking = async {
            let listed = ask(&data, plugins()).await.unwrap().unwrap().json().unwrap();
            assert_eq!(listed, serde_json::json!({ "plugins": [], "broken": [] }));
            let unknown = request("POST", "/admin/schema/guess", Some("{}".to_owned())).unwrap();
            let refused = ask(&data, unknown).await.unwrap().unwrap().json().unwrap_err();
            assert_eq!(
                refused,
                Fail::Failed("NOT_FOUND: there is schema/plan, schema/apply and schema/status".to_owned())
            );
        };
        server.run(asking, std::future::pending()).await.unwrap();
    }

    #[test]
    fn names_are_one_segment_of_a_path_whatever_they_hold() {
        assert_eq!(segment("lane-change.get"), "lane-change.get");
        assert_eq!(segment("a/b ü%?#"), "a%2Fb%20%C3%BC%25%3F%23");
    }
}
