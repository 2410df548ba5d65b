//! A Postgres of the tests' own: one cluster a test run, a database a test. Nothing of it outlives the run, however that
//! ends: a shell watches over it and takes it away when this process is gone.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// A cluster: its programs, its folder, and the port that its socket is called by.
#[derive(Debug)]
pub struct Cluster {
    programs: PathBuf,
    pub folder: PathBuf,
    /// Whose standard input, once closed, ends the cluster.
    _watch: Child,
}

/// What to do where there is no Postgres.
const INSTALL: &str = "the tests need Postgres 14 or newer: on Debian or Ubuntu `apt-get install postgresql`, elsewhere put \
                       the folder with initdb and postgres on the PATH";

/// The cluster of this test run, started with the first test that needs it. It does not wait for the disk: what must
/// survive the machine is tried elsewhere.
pub fn cluster() -> &'static Cluster {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    CLUSTER.get_or_init(|| Cluster::start(&["fsync=off", "full_page_writes=off"]))
}

/// A new, empty database in the cluster of this test run, by its URL.
pub fn database() -> String {
    cluster().database()
}

impl Cluster {
    /// Makes and starts a cluster with these settings.
    pub fn start(settings: &[&str]) -> Self {
        let programs = programs().unwrap_or_else(|| panic!("{INSTALL}"));
        let folder = tempfile::Builder::new().prefix("oncehost-pg-").tempdir().unwrap().keep();
        let data = folder.join("data");
        std::fs::create_dir(&data).unwrap();
        // Postgres does not run as root.
        let other = rustix::process::getuid().is_root().then(|| user().unwrap_or_else(|| panic!("{INSTALL}")));
        if let Some(user) = &other {
            for path in [&folder, &data] {
                let owned = Command::new("chown").arg(user).arg(path).status().unwrap();
                assert!(owned.success());
            }
        }
        let mut initdb = command(other.as_deref(), &programs.join("initdb"));
        initdb.args(["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync", "-D"]);
        let made = initdb.arg(&data).current_dir(&folder).output().unwrap();
        assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
        let mut lines = String::from("listen_addresses = ''\nmax_connections = 300\nshared_buffers = 64MB\n");
        lines.push_str(&format!("unix_socket_directories = '{}'\n", folder.display()));
        settings.iter().for_each(|setting| lines.push_str(&format!("{setting}\n")));
        let config = data.join("postgresql.conf");
        let all = std::fs::read_to_string(&config).unwrap() + &lines;
        std::fs::write(config, all).unwrap();
        let watch = watch(other.as_deref(), &programs, &folder, &data);
        let cluster = Self { programs, folder, _watch: watch };
        cluster.await_answer();
        cluster
    }

    /// Waits until it answers.
    pub fn await_answer(&self) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !self.psql("postgres", "SELECT 1").status.success() {
            let log = || std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
            assert!(Instant::now() < deadline, "Postgres does not start: {}", log());
        }
    }

    /// The URL of a database.
    pub fn url(&self, database: &str) -> String {
        let folder = self.folder.to_str().unwrap().replace('/', "%2F");
        format!("postgres://postgres@{folder}/{database}")
    }

    /// Makes an empty database and gives its URL.
    pub fn database(&self) -> String {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("t{}", NEXT.fetch_add(1, Ordering::Relaxed));
        // Two at a time are refused: each copies the template.
        static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
        let _one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let made = self.psql("postgres", &format!("CREATE DATABASE {name}"));
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        self.url(&name)
    }

    /// Runs SQL as its owner.
    pub fn psql(&self, database: &str, sql: &str) -> std::process::Output {
        let mut psql = Command::new(self.programs.join("psql"));
        psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-U", "postgres", "-h"]).arg(&self.folder);
        psql.args(["-d", database, "-c", sql]).output().unwrap()
    }
}

/// Starts the server under a shell that starts it anew where it ends, and takes all of it away when this process
/// ends.
fn watch(user: Option<&str>, programs: &Path, folder: &Path, data: &Path) -> Child {
    let server = command(user, &programs.join("postgres"));
    let words: Vec<String> = std::iter::once(server.get_program())
        .chain(server.get_args())
        .map(|word| word.to_str().unwrap().to_owned())
        .collect();
    let script = format!(
        "exec >'{folder}/log' 2>&1\n\
         while [ ! -e '{folder}/end' ]; do {} -D '{data}'; done &\n\
         cat >/dev/null\n\
         touch '{folder}/end'\n\
         kill -QUIT \"$(head -n1 '{data}/postmaster.pid')\"\n\
         wait\n\
         rm -rf '{folder}'\n",
        words.join(" "),
        folder = folder.display(),
        data = data.display()
    );
    let mut shell = Command::new("sh");
    // A signal to the tests' group must not end it before it has cleaned up.
    std::os::unix::process::CommandExt::process_group(&mut shell, 0);
    shell.args(["-c", &script]).stdin(Stdio::piped()).current_dir(folder).spawn().unwrap()
}

/// A program as another user, where this one is root.
fn command(user: Option<&str>, program: &Path) -> Command {
    let Some(user) = user else { return Command::new(program) };
    let mut command = Command::new("setpriv");
    command.args([&format!("--reuid={user}"), "--clear-groups"]).arg(program);
    command
}

/// A user without rights of its own.
fn user() -> Option<String> {
    let known = |name: &&str| Command::new("id").arg(name).output().is_ok_and(|output| output.status.success());
    ["postgres", "nobody"].into_iter().find(known).map(str::to_owned)
}

/// Where the newest Postgres of this machine is.
fn programs() -> Option<PathBuf> {
    let debian = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut versions: Vec<(u32, PathBuf)> = debian
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
        .filter(|(_, bin)| bin.join("initdb").exists())
        .collect();
    versions.sort();
    let on_path = || {
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path).find(|folder| folder.join("initdb").exists() && folder.join("postgres").exists())
    };
    versions.pop().map(|(_, bin)| bin).or_else(on_path)
}
