//! What has become due: steps to claim, sleeps that are over, claims whose host is gone.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value as Json;

use super::advance::{BLOCKED, BLOCKED_AT_FIRST, Move, State, cut, results};
use super::definition::{Definition, Uses};
use super::values::{View, matches};
use super::{Claimed, Facts, Going, Results, Wakes};
use crate::clock::Millis;
use crate::failure::{Code, Failure};
use crate::store::StoreError;
use crate::store::steps::{self, Step, Try};
use crate::store::{Tx, workflows};

/// Steps that one transaction looks at.
const BATCH: usize = 256;

/// Steps that a tenant behind another's line has taken in its turn.
const SHARE: usize = 8;

/// What is kept from one look to the next: the definitions of workflows that go on.
#[derive(Debug, Default)]
pub struct Round {
    /// Which tenant had the last turn of those who wait behind another's line, by plugin.
    turns: Mutex<HashMap<String, String>>,
    definitions: Mutex<HashMap<[u8; 32], Arc<Definition>>>,
}

/// Tries that this host has under way: workflow, step, and which try.
pub type Mine = Arc<HashSet<(i64, String, u32)>>;

/// What a look came to.
#[derive(Debug, Default)]
pub struct Taken {
    mine: Mine,
    pub wakes: Wakes,
    /// When to look again.
    pub next: Option<Millis>,
    /// Tenants with steps due that this host has no room for.
    pub starved: BTreeSet<String>,
    /// How many steps stay due that are left to others.
    left: usize,
}

impl Round {
    /// A workflow's facts, or why it cannot go on.
    ///
    /// # Errors
    /// When the database fails, or the transaction is gone: that says nothing about the workflow.
    pub fn facts(&self, tx: &Tx, workflow: i64) -> Result<Result<Arc<Facts>, Failure>, StoreError> {
        let gone = |what: &str| Failure::new(Code::Unavailable, format!("the {what} of workflow {workflow} is gone"));
        let Some(row) = workflows::by_number(tx, workflow)? else { return Ok(Err(gone("row"))) };
        let known = self.lock().get(&row.definition_hash).cloned();
        let definition = match known {
            Some(definition) => definition,
            None => {
                let Some(text) = workflows::definition(tx, &row.definition_hash)? else {
                    return Ok(Err(gone("definition")));
                };
                match Definition::parse(&text) {
                    Ok(read) => self.lock().entry(row.definition_hash).or_insert(Arc::new(read)).clone(),
                    Err(error) => return Ok(Err(Failure::contract(error.to_string()))),
                }
            }
        };
        let seed = serde_json::from_str(&row.seed).unwrap_or_default();
        Ok(Ok(Arc::new(Facts { id: row.id, tenant: row.tenant, workflow_id: row.workflow_id, seed, definition })))
    }

    fn turns(&self) -> MutexGuard<'_, HashMap<String, String>> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<[u8; 32], Arc<Definition>>> {
        let mut known = self.definitions.lock().unwrap_or_else(PoisonError::into_inner);
        // One for each version of each flow; whatever made so many, they can be read again.
        if known.len() > 1000 {
            known.clear();
        }
        known
    }
}

/// Takes what is due: claims steps as far as there is room, and takes further what waited for this moment.
///
/// # Errors
/// When the database fails.
pub fn take_due(tx: &Tx, going: &Going<'_>, round: &Round, mine: &Mine) -> Result<Taken, StoreError> {
    let mut taken = Taken { mine: mine.clone(), ..Taken::default() };
    let rows = steps::due(tx, going.now, BATCH)?;
    let mut full = rows.len() == BATCH;
    take_all(tx, going, round, rows, &mut taken)?;
    if !taken.starved.is_empty() || (full && taken.left == BATCH) {
        // What there is no room for stays due, and somebody says so when there is; so does what is left to others. It holds
        // up nobody whose time has come.
        let rows = steps::timers(tx, going.now, BATCH)?;
        full = rows.len() == BATCH;
        take_all(tx, going, round, rows, &mut taken)?;
        take_in_turns(tx, going, round, &mut taken)?;
    }
    let next = if full { Some(going.now) } else { steps::next_due(tx, going.now)? };
    taken.next = next.into_iter().chain(taken.next).min();
    Ok(taken)
}

/// Takes a few steps of each tenant that waits behind another's line, beginning with another one each time.
fn take_in_turns(tx: &Tx, going: &Going<'_>, round: &Round, taken: &mut Taken) -> Result<(), StoreError> {
    let mut tenants = steps::tenants_due(tx, going.now)?;
    let last = round.turns().get(going.plugin).cloned().unwrap_or_default();
    let begin = tenants.iter().position(|tenant| *tenant > last).unwrap_or(0);
    tenants.rotate_left(begin);
    for tenant in tenants {
        if taken.starved.contains(&tenant) {
            continue;
        }
        let (rows, before) = (steps::due_of(tx, &tenant, going.now, SHARE)?, taken.wakes.claimed.len());
        take_all(tx, going, round, rows, taken)?;
        if taken.wakes.claimed.len() > before {
            round.turns().insert(going.plugin.to_owned(), tenant);
        }
    }
    Ok(())
}

fn take_all(tx: &Tx, going: &Going<'_>, round: &Round, rows: Vec<Step>, taken: &mut Taken) -> Result<(), StoreError> {
    for row in rows {
        let facts = match round.facts(tx, row.workflow)? {
            Ok(facts) => facts,
            Err(_) if left_to_others(going, &row, taken) => continue,
            Err(failure) => {
                tracing::error!(plugin = going.plugin, workflow = row.workflow, %failure, "a workflow cannot go on");
                steps::put(tx, &row, "blocked", Some(blocked_until(going, &row)), Err(&failure.detail), going.now)?;
                let from = workflows::status(tx, row.workflow)?.unwrap_or_default();
                workflows::set_status(tx, row.workflow, "failing", Some(&failure.detail), row.attempt, going.now)?;
                taken.wakes.counted.turned(&from, "failing");
                continue;
            }
        };
        let wakes = take(tx, going, facts, &row, taken)?;
        taken.wakes.add(wakes);
    }
    Ok(())
}

/// Whether a step that this host cannot run stays as it is for a while: a host that can may come for it.
fn left_to_others(going: &Going<'_>, row: &Step, taken: &mut Taken) -> bool {
    let until = row.due.unwrap_or(going.now).saturating_add(going.desk.patience);
    let left = going.now < until;
    if left {
        taken.next = Some(taken.next.map_or(until, |next| next.min(until)));
        taken.left += 1;
    }
    left
}

/// When a step that cannot run is looked at again: soon at first, and then less and less often.
fn blocked_until(going: &Going<'_>, row: &Step) -> Millis {
    let soonest = going.desk.patience.clamp(BLOCKED_AT_FIRST, BLOCKED);
    going.now.saturating_add((going.now.saturating_sub(row.ready_at) / 2).clamp(soonest, BLOCKED))
}

fn take(tx: &Tx, going: &Going<'_>, facts: Arc<Facts>, row: &Step, taken: &mut Taken) -> Result<Wakes, StoreError> {
    let Some(index) = facts.definition.index(&row.step) else {
        steps::put(tx, row, "failed", None, Err("its definition has no such step"), going.now)?;
        return Ok(Wakes::default());
    };
    let step = &facts.definition.steps[index];
    match &step.uses {
        Uses::Script(_) | Uses::Action(_) => run(tx, going, facts, index, row, taken),
        Uses::SleepFor(_) | Uses::SleepUntil(_) | Uses::WaitForEvent { .. } if row.state != "waiting" => {
            // Somebody had it tried again, after it could not begin.
            steps::remove(tx, row)?;
            let mut moving = Move::new(tx, going, facts);
            let ended = if moving.open(index)? { vec![index] } else { Vec::new() };
            moving.follow(ended)?;
            moving.settle("")?;
            Ok(moving.wakes)
        }
        Uses::SleepFor(_) | Uses::SleepUntil(_) | Uses::WaitForEvent { .. } => over(tx, going, facts, row, "null"),
    }
}

/// Ends what a step waited for with `result`, and goes on.
fn over(tx: &Tx, going: &Going<'_>, facts: Arc<Facts>, row: &Step, result: &str) -> Result<Wakes, StoreError> {
    let Some(index) = facts.definition.index(&row.step) else { return Ok(Wakes::default()) };
    if !steps::put(tx, row, "done", None, Ok(Some(result)), going.now)? {
        return Ok(Wakes::default());
    }
    let mut moving = Move::new(tx, going, facts);
    moving.wakes.counted.steps_done = 1;
    moving.follow(vec![index])?;
    moving.settle("")?;
    Ok(moving.wakes)
}

/// Claims a step that runs something.
fn run(
    tx: &Tx,
    going: &Going<'_>,
    facts: Arc<Facts>,
    index: usize,
    row: &Step,
    taken: &mut Taken,
) -> Result<Wakes, StoreError> {
    let (step, now) = (&facts.definition.steps[index], going.now);
    let tried = row.attempt.saturating_sub(row.base);
    let trouble = |state: &str, due: Option<Millis>, error: &str, noted: fn(String, u32) -> State| {
        let error = cut(error);
        steps::put(tx, row, state, due, Err(error), now)?;
        let mut moving = Move::new(tx, going, facts.clone());
        moving.note(index, noted(error.to_owned(), row.attempt));
        moving.settle("")?;
        Ok(moving.wakes)
    };
    if row.state == "running" && taken.mine.contains(&(row.workflow, row.step.clone(), row.attempt)) {
        // It waits for its turn on a busy machine, and its claim ran out meanwhile. Nobody has taken it over.
        let of = Try { workflow: row.workflow, step: &row.step, owner: &going.desk.owner, attempt: row.attempt };
        steps::renew(tx, of, now.saturating_add(going.desk.lease))?;
        return Ok(Wakes::default());
    }
    if row.state == "running" && tried >= step.retry.max_attempts {
        let error = format!(
            "try {tried} of {} was begun and never ended: the host died in it, or could not be reached for longer than \
             its claim holds",
            step.retry.max_attempts
        );
        return trouble("failed", None, &error, State::Failed);
    }
    if let Some(why) = (going.lacks)(&facts.definition, step) {
        if left_to_others(going, row, taken) {
            return Ok(Wakes::default());
        }
        return trouble("blocked", Some(blocked_until(going, row)), &why, State::Failing);
    }
    let beside = &taken.wakes.claimed;
    let own = beside.iter().filter(|claimed| claimed.facts.tenant == facts.tenant).count();
    if !going.desk.has_room(going.plugin, &facts.tenant, own, beside.len()) {
        taken.starved.insert(facts.tenant.clone());
        return Ok(Wakes::default());
    }
    if !steps::claim(tx, row, &going.desk.owner, now.saturating_add(going.desk.lease), now)? {
        return Ok(Wakes::default());
    }
    let results = if step.needs_results { results(tx, &facts)? } else { Results::new() };
    let view = View { facts: &facts, plugin: going.plugin, step, results: &results };
    let input = view.input();
    let claimed = Claimed {
        facts: facts.clone(),
        step: index,
        attempt: row.attempt + 1,
        base: row.base,
        clean: row.error.is_none(),
        input,
    };
    Ok(Wakes { claimed: vec![claimed], ..Wakes::default() })
}

/// Gives an event to every workflow of the tenant that waits for one like it. `event` is what a step's result then is;
/// its `data`, `subject`, `source`, `id` and `type` are what `match` looks at. Gives what is to happen after the commit.
///
/// # Errors
/// When the database fails.
pub fn satisfy(
    tx: &Tx,
    going: &Going<'_>,
    round: &Round,
    tenant: &str,
    kind: &str,
    event: &Json,
) -> Result<Wakes, Failure> {
    let mut wakes = Wakes::default();
    let result = event.to_string();
    for row in steps::waiting_for(tx, tenant, kind)? {
        let fields: Json = row.fields.as_deref().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        if matches(event, &fields) {
            let facts = round.facts(tx, row.workflow)??;
            wakes.add(over(tx, going, facts, &row, &result)?);
        }
    }
    Ok(wakes)
}
