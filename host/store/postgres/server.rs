//! A Postgres server: its connections, the runtime on which they live, and the host's own tables on it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use deadpool_postgres::{Hook, HookError, Manager, ManagerConfig, Object, Pool, RecyclingMethod};
use rustls_platform_verifier::ConfigVerifierExt;
use tokio::runtime::{Handle, Runtime};
use tokio_postgres::Config;
use tokio_postgres::config::TargetSessionAttrs;
use tokio_postgres_rustls::MakeRustlsConnect;

use super::alone::Kept;
use super::moving::{HOSTS, MOVES};
use super::notices::Notices;
use super::{StoreError, errors};
use crate::store::host_db::HostDb;

/// The schema of what belongs to no plugin; no plugin can be called so.
pub(super) const HOST_SCHEMA: &str = "host";

/// How long a connection may take to be made, or to become free.
const CONNECT: Duration = Duration::from_secs(5);
/// How long a database that had no room counts as full, unless it says so again.
const FULL: Duration = Duration::from_secs(5);

/// How long it may take until those who only read see a change of tables by another host.
const SEEN_AFTER: Duration = Duration::from_secs(1);

/// How often the database is asked whether it answers.
const PULSE: Duration = Duration::from_secs(1);

/// What is asked of a server beside its address.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at a time.
    pub connections: usize,
    /// How long a try waits for another try of the same key, and a statement for a lock.
    pub lock_wait: Duration,
    /// The longest that the host waits for an answer of the database; a run's own limit comes first.
    pub answer: Duration,
}

/// One database on a server, shared by all plugins that rest there.
pub struct Server {
    config: Config,
    limits: Limits,
    pool: Pool,
    tls: MakeRustlsConnect,
    handle: Handle,
    /// `None` once it is stopped.
    runtime: Mutex<Option<Runtime>>,
    /// Where it is, without a password.
    place: String,
    pulse: Mutex<Result<(), String>>,
    /// Whether schemas that are being copied, or were, are refused.
    heeds_marks: bool,
    /// When it said last that its disk is full.
    full: Mutex<Option<Instant>>,
    /// Schemas whose host tables are known to be at their newest version.
    ready: Mutex<HashSet<String>>,
    /// By what name this host knows what it told itself.
    me: String,
    pub(super) notices: Arc<Notices>,
    pub(super) alone: Kept,
    /// What its schemas belong to, where that is in another database, and those that are known to.
    pub(super) host: OnceLock<Arc<HostDb>>,
    claimed: Mutex<HashSet<String>>,
    /// Schemas that may not be used, with why.
    refused: Mutex<BTreeMap<String, String>>,
    /// By plugin, which version of its tables was seen last, and when.
    tables: Mutex<HashMap<String, (Instant, i64)>>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Server").field(&self.place).finish()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // A runtime may not wait for its own end inside of another one.
            runtime.shutdown_background();
        }
    }
}

impl Server {
    /// Makes a pool for the database at `url`. Nothing is connected yet.
    ///
    /// # Errors
    /// A sentence for the operator: the URL cannot be read, or there is no thread left.
    pub fn new(url: &str, limits: Limits) -> Result<Arc<Self>, StoreError> {
        Self::called(HOSTS, url, limits)
    }

    /// The same for a command that moves data, which no mark keeps away.
    ///
    /// # Errors
    /// As [`Server::new`].
    pub fn for_moving(url: &str, limits: Limits) -> Result<Arc<Self>, StoreError> {
        Self::called(MOVES, url, limits)
    }

    fn called(name: &'static str, url: &str, limits: Limits) -> Result<Arc<Self>, StoreError> {
        let mut config = read(url).map_err(StoreError::Unavailable)?;
        config.application_name(name).connect_timeout(CONNECT);
        // A peer that is gone without a word is noticed.
        config.keepalives_idle(CONNECT * 2).keepalives_interval(CONNECT).keepalives_retries(3);
        config.tcp_user_timeout(limits.answer);
        if config.get_target_session_attrs() == TargetSessionAttrs::Any {
            // Of several, or after a failover, one that takes writes.
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        let unusable = |what: &str, why: String| StoreError::Unavailable(format!("{what}: {why}"));
        let tls = rustls::ClientConfig::with_platform_verifier()
            .map_err(|error| unusable("TLS cannot be set up", error.to_string()))?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("postgres")
            .enable_all()
            .build()
            .map_err(|error| unusable("no thread can be started", error.to_string()))?;
        let place = place(&config);
        let tls = MakeRustlsConnect::new(tls);
        let manager = Manager::from_config(
            config.clone(),
            tls.clone(),
            ManagerConfig { recycling_method: RecyclingMethod::Fast },
        );
        let settings = session(limits);
        let pool = Pool::builder(manager)
            .max_size(limits.connections)
            .runtime(deadpool_postgres::Runtime::Tokio1)
            .wait_timeout(Some(CONNECT))
            .create_timeout(Some(CONNECT))
            .post_create(Hook::async_fn(move |client, _| {
                let settings = settings.clone();
                Box::pin(async move { client.batch_execute(&settings).await.map_err(HookError::Backend) })
            }))
            .build()
            .map_err(|error| unusable("no pool of connections", error.to_string()))?;
        let handle = runtime.handle().clone();
        let (runtime, ready, pulse) = (Mutex::new(Some(runtime)), Mutex::default(), Mutex::new(Ok(())));
        let heeds_marks = name == HOSTS;
        let (me, notices) = (uuid::Uuid::now_v7().to_string(), Arc::default());
        let (full, tables, alone) = (Mutex::default(), Mutex::default(), Kept::default());
        let server = Arc::new(Self {
            config,
            limits,
            pool,
            tls,
            handle,
            runtime,
            place,
            pulse,
            heeds_marks,
            full,
            ready,
            tables,
            me,
            notices,
            alone,
            host: OnceLock::new(),
            claimed: Mutex::default(),
            refused: Mutex::default(),
        });
        server.feel_pulse();
        server.tell_on();
        Ok(server)
    }

    /// Where the database is, without a password.
    pub fn place(&self) -> &str {
        &self.place
    }

    pub(super) fn me(&self) -> &str {
        &self.me
    }

    /// What a connection outside of the pool is made with.
    pub(super) fn way(&self) -> (Config, MakeRustlsConnect) {
        (self.config.clone(), self.tls.clone())
    }

    /// Has `work` go on beside everything else, at most until the server is dropped.
    pub(super) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.handle.spawn(work);
    }

    pub(super) fn answer(&self) -> Duration {
        self.limits.answer
    }

    pub(super) fn lock_wait(&self) -> Duration {
        self.limits.lock_wait
    }

    /// Lends a connection to `work`, at most for as long as answers are waited for.
    ///
    /// # Errors
    /// What `explain` makes of the database's error; when there is no connection, or no answer.
    pub(super) async fn lend<R>(
        &self,
        work: impl AsyncFnOnce(&mut Object) -> Result<R, tokio_postgres::Error>,
    ) -> Result<Result<R, tokio_postgres::Error>, StoreError> {
        let mut client = self.connect().await?;
        let done = tokio::time::timeout(self.limits.answer, work(&mut client)).await;
        done.map_err(|_| {
            // Whoever had it next would wait for this answer first.
            drop(Object::take(client));
            StoreError::Unavailable("the database does not answer; try again shortly".to_owned())
        })
    }

    /// Runs `work` to its end, from a thread that belongs to no runtime.
    pub(super) fn wait<F: Future>(&self, work: F) -> F::Output {
        self.handle.block_on(work)
    }

    /// The same from any thread; one of a runtime is kept from its other work meanwhile.
    pub(super) fn wait_anywhere<R: Send + 'static>(
        &self,
        work: impl Future<Output = Result<R, StoreError>> + Send + 'static,
    ) -> Result<R, StoreError> {
        let (sender, receiver) = std::sync::mpsc::channel();
        // What `work` waits for has limits of its own, which come first.
        let longest = self.limits.answer + CONNECT * 2;
        self.handle.spawn(async move {
            let done = tokio::time::timeout(longest, work).await;
            let late = |_| Err(StoreError::Unavailable("the database does not answer".to_owned()));
            // Nobody waits any more only where the thread is gone.
            drop(sender.send(done.unwrap_or_else(late)));
        });
        receiver.recv().unwrap_or_else(|_| Err(StoreError::Unavailable("the host is stopping".to_owned())))
    }

    /// A connection from the pool.
    ///
    /// # Errors
    /// When none can be had in time.
    pub(super) async fn connect(&self) -> Result<Object, StoreError> {
        self.reach().await.map_err(|why| {
            let Some(why) = why else {
                let text = "all connections to the database are in use; try again shortly, or raise store_connections";
                return StoreError::Unavailable(text.to_owned());
            };
            tracing::warn!(database = self.place, why, "no connection to the database");
            StoreError::Unavailable("the database cannot be reached; try again shortly".to_owned())
        })
    }

    /// The same for an operator, who may know why there is none.
    ///
    /// # Errors
    /// When none can be had in time.
    pub(super) async fn connect_telling(&self) -> Result<Object, StoreError> {
        match self.reach().await {
            Ok(client) => Ok(client),
            Err(Some(why)) => {
                Err(StoreError::Unavailable(format!("the database cannot be reached ({}): {why}", self.place)))
            }
            Err(None) => self.connect().await,
        }
    }

    /// A connection from the pool, or why there is none; `None` where all are in use.
    async fn reach(&self) -> Result<Object, Option<String>> {
        use deadpool_postgres::{PoolError, TimeoutType};
        self.pool.get().await.map_err(|error| match &error {
            PoolError::Timeout(TimeoutType::Wait) => None,
            PoolError::Backend(error) | PoolError::PostCreateHook(HookError::Backend(error)) => {
                Some(told(error) + errors::way_out(error))
            }
            PoolError::Timeout(_)
            | PoolError::Closed
            | PoolError::NoRuntimeSpecified
            | PoolError::PostCreateHook(_) => Some(error.to_string()),
        })
    }

    /// Asks the server to stop what a connection does.
    pub(super) fn cancel(&self, token: tokio_postgres::CancelToken) {
        let tls = self.tls.clone();
        self.handle.spawn(async move {
            let asked = tokio::time::timeout(CONNECT, token.cancel_query(tls)).await;
            tracing::debug!(?asked, "asked the database to stop a query");
        });
    }

    /// Whether the database answered when it was asked last, at most some seconds ago.
    ///
    /// # Errors
    /// Why not.
    pub fn pulse(&self) -> Result<(), String> {
        let full = self.full.lock().unwrap_or_else(PoisonError::into_inner);
        if full.is_some_and(|since| since.elapsed() < FULL) {
            return Err("the database has no room left on its disk".to_owned());
        }
        drop(full);
        self.pulse.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes that it has no room.
    pub(super) fn is_full(&self) {
        *self.full.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    async fn ping(&self) -> Result<(), String> {
        let client = self.connect().await.map_err(|error| error.to_string())?;
        let answered = tokio::time::timeout(CONNECT, client.batch_execute("SELECT 1")).await;
        match answered {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(format!("the database failed: {}", told(&error))),
            Err(_) => {
                // It must not go back into the pool with a question open.
                drop(Object::take(client));
                Err("the database does not answer".to_owned())
            }
        }
    }

    /// Gives up all connections that nobody uses, and takes no new ones.
    pub fn close(&self) {
        self.alone.close();
        self.pool.close();
    }

    /// Asks now and then whether the database answers, as long as this lives.
    fn feel_pulse(self: &Arc<Self>) {
        let weak = Arc::downgrade(self);
        self.handle.spawn(async move {
            let mut rounds = tokio::time::interval(PULSE);
            rounds.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            loop {
                rounds.tick().await;
                let Some(server) = weak.upgrade().filter(|server| !server.pool.is_closed()) else { return };
                let pulse = server.ping().await;
                *server.pulse.lock().unwrap_or_else(PoisonError::into_inner) = pulse;
            }
        });
    }

    /// The plugins that have a schema here, loaded or not, sorted.
    ///
    /// # Errors
    /// When the database fails.
    pub fn plugins(self: &Arc<Self>) -> Result<Vec<String>, StoreError> {
        let server = self.clone();
        self.wait_anywhere(async move {
            let client = server.connect_telling().await?;
            let sql = "SELECT schemaname::text FROM pg_tables WHERE tablename = '_oncehost_version' \
                       AND schemaname <> $1::text ORDER BY 1";
            let rows = client.query(sql, &[&HOST_SCHEMA]).await.map_err(|error| errors::fault(&error))?;
            rows.iter().map(|row| super::get(row, 0)).collect()
        })
    }

    /// The version of a plugin's tables, where it was seen of late.
    pub(super) fn tables_version(&self, plugin: &str) -> Option<i64> {
        let tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        tables.get(plugin).filter(|(seen, _)| seen.elapsed() < SEEN_AFTER).map(|(_, version)| *version)
    }

    /// Notes the version of a plugin's tables, or with `None` that it has to be looked up.
    pub(super) fn saw_tables(&self, plugin: &str, version: Option<i64>) {
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        match version {
            Some(version) => drop(tables.insert(plugin.to_owned(), (Instant::now(), version))),
            None => drop(tables.remove(plugin)),
        }
    }

    /// Has a schema that is removed be made anew.
    pub(super) fn forget(&self, schema: &str) {
        self.ready().remove(schema);
    }

    /// Notes why a schema may not be used, or that it may.
    pub(super) fn is_refused(&self, schema: &str, why: Option<String>) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        match why {
            Some(why) => drop(refused.insert(schema.to_owned(), why)),
            None => drop(refused.remove(schema)),
        }
    }

    /// Why the first of the schemas may not be used that may not.
    pub fn refusal(&self) -> Option<String> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).values().next().cloned()
    }

    pub(super) fn claimed(&self, schema: &str) -> bool {
        self.claimed.lock().unwrap_or_else(PoisonError::into_inner).contains(schema)
    }

    pub(super) fn has_claimed(&self, schema: &str) {
        self.claimed.lock().unwrap_or_else(PoisonError::into_inner).insert(schema.to_owned());
    }

    pub(super) fn heeds_marks(&self) -> bool {
        self.heeds_marks
    }

    pub(super) fn ready(&self) -> std::sync::MutexGuard<'_, HashSet<String>> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What every connection is told first.
///
/// Sequential scans are shunned: in a serializable transaction one locks its whole table, and small tables would have
/// everybody run into everybody. What cannot do without then looks so dear to the planner that it would compile
/// it, which takes far longer than the query.
fn session(limits: Limits) -> String {
    let lock_wait = limits.lock_wait.as_millis().max(1);
    let (answer, idle) = (limits.answer.as_millis().max(1), (limits.answer * 2).as_millis().max(1));
    format!(
        "SET lock_timeout = {lock_wait}; SET statement_timeout = {answer}; \
         SET idle_in_transaction_session_timeout = {idle}; SET TimeZone = 'UTC'; \
         SET standard_conforming_strings = on; \
         SET enable_seqscan = off; SET jit = off; \
         SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
    )
}

fn read(url: &str) -> Result<Config, String> {
    Config::from_str(url).map_err(|error| {
        // What the error says beside may be a piece of a password.
        let why = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
        let modes = if why.contains("`sslmode`") { ": sslmode is disable, prefer or require" } else { "" };
        format!("the store's URL cannot be read ({error}{modes}); write postgres://USER:PASSWORD@HOST:PORT/DATABASE")
    })
}

/// Whether a URL can be read.
///
/// # Errors
/// What is wrong with it, with the right form. It may hold a password, and is not repeated.
pub fn check_url(url: &str) -> Result<(), String> {
    read(url).map(drop)
}

/// A database's address without what is secret.
fn place(config: &Config) -> String {
    let host = match config.get_hosts().first() {
        Some(tokio_postgres::config::Host::Tcp(host)) => host.clone(),
        Some(tokio_postgres::config::Host::Unix(path)) => path.display().to_string(),
        None => "localhost".to_owned(),
    };
    let port = config.get_ports().first().copied().unwrap_or(5432);
    format!("postgres://{host}:{port}/{}", config.get_dbname().or(config.get_user()).unwrap_or_default())
}

/// An error with what the database says about it.
pub(super) fn told(error: &tokio_postgres::Error) -> String {
    match (error.as_db_error(), std::error::Error::source(error)) {
        (Some(db), _) => db.message().to_owned(),
        (None, Some(source)) => format!("{error}: {source}"),
        (None, None) => error.to_string(),
    }
}
