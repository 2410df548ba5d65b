//! The HTTP surface on a real port, spoken to in raw bytes where a client library would not say such things.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value as Json;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::Door;
use crate::app::App;
use crate::clock::ManualClock;
use crate::config::Settings;
use crate::ids::SystemIds;

/// A host without plugins: every call gets as far as `NOT_FOUND`.
struct Site {
    address: SocketAddr,
    app: Arc<App>,
    stop: watch::Sender<bool>,
    serving: JoinHandle<()>,
    runtime: Runtime,
    _folder: TempDir,
}

/// What came back on the wire.
#[derive(Debug)]
struct Heard {
    status: u16,
    head: String,
    body: String,
}

impl Heard {
    fn header(&self, name: &str) -> Option<&str> {
        let value =
            |line: &'_ str| line.split_once(": ").filter(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.len());
        self.head.lines().find_map(|line| value(line).map(|length| &line[line.len() - length..]))
    }

    fn error(&self) -> String {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let body: Json = serde_json::from_str(&self.body).unwrap();
        assert_eq!(body["status"], self.status);
        assert_eq!(body["requestId"].as_str(), self.header("x-request-id"));
        body["error"].as_str().unwrap().to_owned()
    }
}

impl Site {
    fn with(change: impl FnOnce(&mut Settings)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (plugins, data) = (folder.path().join("plugins"), folder.path().join("data"));
        std::fs::create_dir(&plugins).unwrap();
        let mut settings = Settings { plugins, data, dev: true, body_limit: 1000, ..Settings::default() };
        change(&mut settings);
        let app = App::open(settings, Arc::new(ManualClock::at(0)), Arc::new(SystemIds::default())).unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = watch::channel(false);
        let (door, serves) = (Door::Dev { port: address.port() }, app.clone());
        let serving = runtime.spawn(async move { super::listen::serve(listener, &serves, door, 4, stopped).await });
        Self { address, app, stop, serving, runtime, _folder: folder }
    }

    fn new() -> Self {
        Self::with(|_| {})
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }

    /// Sends bytes (`HOST` stands for the address) on a connection of their own and hears all that comes back.
    fn say(&self, text: &str) -> Heard {
        let mut stream = self.connect();
        stream.write_all(text.replace("HOST", &self.address.to_string()).as_bytes()).unwrap();
        hear(&mut stream)
    }

    /// A request with these header lines, after which the connection closes.
    fn ask(&self, method: &str, path: &str, lines: &str, body: &str) -> Heard {
        self.say(&format!("{method} {path} HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n{lines}\r\n{body}"))
    }

    fn call(&self, lines: &str, body: &str) -> Heard {
        let lines = format!("Content-Type: application/json\r\nContent-Length: {}\r\n{lines}", body.len());
        self.ask("POST", "/plugins/p/invoke/a", &lines, body)
    }
}

fn hear(stream: &mut TcpStream) -> Heard {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head: {text:?}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Heard { status, head: head.to_owned(), body: body.to_owned() }
}

mod call;
mod door;
mod listen;
