//! A thread's script engine, kept from run to run as long as it serves.

use std::sync::Arc;

use crate::failure::{Code, Failure};
use crate::invoke::{Invocation, Run};
use crate::plugin::Code as Modules;
use crate::script::{Engine, ScriptError};

/// The engine of the plugin's present version.
#[derive(Default)]
pub(super) struct KeptEngine(Option<(Arc<Modules>, Engine)>);

impl KeptEngine {
    /// An engine that is fit for a run of `invocation`: of its version of the plugin, and not spent. `None` where it
    /// needs none.
    pub fn for_run(&mut self, invocation: &Invocation) -> Result<Option<&mut Engine>, Failure> {
        if !matches!(invocation.run, Run::Entry(_)) {
            return Ok(None);
        }
        let code = &invocation.scope.plugin.code;
        let fits = |kept: &(Arc<Modules>, Engine)| Arc::ptr_eq(&kept.0, code) && !kept.1.is_spent();
        if !self.0.as_ref().is_some_and(fits) {
            // The old one first, so that two heaps never stand side by side.
            self.0 = None;
            let mut engine = Engine::new(invocation.engine.clone()).map_err(|error| {
                let what = if let ScriptError::Limit { what, .. } = error {
                    what
                } else {
                    "no script engine could be made".to_owned()
                };
                Failure::new(Code::Limit, what)
            })?;
            engine.prepare(code);
            self.0 = Some((code.clone(), engine));
        }
        Ok(self.0.as_mut().map(|(_, engine)| engine))
    }
}
