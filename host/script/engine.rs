//! One locked QuickJS realm and the runs in it.

use std::rc::Rc;
use std::sync::Arc;

use rquickjs::promise::PromiseState;
use rquickjs::{
    Array, CatchResultExt, Context, Ctx, Exception, Function, Persistent, Promise, Runtime, Value as JsValue,
};

use super::compiled::{Compiled, at_module, factory};
use super::errors::{Judge, UNAWAITED};
use super::limits::Stop;
use super::names;
use super::output::to_json;
use super::realm::{self, Hooks};
use super::state::State;
use super::waiting::Waiting;
use super::walk::Walk;
use super::{Call, EngineLimits, Exports, Facts, Host, Level, RunLimits, ScriptError};
use crate::failure::Failure;
use crate::plugin::{Code, Module};

/// Runs between two full collections: one takes as long as some twenty runs.
const RUNS_PER_COLLECTION: u32 = 2_048;

/// A QuickJS runtime with one locked realm. Not `Send`: it lives and dies on its thread.
pub struct Engine {
    // In the order in which they are dropped: nothing may hold a script's value when the runtime goes.
    pub(super) compiled: Vec<Compiled>,
    /// The run that waits for something outside.
    pub(super) waiting: Option<Waiting>,
    pub(super) hooks: Rc<Hooks>,
    pub(super) context: Context,
    runtime: Runtime,
    pub(super) state: Rc<State>,
    limits: EngineLimits,
    pub(super) spent: bool,
    runs: u32,
}

pub(super) type Ran<T> = Result<T, (ScriptError, bool)>;

impl Engine {
    /// Makes a runtime and locks its realm (a few milliseconds).
    ///
    /// # Errors
    /// When the limits leave no room for the realm itself.
    pub fn new(limits: EngineLimits) -> Result<Self, ScriptError> {
        let no_room = |reason: String| ScriptError::Limit {
            what: format!(
                "the script engine does not start with {} of memory and {} of stack (limits.memory, limits.stack): {reason}",
                super::limits::size(limits.memory),
                super::limits::size(limits.stack)
            ),
            position: None,
        };
        let runtime = Runtime::new().map_err(|error| no_room(error.to_string()))?;
        runtime.set_memory_limit(limits.memory.saturating_add(super::limits::SPARE));
        runtime.set_gc_threshold(limits.memory / 4);
        runtime.set_max_stack_size(limits.stack);
        let context = Context::full(&runtime).map_err(|error| no_room(error.to_string()))?;
        let state = Rc::new(State::default());
        // Before the realm is made: it ends in a loop where its memory does not suffice.
        let of = state.clone();
        runtime.set_interrupt_handler(Some(Box::new(move || of.stopped_midway().is_some())));
        let hooks = context
            .with(|ctx| realm::build(&ctx, &state).catch(&ctx).map_err(|error| error.to_string()))
            .map_err(no_room)?;
        let hooks = Rc::new(hooks);
        state.hooks.replace(Some(hooks.clone()));
        let of = state.clone();
        runtime.set_host_promise_rejection_tracker(Some(Box::new(move |ctx, promise, reason, handled| {
            of.rejected(&ctx, promise, reason, handled);
        })));
        let engine =
            Self { compiled: Vec::new(), waiting: None, hooks, context, runtime, state, limits, spent: false, runs: 0 };
        engine.collect();
        Ok(engine)
    }

    /// Compiles what this engine has not seen of a plugin, which takes long for a large one and is no time of a run's. What
    /// is wrong with it is told by the run.
    pub fn prepare(&mut self, code: &Arc<Code>) {
        drop(self.compiled(code, None));
    }

    /// Runs one exported function to its settled result and gives that as JSON text (`null` for `undefined`).
    /// Modules that it needs and this engine has not seen are compiled first.
    ///
    /// # Errors
    /// See [`ScriptError`]. After some of them the engine [is spent](Engine::is_spent).
    pub fn run(&mut self, call: &Call<'_>, host: Box<dyn Host>) -> Result<String, ScriptError> {
        names::check_input(call.input).map_err(ScriptError::Host)?;
        let begin = self.compiled(call.code, Some(call.entry))?;
        self.state.begin(call, host);
        // A panic of the host's passes through: what it leaves is not used again.
        let spent = std::mem::replace(&mut self.spent, true);
        let judge = self.judge(call.code);
        let (outcome, collected) = self.context.with(|ctx| {
            let outcome = handled(&ctx, &judge, call, begin);
            (outcome, self.hooks.collected(&ctx).unwrap_or(true))
        });
        if let Some(panic) = self.state.panic.take() {
            self.state.end();
            std::panic::resume_unwind(panic);
        }
        self.spent = spent;
        self.finish(outcome, collected)
    }

    /// Instantiates a module and looks at its exports `handle` and `config`: what the loader needs. No host call is
    /// possible meanwhile.
    ///
    /// # Errors
    /// What the module's top level throws, or a `config` that is not JSON.
    pub fn exports_of(&mut self, code: &Arc<Code>, entry: usize) -> Result<Exports, ScriptError> {
        let begin = self.compiled(code, None)?;
        let limits = RunLimits::default();
        let call = Call {
            code,
            entry,
            export: "config",
            input: "null",
            ctx: &Facts::default(),
            now: 0,
            seed: [0; 32],
            limits: &limits,
            step: None,
        };
        self.state.begin(&call, Box::new(Nobody));
        let judge = self.judge(code);
        let (outcome, collected) = self.context.with(|ctx| {
            let outcome = exports(&ctx, &judge, &call, begin);
            (outcome, self.hooks.collected(&ctx).unwrap_or(true))
        });
        self.finish(outcome, collected)
    }

    /// Compiles one module and nothing else; gives why the engine does not take it.
    pub fn refusal_of(&self, code: &Arc<Code>, module: &Module) -> Option<ScriptError> {
        let judge = self.judge(code);
        self.context.with(|ctx| {
            let refused = factory(&ctx, module).is_err();
            refused.then(|| at_module(judge.pending(&ctx).0, Some(module)))
        })
    }

    /// Whether the engine must be replaced before the next run: after an interrupt, out-of-memory, a stack
    /// overflow, or jobs that were left over.
    pub fn is_spent(&self) -> bool {
        self.spent
    }

    /// The limits that the last run came up against, by their names.
    pub fn limits_hit(&self) -> Vec<&'static str> {
        self.state.hits.borrow().clone()
    }

    /// Bytes of heap in use.
    pub fn memory_used(&self) -> usize {
        usize::try_from(self.runtime.memory_usage().malloc_size).unwrap_or(0)
    }

    /// Frees what only a full collection frees. The next one comes after some runs, or when a run's heap grows
    /// over a quarter of the limit, which is also how a heap that was full is known afterwards.
    pub fn collect(&self) {
        self.runtime.run_gc();
        self.runtime.set_gc_threshold(self.limits.memory / 4);
        self.context.with(|ctx| self.hooks.collected(&ctx).map(drop).unwrap_or_default());
    }

    pub(super) fn judge<'a>(&'a self, code: &'a Code) -> Judge<'a> {
        Judge { state: &self.state, hooks: &self.hooks, engine: &self.limits, code }
    }

    pub(super) fn finish<T>(&mut self, outcome: Ran<T>, collected: bool) -> Result<T, ScriptError> {
        self.state.end();
        self.spent |= self.runtime.is_job_pending();
        self.runs += 1;
        if collected || self.runs.is_multiple_of(RUNS_PER_COLLECTION) {
            self.collect();
        }
        outcome.map_err(|(error, spent)| {
            self.spent |= spent;
            error
        })
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.waiting = None;
        self.state.end();
        self.state.hooks.replace(None);
    }
}

/// Calls the export, drives what it began, and writes the result.
fn handled(ctx: &Ctx<'_>, judge: &Judge<'_>, call: &Call<'_>, begin: Persistent<Function<'static>>) -> Ran<String> {
    let returned = called(ctx, judge, call, begin).map_err(|_| judge.pending(ctx));
    let settled = match returned {
        Ok(returned) => settle(ctx, judge, returned),
        Err(told) => {
            // What was begun before the throw still ends, so that nothing is left for the next run.
            drain(ctx, judge);
            Err(told)
        }
    };
    concluded(ctx, judge, settled)
}

/// Writes the result of a run that has ended, and ends what it left over.
pub(super) fn concluded<'js>(ctx: &Ctx<'js>, judge: &Judge<'_>, settled: Ran<JsValue<'js>>) -> Ran<String> {
    let outcome = settled.and_then(|value| {
        let limits = judge.state.limits.borrow().clone();
        let mut walk = Walk::new(ctx, judge.hooks, judge.state, limits.depth, limits.result);
        to_json(&mut walk, &value).map_err(|trouble| unwritten(ctx, judge, trouble.into_failure("the result")))
    });
    drain(ctx, judge);
    let unawaited = unawaited(ctx, judge, outcome.is_ok());
    let outcome = unawaited.map_or(outcome, |error| Err((error, false)));
    match (judge.state.stopped(), outcome) {
        (Some(_), Err((ScriptError::Limit { what, position }, _))) => {
            Err((ScriptError::Limit { what, position }, true))
        }
        (Some(stop), _) => Err((judge.limit(stop, None), true)),
        (None, outcome) => outcome,
    }
}

pub(super) fn called<'js>(
    ctx: &Ctx<'js>,
    judge: &Judge<'_>,
    call: &Call<'_>,
    begin: Persistent<Function<'static>>,
) -> rquickjs::Result<JsValue<'js>> {
    let begin = begin.restore(ctx)?;
    judge.hooks.set_now(ctx, call.now)?;
    if call.step.is_some() {
        judge.hooks.enter(ctx, call.step)?;
    }
    let input = ctx.json_parse(call.input)?;
    let facts = facts(ctx, call.ctx)?;
    judge.hooks.start.clone().restore(ctx)?.call((begin, call.entry, call.export, input, facts))
}

/// The members of `ctx` in the order in which the prelude takes them. Not as JSON text, which takes five times as long.
fn facts<'js>(ctx: &Ctx<'js>, facts: &Facts<'_>) -> rquickjs::Result<Array<'js>> {
    let array = Array::new(ctx.clone())?;
    let texts = [facts.tenant, facts.plugin, facts.action, facts.invocation, facts.now];
    for (at, text) in texts.into_iter().enumerate() {
        array.set(at, text)?;
    }
    array.set(5, facts.key)?;
    for (at, json) in [(6, facts.user), (7, facts.settings)] {
        array.set(at, json.map(|json| parsed(ctx, json)).transpose()?)?;
    }
    Ok(array)
}

/// The value of a JSON text of the host's.
///
/// # Errors
/// A `RangeError` where its names would take too long.
pub(super) fn parsed<'js>(ctx: &Ctx<'js>, json: &str) -> rquickjs::Result<JsValue<'js>> {
    match names::refusal(json) {
        Some(why) => Err(Exception::throw_range(ctx, &why)),
        None => ctx.json_parse(json),
    }
}

/// Drives the job queue until a promise is settled; anything else is settled already.
pub(super) fn settle<'js>(ctx: &Ctx<'js>, judge: &Judge<'_>, returned: JsValue<'js>) -> Ran<JsValue<'js>> {
    let Some(promise) = returned.as_object().and_then(|object| Promise::from_value(object.clone().into_value()).ok())
    else {
        return Ok(returned);
    };
    while promise.state() == PromiseState::Pending && judge.state.stopped().is_none() && ctx.execute_pending_job() {}
    // The handler's own promise is awaited: its rejection is the outcome, not something unhandled.
    judge.state.awaited(ctx, returned);
    match promise.result::<JsValue<'js>>() {
        Some(Ok(value)) => Ok(value),
        Some(Err(_)) => Err(judge.pending(ctx)),
        None => match judge.state.stopped() {
            Some(stop) => Err((judge.limit(stop, None), true)),
            // A job that found the heap full ends without a word.
            None if judge.hooks.collected(ctx).unwrap_or(true) => Err((judge.limit(Stop::Memory, None), true)),
            None => Err((ScriptError::Host(never_settles()), true)),
        },
    }
}

fn never_settles() -> Failure {
    Failure::contract(
        "the handler's promise never settles: nothing is left that could resolve it; every `new Promise` needs a call of \
         resolve or reject, and waiting belongs in a flow step",
    )
}

/// Runs the jobs that are left, within the deadline.
pub(super) fn drain(ctx: &Ctx<'_>, judge: &Judge<'_>) {
    while judge.state.stopped().is_none() && ctx.execute_pending_job() {}
}

/// What nobody waited for and failed: the first such rejection fails a run that did well otherwise, since it was not
/// done whole; the others are logged.
fn unawaited(ctx: &Ctx<'_>, judge: &Judge<'_>, did_well: bool) -> Option<ScriptError> {
    let (rejections, more) = judge.state.take_rejections();
    let mut failed = None;
    for (_, reason) in rejections {
        if judge.state.stopped().is_some() {
            return None;
        }
        let Ok(reason) = reason.restore(ctx) else { continue };
        let error = judge.unawaited(ctx, &reason);
        if did_well && failed.is_none() {
            failed = Some(error);
        } else if let ScriptError::Thrown { message, stack, .. } = error {
            judge.state.log(Level::Warn, format!("{message}\n{stack}").trim_end().to_owned());
        }
    }
    let unread = || ScriptError::Thrown { message: UNAWAITED.to_owned(), stack: String::new(), position: None };
    failed.or_else(|| (did_well && more).then(unread))
}

/// Why a result could not be written.
fn unwritten(ctx: &Ctx<'_>, judge: &Judge<'_>, failure: Option<Failure>) -> (ScriptError, bool) {
    match failure {
        None => judge.pending(ctx),
        Some(failure) if failure.code == crate::failure::Code::Limit => {
            let stop = if failure.detail.contains("nested") { Stop::Depth } else { Stop::Result };
            (judge.limit(stop, None), false)
        }
        Some(failure) => (ScriptError::Host(failure), false),
    }
}

fn exports(ctx: &Ctx<'_>, judge: &Judge<'_>, call: &Call<'_>, begin: Persistent<Function<'static>>) -> Ran<Exports> {
    let look = |begin: Persistent<Function<'static>>| -> rquickjs::Result<(bool, JsValue<'_>)> {
        judge.hooks.set_now(ctx, call.now)?;
        let begin = begin.restore(ctx)?;
        let found: Array<'_> = judge.hooks.exports_of.clone().restore(ctx)?.call((begin, call.entry))?;
        Ok((found.get(0)?, found.get(1)?))
    };
    let (handles, config) = look(begin).map_err(|_| judge.pending(ctx))?;
    drain(ctx, judge);
    if config.is_undefined() {
        return Ok(Exports { handles, config: None });
    }
    let mut walk = Walk::new(ctx, judge.hooks, judge.state, call.limits.depth, call.limits.result);
    match to_json(&mut walk, &config) {
        Ok(text) => Ok(Exports { handles, config: serde_json::from_str(&text).ok() }),
        Err(trouble) => Err(unwritten(ctx, judge, trouble.into_failure("config"))),
    }
}

/// The host of a module that is only looked at.
struct Nobody;

impl Host for Nobody {
    fn call(
        &mut self,
        _binding: super::Binding,
        _args: Vec<crate::codec::Value>,
    ) -> Result<crate::codec::Value, Failure> {
        Err(Failure::contract("the top level of a module cannot call the host: move the call into the handler"))
    }

    fn log(&mut self, _level: Level, _line: String) {}
}
