//! What everything shares: settings, clock, ids, the loaded plugins, and a lane for each.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use crate::auth::Auth;
use crate::backup::{self, BackupError};
use crate::clock::{Clock, Millis};
use crate::config::Settings;
use crate::events::Events;
use crate::failure::{Code, Failure};
use crate::flow::{Committed, Flows};
use crate::idempotency::InFlight;
use crate::ids::Ids;
use crate::lane::{Lane, LaneSettings, Watchdog};
use crate::metrics::{Metrics, Standing};
use crate::plugin::Registry;
use crate::store::host_db::HostDb;
use crate::store::{Database, Shared, StoreError, Stores, keys};
use crate::suggest::shell_word;
use crate::trace::{self, Exporter, Sink};

pub mod lock;
mod missing;

pub use missing::Missing;

use lock::Holder;

/// Rows that one transaction of the clearing looks at.
const CLEAR_BATCH: usize = 200;

/// The running host.
pub struct App {
    pub settings: Settings,
    pub clock: Arc<dyn Clock>,
    pub ids: Arc<dyn Ids>,
    pub in_flight: InFlight,
    pub metrics: Arc<Metrics>,
    /// Where spans go, when there is a collector.
    pub spans: Option<Sink>,
    exporter: Mutex<Option<Exporter>>,
    /// Whoever notes in one database that something has arrived in another holds this for reading from before it
    /// arrives until after the note; a backup holds it for writing while it takes hold of all databases.
    pub passing: tokio::sync::RwLock<()>,
    pub stores: Stores,
    /// What belongs to no plugin.
    pub host_db: Arc<HostDb>,
    pub auth: Auth,
    pub events: Events,
    /// What runs workflows.
    pub flows: Arc<Flows>,
    registry: RwLock<Arc<Registry>>,
    /// Where it listens, once it does.
    pub address: OnceLock<SocketAddr>,
    /// Held by a reload from looking to swapping.
    pub reloading: tokio::sync::Mutex<()>,
    reloads: AtomicU64,
    /// When the last look whether calls can be served ended, and what it said.
    looked: Arc<tokio::sync::Mutex<Looked>>,
    lanes: Mutex<BTreeMap<String, Arc<Lane>>>,
    lane_settings: LaneSettings,
    /// Held until the host is closed; the operating system lets go of it when the process dies.
    lock: Mutex<Option<File>>,
}

type Looked = Option<(Instant, Result<(), String>)>;

/// Why the host could not start: one sentence for the operator.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct StartError(pub String);

/// Does what waits for the disk on a thread that may wait. `what` names it in the log.
///
/// # Errors
/// `UNAVAILABLE` when it broke off.
pub async fn blocking<R: Send + 'static>(
    what: &'static str,
    work: impl FnOnce() -> R + Send + 'static,
) -> Result<R, Failure> {
    tokio::task::spawn_blocking(work).await.map_err(|error| broke_off(what, &error))
}

/// What a caller hears of work that broke off on its own thread or task; the log has the rest.
pub fn broke_off(what: &'static str, error: &tokio::task::JoinError) -> Failure {
    tracing::error!(%error, "{what} broke off");
    Failure::new(Code::Unavailable, "this broke off; the host's log says why")
}

impl App {
    /// Takes the lock of the data folder, loads the plugins, and is ready to serve. Lanes start on first use.
    ///
    /// # Errors
    /// When the folders cannot be used or another host has the data folder.
    pub fn open(settings: Settings, clock: Arc<dyn Clock>, ids: Arc<dyn Ids>) -> Result<Arc<Self>, StartError> {
        Self::open_as(Holder::Host, settings, clock, ids)
    }

    /// The same for a command that works on the data where no host runs.
    ///
    /// # Errors
    /// As [`App::open`].
    pub fn open_as(
        who: Holder,
        settings: Settings,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
    ) -> Result<Arc<Self>, StartError> {
        let unread = |error: std::io::Error| unread(&settings.plugins, &error);
        // Before a data folder is made for nothing.
        fs::read_dir(&settings.plugins).map_err(unread)?;
        let lock = take_folder(&settings.data, who)?;
        let registry = Registry::load_given(&settings.plugins, clock.now(), Arc::new(settings.given_settings.clone()))
            .map_err(unread)?;
        let failed = |error: StoreError| StartError(error.to_string());
        let stores = Stores::new(&settings).map_err(failed)?;
        let loaded: BTreeSet<&str> = registry.plugins.keys().map(String::as_str).collect();
        // Whose folder does not load may have any id.
        stores.check_plugins(&loaded, registry.broken.is_empty()).map_err(StartError)?;
        stores.check_host_db().map_err(StartError)?;
        let host_db = Arc::new(stores.host_db().map_err(failed)?);
        stores.remember_files().map_err(failed)?;
        let auth = Auth::open(&settings, host_db.clone(), clock.clone()).map_err(StartError)?;
        let (me, shared) = (ids.rising(clock.now()).to_string(), stores.is_shared());
        let events = Events::open(&host_db, &registry, clock.now(), me.clone(), settings.lease, &stores);
        let events = events.map_err(|failure| StartError(failure.detail))?;
        // Last, since it takes databases for this installation.
        if let Err(why) = stores.settle(&host_db, &loaded) {
            events.leave()(&host_db, clock.now()).map_err(failed)?;
            return Err(StartError(why));
        }
        let watchdog = Watchdog::start().map_err(|error| StartError(format!("no thread can be started: {error}")))?;
        let (spans, exporter) = settings.otlp_endpoint.as_deref().map(trace::exporter).unzip();
        let metrics = Arc::new(Metrics::default());
        let patience = if shared { settings.lease } else { Duration::ZERO };
        let flows = Flows::new(me, settings.lease, patience);
        let lane_settings = LaneSettings {
            queue: settings.queue,
            idle: settings.lane_idle,
            readers: std::thread::available_parallelism().map_or(2, usize::from).max(2),
            clock: clock.clone(),
            watchdog,
            metrics: metrics.clone(),
            committed: events.published.clone(),
            after: Arc::new(Committed(flows.clone())),
            runtime: tokio::runtime::Handle::try_current().ok(),
        };
        let app = Arc::new(Self {
            settings,
            clock,
            ids,
            in_flight: InFlight::default(),
            metrics,
            spans,
            exporter: Mutex::new(exporter),
            passing: tokio::sync::RwLock::default(),
            stores,
            host_db,
            auth,
            events,
            flows,
            registry: RwLock::new(Arc::new(registry)),
            address: OnceLock::new(),
            reloading: tokio::sync::Mutex::default(),
            reloads: AtomicU64::new(0),
            looked: Arc::default(),
            lanes: Mutex::default(),
            lane_settings,
            lock: Mutex::new(Some(lock)),
        });
        app.flows.belongs_to(&app);
        Ok(app)
    }

    /// The plugins as they are loaded now.
    pub fn registry(&self) -> Arc<Registry> {
        self.registry.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts another snapshot in the place of the present one. Work under way ends on what it began with. `counts`
    /// says whether plugins are different in it.
    pub fn swap(&self, next: Registry, counts: bool) {
        let (before, next) = (self.registry(), Arc::new(next));
        *self.registry.write().unwrap_or_else(PoisonError::into_inner) = next.clone();
        self.reloads.fetch_add(u64::from(counts), Ordering::Relaxed);
        let newer = next.newer_than(&before);
        newer.iter().filter_map(|id| next.plugins.get(id)).for_each(|plugin| plugin.tell_lacking());
        newer.iter().for_each(|id| self.events.resume(id));
        self.flows.reloaded(newer.into_iter());
    }

    /// How many reloads there were that changed something.
    pub fn reloads(&self) -> u64 {
        self.reloads.load(Ordering::Relaxed)
    }

    /// The lane of a plugin.
    pub fn lane(&self, plugin: &str) -> Arc<Lane> {
        let mut lanes = self.lanes();
        if let Some(lane) = lanes.get(plugin) {
            return lane.clone();
        }
        let lane = Lane::new(plugin, self.database(plugin), self.lane_settings.clone());
        lanes.insert(plugin.to_owned(), lane.clone());
        lane
    }

    /// Whether this process stood still for a while since then, as a stopped one does.
    pub fn stood_since(&self, began: Instant) -> bool {
        self.lane_settings.watchdog.stood_since(began)
    }

    /// Where a plugin's database is.
    pub fn database(&self, plugin: &str) -> Database {
        self.stores.plugin(plugin)
    }

    fn lanes(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Lane>>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What sends the spans, for whoever serves; once.
    pub fn exporter(&self) -> Option<Exporter> {
        self.exporter.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// How the lanes and plugins stand at the moment.
    pub fn standing(&self) -> Standing {
        let registry = self.registry();
        Standing {
            lanes: self.lanes().values().map(|lane| lane.standing()).collect(),
            plugins_loaded: registry.plugins.len(),
            plugins_broken: registry.broken.len(),
            spans_dropped: self.spans.as_ref().map(Sink::dropped),
        }
    }

    /// Whether calls can be served, looked at by one at a time: whoever waits meanwhile has the same answer.
    ///
    /// # Errors
    /// One sentence that says why not.
    pub async fn is_ready(self: &Arc<Self>) -> Result<(), String> {
        let came = Instant::now();
        let mut looked = self.looked.clone().lock_owned().await;
        if let Some((ended, said)) = &*looked
            && *ended > came
        {
            return said.clone();
        }
        // The look goes on, and is the only one, when nobody waits for its answer any more.
        let app = self.clone();
        let look = move || {
            let said = app.ready();
            *looked = Some((Instant::now(), said.clone()));
            said
        };
        blocking("a look whether calls can be served", look).await.unwrap_or_else(|failure| Err(failure.detail))
    }

    /// The same for one who looks alone, and may wait for the disk and for servers.
    ///
    /// # Errors
    /// One sentence that says why not.
    pub fn ready(&self) -> Result<(), String> {
        let data = &self.settings.data;
        let probe = data.join(".writable");
        // A full disk still takes an empty file.
        let written = fs::write(&probe, [0; 4096]);
        let removed = fs::remove_file(&probe);
        written
            .and(removed)
            .map_err(|error| format!("the data folder {} cannot be written: {error}", data.display()))?;
        self.stores.ready()?;
        self.host_db.check().map_err(|error| error.to_string())?;
        self.stores.glance(self.registry().plugins.keys())
    }

    /// Looks whose the databases of `[stores]` are that have come back.
    pub async fn take_placed(self: &Arc<Self>) {
        let app = self.clone();
        let take = move || {
            let registry = app.registry();
            app.stores.take_placed(&registry.plugins.keys().map(String::as_str).collect());
        };
        if let Err(failure) = blocking("a look at databases", take).await {
            tracing::debug!(%failure, "whose they are is looked at later");
        }
    }

    /// Clears replies and marks that are no longer kept, in all databases that are there, in small batches between
    /// other work. Gives how many replies and marks went.
    ///
    /// # Errors
    /// The first lane's that refuses; the others are cleared all the same.
    pub async fn clear_expired(self: &Arc<Self>) -> Result<(usize, usize), Failure> {
        let (app, since) = (self.clone(), self.settings.kept_since(self.clock.now()).1);
        blocking("the clearing of tokens", move || app.auth.tokens.clear(since)).await??;
        let (mut replies, mut marks, mut failed) = (0, 0, None);
        for plugin in self.registry().plugins.keys().filter(|plugin| self.database(plugin).exists()) {
            match self.clear_plugin(plugin).await {
                Ok(cleared) => {
                    replies += cleared.0;
                    marks += cleared.1;
                }
                Err(failure) => {
                    failed.get_or_insert(failure.of(plugin));
                }
            }
        }
        failed.map_or(Ok((replies, marks)), Err)
    }

    async fn clear_plugin(&self, plugin: &str) -> Result<(usize, usize), Failure> {
        let (replies_before, marks_before) = self.settings.kept_since(self.clock.now());
        let (lane, mut replies, mut marks) = (self.lane(plugin), 0, 0);
        loop {
            let work = lane.exclusive(move |shared| clear(shared, replies_before, marks_before));
            let cleared = beside_others(work).await??;
            self.metrics.cleared(cleared.replies, cleared.marks);
            replies += cleared.replies;
            marks += cleared.marks;
            if !cleared.more {
                self.flows.clear_definitions(&lane).await?;
                return Ok((replies, marks));
            }
        }
    }

    /// Takes hold of all databases as they are at one moment, for a backup.
    ///
    /// # Errors
    /// When a database cannot be read, or is none of files.
    pub async fn hold(&self) -> Result<backup::Held, BackupError> {
        backup::are_files(&self.settings)?;
        self.stores.check_whole().map_err(BackupError)?;
        let _nothing_passes = self.passing.write().await;
        let (data, now) = (self.settings.data.clone(), self.clock.now());
        let elsewhere = backup::elsewhere(&self.settings);
        let held = tokio::task::spawn_blocking(move || Ok(backup::hold(&data, now, false)?.without(elsewhere))).await;
        held.map_err(|error| BackupError(format!("the backup broke off: {error}")))?
    }

    /// Takes no more work, lets what is under way end within the grace period, closes the databases and gives
    /// the data folder back.
    pub async fn close(&self) {
        self.close_by(Instant::now() + self.settings.stop_grace).await;
    }

    /// The same, until an instant.
    pub async fn close_by(&self, deadline: Instant) {
        // The last connection to a database brings its log into the file, and only a writer can.
        self.events.close();
        self.flows.close(deadline).await;
        let lanes: Vec<_> = self.lanes().values().cloned().collect();
        for lane in lanes {
            lane.close(deadline).await;
        }
        if self.stores.is_shared() {
            let (db, left, now) = (self.host_db.clone(), self.events.leave(), self.clock.now());
            let left = tokio::task::spawn_blocking(move || left(&db, now)).await;
            if let Ok(Err(error)) = left {
                tracing::debug!(%error, "the other hosts could not be told that this one ends");
            }
        }
        self.stores.close();
        if self.lanes().values().all(|lane| lane.threads() == 0) {
            *self.lock.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }
}

/// Why there are no plugins.
pub fn unread(plugins: &Path, error: &std::io::Error) -> StartError {
    let folder = plugins.display();
    let new = if error.kind() == std::io::ErrorKind::NotFound {
        "`oncehost new NAME` makes it with a first plugin; or "
    } else {
        ""
    };
    StartError(format!("cannot read the plugins folder {folder}: {error}; {new}name another with --plugins DIR"))
}

/// Does one batch of long work, and then rests four times as long as it took: others have most of the time.
pub async fn beside_others<R>(batch: impl Future<Output = R>) -> R {
    let begun = tokio::time::Instant::now();
    let done = batch.await;
    tokio::time::sleep(begun.elapsed() * 4).await;
    done
}

fn clear(shared: &Shared, replies_before: Millis, marks_before: Millis) -> Result<keys::Cleared, StoreError> {
    shared.transact(|tx| keys::clear(tx, replies_before, marks_before, CLEAR_BATCH))
}

/// Takes the lock of a data folder that can be used.
///
/// # Errors
/// As [`lock::take`] and [`refuse_unfinished`].
pub fn take_folder(data: &Path, who: Holder) -> Result<fs::File, StartError> {
    let lock = lock::take(data, who).map_err(|error| StartError(error.to_string()))?;
    refuse_unfinished(data)?;
    Ok(lock)
}

/// A folder that holds half of a backup serves nobody.
///
/// # Errors
/// What to run, where a restore was broken off.
pub fn refuse_unfinished(data: &Path) -> Result<(), StartError> {
    if !data.join(backup::RESTORING).exists() {
        return Ok(());
    }
    Err(StartError(format!(
        "a restore into the data folder {} was broken off; run the same `oncehost restore` again",
        data.display()
    )))
}

/// Refuses a data folder in which a command would begin anew although another was meant, most likely: one that is named by
/// a flag and is not there, or one with other things in it.
///
/// # Errors
/// A sentence with the way out.
pub fn check_beginning(settings: &Settings) -> Result<(), StartError> {
    let data = &settings.data;
    let has_nothing =
        |folder: fs::ReadDir| folder.flatten().all(|entry| backup::is_no_data(&entry.file_name().to_string_lossy()));
    let is_named = settings.given.iter().any(|(name, from)| *name == "data" && from.starts_with("--"));
    match fs::read_dir(data).map(has_nothing) {
        Ok(true) => Ok(()),
        Ok(false) => check_data(settings),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && is_named => {
            let make = format!("; for new data, make it first: mkdir -p {}", shell_word(&data.display().to_string()));
            check_data(settings).map_err(|StartError(why)| StartError(why + &make))
        }
        // What is wrong with it is said when it is used.
        Err(_) => Ok(()),
    }
}

/// Refuses a data folder that is not there, or on which no host ever worked.
///
/// # Errors
/// A sentence with the way out.
pub fn check_data(settings: &Settings) -> Result<(), StartError> {
    let (data, whole) = (&settings.data, refuse_unfinished(&settings.data).is_ok());
    let databases = backup::databases(data).unwrap_or_default();
    // On a server the data are there whatever is in the folder.
    if !settings.store.is_files() || !whole || !databases.is_empty() {
        return Ok(());
    }
    let (what, data) = if data.is_dir() { ("are no data in", data) } else { ("is no data folder", data) };
    Err(StartError(format!(
        "there {what} {}: name the right folder with --data DIR; `oncehost dev` and `serve` make one at their first start",
        data.display()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;
    use crate::ids::SystemIds;

    #[test]
    fn those_who_wait_for_a_look_share_its_answer() {
        let folder = tempfile::tempdir().unwrap();
        let (plugins, data) = (folder.path().join("plugins"), folder.path().join("data"));
        fs::create_dir(&plugins).unwrap();
        let settings = Settings { plugins, data, dev: true, ..Settings::default() };
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            let app = App::open(settings, Arc::new(ManualClock::at(0)), Arc::new(SystemIds::default())).unwrap();
            let mut looked = app.looked.clone().lock_owned().await;
            let look = async {
                tokio::task::yield_now().await;
                *looked = Some((Instant::now(), Err("the disk is full".to_owned())));
                drop(looked);
            };
            let (one, other, ()) = tokio::join!(app.is_ready(), app.is_ready(), look);
            assert_eq!(
                (one.unwrap_err(), other.unwrap_err()),
                ("the disk is full".to_owned(), "the disk is full".to_owned())
            );
            assert_eq!(app.is_ready().await, Ok(()), "who comes later looks anew");
        });
    }
}
