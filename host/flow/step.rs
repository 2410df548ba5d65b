//! One try of a step as an invocation: claimed before, settled after, in the transaction of what it writes.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value as Json, json};

use super::{Flows, Landing};
use crate::app::App;
use crate::bindings::{self, Scope};
use crate::clock::Millis;
use crate::failure::{Code, Failure};
use crate::idempotency;
use crate::invoke::{Cause, Claim, Invocation, InvokeError, Outcome, Run};
use crate::plugin::{Kind, Plugin};
use crate::script::{EngineLimits, RunLimits};
use crate::store::Tx;
use crate::store::steps::{self, Try};
use crate::trace::Origin;
use crate::workflow::definition::{Definition, Step, Uses};
use crate::workflow::{self, Claimed, Desk, Going, Late, Trouble};

/// For how many leases a host runs no more steps of a kind that the plugin's tables do not fit.
pub const RESTS: Millis = 3;

/// What says how long a step may take that has a time of its own.
const TIMEOUT: &str = "the step's `timeout`";

/// Why a step's try runs, and what makes it count once.
#[derive(Debug)]
struct StepCause {
    claimed: Claimed,
    plugin: Arc<Plugin>,
    desk: Arc<Desk>,
    /// What a script's try ended with, where it ended badly.
    ended: Option<Trouble>,
    _landing: Landing,
}

impl StepCause {
    fn going<R>(&self, now: Millis, go: impl FnOnce(&Going<'_>) -> R) -> R {
        let lacks = |of: &Definition, step: &Step| bindings::lacks(&self.plugin, &self.desk, of, step, now);
        go(&Going { desk: &self.desk, plugin: &self.plugin.id, lacks: &lacks, claimed: 0, now })
    }

    /// Why this host cannot do what another may, or this one later: the tables are those of another version of the plugin.
    fn unfit(&self, tx: &Tx, error: &InvokeError) -> Result<Option<String>, Failure> {
        let InvokeError::Failure(failure) = error else { return Ok(None) };
        if failure.code != Code::Schema || !tx.are_tables_anothers(&self.plugin.schema)? {
            return Ok(None);
        }
        Ok(Some(waits(&self.plugin, failure)))
    }
}

impl Cause for StepCause {
    /// A try that has lost its claim does nothing.
    fn claim(&self, tx: &Tx, _now: Millis) -> Result<Claim, Failure> {
        let (step, attempt) = (&self.claimed.step().id, self.claimed.attempt);
        let of = Try { workflow: self.claimed.facts.id, step, owner: &self.desk.owner, attempt };
        Ok(if steps::is_claimed(tx, of)? { Claim::Run } else { Claim::Done(Outcome::new("null")) })
    }

    fn settle(&self, tx: &Tx, data: &str, now: Millis) -> Result<Outcome, Failure> {
        match self.going(now, |going| workflow::ended(tx, going, &self.claimed, data)) {
            Ok(wakes) => Ok(Outcome::new("null").waking(wakes)),
            Err(Late::Fenced) => Err(Failure::new(Code::Unavailable, "this try of the step has lost its claim")),
            Err(Late::Failed(failure)) => Err(failure),
        }
    }

    fn failed(&self, tx: &Tx, error: &InvokeError, now: Millis) -> Result<Option<Outcome>, Failure> {
        if let Some(why) = self.unfit(tx, error)? {
            // Left to others where there may be some. Elsewhere the next of its kind may fit.
            if self.desk.patience > 0 {
                let until = now.saturating_add(self.desk.lease.saturating_mul(RESTS));
                self.desk.rest(&self.plugin.id, self.claimed.step(), until, &why);
            }
            return match self.going(now, |going| workflow::put_off(tx, going, &self.claimed, &why)) {
                Ok(wakes) => Ok(Some(Outcome::new("null").waking(wakes))),
                Err(Late::Fenced) => Ok(Some(Outcome::new("null"))),
                Err(Late::Failed(failure)) => Err(failure),
            };
        }
        let Some(trouble) = self.ended.clone().or_else(|| told(&self.claimed, error, false)) else {
            return Ok(None);
        };
        match self.going(now, |going| workflow::failed(tx, going, &self.claimed, &trouble)) {
            Ok(wakes) => Ok(Some(Outcome::new("null").waking(wakes))),
            Err(Late::Fenced) => Ok(Some(Outcome::new("null"))),
            Err(Late::Failed(failure)) => Err(failure),
        }
    }

    fn is_recorded(&self) -> bool {
        true
    }
}

/// What is told of work that the plugin's tables do not fit here.
pub fn waits(plugin: &Plugin, failure: &Failure) -> String {
    let Plugin { id, version, .. } = plugin;
    let text = format!(
        "waits, and no try is used up: the tables of {id} are not those of its version {version} here; a host with the \
         version that they are of goes on with it, or this one after oncehost schema apply {id}. {failure}"
    );
    // Postgres keeps no NUL.
    text.replace('\0', "\u{fffd}")
}

/// What is kept of an error, and whether the step is to be tried again. `None` where the step is not to blame: a script
/// always is, since it ended by itself.
fn told(claimed: &Claimed, error: &InvokeError, script: bool) -> Option<Trouble> {
    let (text, again) = match error {
        InvokeError::Business { name, message, .. } => (format!("{name}: {message}"), true),
        InvokeError::Discard { why } => (format!("given up by its script: {why}"), false),
        InvokeError::Failure(failure) if !script && matches!(failure.code, Code::Unavailable | Code::Overloaded) => {
            return None;
        }
        InvokeError::Failure(failure) => {
            let place = failure.position.as_ref().map(|position| format!(" ({position})")).unwrap_or_default();
            let fields: Vec<String> =
                failure.fields.iter().skip(1).map(|fault| format!("; {}: {}", fault.pointer, fault.message)).collect();
            (format!("{failure}{}{place}", fields.concat()), true)
        }
    };
    let (tried, most) = (claimed.attempt.saturating_sub(claimed.base), claimed.step().retry.max_attempts);
    // Postgres keeps no NUL.
    let text = format!("try {tried} of {most}: {text}").replace('\0', "\u{fffd}");
    Some(Trouble { text, details: error.details(), again })
}

/// Who and what a try of a step is.
fn scope(app: &App, plugin: &Arc<Plugin>, claimed: &Claimed, action: String, may_write: bool) -> Scope {
    let (facts, step, now) = (&claimed.facts, claimed.step(), app.clock.now());
    Scope {
        plugin: plugin.clone(),
        tenant: facts.tenant.clone(),
        operation: format!("{}/flow:{}/{}", plugin.id, facts.definition.name, step.id),
        key: Some(facts.step_key(&step.id)),
        invocation: app.ids.rising(now).to_string(),
        origin: Origin::default(),
        action,
        user: Json::Null,
        now,
        may_write,
        ids: app.ids.clone(),
        desk: app.flows.desk.clone(),
    }
}

/// Runs a step that is an action: one transaction with its checkpoint and what comes next.
pub(super) fn run_action(app: &Arc<App>, plugin: &Arc<Plugin>, claimed: Claimed) {
    let action = match &claimed.step().uses {
        Uses::Action(name) => plugin.actions.get(name),
        Uses::Script(_) | Uses::SleepFor(_) | Uses::SleepUntil(_) | Uses::WaitForEvent { .. } => None,
    };
    let Some(action) = action else { return app.flows.unsettled(&plugin.id, claimed, None) };
    let input_fault = action.input.as_ref().and_then(|schema| {
        let input: Json = serde_json::from_str(&claimed.input).unwrap_or_default();
        idempotency::check_input(schema, &input)
    });
    let mut limits = idempotency::run_limits(app, plugin, action.kind);
    if let Some(timeout) = claimed.step().timeout.filter(|timeout| *timeout < limits.time) {
        (limits.time, limits.time_is) = (timeout, TIMEOUT);
    }
    let scope = scope(app, plugin, &claimed, action.name.clone(), action.kind == Kind::Write);
    let invocation = Invocation {
        run: Run::Entry(action.entry),
        input: claimed.input.clone(),
        input_fault,
        limits,
        engine: idempotency::engine_limits(app, plugin),
        payload_limit: idempotency::payload_limit(app, plugin),
        cause: cause(app, plugin, &claimed),
        scope,
    };
    post(app, plugin, claimed, invocation);
}

fn cause(app: &App, plugin: &Arc<Plugin>, claimed: &Claimed) -> Box<dyn Cause> {
    let landing = app.flows.take_off(&plugin.id, claimed);
    let (plugin, desk) = (plugin.clone(), app.flows.desk.clone());
    Box::new(StepCause { claimed: claimed.clone(), plugin, desk, ended: None, _landing: landing })
}

/// The run of a script, with all that it needs of the host.
#[derive(Clone)]
pub(super) struct Prepared {
    pub scope: Scope,
    /// Index of its module.
    pub entry: usize,
    pub input: String,
    /// What `run` says.
    pub facts: Json,
    pub limits: RunLimits,
    pub engine: EngineLimits,
}

/// Runs a step that is a script: outside of any transaction.
pub(super) fn run_script(app: &Arc<App>, plugin: &Arc<Plugin>, claimed: Claimed) {
    let script = match &claimed.step().uses {
        Uses::Script(name) => plugin.scripts.get(name),
        Uses::Action(_) | Uses::SleepFor(_) | Uses::SleepUntil(_) | Uses::WaitForEvent { .. } => None,
    };
    let Some(script) = script else { return app.flows.unsettled(&plugin.id, claimed, None) };
    let (facts, step) = (&claimed.facts, claimed.step());
    let own = plugin.limits.script_ms.map(Duration::from_millis);
    let mut limits = idempotency::run_limits(app, plugin, Kind::Write);
    (limits.time, limits.time_is) = match step.timeout {
        Some(timeout) => (timeout, TIMEOUT),
        None => (own.unwrap_or(app.settings.script_time), "limits.script"),
    };
    let prepared = Prepared {
        entry: script.entry,
        input: claimed.input.clone(),
        facts: json!({
            "workflowId": facts.workflow_id,
            "stepId": step.id,
            "idempotencyKey": facts.step_key(&step.id),
            "scopedKey": facts.scoped_key(&plugin.id, &step.id),
            "attempt": claimed.attempt,
        }),
        limits,
        engine: idempotency::engine_limits(app, plugin),
        scope: scope(app, plugin, &claimed, script.name.clone(), true),
    };
    app.flows.run_script(app, claimed, prepared);
}

/// Records what a script came to.
pub(super) fn settle_script(
    app: &Arc<App>,
    prepared: &Prepared,
    claimed: Claimed,
    landing: Landing,
    result: Result<String, InvokeError>,
) {
    let plugin = &prepared.scope.plugin;
    let cause = StepCause {
        claimed: claimed.clone(),
        plugin: plugin.clone(),
        desk: app.flows.desk.clone(),
        ended: result.as_ref().err().and_then(|error| told(&claimed, error, true)),
        _landing: landing,
    };
    let invocation = Invocation {
        run: Run::Ended(result),
        input: String::new(),
        input_fault: None,
        limits: prepared.limits.clone(),
        engine: prepared.engine.clone(),
        payload_limit: 0,
        cause: Box::new(cause),
        scope: prepared.scope.clone(),
    };
    post(app, plugin, claimed, invocation);
}

/// Hands an invocation of a step to the lane, which settles it; what it cannot settle is noted.
fn post(app: &Arc<App>, plugin: &Arc<Plugin>, claimed: Claimed, invocation: Invocation) {
    let (flows, of, id) = (Arc::downgrade(&app.flows), claimed.clone(), plugin.id.clone());
    let answer = move |reply: Result<Outcome, InvokeError>| {
        if let (Err(error), Some(flows)) = (reply, flows.upgrade()) {
            unsettled(&flows, &id, of, &error);
        }
    };
    if let Err(failure) = app.lane(&plugin.id).post(Arc::new(invocation), Kind::Write, answer) {
        unsettled(&app.flows, &plugin.id, claimed, &failure.into());
    }
}

fn unsettled(flows: &Flows, plugin: &str, claimed: Claimed, error: &InvokeError) {
    let trouble = told(&claimed, error, false);
    flows.unsettled(plugin, claimed, trouble);
}
