//! `flow.*`: workflows are started, looked at and cancelled, in the invocation's transaction.

use std::sync::Arc;

use super::{Bindings, ctx, leaving};

use crate::codec::{Value, json};
use crate::failure::{Code, Failure};
use crate::plugin::Flow;
use crate::store::workflows::{self, Start};
use crate::suggest;
use crate::workflow::{self, Facts};

const START: &str = "flow.start(name, bizId, seed)";

/// `tenant/plugin/workflowId:stepId` is at most 255 bytes (spec §6), so that receivers can take it as a key.
const FULL_KEY_LIMIT: usize = 255;

/// `flow.start(name, bizId, seed)` gives `{ workflowId, already, status, sameSeed }`.
pub(super) fn start(host: &mut Bindings, args: &[Value]) -> Result<Value, Failure> {
    if !host.scope.plugin.permissions.flow_start {
        return Err(ctx::lacks(host, "flow:start", "flow.start"));
    }
    host.scope.must_write("flow.start")?;
    let (name, biz_id, seed) = match args {
        [Value::Text(name), Value::Text(biz_id)] => (name, biz_id, &Value::Undefined),
        [Value::Text(name), Value::Text(biz_id), seed] => (name, biz_id, seed),
        _ => {
            let got: Vec<_> = args.iter().map(Value::kind).collect();
            return Err(Failure::contract(format!(
                "{START} takes two strings and an object, it got ({})",
                got.join(", ")
            )));
        }
    };
    let flow = find_flow(host, name)?;
    let seed = leaving::text(&check_seed(&flow, seed)?, "seed", host.payload_limit)?;
    let workflow_id = workflow_id(host, &flow, biz_id)?;
    let begin = Start {
        tenant: &host.scope.tenant,
        workflow_id: &workflow_id,
        flow: &flow.name,
        biz_id,
        seed: &seed,
        definition_hash: flow.definition.hash,
        definition: &flow.definition.text,
    };
    let (status, already, same_seed) = match workflows::start(&host.tx, &begin, host.scope.now)? {
        Some(id) => (begun(host, &flow, id, &workflow_id, &seed)?, false, true),
        None => {
            let there = workflows::find(&host.tx, &host.scope.tenant, &workflow_id)?
                .ok_or_else(|| Failure::new(Code::Unavailable, "the workflow vanished while it was looked at"))?;
            if there.flow != flow.name || there.biz_id != *biz_id {
                return Err(Failure::contract(format!(
                    "{START}: the id \"{workflow_id}\" belongs to a workflow of the flow \"{}\" (bizId \"{}\"); choose \
                     a bizId that gives another id",
                    there.flow, there.biz_id
                )));
            }
            (there.status, true, there.seed == seed)
        }
    };
    Ok(Value::Object(vec![
        ("workflowId".to_owned(), Value::Text(workflow_id)),
        ("already".to_owned(), Value::Bool(already)),
        ("status".to_owned(), Value::Text(status)),
        ("sameSeed".to_owned(), Value::Bool(same_seed)),
    ]))
}

/// Brings the first steps of a workflow into being, in the transaction that starts it. Gives its status.
fn begun(host: &Bindings, flow: &Flow, id: i64, workflow_id: &str, seed: &str) -> Result<String, Failure> {
    let facts = Arc::new(Facts {
        id,
        tenant: host.scope.tenant.clone(),
        workflow_id: workflow_id.to_owned(),
        seed: serde_json::from_str(seed).unwrap_or_default(),
        definition: flow.definition.clone(),
    });
    let claimed = host.wakes.borrow().claimed.len();
    let (status, wakes) = host.scope.going(claimed, |going| workflow::begin(&host.tx, going, facts))?;
    host.wakes.borrow_mut().add(wakes);
    Ok(status.to_owned())
}

fn find_flow(host: &Bindings, name: &str) -> Result<Arc<Flow>, Failure> {
    let flows = &host.scope.plugin.flows;
    flows.get(name).cloned().ok_or_else(|| {
        let hint = suggest::hint(name, flows.keys().map(String::as_str));
        let there = match flows.len() {
            0 => "the plugin has no flows; add one in flows/".to_owned(),
            1..=10 => format!("the plugin's flows are {}", flows.keys().cloned().collect::<Vec<_>>().join(", ")),
            many => format!("the plugin has {many} others"),
        };
        Failure::contract(format!("{START}: there is no flow \"{name}\"{hint} ({there})"))
    })
}

fn workflow_id(host: &Bindings, flow: &Flow, biz_id: &str) -> Result<String, Failure> {
    if biz_id.is_empty() || biz_id.chars().any(char::is_control) {
        return Err(Failure::contract(format!("{START}: bizId must not be empty or hold control characters")));
    }
    let workflow_id = format!("{}-{biz_id}", flow.name);
    let longest = flow.definition.steps.iter().map(|step| step.id.len()).max().unwrap_or(0);
    let full = host.scope.tenant.len() + host.scope.plugin.id.len() + workflow_id.len() + longest + 3;
    if full > FULL_KEY_LIMIT {
        return Err(Failure::contract(format!(
            "{START}: the bizId has {} bytes, which makes the step keys longer than 255 bytes; use a shorter id, for \
             example ctx.stableId of it",
            biz_id.len()
        )));
    }
    Ok(workflow_id)
}

/// The seed's keys must be exactly those that the flow lists.
fn check_seed(flow: &Flow, seed: &Value) -> Result<Value, Failure> {
    let members: Vec<(String, Value)> = match seed {
        Value::Undefined => Vec::new(),
        Value::Object(members) => members.iter().filter(|(_, value)| *value != Value::Undefined).cloned().collect(),
        Value::Null
        | Value::Bool(_)
        | Value::Int(_)
        | Value::BigInt(_)
        | Value::Huge(_)
        | Value::Real(_)
        | Value::Text(_)
        | Value::Blob(_)
        | Value::Date(_)
        | Value::Array(_) => {
            return Err(Failure::contract(format!("{START}: the seed must be an object, it is {}", seed.kind())));
        }
    };
    let missing: Vec<_> =
        flow.seed.iter().filter(|key| !members.iter().any(|(name, _)| name == *key)).map(String::as_str).collect();
    let extra: Vec<_> =
        members.iter().map(|(name, _)| name.as_str()).filter(|name| !flow.seed.iter().any(|key| key == name)).collect();
    if missing.is_empty() && extra.is_empty() {
        return Ok(Value::Object(members));
    }
    if flow.seed.is_empty() {
        let text =
            format!("{START}: the flow \"{}\" lists no seed (job.seed), so it takes none; leave it out", flow.name);
        return Err(Failure::contract(text));
    }
    let mut faults = Vec::new();
    if !missing.is_empty() {
        faults.push(format!("missing {}", missing.join(", ")));
    }
    if !extra.is_empty() {
        let told = extra.iter().map(|name| format!("{name}{}", suggest::hint(name, missing.iter().copied())));
        faults.push(format!("not in job.seed {}", told.collect::<Vec<_>>().join(", ")));
    }
    Err(Failure::contract(format!(
        "{START}: the seed's keys must be exactly those of job.seed in the flow \"{}\" ({}): {}",
        flow.name,
        flow.seed.join(", "),
        faults.join("; ")
    )))
}

/// `flow.get(workflowId)` gives the workflow or `null`.
pub(super) fn get(host: &mut Bindings, args: &[Value]) -> Result<Value, Failure> {
    let [Value::Text(workflow_id)] = args else {
        return Err(Failure::contract("flow.get(workflowId) takes one string, as flow.start returned it"));
    };
    if workflow_id.contains('\0') {
        // No workflow is called so, and Postgres could not look for it.
        return Ok(Value::Null);
    }
    let found = workflow::find(&host.tx, &host.scope.tenant, workflow_id)?;
    Ok(found.map_or(Value::Null, |found| json::from_json(&found)))
}

/// `flow.cancel(workflowId, reason)` gives the workflow as it is then, or `null`.
pub(super) fn cancel(host: &mut Bindings, args: &[Value]) -> Result<Value, Failure> {
    if !host.scope.plugin.permissions.flow_start {
        return Err(ctx::lacks(host, "flow:start", "flow.cancel"));
    }
    host.scope.must_write("flow.cancel")?;
    let [Value::Text(workflow_id), Value::Text(reason)] = args else {
        return Err(Failure::contract("flow.cancel(workflowId, reason) takes two strings"));
    };
    if reason.contains('\0') {
        return Err(Failure::contract(
            "flow.cancel(workflowId, reason): the reason holds a NUL character; take it out",
        ));
    }
    if workflow_id.contains('\0') {
        return Ok(Value::Null);
    }
    let wakes = workflow::cancel(&host.tx, &host.scope.tenant, workflow_id, reason, host.scope.now)?;
    host.wakes.borrow_mut().add(wakes.unwrap_or_default());
    get(host, &args[..1])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition() -> workflow::Definition {
        let step = serde_json::json!({ "id": "a", "uses": "sleep", "for": "1h" });
        workflow::Definition::read(&serde_json::json!({ "name": "ship", "steps": [step] })).unwrap()
    }

    fn flow(seed: &[&str]) -> Flow {
        Flow {
            name: "ship".to_owned(),
            seed: seed.iter().map(|&key| key.to_owned()).collect(),
            definition: Arc::new(definition()),
        }
    }

    #[test]
    fn seed_with_missing_and_extra_keys_names_both() {
        let seed = Value::Object(vec![("b".to_owned(), Value::Int(1)), ("c".to_owned(), Value::Int(2))]);
        let failure = check_seed(&flow(&["a", "b"]), &seed).unwrap_err();
        assert!(failure.detail.contains("missing a") && failure.detail.contains("not in job.seed c"), "{failure}");
    }

    #[test]
    fn slip_in_a_seed_s_key_is_told_with_the_key_that_was_meant() {
        let seed = Value::Object(vec![("note_idd".to_owned(), Value::Int(1)), ("by".to_owned(), Value::Int(2))]);
        let failure = check_seed(&flow(&["note_id", "by"]), &seed).unwrap_err();
        assert!(failure.detail.ends_with("not in job.seed note_idd, did you mean \"note_id\"?"), "{failure}");
    }

    #[test]
    fn flow_without_job_takes_no_seed() {
        assert_eq!(check_seed(&flow(&[]), &Value::Undefined), Ok(Value::Object(Vec::new())));
        let failure = check_seed(&flow(&[]), &Value::Object(vec![("a".to_owned(), Value::Int(1))])).unwrap_err();
        assert!(failure.detail.contains("it takes none; leave it out"), "{failure}");
    }
}
