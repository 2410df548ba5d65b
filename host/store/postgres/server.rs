//! A Postgres server: its connections, the runtime on which they live, and the host's own tables on it.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use deadpool_postgres::{Hook, HookError, Manager, ManagerConfig, Object, Pool, RecyclingMethod};
use rustls_platform_verifier::ConfigVerifierExt;
use tokio::runtime::{Handle, Runtime};
use tokio_postgres::Config;
use tokio_postgres::config::TargetSessionAttrs;
use tokio_postgres_rustls::MakeRustlsConnect;

use super::alone::Kept;
use super::moving::{self, HOSTS, MOVES};
use super::notices::Notices;
use super::{StoreError, errors};

/// The host's own tables in a plugin's schema, and those that belong to no plugin: a step a version.
pub(super) const PLUGIN_TABLES: [&str; 3] = [
    include_str!("../../../schema/postgres/0001_host.sql"),
    include_str!("../../../schema/postgres/0002_turns.sql"),
    include_str!("../../../schema/postgres/0003_details.sql"),
];
const HOST_TABLES: [&str; 4] = [
    include_str!("../../../schema/postgres/host/0001_tokens.sql"),
    include_str!("../../../schema/postgres/host/0002_events.sql"),
    include_str!("../../../schema/postgres/host/0003_hosts.sql"),
    include_str!("../../../schema/postgres/host/0004_places.sql"),
];

/// The newest version of the host's own tables that is known here: of those that belong to no plugin, or of a plugin's.
pub(super) fn newest_tables(host: bool) -> i64 {
    i64::try_from(if host { HOST_TABLES.len() } else { PLUGIN_TABLES.len() }).unwrap_or(i64::MAX)
}

/// The schema of what belongs to no plugin; no plugin can be called so.
pub(super) const HOST_SCHEMA: &str = "host";

/// How long a connection may take to be made, or to become free.
const CONNECT: Duration = Duration::from_secs(5);
/// How long a database that had no room counts as full, unless it says so again.
const FULL: Duration = Duration::from_secs(5);

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
        use deadpool_postgres::{PoolError, TimeoutType};
        self.pool.get().await.map_err(|error| {
            let why = match &error {
                PoolError::Timeout(TimeoutType::Wait) => {
                    return StoreError::Unavailable(
                        "all connections to the database are in use; try again shortly, or raise store_connections"
                            .to_owned(),
                    );
                }
                PoolError::Backend(error) | PoolError::PostCreateHook(HookError::Backend(error)) => told(error),
                PoolError::Timeout(_)
                | PoolError::Closed
                | PoolError::NoRuntimeSpecified
                | PoolError::PostCreateHook(_) => error.to_string(),
            };
            tracing::warn!(database = self.place, why, "no connection to the database");
            StoreError::Unavailable("the database cannot be reached; try again shortly".to_owned())
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

    /// Makes the schema of a plugin, or of the host, with the host's own tables at their newest version, unless that
    /// was done already.
    ///
    /// # Errors
    /// When the database fails, or was written by a newer version.
    pub(super) async fn make_ready(&self, schema: &str) -> Result<(), StoreError> {
        if self.ready().contains(schema) {
            return Ok(());
        }
        let steps: &[&str] = if schema == HOST_SCHEMA { &HOST_TABLES } else { &PLUGIN_TABLES };
        let mut client = self.connect().await?;
        let failed = |error: tokio_postgres::Error| {
            StoreError::Unavailable(format!(
                "the schema {schema} of {} cannot be made ready: {}; the host needs the right to create schemas there",
                self.place,
                told(&error)
            ))
        };
        let newest = i64::try_from(steps.len()).unwrap_or(i64::MAX);
        let transaction = client.transaction().await.map_err(failed)?;
        // Others that start at this moment wait until it is there.
        let lock = super::number_of(&["oncehost", "tables", schema]);
        transaction.execute("SELECT pg_advisory_xact_lock($1)", &[&lock]).await.map_err(failed)?;
        if self.heeds_marks
            && let Some(why) = moving::refusal(&*transaction, schema).await.map_err(failed)?
        {
            return Err(StoreError::Unavailable(why));
        }
        transaction
            .batch_execute(&format!(
                "CREATE SCHEMA IF NOT EXISTS \"{schema}\"; SET LOCAL search_path TO \"{schema}\"; \
                 CREATE TABLE IF NOT EXISTS _oncehost_version (version BIGINT NOT NULL)"
            ))
            .await
            .map_err(failed)?;
        let state = "SELECT coalesce(max(version), 0), current_setting('server_encoding') FROM _oncehost_version";
        let row = transaction.query_one(state, &[]).await.map_err(failed)?;
        let (found, encoding): (i64, String) = (row.try_get(0).map_err(failed)?, row.try_get(1).map_err(failed)?);
        if encoding != "UTF8" {
            return Err(StoreError::Unavailable(format!(
                "the database {} keeps text as {encoding}; the host needs one made with ENCODING 'UTF8'",
                self.place
            )));
        }
        if found > newest {
            return Err(StoreError::Unavailable(format!(
                "the schema {schema} of {} was written by a newer oncehost (host tables version {found}, this one knows \
                 {newest}); start that version again",
                self.place
            )));
        }
        if found == 0 {
            let first = "SELECT 1 FROM pg_class WHERE relname IN ('_oncehost_keys', 'tokens') \
                         AND relnamespace = current_schema()::regnamespace";
            if transaction.query_opt(first, &[]).await.map_err(failed)?.is_some() {
                return Err(StoreError::Unavailable(format!(
                    "the schema {schema} of {} has the host's tables, but their version is gone from _oncehost_version; \
                     restore the newest backup, or, where this version of oncehost wrote it last, run \
                     CREATE TABLE IF NOT EXISTS \"{schema}\"._oncehost_version (version BIGINT NOT NULL); \
                     INSERT INTO \"{schema}\"._oncehost_version VALUES ({newest})",
                    self.place
                )));
            }
        }
        for (at, step) in steps.iter().enumerate().skip(usize::try_from(found).unwrap_or(0)) {
            transaction.batch_execute(step).await.map_err(failed)?;
            let version = i64::try_from(at + 1).unwrap_or(i64::MAX);
            transaction.execute("INSERT INTO _oncehost_version VALUES ($1)", &[&version]).await.map_err(failed)?;
        }
        transaction.commit().await.map_err(failed)?;
        self.ready().insert(schema.to_owned());
        Ok(())
    }

    /// The plugins that have a schema here, loaded or not, sorted.
    ///
    /// # Errors
    /// When the database fails.
    pub fn plugins(self: &Arc<Self>) -> Result<Vec<String>, StoreError> {
        let server = self.clone();
        self.wait_anywhere(async move {
            let client = server.connect().await?;
            let sql = "SELECT schemaname::text FROM pg_tables WHERE tablename = '_oncehost_version' \
                       AND schemaname <> $1::text ORDER BY 1";
            let rows = client.query(sql, &[&HOST_SCHEMA]).await.map_err(|error| errors::fault(&error))?;
            rows.iter().map(|row| super::get(row, 0)).collect()
        })
    }

    /// The version of a plugin's tables, where it was seen within `age`.
    pub(super) fn tables_version(&self, plugin: &str, age: Duration) -> Option<i64> {
        let tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        tables.get(plugin).filter(|(seen, _)| seen.elapsed() < age).map(|(_, version)| *version)
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

    fn ready(&self) -> std::sync::MutexGuard<'_, HashSet<String>> {
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
    let wrong =
        |error| format!("the store's URL cannot be read ({error}); write postgres://USER:PASSWORD@HOST:PORT/DATABASE");
    Config::from_str(url).map_err(wrong)
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
