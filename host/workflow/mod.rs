//! Workflows: what comes next in one, and how that is written, inside whatever transaction asks. Who runs the steps
//! is `flow`'s business.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value as Json;

use crate::clock::Millis;
use crate::failure::Failure;

mod advance;
pub mod definition;
mod due;
mod operate;
mod values;

pub use advance::{begin, ended, failed};
pub use definition::Definition;
pub use due::{Round, Taken, satisfy, take_due};
pub use operate::{Page, Wanted, cancel, find, list, retry, show};

/// Steps that one host has claimed and not ended at a time; more of them wait in the database.
pub const MOST_CLAIMED: usize = 512;

/// Steps for which it is worth while to look for more.
const GOOD_NUMBER: usize = MOST_CLAIMED / 4;

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
    /// Steps it may claim at the moment: `usize::MAX / 2` and more while it runs none.
    taken: AtomicUsize,
}

const CLOSED: usize = usize::MAX / 2;

impl Desk {
    /// A desk that takes nothing yet.
    pub fn new(owner: String, lease: Millis, patience: Millis) -> Self {
        Self { owner, lease, patience, taken: AtomicUsize::new(CLOSED) }
    }

    /// Begins to take steps.
    pub fn open(&self) {
        // What is taken already counts on.
        let _closed_before =
            self.taken.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |taken| taken.checked_sub(CLOSED));
    }

    /// Takes no more.
    pub fn close(&self) {
        self.taken.fetch_add(CLOSED, Ordering::SeqCst);
    }

    /// How many more steps it would take.
    pub fn room(&self) -> usize {
        MOST_CLAIMED.saturating_sub(self.taken.load(Ordering::Relaxed))
    }

    /// Counts a step that it has taken.
    pub fn take(&self) {
        self.taken.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts one that it has no longer; gives whether there is room again for a good number.
    pub fn give_back(&self) -> bool {
        self.taken.fetch_sub(1, Ordering::Relaxed) == MOST_CLAIMED - GOOD_NUMBER + 1
    }

    /// Whether there is room for a good number.
    pub fn has_room(&self) -> bool {
        self.room() >= GOOD_NUMBER
    }
}

/// What a transaction needs to know to take workflows further.
pub struct Going<'g> {
    pub desk: &'g Desk,
    pub plugin: &'g str,
    /// Whether the plugin has a script, or an action, of this name now.
    pub has: &'g dyn Fn(&definition::Uses) -> bool,
    pub now: Millis,
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
