//! What scripts can call, in plain Rust: it knows the transaction and the plugin's permissions, not QuickJS.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use serde_json::Value as Json;

use crate::clock::Millis;
use crate::codec::Value;
use crate::failure::Failure;
use crate::ids::Ids;
use crate::plugin::Plugin;
use crate::script::{Binding, Host, Level};
use crate::store::Tx;
use crate::trace::Origin;
use crate::workflow::definition::{Definition, Step, Uses};
use crate::workflow::{self, Desk, Going, Wakes};

pub mod ctx;
mod effects;
mod flow;
pub mod leaving;
mod notify;
pub mod store;

pub use effects::Effects;

/// Who and what an invocation is, for everything that a script asks on its behalf.
#[derive(Clone)]
pub struct Scope {
    pub plugin: Arc<Plugin>,
    pub tenant: String,
    /// `PLUGIN/ACTION` and the like (spec §1).
    pub operation: String,
    pub key: Option<String>,
    pub invocation: String,
    /// For the log and for tracing.
    pub origin: Origin,
    /// `ctx.action` and `ctx.user`.
    pub action: String,
    pub user: Json,
    /// The one instant of the invocation.
    pub now: Millis,
    /// `false` in actions with `kind: 'read'`.
    pub may_write: bool,
    pub ids: Arc<dyn Ids>,
    /// Who claims the steps of workflows here.
    pub desk: Arc<Desk>,
}

/// Writes a log line about one run of a script, with all that says which run it is.
macro_rules! script_line {
    ($level:ident, $scope:expr, $($rest:tt)+) => {
        tracing::event!(
            target: "script",
            tracing::Level::$level,
            plugin = $scope.plugin.id.as_str(),
            action = $scope.action(),
            tenant = $scope.tenant.as_str(),
            invocation = $scope.invocation.as_str(),
            request_id = $scope.origin.request(),
            trace_id = $scope.origin.trace_id(),
            $($rest)+
        )
    };
}
pub(crate) use script_line;

impl Scope {
    /// The operation's part behind the plugin's id: an action's name, `event:HANDLER` and the like.
    pub fn action(&self) -> &str {
        self.operation.split_once('/').map_or(self.operation.as_str(), |(_, action)| action)
    }

    /// What workflows of this plugin need to know to go further, where this run has claimed so many steps.
    pub fn going<R>(&self, claimed: usize, go: impl FnOnce(&Going<'_>) -> R) -> R {
        let lacks = |of: &Definition, step: &Step| lacks(&self.plugin, &self.desk, of, step, self.now);
        go(&Going { desk: &self.desk, plugin: &self.plugin.id, lacks: &lacks, claimed, now: self.now })
    }

    /// Refuses what writes, in an action that only reads.
    pub(crate) fn must_write(&self, call: &str) -> Result<(), Failure> {
        if self.may_write {
            return Ok(());
        }
        Err(Failure::contract(format!(
            "{call} writes, and this action says `kind: 'read'`; take that out of its config, or the call out of it"
        )))
    }
}

/// The bindings of one invocation.
pub struct Bindings {
    pub scope: Scope,
    pub tx: Tx,
    /// Bytes of a payload or a seed, as JSON text.
    payload_limit: usize,
    /// How many events each topic got in this run, for the keys of those without one.
    pub published: HashMap<String, u32>,
    /// Where the run's changes are told, if anybody wants to know.
    effects: Option<Effects>,
    /// See [`crate::invoke::Cause::intent`].
    pub intent: Option<i64>,
    /// What is to happen once the transaction has committed.
    wakes: Rc<RefCell<Wakes>>,
}

impl Bindings {
    /// The bindings of one run, acting in the transaction that `tx` holds.
    pub fn new(scope: Scope, tx: Tx, payload_limit: usize) -> Self {
        Self { scope, tx, payload_limit, published: HashMap::new(), effects: None, intent: None, wakes: Rc::default() }
    }

    /// The same, telling what is changed.
    #[must_use]
    pub fn telling(self, effects: Option<Effects>) -> Self {
        Self { effects, ..self }
    }

    /// What is to happen once the transaction has committed: filled while the script runs.
    pub fn wakes(&self) -> Rc<RefCell<Wakes>> {
        self.wakes.clone()
    }
}

/// Why a host with this version of a plugin cannot run a step of a workflow; `None` where it can.
pub fn lacks(plugin: &Plugin, desk: &Desk, definition: &Definition, step: &Step, now: Millis) -> Option<String> {
    let has = match &step.uses {
        Uses::Script(name) => plugin.scripts.contains_key(name),
        Uses::Action(name) => plugin.actions.contains_key(name),
        Uses::SleepFor(_) | Uses::SleepUntil(_) | Uses::WaitForEvent { .. } => return None,
    };
    if !has {
        return Some(workflow::missing(step, &plugin.id));
    }
    let knows = || plugin.flows.get(&definition.name).is_some_and(|flow| flow.definition.hash == definition.hash);
    if desk.is_outdated(&plugin.id) && !knows() {
        let Plugin { id, version, .. } = plugin;
        return Some(format!(
            "this host has {id} {version}, which has no such flow \"{}\" as this workflow began with; it waits for a host with the newer version",
            definition.name
        ));
    }
    desk.rests(&plugin.id, step, now)
}

impl Host for Bindings {
    fn call(&mut self, binding: Binding, args: Vec<Value>) -> Result<Value, Failure> {
        let result = self.dispatch(binding, &args);
        if let (Some(effects), Ok(result)) = (&self.effects, &result) {
            effects::note(effects, binding, &args, result);
        }
        result
    }

    fn log(&mut self, level: Level, mut line: String) {
        self.scope.plugin.veil().hide(&mut line);
        Self::log_line(&self.scope, level, &line);
    }
}

impl Bindings {
    /// Writes a line that a script logged.
    pub fn log_line(scope: &Scope, level: Level, line: &str) {
        match level {
            Level::Debug => script_line!(DEBUG, scope, "{line}"),
            Level::Info => script_line!(INFO, scope, "{line}"),
            Level::Warn => script_line!(WARN, scope, "{line}"),
            Level::Error => script_line!(ERROR, scope, "{line}"),
        }
    }
}

impl Bindings {
    fn dispatch(&mut self, binding: Binding, args: &[Value]) -> Result<Value, Failure> {
        match binding {
            Binding::StoreCreateIfAbsent => store::create_if_absent(self, args),
            Binding::StoreUpdate => store::update(self, args),
            Binding::StoreDelete => store::delete(self, args),
            Binding::StoreGet => store::get(self, args),
            Binding::StoreList => store::list(self, args),
            Binding::StoreCount => store::count(self, args),
            Binding::FlowStart => flow::start(self, args),
            Binding::FlowGet => flow::get(self, args),
            Binding::FlowCancel => flow::cancel(self, args),
            Binding::NotifyPublish => notify::publish(self, args),
            Binding::StableId => ctx::stable_id(self, args),
        }
    }
}
