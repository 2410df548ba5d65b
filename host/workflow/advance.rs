//! One move of a workflow: a step has ended, and what waited for it comes into being.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value as Json;

use super::definition::{Step, Uses};
use super::values::{View, jitter};
use super::{Claimed, Facts, Going, Late, Results, Trouble, Wakes};
use crate::clock::{Millis, millis};
use crate::store::StoreError;
use crate::store::steps::{self, New, Try};
use crate::store::{Tx, workflows};

/// When a step is looked at again that is blocked, if nobody changed anything: at most, and at least.
pub(super) const BLOCKED: Millis = 60 * 60 * 1000;
pub(super) const BLOCKED_AT_FIRST: Millis = 10 * 1000;
/// Bytes of an error that are kept.
const MOST_ERROR: usize = 4000;

/// Begins a workflow: the steps that wait for none. Gives its status, and what is to happen after the commit.
///
/// # Errors
/// When the database fails.
pub fn begin(tx: &Tx, going: &Going<'_>, facts: Arc<Facts>) -> Result<(&'static str, Wakes), StoreError> {
    let mut moving = Move::new(tx, going, facts);
    moving.wakes.counted.started = 1;
    let first: Vec<usize> = (0..moving.facts.definition.steps.len())
        .filter(|index| moving.facts.definition.steps[*index].after.is_empty())
        .collect();
    // Nothing has come into being yet, so there is nothing to read.
    moving.loaded = true;
    let mut ended = Vec::new();
    for index in first {
        if moving.open(index)? {
            ended.push(index);
        }
    }
    moving.follow(ended)?;
    let status = moving.settle("running")?;
    Ok((status, moving.wakes))
}

/// Ends a try with its result, and brings what comes next into being.
///
/// # Errors
/// [`Late::Fenced`] when another try has the step, or nobody any more.
pub fn ended(tx: &Tx, going: &Going<'_>, claimed: &Claimed, result: &str) -> Result<Wakes, Late> {
    let of = of(going, claimed);
    if !steps::done(tx, of, result, going.now)? {
        return Err(Late::Fenced);
    }
    let mut moving = Move::new(tx, going, claimed.facts.clone());
    moving.wakes.counted.steps_done = 1;
    moving.note(claimed.step, State::Ended);
    moving.follow(vec![claimed.step])?;
    // Where nothing went wrong a chain is `running`, and most stay so.
    let before = if claimed.clean && claimed.facts.definition.chain { "running" } else { "" };
    moving.settle(before)?;
    Ok(moving.wakes)
}

/// Ends a try with an error: it is tried again after a pause, or, without tries left or where it is not to be tried
/// again, the workflow fails.
///
/// # Errors
/// As [`ended`].
pub fn failed(tx: &Tx, going: &Going<'_>, claimed: &Claimed, trouble: &Trouble) -> Result<Wakes, Late> {
    let step = claimed.step();
    let tried = claimed.attempt.saturating_sub(claimed.base);
    let pause = step.retry.pause(tried, jitter(&claimed.facts, &step.id, claimed.attempt)).filter(|_| trouble.again);
    let due = pause.map(|pause| going.now.saturating_add(millis(pause)));
    let error = cut(&trouble.text);
    let state = if due.is_some() { "retry" } else { "failed" };
    if !steps::failed(tx, of(going, claimed), state, due, (error, trouble.details.as_deref()), going.now)? {
        return Err(Late::Fenced);
    }
    let mut moving = Move::new(tx, going, claimed.facts.clone());
    match due {
        Some(due) => {
            moving.wakes.at(due);
            moving.wakes.counted.steps_retried = 1;
            moving.note(claimed.step, State::Failing(error.to_owned(), claimed.attempt));
        }
        None => {
            moving.wakes.counted.steps_failed = 1;
            moving.note(claimed.step, State::Failed(error.to_owned(), claimed.attempt));
        }
    }
    moving.settle("")?;
    Ok(moving.wakes)
}

/// Gives a try back that this host could not do: it does not count, and other hosts may come for it at once.
///
/// # Errors
/// As [`ended`].
pub fn put_off(tx: &Tx, going: &Going<'_>, claimed: &Claimed, why: &str) -> Result<Wakes, Late> {
    let alone = going.desk.patience == 0;
    let due = if alone { going.now.saturating_add(BLOCKED_AT_FIRST) } else { going.now };
    let why = cut(why);
    if !steps::put_off(tx, of(going, claimed), due, why)? {
        return Err(Late::Fenced);
    }
    let mut moving = Move::new(tx, going, claimed.facts.clone());
    moving.wakes.at(due);
    moving.note(claimed.step, State::Failing(why.to_owned(), claimed.attempt.saturating_sub(1)));
    moving.settle("")?;
    Ok(moving.wakes)
}

fn of<'a>(going: &'a Going<'_>, claimed: &'a Claimed) -> Try<'a> {
    Try { workflow: claimed.facts.id, step: &claimed.step().id, owner: &going.desk.owner, attempt: claimed.attempt }
}

/// At most so much of an error as is kept.
pub(super) fn cut(error: &str) -> &str {
    &error[..error.floor_char_boundary(MOST_ERROR)]
}

/// How a step stands, as far as the workflow's status depends on it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum State {
    /// It is ready or runs.
    Running,
    Waiting,
    /// It failed, or is blocked, and is tried again: the error, and the tries.
    Failing(String, u32),
    Failed(String, u32),
    Ended,
}

impl State {
    fn of(step: &steps::Step) -> Self {
        let error = || step.error.clone().unwrap_or_default();
        match step.state.as_str() {
            "done" | "skipped" | "cancelled" => State::Ended,
            "failed" => State::Failed(error(), step.attempt),
            "waiting" => State::Waiting,
            _ if step.error.is_some() => State::Failing(error(), step.attempt),
            _ => State::Running,
        }
    }
}

/// A workflow being taken further.
pub(super) struct Move<'m> {
    tx: &'m Tx,
    going: &'m Going<'m>,
    pub facts: Arc<Facts>,
    /// How steps stand, by index. Where the definition is a chain, only what this move touched.
    states: BTreeMap<usize, State>,
    /// Whether `states` has them all.
    loaded: bool,
    results: Option<Results>,
    pub wakes: Wakes,
}

impl<'m> Move<'m> {
    pub fn new(tx: &'m Tx, going: &'m Going<'m>, facts: Arc<Facts>) -> Self {
        Self { tx, going, facts, states: BTreeMap::new(), loaded: false, results: None, wakes: Wakes::default() }
    }

    /// Says how a step stands now.
    pub fn note(&mut self, step: usize, state: State) {
        self.states.insert(step, state);
    }

    /// Opens every step that waited for nothing more than those in `ended`, and goes on with what ended at once.
    pub fn follow(&mut self, mut ended: Vec<usize>) -> Result<(), StoreError> {
        let definition = self.facts.definition.clone();
        while let Some(step) = ended.pop() {
            self.note(step, State::Ended);
            for &next in &definition.steps[step].next {
                if self.may_begin(&definition.steps[next])? && self.open(next)? {
                    ended.push(next);
                }
            }
        }
        Ok(())
    }

    fn may_begin(&mut self, step: &Step) -> Result<bool, StoreError> {
        if step.after.len() <= 1 {
            return Ok(true);
        }
        self.load()?;
        Ok(step.after.iter().all(|before| self.states.get(before) == Some(&State::Ended)))
    }

    /// Reads how all steps stand; what this move changed stays as it is noted.
    fn load(&mut self) -> Result<(), StoreError> {
        if self.loaded {
            return Ok(());
        }
        for row in steps::of_workflow(self.tx, self.facts.id)? {
            if let Some(index) = self.facts.definition.index(&row.step) {
                self.states.entry(index).or_insert_with(|| State::of(&row));
            }
        }
        self.loaded = true;
        Ok(())
    }

    fn load_results(&mut self) -> Result<(), StoreError> {
        if self.results.is_some() {
            return Ok(());
        }
        self.results = Some(results(self.tx, &self.facts)?);
        Ok(())
    }

    /// Brings a step into being. Gives whether it has ended in the same moment.
    pub fn open(&mut self, index: usize) -> Result<bool, StoreError> {
        let definition = self.facts.definition.clone();
        let step = &definition.steps[index];
        if step.needs_results {
            self.load_results()?;
        }
        let facts = self.facts.clone();
        let results = self.results.take();
        let none = Results::new();
        let view = View { facts: &facts, plugin: self.going.plugin, step, results: results.as_ref().unwrap_or(&none) };
        let opened = self.opened(index, step, &view);
        self.results = results;
        let state = opened?;
        let ended = state == State::Ended;
        if ended && let Some(results) = &mut self.results {
            results.entry(index).or_insert(Json::Null);
        }
        self.note(index, state);
        Ok(ended)
    }

    fn opened(&mut self, index: usize, step: &Step, view: &View<'_>) -> Result<State, StoreError> {
        let now = self.going.now;
        if !view.holds() {
            return self.write(step, "skipped", None, Ok(Some("null"))).map(|()| State::Ended);
        }
        match &step.uses {
            Uses::Script(_) | Uses::Action(_) => match (self.going.lacks)(&self.facts.definition, step) {
                None => self.claim_or_leave(index, step, view).map(|()| State::Running),
                Some(_) if self.going.desk.patience > 0 => {
                    self.write(step, "ready", Some(now), Ok(None)).map(|()| State::Running)
                }
                Some(why) => {
                    let why = cut(&why).to_owned();
                    self.write(step, "blocked", Some(now.saturating_add(BLOCKED_AT_FIRST)), Err(&why))?;
                    Ok(State::Failing(why, 0))
                }
            },
            Uses::SleepFor(span) => self.sleep(step, view.wakes_after(span, now)),
            Uses::SleepUntil(instant) => self.sleep(step, view.wakes_at(instant)),
            Uses::WaitForEvent { kind, fields } => match view.wait(kind, fields) {
                Ok((kind, fields)) => {
                    let due = step.timeout.map(|timeout| now.saturating_add(millis(timeout)));
                    let new = New { event: Some((&kind, &fields.to_string())), due, ..self.new_step(step, "waiting") };
                    steps::insert(self.tx, &new, now)?;
                    due.into_iter().for_each(|due| self.wakes.at(due));
                    Ok(State::Waiting)
                }
                Err(error) => self.broken(step, error),
            },
        }
    }

    fn new_step<'s>(&'s self, step: &'s Step, state: &'s str) -> New<'s> {
        New {
            workflow: self.facts.id,
            tenant: &self.facts.tenant,
            step: &step.id,
            state,
            due: None,
            owner: None,
            attempt: 0,
            event: None,
            result: None,
            error: None,
            ended: false,
        }
    }

    fn write(
        &mut self,
        step: &Step,
        state: &str,
        due: Option<Millis>,
        outcome: Result<Option<&str>, &str>,
    ) -> Result<(), StoreError> {
        let (result, error) = match outcome {
            Ok(result) => (result, None),
            Err(error) => (None, Some(error)),
        };
        let new = New { due, result, error, ended: due.is_none(), ..self.new_step(step, state) };
        steps::insert(self.tx, &new, self.going.now)?;
        due.into_iter().for_each(|due| self.wakes.at(due));
        Ok(())
    }

    /// Born claimed where this host has room: it then begins at once, without another transaction.
    fn claim_or_leave(&mut self, index: usize, step: &Step, view: &View<'_>) -> Result<(), StoreError> {
        let (desk, now) = (self.going.desk, self.going.now);
        let beside = self.going.claimed + self.wakes.claimed.len();
        if !desk.has_room(self.going.plugin, &self.facts.tenant, beside, beside) {
            return self.write(step, "ready", Some(now), Ok(None));
        }
        let due = Some(now.saturating_add(desk.lease));
        let new = New { owner: Some(&desk.owner), attempt: 1, due, ..self.new_step(step, "running") };
        steps::insert(self.tx, &new, now)?;
        self.wakes.claimed.push(Claimed {
            facts: self.facts.clone(),
            step: index,
            attempt: 1,
            base: 0,
            clean: true,
            input: view.input(),
        });
        Ok(())
    }

    fn sleep(&mut self, step: &Step, wakes: Result<Millis, String>) -> Result<State, StoreError> {
        match wakes {
            Ok(at) if at <= self.going.now => self.write(step, "done", None, Ok(Some("null"))).map(|()| State::Ended),
            Ok(at) => self.write(step, "waiting", Some(at), Ok(None)).map(|()| State::Waiting),
            Err(error) => self.broken(step, error),
        }
    }

    fn broken(&mut self, step: &Step, error: String) -> Result<State, StoreError> {
        self.wakes.counted.steps_failed += 1;
        self.write(step, "failed", None, Err(cut(&error)))?;
        Ok(State::Failed(error, 0))
    }

    /// Writes the workflow's status as its steps now say, unless it is `before` already. Gives it.
    pub fn settle(&mut self, before: &str) -> Result<&'static str, StoreError> {
        if !self.facts.definition.chain {
            self.load()?;
        }
        let (status, error, attempts) = self.status();
        if status != before {
            let error = error.map(|error| cut(&error).to_owned());
            let found = if before.is_empty() { workflows::status(self.tx, self.facts.id)? } else { None };
            workflows::set_status(self.tx, self.facts.id, status, error.as_deref(), attempts, self.going.now)?;
            let from = found.as_deref().unwrap_or(before);
            if from != "cancelled" {
                self.wakes.counted.turned(from, status);
            }
        }
        Ok(status)
    }

    /// The worst of what its steps say.
    fn status(&self) -> (&'static str, Option<String>, u32) {
        let told =
            |index: usize, error: &str| Some(format!("step \"{}\": {error}", self.facts.definition.steps[index].id));
        let states = || self.states.iter().map(|(index, state)| (*index, state));
        for (index, state) in states() {
            if let State::Failed(error, attempts) = state {
                return ("failed", told(index, error), *attempts);
            }
        }
        for (index, state) in states() {
            if let State::Failing(error, attempts) = state {
                return ("failing", told(index, error), *attempts);
            }
        }
        if states().any(|(_, state)| *state == State::Running) {
            return ("running", None, 0);
        }
        let waits = states().any(|(_, state)| *state == State::Waiting);
        (if waits { "waiting" } else { "completed" }, None, 0)
    }
}

/// The results of a workflow's steps, by index; of a skipped step `null`.
pub(super) fn results(tx: &Tx, facts: &Facts) -> Result<Results, StoreError> {
    let rows = steps::of_workflow(tx, facts.id)?;
    let ended = rows.into_iter().filter(|row| row.state == "done" || row.state == "skipped");
    let read = |row: steps::Step| {
        let result = row.result.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        Some((facts.definition.index(&row.step)?, result))
    };
    Ok(ended.filter_map(read).collect())
}

/// Why a step cannot run whose script or action is not there.
pub fn missing(step: &Step, plugin: &str) -> String {
    let (kind, name, place) = match &step.uses {
        Uses::Script(name) => ("script", name.as_str(), format!("{plugin}/scripts/{}.ts", name.replace('.', "/"))),
        Uses::Action(name) => ("action", name.as_str(), format!("{plugin}/handlers/{}.ts", name.replace('.', "/"))),
        Uses::SleepFor(_) | Uses::SleepUntil(_) | Uses::WaitForEvent { .. } => {
            ("step", step.id.as_str(), String::new())
        }
    };
    format!("the {kind} \"{name}\" is not there ({place}); put it back and the workflow goes on")
}
