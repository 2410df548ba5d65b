//! What scripts can call, in plain Rust: it knows the transaction and the plugin's permissions, not QuickJS.

use std::sync::Arc;

use crate::clock::Millis;
use crate::codec::Value;
use crate::failure::{Code, Failure};
use crate::ids::Ids;
use crate::plugin::Plugin;
use crate::script::{Binding, Host, Level};
use crate::store::sqlite::Tx;

pub mod store;

/// Who and what an invocation is, for everything that a script asks on its behalf.
#[derive(Clone)]
pub struct Scope {
    pub plugin: Arc<Plugin>,
    pub tenant: String,
    /// `PLUGIN/ACTION` and the like (spec §1).
    pub operation: String,
    pub key: Option<String>,
    pub invocation: String,
    /// The one instant of the invocation.
    pub now: Millis,
    /// `false` in actions with `kind: 'read'`.
    pub may_write: bool,
    pub ids: Arc<dyn Ids>,
}

/// The bindings of one invocation.
pub struct Bindings {
    pub scope: Scope,
    pub tx: Tx,
}

impl Host for Bindings {
    fn call(&mut self, binding: Binding, args: Vec<Value>) -> Result<Value, Failure> {
        match binding {
            Binding::StoreCreateIfAbsent => store::create_if_absent(self, &args),
            Binding::StoreUpdate => store::update(self, &args),
            Binding::StoreDelete => store::delete(self, &args),
            Binding::StoreGet => store::get(self, &args),
            Binding::StoreList => store::list(self, &args),
            Binding::StoreCount => store::count(self, &args),
            Binding::FlowStart
            | Binding::FlowGet
            | Binding::FlowCancel
            | Binding::NotifyPublish
            | Binding::StableId => Err(Failure::new(Code::Unavailable, "placeholder")),
        }
    }

    fn log(&mut self, level: Level, line: String) {
        let Scope { plugin, invocation, operation, .. } = &self.scope;
        let plugin = plugin.id.as_str();
        match level {
            Level::Debug => tracing::debug!(target: "script", plugin, operation, invocation, "{line}"),
            Level::Info => tracing::info!(target: "script", plugin, operation, invocation, "{line}"),
            Level::Warn => tracing::warn!(target: "script", plugin, operation, invocation, "{line}"),
            Level::Error => tracing::error!(target: "script", plugin, operation, invocation, "{line}"),
        }
    }
}
