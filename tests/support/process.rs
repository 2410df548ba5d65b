//! The built binary as a process, on folders that outlive it.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use oncehost::config::Store;
use serde_json::Value as Json;
use tempfile::TempDir;

use super::host::{self, Answer};
use super::rows;

/// Folders for plugins and data, and where else the data may be.
pub struct Folders {
    folder: TempDir,
    store: Store,
}

impl Folders {
    /// Folders with these files as plugins.
    pub fn new(files: impl IntoIterator<Item = (impl AsRef<str>, impl AsRef<str>)>) -> Self {
        Self::on(&Store::Sqlite, files)
    }

    /// The same with the data in this database.
    pub fn on(store: &Store, files: impl IntoIterator<Item = (impl AsRef<str>, impl AsRef<str>)>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            host::write(&folder.path().join("plugins").join(path.as_ref()), text.as_ref());
        }
        Self { folder, store: store.clone() }
    }

    /// The same with the data on this Postgres.
    pub fn on_postgres(self, url: Option<String>) -> Self {
        Self { store: url.map_or(Store::Sqlite, Store::Postgres), ..self }
    }

    /// Folders without a plugin.
    pub fn empty() -> Self {
        Self::new([("", ""); 0])
    }

    pub fn plugins(&self) -> PathBuf {
        self.folder.path().join("plugins")
    }

    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// A command of the binary on these folders.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(binary());
        command.args(args);
        self.onto(command)
    }

    /// Adds these folders and a free port to a command that runs the binary in the end.
    pub fn onto(&self, mut command: Command) -> Command {
        command
            .env("ONCEHOST_PLUGINS", self.plugins())
            .env("ONCEHOST_DATA", self.data())
            .env("ONCEHOST_LISTEN", "127.0.0.1:0")
            // Says something to the tests only; the host takes it for a slip.
            .env_remove("ONCEHOST_LONG")
            .env_remove("ONCEHOST_SEED")
            .current_dir(self.folder.path());
        if let Store::Postgres(url) = &self.store {
            // What a killed host had claimed is another's after this time.
            command.env("ONCEHOST_STORE", url).env("ONCEHOST_LEASE", "2s");
        }
        command
    }

    /// `oncehost dev --apply-schema` on these folders, once it answers.
    pub fn dev(&self) -> Process {
        Process::start(self.command(&["dev", "--apply-schema"]))
    }

    /// Whether the data are on Postgres.
    pub fn is_on_postgres(&self) -> bool {
        matches!(self.store, Store::Postgres(_))
    }

    /// What a query finds in the database of a plugin.
    pub fn rows(&self, plugin: &str, sql: &str) -> Vec<Vec<Json>> {
        match &self.store {
            Store::Sqlite => rows::sqlite(&self.database(plugin), sql),
            Store::Postgres(url) => {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(rows::postgres(url, plugin, sql))
            }
        }
    }

    /// The same, of one column of texts.
    pub fn column(&self, plugin: &str, sql: &str) -> Vec<String> {
        let rows = self.rows(plugin, sql);
        rows.iter().map(|row| row[0].as_str().expect("a text").to_owned()).collect()
    }

    /// A plugin's database on SQLite.
    pub fn database(&self, plugin: &str) -> rusqlite::Connection {
        rusqlite::Connection::open(self.data().join(format!("{plugin}.db"))).unwrap()
    }
}

/// The built binary.
pub fn binary() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_oncehost"))
}

/// A host that runs in a process of its own.
pub struct Process {
    /// `None` for one that is only called.
    child: Option<Child>,
    pub url: String,
    agent: ureq::Agent,
    printed: Arc<Printed>,
}

/// What a process has printed so far, once it said where it listens.
#[derive(Default)]
struct Printed {
    lines: Mutex<Vec<String>>,
    more: Condvar,
}

impl Printed {
    fn add(&self, line: String) {
        self.lines.lock().unwrap().push(line);
        self.more.notify_all();
    }
}

impl Process {
    /// Starts a command that runs a host, and waits until it says where it listens.
    pub fn start(command: Command) -> Self {
        Self::logging(command, Stdio::inherit())
    }

    /// The same, with its log going to `log`.
    pub fn logging(command: Command, log: Stdio) -> Self {
        Self::try_logging(command, log).expect("the host says where it listens")
    }

    /// The same; `None` where the host ends before it listens.
    pub fn try_logging(mut command: Command, log: Stdio) -> Option<Self> {
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let url = lines.by_ref().map_while(Result::ok).find_map(|line| {
            line.split_whitespace().find(|word| word.starts_with("http://127.0.0.1:")).map(str::to_owned)
        });
        let Some(url) = url else {
            child.wait().unwrap();
            return None;
        };
        // Whatever else it prints is read, so that it never waits for a full pipe.
        let printed = Arc::new(Printed::default());
        let keeps = printed.clone();
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(|line| keeps.add(line)));
        Some(Self { child: Some(child), url, agent: host::ureq_agent(), printed })
    }

    /// A host that somebody else started, to be called.
    pub fn calling(url: &str) -> Self {
        Self { child: None, url: url.to_owned(), agent: host::ureq_agent(), printed: Arc::default() }
    }

    /// Waits until a printed line contains `text`, and gives that line and the `after` ones that follow it.
    pub fn wait_for(&self, text: &str, after: usize) -> Vec<String> {
        let deadline = Instant::now() + Duration::from_secs(60);
        let mut lines = self.printed.lines.lock().unwrap();
        loop {
            let found = lines.iter().position(|line| line.contains(text));
            if let Some(block) = found.and_then(|at| lines.get(at..=at + after)) {
                return block.to_vec();
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "no line with {text:?} in {lines:#?}");
            lines = self.printed.more.wait_timeout(lines, left).unwrap().0;
        }
    }

    /// Bytes of memory that the process has in use.
    pub fn resident(&self) -> u64 {
        let id = self.child.as_ref().expect("a process of our own").id();
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
    }

    fn child(&mut self) -> &mut Child {
        self.child.as_mut().expect("a process of our own")
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        self.child().kill().unwrap();
        self.child().wait().unwrap();
    }

    /// `kill -TERM`.
    pub fn signal(&mut self) {
        self.send(rustix::process::Signal::TERM);
    }

    /// The process's id.
    pub fn id(&self) -> u32 {
        self.child.as_ref().map_or(0, Child::id)
    }

    /// Sends a signal.
    pub fn send(&mut self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(self.child());
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// `kill -TERM`, and waits for the end.
    pub fn terminate(mut self) -> ExitStatus {
        self.signal();
        self.child().wait().unwrap()
    }

    /// Waits until the process ends by itself.
    pub fn wait(&mut self) -> ExitStatus {
        self.child().wait().unwrap()
    }

    /// How the process ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child().try_wait().unwrap()
    }

    /// Asks for a path.
    pub fn get(&self, path: &str) -> Answer {
        host::answer(self.agent.get(format!("{}{path}", self.url)).call().unwrap())
    }

    /// Sends JSON to a path.
    pub fn post_to(&self, path: &str, body: &str) -> Answer {
        let request = self.agent.post(format!("{}{path}", self.url)).header("Content-Type", "application/json");
        host::answer(request.send(body).unwrap())
    }

    /// The same, where an answer must come, for a tenant.
    pub fn post_as(&self, tenant: &str, plugin: &str, action: &str, key: &str, body: &str) -> Answer {
        let request = self
            .agent
            .post(format!("{}/plugins/{plugin}/invoke/{action}", self.url))
            .header("Content-Type", "application/json")
            .header("X-Tenant-Id", tenant)
            .header("Idempotency-Key", key);
        host::answer(request.send(body).unwrap())
    }

    /// Calls an action with a key; `None` when no answer came.
    pub fn try_post(&self, plugin: &str, action: &str, key: &str, body: &str) -> Option<Answer> {
        let request = self
            .agent
            .post(format!("{}/plugins/{plugin}/invoke/{action}", self.url))
            .header("Content-Type", "application/json")
            .header("Idempotency-Key", key);
        host::try_answer(request.send(body).ok()?)
    }

    /// The same, where an answer must come.
    pub fn post(&self, plugin: &str, action: &str, key: &str, body: &str) -> Answer {
        self.try_post(plugin, action, key, body).expect("an answer")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
