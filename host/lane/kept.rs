//! A thread's script engines, kept from run to run as long as they serve.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::failure::{Code, Failure};
use crate::invoke::{Invocation, Run};
use crate::plugin::Code as Modules;
use crate::script::{Engine, EngineLimits, ScriptError};

/// Versions of a plugin that are served at a time: after a reload calls of the one before may still wait.
const VERSIONS: usize = 2;

/// The engine of the plugin's present version, and while there is a backlog that of the one before.
#[derive(Default)]
pub(super) struct KeptEngines(Vec<(Arc<Modules>, Engine)>);

impl KeptEngines {
    /// An engine that is fit for a run of `invocation`: of its version of the plugin, and not spent. `None` where it
    /// needs none.
    pub fn for_run(&mut self, invocation: &Invocation) -> Result<Option<&mut Engine>, Failure> {
        if !matches!(invocation.run, Run::Entry(_)) {
            return Ok(None);
        }
        self.of(&invocation.scope.plugin.code, invocation.engine.clone()).map(Some)
    }

    fn of(&mut self, code: &Arc<Modules>, limits: EngineLimits) -> Result<&mut Engine, Failure> {
        if let Some(place) = self.0.iter().position(|(of, engine)| Arc::ptr_eq(of, code) && !engine.is_spent()) {
            return Ok(&mut self.0[place].1);
        }
        // First, so that no more heaps than that stand side by side.
        self.0.retain(|(_, engine)| !engine.is_spent());
        if self.0.len() >= VERSIONS {
            self.0.remove(0);
        }
        let mut engine = Engine::new(limits).map_err(|error| {
            let what = if let ScriptError::Limit { what, .. } = error {
                what
            } else {
                "no script engine could be made".to_owned()
            };
            Failure::new(Code::Limit, what)
        })?;
        engine.prepare(code);
        Ok(&mut self.0.push_mut((code.clone(), engine)).1)
    }

    /// Whether the last run spent its engine.
    pub fn is_spent(&self) -> bool {
        self.0.iter().any(|(_, engine)| engine.is_spent())
    }

    /// Puts another in the place of the engine, if the run of `invocation` spent it. Gives how long that took.
    pub fn mend(&mut self, invocation: &Invocation) -> Duration {
        let began = Instant::now();
        if self.is_spent() {
            // Where none can be made, the next run is told.
            drop(self.for_run(invocation));
        }
        began.elapsed()
    }

    /// Keeps one, that of the newest version: nothing waits.
    pub fn rest(&mut self) {
        while self.0.len() > 1 {
            self.0.remove(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The versions whose engines are kept.
    fn kept(engines: &KeptEngines) -> Vec<&str> {
        engines.0.iter().map(|(code, _)| code.plugin.as_str()).collect()
    }

    fn versions() -> [Arc<Modules>; 3] {
        ["old", "new", "newest"].map(|version| Arc::new(Modules { plugin: version.to_owned(), modules: Vec::new() }))
    }

    #[test]
    fn calls_of_two_versions_take_turns_without_a_new_engine_for_each() {
        let [old, new, newest] = versions();
        let mut engines = KeptEngines::default();
        for code in [&old, &new, &old, &new, &old] {
            engines.of(code, EngineLimits::default()).unwrap();
            // One that is made comes last.
            assert_eq!(kept(&engines).first(), Some(&"old"));
        }
        engines.of(&newest, EngineLimits::default()).unwrap();
        assert_eq!(kept(&engines), ["new", "newest"]);
    }

    #[test]
    fn one_heap_is_kept_at_rest() {
        let [old, new, _] = versions();
        let mut engines = KeptEngines::default();
        for code in [&old, &new, &old] {
            engines.of(code, EngineLimits::default()).unwrap();
        }
        engines.rest();
        assert_eq!(kept(&engines), ["new"]);
    }
}
