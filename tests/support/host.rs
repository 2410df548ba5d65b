//! A whole host in this process, on real files and a real port, with a clock that the test moves.

use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use oncehost::app::App;
use oncehost::bindings::Scope;
use oncehost::clock::ManualClock;
use oncehost::config::{Settings, Store};
use oncehost::failure::{Code, Failure};
use oncehost::http::admin::{self, SchemaRequest, SchemaVerb};
use oncehost::ids::SystemIds;
use oncehost::serve::Server;
use oncehost::store::Database;
use oncehost::trace::Origin;
use serde_json::Value as Json;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use super::rows;

/// 2026-01-01T00:00:00.000Z, when all tests begin.
pub const START: i64 = 1_767_225_600_000;

/// A running host.
pub struct Host {
    pub app: Arc<App>,
    pub clock: Arc<ManualClock>,
    pub url: String,
    /// Removed when the host is gone.
    _folder: TempDir,
    settings: Settings,
    runtime: Runtime,
    running: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

/// What a call answered.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    pub status: u16,
    pub body: String,
    pub replayed: bool,
    pub expires: Option<String>,
    pub retry_after: Option<String>,
    pub content_type: String,
}

impl Answer {
    /// The body as JSON.
    pub fn json(&self) -> Json {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    /// `data` of a success.
    pub fn data(&self) -> Json {
        assert_eq!(self.status, 200, "{}", self.body);
        self.json()["data"].clone()
    }

    /// The name of a failure's error.
    pub fn error(&self) -> String {
        self.json()["error"].as_str().unwrap_or_else(|| panic!("no failure: {}", self.body)).to_owned()
    }
}

/// One call of an action.
#[derive(Clone, Debug, Default)]
pub struct Call<'a> {
    pub key: Option<&'a str>,
    pub tenant: Option<&'a str>,
    pub body: &'a [u8],
}

impl Host {
    /// A host whose plugins are these files, each a path such as `shop/plugin.json` and its text, with all schemas
    /// applied.
    pub fn new(files: impl IntoIterator<Item = (impl AsRef<str>, impl AsRef<str>)>) -> Self {
        Self::with(files, |_| {})
    }

    /// The same with other settings.
    pub fn with(
        files: impl IntoIterator<Item = (impl AsRef<str>, impl AsRef<str>)>,
        change: impl FnOnce(&mut Settings),
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            write(&folder.path().join("plugins").join(path.as_ref()), text.as_ref());
        }
        let mut settings = Settings {
            plugins: folder.path().join("plugins"),
            data: folder.path().join("data"),
            listen: ([127, 0, 0, 1], 0).into(),
            dev: true,
            ..Settings::default()
        };
        change(&mut settings);
        let clock = Arc::new(ManualClock::at(START));
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let (app, url, running) = start(&settings, &clock, &runtime);
        let host = Self { app, clock, url, _folder: folder, settings, runtime, running: Some(running) };
        host.apply_schemas();
        host
    }

    /// Creates the plugins' tables.
    pub fn apply_schemas(&self) {
        let registry = self.app.registry();
        assert!(registry.broken.is_empty(), "{:#?}", registry.broken);
        // A server that is busy with the other tests may turn one away; whoever applies tries again.
        let apply = || self.runtime.block_on(admin::schema(&self.app, SchemaVerb::Apply, SchemaRequest::default()));
        let busy = |failure: Failure| if failure.code == Code::Unavailable { apply() } else { Err(failure) };
        let applied = apply().or_else(busy);
        applied.unwrap_or_else(|failure| panic!("{failure}"));
    }

    /// Stops the host in good order and starts it again on the same files.
    pub fn restart(&mut self) {
        self.restart_with(|_| {});
    }

    /// The same with other settings; `change` may do whatever wants a stopped host.
    pub fn restart_with(&mut self, change: impl FnOnce(&mut Settings)) {
        self.stop();
        change(&mut self.settings);
        let (app, url, running) = start(&self.settings, &self.clock, &self.runtime);
        (self.app, self.url, self.running) = (app, url, Some(running));
    }

    /// Stops the host in good order.
    pub fn stop(&mut self) {
        if let Some((stop, thread)) = self.running.take() {
            let _ = stop.send(());
            thread.join().unwrap();
        }
    }

    /// Where an invocation runs that a test makes itself: nobody's, under no key.
    pub fn scope(&self, plugin: &str) -> Scope {
        Scope {
            action: "x".to_owned(),
            user: Json::Null,
            tenant: "dev".to_owned(),
            operation: format!("{plugin}/x"),
            key: None,
            invocation: "i".to_owned(),
            origin: Origin::default(),
            now: 0,
            may_write: true,
            ids: Arc::new(SystemIds::default()),
            desk: self.app.flows.desk.clone(),
            plugin: self.app.registry().plugins[plugin].clone(),
        }
    }

    /// Runs something of the app's own on its runtime.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }

    /// Where the plugins are.
    pub fn plugins(&self) -> &Path {
        &self.settings.plugins
    }

    /// Watches the plugins and reloads what changes, as `dev` does. Gives the lines that it tells.
    pub fn follow(&self) -> std::sync::mpsc::Receiver<String> {
        let (sender, told) = std::sync::mpsc::channel();
        let app = self.app.clone();
        self.runtime.spawn(async move {
            oncehost::reload::follow(&app, |text| drop(sender.send(text.to_owned()))).await;
        });
        told
    }

    /// Calls an action of a plugin.
    pub fn call(&self, plugin: &str, action: &str, call: &Call<'_>) -> Answer {
        let mut request = ureq_agent()
            .post(format!("{}/plugins/{plugin}/invoke/{action}", self.url))
            .header("Content-Type", "application/json");
        if let Some(key) = call.key {
            request = request.header("Idempotency-Key", key);
        }
        if let Some(tenant) = call.tenant {
            request = request.header("X-Tenant-Id", tenant);
        }
        answer(request.send(call.body).unwrap())
    }

    /// Commits of all plugins' calls, and the invocations that they were of.
    pub fn commits(&self) -> (f64, f64) {
        let told = answer(ureq_agent().get(format!("{}/metrics", self.url)).call().unwrap()).body;
        let of = |name: &str| {
            let name = format!("oncehost_commit_group_size_{name}{{");
            let lines = told.lines().filter(|line| line.starts_with(&name));
            lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
        };
        (of("count"), of("sum"))
    }

    /// Has events and workflows go as far as they can at this moment.
    pub fn drain(&self) {
        // What one of them ends may be what the other waits for.
        for _ in 0..3 {
            self.block_on(oncehost::events::drain(&self.app)).unwrap();
            self.block_on(self.app.flows.drain(&self.app));
        }
    }

    /// Sends an event in structured mode.
    pub fn send_event(&self, tenant: &str, event: &Json) -> Answer {
        let request = ureq_agent()
            .post(format!("{}/events", self.url))
            .header("Content-Type", "application/cloudevents+json")
            .header("X-Tenant-Id", tenant);
        answer(request.send(event.to_string()).unwrap())
    }

    /// Calls an action with a key.
    pub fn post(&self, plugin: &str, action: &str, key: &str, body: &str) -> Answer {
        self.call(plugin, action, &Call { key: Some(key), tenant: None, body: body.as_bytes() })
    }

    /// Calls an action without a key.
    pub fn read(&self, plugin: &str, action: &str, body: &str) -> Answer {
        self.call(plugin, action, &Call { key: None, tenant: None, body: body.as_bytes() })
    }

    /// The SQLite database of a plugin, opened beside the running host.
    pub fn database(&self, plugin: &str) -> rusqlite::Connection {
        let Database::Sqlite(path) = self.app.database(plugin) else { panic!("not on SQLite") };
        rusqlite::Connection::open(path).unwrap()
    }

    /// What a query finds in the database of a plugin, on any database.
    pub fn rows(&self, plugin: &str, sql: &str) -> Vec<Vec<Json>> {
        match self.settings.store_of(plugin) {
            Store::Sqlite => rows::sqlite(&self.database(plugin), sql),
            Store::Postgres(url) => self.runtime.block_on(rows::postgres(url, plugin, sql)),
        }
    }

    /// Rows of a table.
    pub fn count(&self, plugin: &str, table: &str) -> i64 {
        self.rows(plugin, &format!("SELECT count(*) FROM \"{table}\""))[0][0].as_i64().unwrap()
    }

    /// The plugins' tables and the host's own, less those that say nothing about what was done.
    pub fn tables(&self, plugin: &str) -> Vec<String> {
        let all = match self.settings.store_of(plugin) {
            Store::Sqlite => "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'",
            Store::Postgres(_) => "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()",
        };
        let silent = ["_oncehost_schema", "_oncehost_definitions", "_oncehost_version", "_oncehost_steps"];
        let names = self.rows(plugin, all).into_iter().map(|row| row[0].as_str().unwrap().to_owned());
        let mut names: Vec<String> = names.filter(|name| !silent.contains(&name.as_str())).collect();
        names.sort();
        names
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.stop();
        }
    }
}

fn start(
    settings: &Settings,
    clock: &Arc<ManualClock>,
    runtime: &Runtime,
) -> (Arc<App>, String, (oneshot::Sender<()>, JoinHandle<()>)) {
    let app = App::open(settings.clone(), clock.clone(), Arc::new(SystemIds::default())).unwrap();
    let server = runtime.block_on(Server::start(app.clone())).unwrap();
    let url = format!("http://{}", server.address());
    let (stop, stopped) = oneshot::channel::<()>();
    let handle = runtime.handle().clone();
    let thread = std::thread::spawn(move || {
        let stop = async {
            let _ = stopped.await;
        };
        handle.block_on(server.run(stop, std::future::pending())).unwrap();
    });
    (app, url, (stop, thread))
}

/// Writes a file and the folders above it.
pub fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// An HTTP client that takes every status as an answer.
pub fn ureq_agent() -> ureq::Agent {
    ureq::Agent::config_builder().http_status_as_error(false).build().into()
}

/// What a response says.
pub fn answer(response: ureq::http::Response<ureq::Body>) -> Answer {
    try_answer(response).expect("a whole body")
}

/// What a response says; `None` when its body was cut off.
pub fn try_answer(mut response: ureq::http::Response<ureq::Body>) -> Option<Answer> {
    let header = |name: &str| response.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
    let (replayed, expires) = (header("idempotent-replayed").as_deref() == Some("true"), header("idempotency-expires"));
    let (retry_after, content_type) = (header("retry-after"), header("content-type").unwrap_or_default());
    Some(Answer {
        status: response.status().as_u16(),
        body: response.body_mut().read_to_string().ok()?,
        replayed,
        expires,
        retry_after,
        content_type,
    })
}
