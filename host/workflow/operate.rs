//! What operators and scripts do with workflows: look at them, cancel them, have them tried again.

use serde_json::{Map, Value as Json, json};

use super::Wakes;
use super::definition::{Definition, Step as Defined};
use super::values::shown;
use crate::clock::Millis;
use crate::failure::{Code, Failure};
use crate::store::StoreError;
use crate::store::steps::{self, Step};
use crate::store::workflows::{self, Filter, Workflow};
use crate::store::{Tx, workflows as rows};

/// Workflows a page holds, unless another number is asked for, and at most.
const PAGE: i64 = 100;
const MOST_PAGE: i64 = 1000;

/// A page of workflows.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    pub filter: Filter,
    pub limit: Option<i64>,
}

/// See [`list`].
#[derive(Clone, Debug, Default)]
pub struct Page {
    pub workflows: Vec<Json>,
    /// What to pass as [`Filter::before`] for the next page; `None` on the last.
    pub next: Option<i64>,
}

/// One page, newest first.
///
/// # Errors
/// When the database fails.
pub fn list(tx: &Tx, plugin: &str, wanted: &Wanted) -> Result<Page, StoreError> {
    let limit = wanted.limit.unwrap_or(PAGE).clamp(1, MOST_PAGE);
    let mut found = rows::list(tx, &wanted.filter, limit + 1)?;
    let most = usize::try_from(limit).unwrap_or(usize::MAX);
    let more = found.len() > most;
    found.truncate(most);
    let next = found.last().filter(|_| more).map(|last| last.id);
    Ok(Page { workflows: found.iter().map(|workflow| head(plugin, workflow)).collect(), next })
}

/// A workflow without its steps.
fn head(plugin: &str, workflow: &Workflow) -> Json {
    json!({
        "plugin": plugin,
        "tenant": workflow.tenant,
        "workflowId": workflow.workflow_id,
        "flow": workflow.flow,
        "bizId": workflow.biz_id,
        "status": workflow.status,
        "since": shown(Some(workflow.since)),
        "startedAt": shown(Some(workflow.created_at)),
        "attempts": workflow.attempts,
        "error": workflow.error,
    })
}

/// A workflow of a tenant, whole; `None` where there is none.
///
/// # Errors
/// When the database fails.
pub fn show(tx: &Tx, plugin: &str, tenant: &str, workflow_id: &str) -> Result<Option<Json>, StoreError> {
    let Some(workflow) = rows::find(tx, tenant, workflow_id)? else { return Ok(None) };
    let mut found = head(plugin, &workflow);
    found["seed"] = serde_json::from_str(&workflow.seed).unwrap_or_default();
    let text = rows::definition(tx, &workflow.definition_hash)?;
    let definition = text.and_then(|text| Definition::parse(&text).ok());
    let done = steps::of_workflow(tx, workflow.id)?;
    found["steps"] = Json::Array(all_steps(&workflow, definition.as_ref(), &done));
    Ok(Some(found))
}

/// What [`show`] gives, as `flow.get` has it: steps by their ids.
///
/// # Errors
/// When the database fails.
pub fn find(tx: &Tx, tenant: &str, workflow_id: &str) -> Result<Option<Json>, StoreError> {
    let Some(workflow) = rows::find(tx, tenant, workflow_id)? else { return Ok(None) };
    let steps = steps::of_workflow(tx, workflow.id)?;
    let told = steps.iter().map(|step| {
        let mut told = step_told(step);
        told.remove("id");
        (step.step.clone(), Json::Object(told))
    });
    Ok(Some(json!({
        "workflowId": workflow.workflow_id,
        "flow": workflow.flow,
        "bizId": workflow.biz_id,
        "status": workflow.status,
        "since": shown(Some(workflow.since)),
        "attempts": workflow.attempts,
        "error": workflow.error,
        "steps": told.collect::<Map<_, _>>(),
    })))
}

/// The steps in the order of the definition, those that have not begun too; without a definition those that have.
fn all_steps(workflow: &Workflow, definition: Option<&Definition>, done: &[Step]) -> Vec<Json> {
    let Some(definition) = definition else { return done.iter().map(|step| Json::Object(step_told(step))).collect() };
    let open = !matches!(workflow.status.as_str(), "completed" | "cancelled");
    let told = |defined: &Defined| {
        let step = done.iter().find(|step| step.step == defined.id);
        let mut told = step.map_or_else(
            || Map::from_iter([("id".to_owned(), json!(defined.id)), ("state".to_owned(), json!("pending"))]),
            step_told,
        );
        if step.is_none() && !open {
            told.insert("state".to_owned(), json!("never begun"));
        }
        told.insert("uses".to_owned(), json!(defined.uses.word()));
        let after = defined.after.iter().map(|index| definition.steps[*index].id.as_str());
        told.insert("after".to_owned(), json!(after.collect::<Vec<_>>()));
        Json::Object(told)
    };
    definition.steps.iter().map(told).collect()
}

fn step_told(step: &Step) -> Map<String, Json> {
    let read = |text: &Option<String>| text.as_deref().and_then(|text| serde_json::from_str(text).ok());
    let (result, details): (Json, Json) =
        (read(&step.result).unwrap_or_default(), read(&step.details).unwrap_or_default());
    let open = step.ended_at.is_none();
    let told = json!({
        "id": step.step,
        "state": step.state,
        "attempts": step.attempt,
        "readyAt": shown(Some(step.ready_at)),
        "begunAt": shown(step.begun_at),
        "endedAt": shown(step.ended_at),
        "nextAt": shown(step.due.filter(|_| open && step.state != "running")),
        "result": result,
        "error": step.error,
        "details": details,
    });
    if let Json::Object(members) = told { members } else { Map::new() }
}

/// Cancels a workflow that has not ended: what has not begun never will, and what runs is fenced. `None` where there is
/// no such workflow.
///
/// # Errors
/// When the database fails.
pub fn cancel(
    tx: &Tx,
    tenant: &str,
    workflow_id: &str,
    reason: &str,
    now: Millis,
) -> Result<Option<Wakes>, StoreError> {
    let Some(workflow) = rows::find(tx, tenant, workflow_id)? else { return Ok(None) };
    let mut wakes = Wakes::default();
    if rows::cancel(tx, workflow.id, reason, now)? {
        steps::cancel(tx, workflow.id, now)?;
        wakes.cancelled.push(workflow.id);
        wakes.counted.turned(&workflow.status, "cancelled");
    }
    Ok(Some(wakes))
}

/// Has the steps that failed, or are to be tried again later, tried now, with a whole round of tries and the same keys.
/// `None` where there is no such workflow.
///
/// # Errors
/// `CONSTRAINT` where nothing failed.
pub fn retry(tx: &Tx, tenant: &str, workflow_id: &str, now: Millis) -> Result<Option<Wakes>, Failure> {
    let Some(workflow) = workflows::find(tx, tenant, workflow_id)? else { return Ok(None) };
    let again = match workflow.status.as_str() {
        "failed" | "failing" => steps::retry(tx, workflow.id, now)?,
        _ => 0,
    };
    if again == 0 {
        let why = match workflow.status.as_str() {
            "failing" => "runs the next try of its step already".to_owned(),
            status => format!("is {status}; only a failed or failing one is tried again"),
        };
        return Err(Failure::new(Code::Constraint, format!("the workflow {workflow_id} {why}")));
    }
    rows::set_status(tx, workflow.id, "failing", workflow.error.as_deref(), attempts(&workflow), now)?;
    let mut wakes = Wakes::default();
    wakes.at(now);
    wakes.counted.turned(&workflow.status, "failing");
    Ok(Some(wakes))
}

fn attempts(workflow: &Workflow) -> u32 {
    u32::try_from(workflow.attempts).unwrap_or(0)
}
