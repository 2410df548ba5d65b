//! Events: delivered at least once, effective once (spec §7).
//!
//! An event rests where it was accepted (`host.db`) or published (its plugin's outbox). The relay moves it, by its
//! state, into a delivery for each subscription, in the subscriber's own database, and only then notes that it was
//! relayed. A delivery is an invocation whose cause is settled in the transaction of the handler's writes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, OwnedMutexGuard, Semaphore, watch};

use crate::app::{self, App};
use crate::backoff::Retry;
use crate::clock::{Millis, millis};
use crate::failure::Failure;
use crate::ids;
use crate::nudge::Nudges;
use crate::plugin::Registry;
use crate::store::host_db::HostDb;
use crate::store::{Access, Shared, StoreError, Stores, Tx};

pub mod admin;
mod awaited;
mod clear;
pub mod cloudevent;
mod delivery;
pub mod ingest;
mod others;
mod passing;
mod relay;
mod rounds;
mod schedule;
pub mod stream;
pub mod subscriptions;
mod under_way;
mod unheard;

pub use clear::clear;
use ingest::Accepting;
pub use others::beat;
use others::{House, Voice};
use relay::HeldUp;
pub use rounds::{drain, hear, look_after_others};
use subscriptions::Known;

/// Relays, ticks and delivers until the host stops.
pub async fn run(app: &Arc<App>) {
    unheard::tell(app).await;
    rounds::run(app).await;
}

/// The name under which `host.db` is nudged; no plugin has it.
const HOST: &str = "host";

/// What sources of the host's own events begin with; nobody else may send such events.
pub const RESERVED: &str = "urn:oncehost:";

/// How long a host that died is remembered.
const FORGOTTEN: Duration = Duration::from_secs(24 * 60 * 60);

/// What the parts of events share.
pub struct Events {
    /// Databases in which something may wait for the relay.
    pub published: Arc<Nudges>,
    /// Plugins for whom a delivery may be due.
    arrived: Nudges,
    /// Told when deliveries arrived for a plugin that is delivered to just now.
    more: Notify,
    /// The last position that browsers can hear.
    heard: watch::Sender<i64>,
    /// Whether streams are to end.
    ending: watch::Sender<bool>,
    /// This host among those that share its databases.
    house: House,
    accepting: Accepting,
    known: RwLock<Arc<Vec<Known>>>,
    /// One round of each kind at a time in each database.
    turns: Mutex<BTreeMap<(Round, String), Turn>>,
    readers: Mutex<BTreeMap<String, Reader>>,
    /// Turns of those who look into files.
    looks: Semaphore,
    /// By database.
    held_up: Mutex<BTreeMap<String, HeldUp>>,
    /// By plugin.
    last_turns: Mutex<BTreeMap<String, under_way::LastTurns>>,
    /// Until when subscriptions of plugins are left to other hosts, since the tables do not fit this one's version.
    resting: Mutex<BTreeMap<String, BTreeMap<String, Millis>>>,
}

type Turn = Arc<tokio::sync::Mutex<()>>;

/// What is done in rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Round {
    Relay,
    Deliver,
}

/// Files that are looked into beside each other.
const LOOKS: usize = 8;

/// A connection for looking, kept while it is used, by one at a time.
struct Reader {
    shared: Arc<Mutex<Shared>>,
    used: Instant,
}

impl Events {
    /// Reads who subscribes and notes what the loaded plugins changed about that. `me` is what this host calls itself.
    ///
    /// # Errors
    /// When `host.db` fails, or another host has a plugin in another place.
    pub fn open(
        db: &HostDb,
        registry: &Registry,
        now: Millis,
        me: String,
        lease: Duration,
        stores: &Stores,
    ) -> Result<Self, Failure> {
        let (shared, places) = (stores.is_shared(), stores.elsewhere());
        let house = House { me, since: now, lease: millis(lease), shared, places };
        // First, so that of two that start at the same instant at least one sees the other.
        house.beat(db, registry, now)?;
        if let Err(failure) = house.agree(db, registry, now) {
            db.leave(&house.me, now.saturating_sub(millis(FORGOTTEN)))?;
            return Err(failure);
        }
        let known = subscriptions::follow(db, registry, &Voice::at_start(db, &house, now)?, now)?;
        let (heard, _) = watch::channel(db.last_position()?);
        Ok(Self {
            published: Arc::default(),
            arrived: Nudges::default(),
            more: Notify::new(),
            heard,
            ending: watch::channel(false).0,
            house,
            accepting: Accepting::default(),
            known: RwLock::new(Arc::new(known)),
            turns: Mutex::default(),
            readers: Mutex::default(),
            looks: Semaphore::new(LOOKS),
            held_up: Mutex::default(),
            last_turns: Mutex::default(),
            resting: Mutex::default(),
        })
    }

    /// The subscriptions that there are now.
    fn known(&self) -> Arc<Vec<Known>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What tells the other hosts that this one is gone.
    pub fn leave(&self) -> impl FnOnce(&HostDb, Millis) -> Result<(), StoreError> + Send + use<> {
        let me = self.house.me.clone();
        move |db, now| db.leave(&me, now.saturating_sub(millis(FORGOTTEN)))
    }

    /// Has all streams and rounds end, before the host stops.
    pub fn end(&self) {
        self.ending.send_replace(true);
    }

    /// Has the deliveries of a plugin looked at that another host brought.
    pub fn arrived(&self, plugin: &str) {
        self.arrived.nudge(plugin);
    }

    fn is_ending(&self) -> bool {
        *self.ending.borrow()
    }

    /// Waits until nobody else is at this kind of round in this database.
    async fn turn(&self, round: Round, name: &str) -> OwnedMutexGuard<()> {
        let turn = lock(&self.turns).entry((round, name.to_owned())).or_default().clone();
        turn.lock_owned().await
    }

    fn held_up(&self, name: &str) -> Option<HeldUp> {
        lock(&self.held_up).get(name).cloned()
    }

    fn hold_up(&self, name: &str, held: Option<HeldUp>) {
        let mut all = lock(&self.held_up);
        match held {
            Some(held) => drop(all.insert(name.to_owned(), held)),
            None => drop(all.remove(name)),
        }
    }

    fn last_turns(&self, name: &str) -> under_way::LastTurns {
        lock(&self.last_turns).get(name).cloned().unwrap_or_default()
    }

    fn set_last_turns(&self, name: &str, turns: under_way::LastTurns) {
        lock(&self.last_turns).insert(name.to_owned(), turns);
    }

    /// Leaves a subscription to other hosts until an instant.
    fn rest(&self, name: &str, subscription: &str, until: Millis) {
        lock(&self.resting).entry(name.to_owned()).or_default().insert(subscription.to_owned(), until);
    }

    /// Until when a subscription is left to others, if it is now.
    fn rests(&self, name: &str, subscription: &str, now: Millis) -> Option<Millis> {
        lock(&self.resting).get(name)?.get(subscription).copied().filter(|until| now < *until)
    }

    /// Has a plugin delivered to that is another now, or whose tables are.
    pub fn resume(&self, plugin: &str) {
        lock(&self.resting).remove(plugin);
        self.arrived.nudge(plugin);
    }

    fn reader(&self, name: &str) -> Option<Arc<Mutex<Shared>>> {
        let mut readers = lock(&self.readers);
        let reader = readers.get_mut(name)?;
        reader.used = Instant::now();
        Some(reader.shared.clone())
    }

    /// Ends all of it, and closes the connections.
    pub fn close(&self) {
        self.end();
        self.close_idle(Duration::ZERO);
    }

    /// Closes connections that nobody has looked through for that long.
    fn close_idle(&self, idle: Duration) {
        lock(&self.readers).retain(|_, reader| reader.used.elapsed() < idle);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Looks into a plugin's database beside its writer; `None` where there is none yet.
async fn look<R: Send + 'static>(
    app: &Arc<App>,
    name: &str,
    work: impl FnMut(&Tx) -> Result<R, StoreError> + Send + 'static,
) -> Result<Option<R>, Failure> {
    let looked = look_into(app, name, work).await;
    looked.map_err(|failure| failure.of(name))
}

async fn look_into<R: Send + 'static>(
    app: &Arc<App>,
    name: &str,
    work: impl FnMut(&Tx) -> Result<R, StoreError> + Send + 'static,
) -> Result<Option<R>, Failure> {
    let database = app.database(name);
    // A hundred plugins at once would be a hundred threads at once. A server may be away, and holds up no other.
    let turn = if database.is_shared() { None } else { Some(app.events.looks.acquire().await) };
    let shared = match app.events.reader(name) {
        Some(shared) => shared,
        None if !database.exists() => return Ok(None),
        None => {
            let shared = blocking(move || database.open(Access::Read)).await??;
            if !shared.is_newest()? {
                // Opening it for writing is what brings it up.
                app.lane(name).exclusive(|_| ()).await?;
            }
            let shared = Arc::new(Mutex::new(shared));
            let reader = Reader { shared: shared.clone(), used: Instant::now() };
            // A host that ends closes what is kept, and that has been done.
            if !app.events.is_ending() {
                lock(&app.events.readers).insert(name.to_owned(), reader);
            }
            shared
        }
    };
    let looked = blocking(move || {
        let shared = lock(&shared);
        shared.look(work)
    });
    let looked = looked.await;
    drop(turn);
    Ok(Some(looked??))
}

/// Changes a plugin's database, between its invocations and in a transaction of its own.
async fn change<R: Send + 'static>(
    app: &Arc<App>,
    name: &str,
    work: impl FnMut(&Tx) -> Result<R, StoreError> + Send + 'static,
) -> Result<R, Failure> {
    Ok(app.lane(name).exclusive(move |shared| shared.transact(work)).await??)
}

/// The same for changes that rest on nothing but what they name, as claims do ([`Shared::adjust`]).
async fn adjust<R: Send + 'static>(
    app: &Arc<App>,
    name: &str,
    work: impl FnMut(&Tx) -> Result<R, StoreError> + Send + 'static,
) -> Result<R, Failure> {
    Ok(app.lane(name).exclusive(move |shared| shared.adjust(work)).await??)
}

/// Tries of what runs into what the plugin writes, after those that the database makes at once.
const CONFLICTS: Retry = Retry { max_attempts: 8, initial_ms: 10, factor: 2.0, max_ms: 250 };

/// Changes a plugin's database as [`change`] does; what runs into others is tried again soon.
async fn change_beside_others<R: Send + 'static>(
    app: &Arc<App>,
    name: &str,
    work: impl Fn(&Tx) -> Result<R, StoreError> + Send + Sync + 'static,
) -> Result<R, Failure> {
    let (work, mut tries) = (Arc::new(work), 1);
    loop {
        let work = work.clone();
        let changed = app.lane(name).exclusive(move |shared| shared.transact(|tx| work(tx))).await?;
        let spread = ids::digest(&[&app.events.house.me, name, &tries.to_string()])[0];
        match (changed, CONFLICTS.pause(tries, f64::from(spread) / f64::from(u8::MAX))) {
            (Err(StoreError::Gone(_)), Some(pause)) => tokio::time::sleep(pause).await,
            (changed, _) => return Ok(changed?),
        }
        tries += 1;
    }
}

/// Does what waits for the disk on a thread that may wait.
async fn blocking<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> Result<R, Failure> {
    app::blocking("work on events", work).await
}

fn broke_off(error: &tokio::task::JoinError) -> Failure {
    app::broke_off("work on events", error)
}

/// Names of all plugins that have a database, loaded or not.
async fn databases(app: &Arc<App>) -> Result<Vec<String>, Failure> {
    let app = app.clone();
    Ok(blocking(move || app.stores.plugins()).await??)
}

/// The source of what a plugin publishes.
fn source_of(plugin: &str) -> String {
    format!("{RESERVED}plugin:{plugin}")
}

/// An instant `pause` after another.
fn after(now: Millis, pause: Duration) -> Millis {
    now.saturating_add(millis(pause))
}
