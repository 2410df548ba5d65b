//! One locked QuickJS realm and the runs in it.

use serde_json::Value as Json;

use super::{Call, EngineLimits, Host, ScriptError};
use std::sync::Arc;

use crate::plugin::Code;

/// A QuickJS runtime with one locked realm. Not `Send`: it lives and dies on its thread.
pub struct Engine {
    _limits: EngineLimits,
}

impl Engine {
    /// Makes a runtime and locks its realm (a few milliseconds).
    ///
    /// # Errors
    /// When the limits leave no room for the realm itself.
    pub fn new(limits: EngineLimits) -> Result<Self, ScriptError> {
        Ok(Self { _limits: limits })
    }

    /// Runs one exported function to its settled result and gives that as JSON text (`null` for `undefined`).
    /// Modules of `call.code` that this engine has not seen are compiled first.
    ///
    /// # Errors
    /// See [`ScriptError`]. After some of them the engine [is spent](Engine::is_spent).
    pub fn run(&mut self, _call: &Call<'_>, _host: Box<dyn Host>) -> Result<String, ScriptError> {
        Err(ScriptError::Limit { what: "placeholder".to_owned(), position: None })
    }

    /// Whether the engine must be replaced before the next run: after an interrupt, out-of-memory, a stack
    /// overflow, or jobs that were left over.
    pub fn is_spent(&self) -> bool {
        false
    }

    /// Bytes of heap in use.
    pub fn memory_used(&self) -> usize {
        0
    }

    /// Instantiates a module and gives its export `config` as JSON (`None` where there is none): what the loader
    /// needs. No host call is possible meanwhile.
    ///
    /// # Errors
    /// What the module's top level throws, or a `config` that is not JSON.
    pub fn config_of(&mut self, _code: &Arc<Code>, _entry: usize) -> Result<Option<Json>, ScriptError> {
        Ok(None)
    }
}
