//! What runs workflows: claims what is ready, runs actions through the plugin's lane and scripts beside it, and sleeps
//! until the next thing is due. All that counts is in the database; what is here can die at any moment.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Notify;

use crate::app::App;
use crate::clock::Millis;
use crate::failure::Failure;
use crate::lane::AfterCommit;
use crate::plugin::Plugin;
use crate::store::Notice;
use crate::workflow::definition::Uses;
use crate::workflow::{Claimed, Desk, Mine, Round, Trouble, Wakes};

mod engine;
mod fetch;
pub mod operate;
mod outside;
mod scripts;
mod step;

use fetch::{Fetcher, Named};
use scripts::Scripts;
pub use step::{RESTS, waits};

/// The workflows of one host.
pub struct Flows {
    pub desk: Arc<Desk>,
    app: OnceLock<Weak<App>>,
    pub round: Round,
    state: Mutex<State>,
    next_flight: AtomicU64,
    scripts: Arc<Scripts>,
    /// Clients of plugins, by what their permissions name.
    fetchers: Mutex<HashMap<Vec<String>, Fetcher>>,
    /// Where what scripts begin outside runs.
    runtime: OnceLock<Handle>,
    /// Told when there is something to look at before the next timer.
    nudge: Notify,
    /// Told each time a step has left this host.
    landed: Notify,
}

#[derive(Default)]
struct State {
    /// Steps that this host runs, or is about to.
    flights: HashMap<u64, Flight>,
    /// When the next step of a plugin is due.
    timers: HashMap<String, Millis>,
    /// Plugins to look at as soon as may be.
    nudged: HashSet<String>,
    /// Plugins that have steps due for which there was no room.
    starved: HashSet<String>,
    /// Plugins whose steps have been looked through since they were loaded.
    known: HashSet<String>,
    /// Tries of each plugin whose end could not be recorded where they ended.
    unsettled: HashMap<String, Vec<Unsettled>>,
    /// Plugins that are being looked at.
    looking: HashSet<String>,
    /// Those of them for which something came up meanwhile.
    again: HashSet<String>,
}

/// A step on its way.
struct Flight {
    plugin: String,
    claimed: Claimed,
    /// When its claim was last made or renewed.
    seen: std::time::Instant,
}

/// A try that ended without a record.
struct Unsettled {
    claimed: Claimed,
    /// Why it failed; `None` where it never began.
    error: Option<Trouble>,
}

/// A step's place among those that this host runs; dropped when it has ended, however.
struct Landing {
    flows: Arc<Flows>,
    number: u64,
}

impl std::fmt::Debug for Landing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Landing({})", self.number)
    }
}

impl Drop for Landing {
    fn drop(&mut self) {
        let mut state = self.flows.state();
        let landed = state.flights.remove(&self.number);
        let room = landed.is_some_and(|it| self.flows.desk.give_back(&it.plugin, &it.claimed.facts.tenant));
        if room && !state.starved.is_empty() {
            let starved = std::mem::take(&mut state.starved);
            state.nudged.extend(starved);
            self.flows.nudge.notify_one();
        }
        drop(state);
        self.flows.landed.notify_waiters();
    }
}

impl Flows {
    /// The workflows of a host that calls itself `owner`; nothing runs yet.
    /// `patience` is how long a step that this host cannot run is left to others.
    pub fn new(owner: String, lease: Duration, patience: Duration) -> Arc<Self> {
        let [lease, patience] = [lease, patience].map(crate::clock::millis);
        Arc::new(Self {
            desk: Arc::new(Desk::new(owner, lease, patience)),
            app: OnceLock::new(),
            round: Round::default(),
            state: Mutex::default(),
            next_flight: AtomicU64::new(0),
            scripts: Arc::default(),
            fetchers: Mutex::default(),
            runtime: OnceLock::new(),
            nudge: Notify::new(),
            landed: Notify::new(),
        })
    }

    /// Says whose workflows these are; once.
    pub fn belongs_to(&self, app: &Arc<App>) {
        let _once = self.app.set(Arc::downgrade(app));
    }

    /// Where what is begun outside runs, once this host serves.
    fn runtime(&self) -> Option<Handle> {
        self.runtime.get().cloned()
    }

    /// The client of a plugin.
    fn fetcher(&self, plugin: &Plugin) -> Result<Fetcher, Failure> {
        let mut fetchers = self.fetchers.lock().unwrap_or_else(PoisonError::into_inner);
        let named = &plugin.permissions.http;
        if let Some(known) = fetchers.get(named) {
            return Ok(known.clone());
        }
        let fetcher = Fetcher::new(Named::new(named))?;
        fetchers.insert(named.clone(), fetcher.clone());
        Ok(fetcher)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn app(&self) -> Option<Arc<App>> {
        self.app.get().and_then(Weak::upgrade)
    }

    /// How many steps this host runs, or is about to.
    pub fn in_flight(&self) -> usize {
        self.state().flights.len()
    }

    /// The tries of a plugin's steps that this host has under way.
    fn under_way(&self, plugin: &str) -> Mine {
        let state = self.state();
        let flights = state.flights.values().filter(|flight| flight.plugin == plugin).map(|flight| &flight.claimed);
        let told = |it: &Claimed| (it.facts.id, it.step().id.clone(), it.attempt);
        Arc::new(flights.map(told).collect())
    }

    /// Has a plugin's steps looked at as soon as may be.
    pub fn nudge(&self, plugin: &str) {
        self.state().nudged.insert(plugin.to_owned());
        self.nudge.notify_one();
    }

    /// Has the steps of plugins looked through that are loaded for the first time, or are different now, or whose tables
    /// are.
    pub fn reloaded(&self, plugins: impl Iterator<Item = String>) {
        let mut state = self.state();
        for plugin in plugins {
            self.desk.resume(&plugin);
            state.known.remove(&plugin);
            state.nudged.insert(plugin);
        }
        drop(state);
        self.nudge.notify_one();
    }

    /// Notes that a step of a plugin is due at `at`.
    fn due(&self, plugin: &str, at: Millis) {
        let mut state = self.state();
        let known = state.timers.get(plugin).copied();
        if known.is_none_or(|known| at < known) {
            state.timers.insert(plugin.to_owned(), at);
            drop(state);
            self.nudge.notify_one();
        }
    }

    fn take_off(self: &Arc<Self>, plugin: &str, claimed: &Claimed) -> Landing {
        let number = self.next_flight.fetch_add(1, Ordering::Relaxed);
        let flight = Flight { plugin: plugin.to_owned(), claimed: claimed.clone(), seen: std::time::Instant::now() };
        self.desk.take(plugin, &claimed.facts.tenant);
        self.state().flights.insert(number, flight);
        Landing { flows: self.clone(), number }
    }

    /// Notes a try whose end is to be recorded at the next look.
    fn unsettled(&self, plugin: &str, claimed: Claimed, error: Option<Trouble>) {
        let mut state = self.state();
        state.unsettled.entry(plugin.to_owned()).or_default().push(Unsettled { claimed, error });
        state.nudged.insert(plugin.to_owned());
        drop(state);
        self.nudge.notify_one();
    }

    /// Runs steps that were claimed.
    fn dispatch(self: &Arc<Self>, plugin: &str, claimed: Vec<Claimed>) {
        let Some(app) = self.app() else { return };
        let registry = app.registry();
        for claimed in claimed {
            let Some(loaded) = registry.plugins.get(plugin) else {
                self.unsettled(plugin, claimed, None);
                continue;
            };
            match &claimed.step().uses {
                Uses::Action(_) => step::run_action(&app, loaded, claimed),
                Uses::Script(_) => step::run_script(&app, loaded, claimed),
                Uses::SleepFor(_) | Uses::SleepUntil(_) | Uses::WaitForEvent { .. } => {}
            }
        }
    }
}

/// What lanes tell once they have committed.
pub struct Committed(pub Arc<Flows>);

impl AfterCommit for Committed {
    fn committed(&self, plugin: &str, wakes: Wakes) {
        let Wakes { claimed, due, cancelled, counted } = wakes;
        for workflow in cancelled {
            self.0.scripts.abort(workflow, plugin, "the workflow was cancelled");
        }
        if let Some(app) = self.0.app() {
            let metrics = app.metrics.plugin(plugin);
            metrics.flows(&counted.workflows(), &counted.steps());
            metrics.more_troubled([counted.failing_more, counted.failed_more]);
        }
        if let Some(at) = due {
            self.0.due(plugin, at);
            if let Some(app) = self.0.app().filter(|app| at <= app.clock.now()) {
                // What this host has no room for, or cannot run, another one may.
                app.stores.tell(&Notice::Steps(plugin.to_owned()));
            }
        }
        self.0.dispatch(plugin, claimed);
    }
}
