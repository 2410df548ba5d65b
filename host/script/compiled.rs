//! A plugin's modules in an engine: their factories are compiled when a run first imports them.

use std::sync::Arc;

use rquickjs::context::EvalOptions;
use rquickjs::{Array, Ctx, Function, Persistent};

use super::ScriptError;
use super::engine::Engine;
use super::realm::Hooks;
use crate::failure::Position;
use crate::plugin::{Code, Module};

/// Versions of a plugin's code that an engine keeps compiled: the one that runs, and one that ends.
const KEPT_VERSIONS: usize = 2;

/// A plugin's modules in this engine.
pub(super) struct Compiled {
    code: Arc<Code>,
    /// Begins a run: instantiates the modules that a run may change, as far as this one imports them, and gives its exports.
    begin: Persistent<Function<'static>>,
    /// The modules' factories, as far as they are compiled.
    factories: Persistent<Array<'static>>,
    has: Vec<bool>,
    /// The entries whose runs have all that they need.
    ready: Vec<bool>,
}

impl Compiled {
    /// The modules that a run needs, the one it enters and all that they import, or all; without those that are there.
    fn missing(&self, entry: Option<usize>) -> Vec<usize> {
        let modules = &self.code.modules;
        let Some(entry) = entry else { return (0..modules.len()).filter(|&index| !self.has[index]).collect() };
        let mut needed = vec![false; modules.len()];
        let mut next = vec![entry];
        while let Some(index) = next.pop() {
            if let Some(module) = modules.get(index)
                && !std::mem::replace(&mut needed[index], true)
            {
                next.extend(&module.imports);
            }
        }
        (0..modules.len()).filter(|&index| needed[index] && !self.has[index]).collect()
    }
}

impl Engine {
    /// What begins a run that enters this module, with all that it imports compiled; without one, all modules.
    pub(super) fn compiled(
        &mut self,
        code: &Arc<Code>,
        entry: Option<usize>,
    ) -> Result<Persistent<Function<'static>>, ScriptError> {
        let known = self.compiled.iter().position(|known| Arc::ptr_eq(&known.code, code));
        if let (Some(index), Some(entry)) = (known, entry)
            && self.compiled[index].ready.get(entry) == Some(&true)
        {
            return Ok(self.compiled[index].begin.clone());
        }
        let mut compiled = match known {
            Some(index) => self.compiled.remove(index),
            None => self.linked(code)?,
        };
        let missing = compiled.missing(entry);
        let made = self.compile(&mut compiled, &missing);
        if let Some(ready) = entry.and_then(|entry| compiled.ready.get_mut(entry)) {
            *ready = made.is_ok();
        }
        let begin = compiled.begin.clone();
        if self.compiled.len() >= KEPT_VERSIONS {
            self.compiled.remove(0);
        }
        self.compiled.insert(known.unwrap_or(self.compiled.len()), compiled);
        made.map(|()| begin)
    }

    /// A plugin's modules, none of them compiled.
    fn linked(&self, code: &Arc<Code>) -> Result<Compiled, ScriptError> {
        let judge = self.judge(code);
        self.context.with(|ctx| {
            let (begin, factories) = link(&ctx, &self.hooks, code).map_err(|_| judge.pending(&ctx).0)?;
            let (begin, factories) = (Persistent::save(&ctx, begin), Persistent::save(&ctx, factories));
            let none = vec![false; code.modules.len()];
            Ok(Compiled { code: code.clone(), begin, factories, has: none.clone(), ready: none })
        })
    }

    fn compile(&self, compiled: &mut Compiled, missing: &[usize]) -> Result<(), ScriptError> {
        let code = compiled.code.clone();
        let judge = self.judge(&code);
        if missing.is_empty() {
            return Ok(());
        }
        let done = self.context.with(|ctx| {
            let factories = compiled.factories.clone().restore(&ctx).map_err(|_| judge.pending(&ctx).0)?;
            for &index in missing {
                let Some(module) = code.modules.get(index) else { continue };
                // As runs do that compute for long.
                std::thread::yield_now();
                factory(&ctx, module)
                    .and_then(|factory| factories.set(index, factory))
                    .map_err(|_| at_module(judge.pending(&ctx).0, Some(module)))?;
                compiled.has[index] = true;
            }
            Ok(())
        });
        self.state.end();
        done
    }
}

/// Links modules whose factories are yet to come, in the array beside.
fn link<'js>(ctx: &Ctx<'js>, hooks: &Hooks, code: &Code) -> rquickjs::Result<(Function<'js>, Array<'js>)> {
    let factories = Array::new(ctx.clone())?;
    let imports = Array::new(ctx.clone())?;
    let whole = Array::new(ctx.clone())?;
    let global = Array::new(ctx.clone())?;
    let still = Array::new(ctx.clone())?;
    for (index, module) in code.modules.iter().enumerate() {
        // So that an array has no gaps, which would be a table.
        factories.set(index, ())?;
        imports.set(index, module.imports.clone())?;
        whole.set(index, module.whole)?;
        global.set(index, module.global)?;
        still.set(index, module.still)?;
    }
    let linker = hooks.linker.clone().restore(ctx)?;
    let begin = linker.call((factories.clone(), imports, whole, global, still))?;
    Ok((begin, factories))
}

/// Evaluates a module's factory expression.
pub(super) fn factory<'js>(ctx: &Ctx<'js>, module: &Module) -> rquickjs::Result<Function<'js>> {
    let mut options = EvalOptions::default();
    options.filename = Some(module.path.clone());
    ctx.eval_with_options(module.js.as_str(), options)
}

/// Puts an error that has no place at the beginning of a module.
pub(super) fn at_module(error: ScriptError, module: Option<&Module>) -> ScriptError {
    let begins = module.map(|module| Position { file: module.path.clone(), line: 1, column: 1 });
    match error {
        ScriptError::Thrown { message, stack, position } => {
            ScriptError::Thrown { message, stack, position: position.or(begins) }
        }
        ScriptError::Limit { what, position } => ScriptError::Limit { what, position: position.or(begins) },
        ScriptError::Business { .. } | ScriptError::Discard { .. } | ScriptError::Host(_) => error,
    }
}
