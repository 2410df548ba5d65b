//! Workflows: what comes next in one, and how that is written, inside whatever transaction asks. Who runs the steps
//! is `flow`'s business.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value as Json;

use crate::clock::Millis;
use crate::failure::Failure;

mod advance;
pub mod definition;
mod due;
mod operate;
mod values;

pub use advance::{begin, ended, failed, missing, put_off};
pub use definition::Definition;
pub use due::{Mine, Round, Taken, satisfy, take_due};
pub use operate::{Page, Wanted, cancel, find, list, retry, show};

/// Steps that one host has claimed and not ended at a time; more of them wait in the database.
pub const MOST_CLAIMED: usize = 512;

/// Places that are kept for those who have few steps under way, so that whoever has many that wait for the network, and
/// any number behind them, keeps nobody else waiting.
const KEPT: usize = MOST_CLAIMED / 4;

/// How many steps of one tenant in one plugin are few.
const FEW: usize = 32;

/// Results of steps, by their index.
pub(crate) type Results = HashMap<usize, Json>;

/// What stays the same throughout a workflow.
#[derive(Clone, Debug, PartialEq)]
pub struct Facts {
    /// Its row.
    pub id: i64,
    pub tenant: String,
    pub workflow_id: String,
    pub seed: Json,
    pub definition: Arc<Definition>,
}

impl Facts {
    /// `workflowId:stepId`, the same for each try.
    pub fn step_key(&self, step: &str) -> String {
        format!("{}:{step}", self.workflow_id)
    }

    /// The same with tenant and plugin in front.
    pub fn scoped_key(&self, plugin: &str, step: &str) -> String {
        format!("{}/{plugin}/{}:{step}", self.tenant, self.workflow_id)
    }
}

/// A step that this host has claimed and is to run.
#[derive(Clone, Debug, PartialEq)]
pub struct Claimed {
    pub facts: Arc<Facts>,
    /// Its index in the definition.
    pub step: usize,
    /// The number of this try; with the owner it fences all others.
    pub attempt: u32,
    /// Tries before somebody asked for another round of them.
    pub base: u32,
    /// Nothing went wrong with it so far, so the workflow's status says so too.
    pub clean: bool,
    /// JSON text.
    pub input: String,
}

impl Claimed {
    /// The step's definition.
    pub fn step(&self) -> &definition::Step {
        &self.facts.definition.steps[self.step]
    }
}

/// What is to happen once a transaction has committed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wakes {
    /// Steps that were claimed by this host.
    pub claimed: Vec<Claimed>,
    /// The earliest instant at which something of what was written is due.
    pub due: Option<Millis>,
    /// Workflows that were cancelled; what runs of them is to stop.
    pub cancelled: Vec<i64>,
    /// How many workflows ended, and how many steps, for the metrics.
    pub counted: Counted,
}

/// See [`Wakes`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    pub started: u32,
    pub completed: u32,
    pub failed: u32,
    pub cancelled: u32,
    pub steps_done: u32,
    pub steps_retried: u32,
    pub steps_failed: u32,
    /// How many more workflows are failing, and failed, than before.
    pub failing_more: i64,
    pub failed_more: i64,
}

impl Counted {
    /// Counts a workflow that had one status and has another.
    pub(crate) fn turned(&mut self, from: &str, to: &str) {
        if from == to {
            return;
        }
        self.completed += u32::from(to == "completed");
        self.failed += u32::from(to == "failed");
        self.cancelled += u32::from(to == "cancelled");
        let more = |status: &str| i64::from(to == status) - i64::from(from == status);
        self.failing_more += more("failing");
        self.failed_more += more("failed");
    }

    /// Workflows, by what became of them.
    pub fn workflows(&self) -> [(&'static str, u32); 4] {
        [
            ("started", self.started),
            ("completed", self.completed),
            ("failed", self.failed),
            ("cancelled", self.cancelled),
        ]
    }

    /// Tries of steps, by what became of them.
    pub fn steps(&self) -> [(&'static str, u32); 3] {
        [("done", self.steps_done), ("retried", self.steps_retried), ("failed", self.steps_failed)]
    }
}

impl Wakes {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Notes that something is due at `at`.
    pub(crate) fn at(&mut self, at: Millis) {
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    /// Takes what another part of the same transaction has to say.
    pub fn add(&mut self, other: Wakes) {
        self.claimed.extend(other.claimed);
        if let Some(at) = other.due {
            self.at(at);
        }
        self.cancelled.extend(other.cancelled);
        let (mine, other) = (&mut self.counted, other.counted);
        mine.started += other.started;
        mine.completed += other.completed;
        mine.failed += other.failed;
        mine.cancelled += other.cancelled;
        mine.steps_done += other.steps_done;
        mine.steps_retried += other.steps_retried;
        mine.steps_failed += other.steps_failed;
        mine.failing_more += other.failing_more;
        mine.failed_more += other.failed_more;
    }
}

/// Who claims steps: one host, from its start to its end.
#[derive(Debug)]
pub struct Desk {
    /// Its name in claims, never used again.
    pub owner: String,
    /// How long a claim holds without a sign of life.
    pub lease: Millis,
    /// How long a step that this host cannot run is left to others; 0 where there are none.
    pub patience: Millis,
    places: Mutex<Places>,
    limits: Mutex<Limits>,
}

/// What a host leaves to others for now.
#[derive(Debug, Default)]
struct Limits {
    /// Plugins of which another host that lives has a newer version.
    outdated: BTreeSet<String>,
    /// By plugin, what its tables keep from running here, until when that is believed, and why.
    resting: HashMap<String, HashMap<String, (Millis, String)>>,
}

/// Steps that a host has claimed.
#[derive(Debug, Default)]
struct Places {
    open: bool,
    taken: usize,
    /// By plugin, and by tenant in it; nobody without any.
    whose: HashMap<String, HashMap<String, usize>>,
}

impl Places {
    fn of(&self, plugin: &str, tenant: &str) -> usize {
        self.whose.get(plugin).and_then(|tenants| tenants.get(tenant)).copied().unwrap_or(0)
    }
}

impl Desk {
    /// A desk that takes nothing yet.
    pub fn new(owner: String, lease: Millis, patience: Millis) -> Self {
        Self { owner, lease, patience, places: Mutex::default(), limits: Mutex::default() }
    }

    fn limits(&self) -> MutexGuard<'_, Limits> {
        self.limits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes of which plugins another host that lives has a newer version.
    pub fn are_outdated(&self, plugins: BTreeSet<String>) {
        self.limits().outdated = plugins;
    }

    /// Whether another host that lives has a newer version of a plugin.
    pub fn is_outdated(&self, plugin: &str) -> bool {
        self.limits().outdated.contains(plugin)
    }

    /// Runs no more steps of this kind until `until`, for the reason `why`.
    pub fn rest(&self, plugin: &str, step: &definition::Step, until: Millis, why: &str) {
        let mut limits = self.limits();
        limits.resting.entry(plugin.to_owned()).or_default().insert(step.uses.runs(), (until, why.to_owned()));
    }

    /// Why it runs no steps of this kind at the moment, if it does not.
    pub fn rests(&self, plugin: &str, step: &definition::Step, now: Millis) -> Option<String> {
        let limits = self.limits();
        let (until, why) = limits.resting.get(plugin)?.get(&step.uses.runs())?;
        (now < *until).then(|| why.clone())
    }

    /// Tries again what rested, since the plugin or its tables are others now, or somebody asks for it.
    pub fn resume(&self, plugin: &str) {
        self.limits().resting.remove(plugin);
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to take steps.
    pub fn open(&self) {
        self.places().open = true;
    }

    /// Takes no more.
    pub fn close(&self) {
        self.places().open = false;
    }

    /// Whether it would take one more step of a tenant's, beside those that the same transaction is about to take: so many
    /// of the tenant's own, and in all.
    pub fn has_room(&self, plugin: &str, tenant: &str, own: usize, all: usize) -> bool {
        let places = self.places();
        let few = places.of(plugin, tenant) + own < FEW;
        places.open && places.taken + all < if few { MOST_CLAIMED } else { MOST_CLAIMED - KEPT }
    }

    /// Counts a step that it has taken.
    pub fn take(&self, plugin: &str, tenant: &str) {
        let mut places = self.places();
        places.taken += 1;
        match places.whose.get_mut(plugin).and_then(|tenants| tenants.get_mut(tenant)) {
            Some(taken) => *taken += 1,
            None => drop(places.whose.entry(plugin.to_owned()).or_default().insert(tenant.to_owned(), 1)),
        }
    }

    /// Counts one that it has no longer; gives whether that made room for a good number: of those who have few, or of
    /// all.
    pub fn give_back(&self, plugin: &str, tenant: &str) -> bool {
        let mut places = self.places();
        places.taken = places.taken.saturating_sub(1);
        if let Some(tenants) = places.whose.get_mut(plugin)
            && let Some(taken) = tenants.get_mut(tenant)
        {
            *taken = taken.saturating_sub(1);
            if *taken == 0 {
                tenants.remove(tenant);
            }
        }
        places.taken == MOST_CLAIMED - KEPT || places.taken == MOST_CLAIMED - 2 * KEPT
    }

    /// Whether it has room for a good number, whoever's.
    pub fn has_plenty(&self) -> bool {
        let places = self.places();
        places.open && places.taken <= MOST_CLAIMED - 2 * KEPT
    }
}

/// What a transaction needs to know to take workflows further.
pub struct Going<'g> {
    pub desk: &'g Desk,
    pub plugin: &'g str,
    /// Why this host cannot run a step now; `None` where it can.
    pub lacks: Lacks<'g>,
    /// Steps of the same tenant that the transaction has claimed before.
    pub claimed: usize,
    pub now: Millis,
}

/// See [`Going::lacks`].
pub type Lacks<'g> = &'g dyn Fn(&Definition, &definition::Step) -> Option<String>;

/// Why a try failed, as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    pub text: String,
    /// What it says for programs, as JSON.
    pub details: Option<String>,
    /// Whether the step is to be tried again.
    pub again: bool,
}

/// A change that came too late: the step is no longer this host's, or no longer open.
#[derive(Clone, Debug, PartialEq)]
pub enum Late {
    Fenced,
    Failed(Failure),
}

impl From<crate::store::StoreError> for Late {
    fn from(error: crate::store::StoreError) -> Self {
        Late::Failed(error.into())
    }
}
