//! Steps of workflows. Whatever changes claimed work names its owner and attempt: zero rows means that somebody else
//! has it, or that it has ended.

use crate::clock::Millis;

/// A step that comes into being.
#[derive(Clone, Debug)]
pub struct New<'a> {
    pub workflow: i64,
    /// The workflow's.
    pub tenant: &'a str,
    pub step: &'a str,
    pub state: &'a str,
    pub due: Option<Millis>,
    pub owner: Option<&'a str>,
    pub attempt: u32,
    /// The type of event it waits for, and what must be in it.
    pub event: Option<(&'a str, &'a str)>,
    pub result: Option<&'a str>,
    pub error: Option<&'a str>,
    /// Where it has ended in the same moment.
    pub ended: bool,
}

/// Which try of which step.
#[derive(Clone, Copy, Debug)]
pub struct Try<'a> {
    pub workflow: i64,
    pub step: &'a str,
    pub owner: &'a str,
    pub attempt: u32,
}

/// A step as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    pub workflow: i64,
    pub step: String,
    pub state: String,
    pub due: Option<Millis>,
    pub owner: Option<String>,
    pub attempt: u32,
    pub base: u32,
    pub fields: Option<String>,
    pub result: Option<String>,
    pub error: Option<String>,
    /// What the error says for programs, as JSON.
    pub details: Option<String>,
    pub ready_at: Millis,
    pub begun_at: Option<Millis>,
    pub ended_at: Option<Millis>,
}

verbs! { steps:
    /// Writes a step that comes into being.
    ///
    /// # Errors
    /// When the database fails.
    pub fn insert(tx, new: &New<'_>, now: Millis) -> ();

    /// All steps of a workflow that have come into being.
    ///
    /// # Errors
    /// When the database fails.
    pub fn of_workflow(tx, workflow: i64) -> Vec<Step>;

    /// Whether this try is the one that may run.
    ///
    /// # Errors
    /// When the database fails.
    pub fn is_claimed(tx, of: Try<'_>) -> bool;

    /// Ends the try with a result. Gives `false` where it is fenced.
    ///
    /// # Errors
    /// When the database fails.
    pub fn done(tx, of: Try<'_>, result: &str, now: Millis) -> bool;

    /// Ends the try with an error, and what it says for programs: `state` is `retry`, to be looked at again when `due`, or `failed`. Gives `false` where it
    /// is fenced.
    ///
    /// # Errors
    /// When the database fails.
    pub fn failed(
        tx,
        of: Try<'_>,
        state: &str,
        due: Option<Millis>,
        error: (&str, Option<&str>),
        now: Millis,
    ) -> bool;

    /// Gives a try back that has not begun, as if it had not been counted.
    ///
    /// # Errors
    /// When the database fails.
    pub fn give_back(tx, of: Try<'_>, due: Millis) -> bool;

    /// Gives a try back that its host could not do, with the reason: it does not count, and others may come for it from
    /// `due` on. Gives `false` where it is fenced.
    ///
    /// # Errors
    /// When the database fails.
    pub fn put_off(tx, of: Try<'_>, due: Millis, error: &str) -> bool;

    /// Lets a claim hold until `until`, unless it is another's by now. Gives whether.
    ///
    /// # Errors
    /// When the database fails.
    pub fn renew(tx, of: Try<'_>, until: Millis) -> bool;

    /// Claims a step that was seen in `seen`, for the try after it.
    ///
    /// # Errors
    /// When the database fails.
    pub fn claim(tx, seen: &Step, owner: &str, until: Millis, now: Millis) -> bool;

    /// Changes a step that nobody runs, or whose runner is gone: `due` says when it is looked at again, if it has not ended.
    /// Gives whether it still was as in `seen`.
    ///
    /// # Errors
    /// When the database fails.
    pub fn put(tx, seen: &Step, state: &str, due: Option<Millis>, outcome: Result<Option<&str>, &str>, now: Millis) -> bool;

    /// Steps that are due at `now`, the longest overdue first.
    ///
    /// # Errors
    /// When the database fails.
    pub fn due(tx, now: Millis, limit: usize) -> Vec<Step>;

    /// The same, of those alone that wait for their time and run nothing.
    ///
    /// # Errors
    /// When the database fails.
    pub fn timers(tx, now: Millis, limit: usize) -> Vec<Step>;

    /// The tenants with steps that are to run and are due, in their order.
    ///
    /// # Errors
    /// When the database fails.
    pub fn tenants_due(tx, now: Millis) -> Vec<String>;

    /// Those steps of one of them, the longest overdue first.
    ///
    /// # Errors
    /// When the database fails.
    pub fn due_of(tx, tenant: &str, now: Millis, limit: usize) -> Vec<Step>;

    /// When the next step is due after `after`.
    ///
    /// # Errors
    /// When the database fails.
    pub fn next_due(tx, after: Millis) -> Option<Millis>;

    /// Makes steps due now whose claims are of hosts that are gone, and those that were blocked: `owner` is the only host
    /// that lives.
    ///
    /// # Errors
    /// When the database fails.
    pub fn take_over(tx, owner: &str, now: Millis) -> usize;

    /// The types of events that steps wait for.
    ///
    /// # Errors
    /// When the database fails.
    pub fn awaited(tx) -> Vec<String>;

    /// Steps of a tenant that wait for events of a type.
    ///
    /// # Errors
    /// When the database fails.
    pub fn waiting_for(tx, tenant: &str, kind: &str) -> Vec<Step>;

    /// Ends every open step of a workflow, and everything that still runs of it is fenced.
    ///
    /// # Errors
    /// When the database fails.
    pub fn cancel(tx, workflow: i64, now: Millis) -> usize;

    /// Makes failed and failing steps of a workflow due now, with a whole round of tries. Gives how many.
    ///
    /// # Errors
    /// When the database fails.
    pub fn retry(tx, workflow: i64, now: Millis) -> usize;

    /// Takes a step away that is to come into being again.
    ///
    /// # Errors
    /// When the database fails.
    pub fn remove(tx, seen: &Step) -> ();
}
