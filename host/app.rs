//! What everything shares: settings, clock, ids, the loaded plugins, and a lane for each.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Instant;

use crate::auth::Auth;
use crate::clock::{Clock, Millis};
use crate::config::Settings;
use crate::failure::Failure;
use crate::idempotency::InFlight;
use crate::ids::Ids;
use crate::lane::{Lane, LaneSettings, Watchdog};
use crate::plugin::Registry;
use crate::store::StoreError;
use crate::store::sqlite::host_db::HostDb;
use crate::store::sqlite::{Shared, Tx, keys};

/// Rows that one transaction of the clearing looks at.
const CLEAR_BATCH: usize = 500;

/// The running host.
pub struct App {
    pub settings: Settings,
    pub clock: Arc<dyn Clock>,
    pub ids: Arc<dyn Ids>,
    pub in_flight: InFlight,
    /// `DATA/host.db`: what belongs to no plugin.
    pub host_db: Arc<HostDb>,
    pub auth: Auth,
    registry: RwLock<Arc<Registry>>,
    /// Held by a reload from looking to swapping.
    pub reloading: tokio::sync::Mutex<()>,
    reloads: AtomicU64,
    lanes: Mutex<BTreeMap<String, Arc<Lane>>>,
    lane_settings: LaneSettings,
    /// Held until the host is closed; the operating system lets go of it when the process dies.
    lock: Mutex<Option<File>>,
}

/// Why the host could not start: one sentence for the operator.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct StartError(pub String);

impl App {
    /// Takes the lock of the data folder, loads the plugins, and is ready to serve. Lanes start on first use.
    ///
    /// # Errors
    /// When the folders cannot be used or another host has the data folder.
    pub fn open(settings: Settings, clock: Arc<dyn Clock>, ids: Arc<dyn Ids>) -> Result<Arc<Self>, StartError> {
        let lock = lock_data(&settings)?;
        let registry = Registry::load(&settings.plugins, clock.now()).map_err(|error| {
            StartError(format!(
                "cannot read the plugins folder {}: {error}; name another with --plugins DIR",
                settings.plugins.display()
            ))
        })?;
        let host_db = Arc::new(HostDb::open(&settings.data).map_err(|error| StartError(error.to_string()))?);
        let auth = Auth::open(&settings, host_db.clone(), clock.clone()).map_err(StartError)?;
        let watchdog = Watchdog::start().map_err(|error| StartError(format!("no thread can be started: {error}")))?;
        let lane_settings = LaneSettings {
            queue: settings.queue,
            idle: settings.lane_idle,
            readers: std::thread::available_parallelism().map_or(2, usize::from).max(2),
            clock: clock.clone(),
            watchdog,
        };
        Ok(Arc::new(Self {
            settings,
            clock,
            ids,
            in_flight: InFlight::default(),
            host_db,
            auth,
            registry: RwLock::new(Arc::new(registry)),
            reloading: tokio::sync::Mutex::default(),
            reloads: AtomicU64::new(0),
            lanes: Mutex::default(),
            lane_settings,
            lock: Mutex::new(Some(lock)),
        }))
    }

    /// The plugins as they are loaded now.
    pub fn registry(&self) -> Arc<Registry> {
        self.registry.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts another snapshot in the place of the present one. Work under way ends on what it began with. `counts`
    /// says whether plugins are different in it.
    pub fn swap(&self, next: Registry, counts: bool) {
        *self.registry.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(next);
        self.reloads.fetch_add(u64::from(counts), Ordering::Relaxed);
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

    /// Where a plugin's database is.
    pub fn database(&self, plugin: &str) -> PathBuf {
        self.settings.data.join(format!("{plugin}.db"))
    }

    fn lanes(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Lane>>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether calls can be served.
    ///
    /// # Errors
    /// One sentence that says why not.
    pub fn ready(&self) -> Result<(), String> {
        let data = &self.settings.data;
        let probe = data.join(".writable");
        fs::write(&probe, b"")
            .and_then(|()| fs::remove_file(&probe))
            .map_err(|error| format!("the data folder {} cannot be written: {error}", data.display()))
    }

    /// Clears replies and marks that are no longer kept, in all databases that are there, in small batches between
    /// other work. Gives how many replies and marks went.
    ///
    /// # Errors
    /// The first lane's that refuses.
    pub async fn clear_expired(&self) -> Result<(usize, usize), Failure> {
        let kept = |duration: std::time::Duration| Millis::try_from(duration.as_millis()).unwrap_or(Millis::MAX);
        let now = self.clock.now();
        let replies_before = now.saturating_sub(kept(self.settings.reply_kept));
        let marks_before = now.saturating_sub(kept(self.settings.mark_kept));
        self.auth.tokens.clear(marks_before)?;
        let (mut replies, mut marks) = (0, 0);
        for plugin in self.registry().plugins.keys() {
            if !self.database(plugin).exists() {
                continue;
            }
            let lane = self.lane(plugin);
            let mut after = 0;
            loop {
                let cleared =
                    lane.exclusive(move |shared| clear(shared, replies_before, marks_before, after)).await??;
                replies += cleared.replies;
                marks += cleared.marks;
                after = cleared.next;
                if !cleared.more {
                    break;
                }
            }
        }
        Ok((replies, marks))
    }

    /// Takes no more work, lets what is under way end within the grace period, closes the databases and gives
    /// the data folder back.
    pub async fn close(&self) {
        let deadline = Instant::now() + self.settings.stop_grace;
        let lanes: Vec<_> = self.lanes().values().cloned().collect();
        for lane in lanes {
            lane.close(deadline).await;
        }
        *self.lock.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

fn clear(
    shared: &Arc<Shared>,
    replies_before: Millis,
    marks_before: Millis,
    after: i64,
) -> Result<keys::Cleared, StoreError> {
    let tx = Tx::begin(shared)?;
    let cleared = keys::clear(&tx, replies_before, marks_before, after, CLEAR_BATCH)?;
    tx.commit()?;
    Ok(cleared)
}

/// Takes the lock of the data folder, which is made if it is not there. A host holds it as long as it lives, and so
/// does a command that opens the data itself.
///
/// # Errors
/// When the folder cannot be used, or another process has it.
pub fn lock_data(settings: &Settings) -> Result<File, StartError> {
    let data = settings.data.display();
    let denied = |error: std::io::Error| {
        StartError(format!("cannot use the data folder {data}: {error}; name another with --data DIR"))
    };
    fs::create_dir_all(&settings.data).map_err(denied)?;
    let path = settings.data.join("lock");
    let file = File::options().create(true).write(true).truncate(false).open(path).map_err(denied)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StartError(format!(
            "another host is running on the data folder {data}; stop it, or name another folder with --data DIR"
        ))),
        Err(TryLockError::Error(error)) => Err(denied(error)),
    }
}
