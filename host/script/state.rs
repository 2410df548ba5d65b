//! What belongs to the run that is under way, and the functions through which the prelude reaches it.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::{Duration, Instant};

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use rquickjs::convert::List;
use rquickjs::{Array, Ctx, Error, Exception, Function, Object, Persistent, Result as JsResult, Value as JsValue};

use super::engine::parsed;
use super::limits::{SPARE, Stop};
use super::realm::Hooks;
use super::values::{from_value, to_value};
use super::walk::Walk;
use super::{Binding, Call, Host, Level, Outside, RunLimits};
use crate::codec::Value;
use crate::failure::{Code, Failure};
use crate::plugin::pattern;

/// The bindings in the order of their numbers in the prelude, with the names of their arguments.
const BINDINGS: [(Binding, [&str; 3]); 11] = [
    (Binding::StoreCreateIfAbsent, ["table", "record", "uniqueBy"]),
    (Binding::StoreUpdate, ["table", "where", "patch"]),
    (Binding::StoreDelete, ["table", "where", ""]),
    (Binding::StoreGet, ["table", "where", ""]),
    (Binding::StoreList, ["table", "options", ""]),
    (Binding::StoreCount, ["table", "where", ""]),
    (Binding::FlowStart, ["name", "bizId", "seed"]),
    (Binding::FlowGet, ["workflowId", "", ""]),
    (Binding::FlowCancel, ["workflowId", "reason", ""]),
    (Binding::NotifyPublish, ["topic", "payload", "options"]),
    (Binding::StableId, ["scope", "", ""]),
];

/// Bytes that the arguments of one call may hold: they leave the engine's heap, so its limit does not bound them.
const MOST_ARGUMENT_BYTES: usize = 8 << 20;
/// Rejections that are remembered one by one.
const MOST_REJECTIONS: usize = 64;

/// What some turns in a row may take before each of them is looked at; and how many there are in such a row.
const LONG: Duration = Duration::from_millis(1);
const MOST_TURNS: i32 = 63;
/// Added to what `budget` gives where the heap is to be looked at.
const LOOK_AT_HEAP: i32 = 1024;

/// How long a run keeps its processor before it lets other threads that wait for one go first.
const OWN: Duration = Duration::from_micros(100);

type Kept = Persistent<JsValue<'static>>;

/// The run under way; between runs it is empty.
#[derive(Default)]
pub(super) struct State {
    pub host: RefCell<Option<Box<dyn Host>>>,
    pub limits: RefCell<RunLimits>,
    began: Cell<Option<Instant>>,
    deadline: Cell<Option<Instant>>,
    stop: Cell<Option<Stop>>,
    /// When the script last asked for a budget, and what it was given.
    asked: Cell<(Option<Instant>, i32)>,
    /// When the run last let others go first.
    gave_way: Cell<Option<Instant>>,
    /// When the heap was last looked at.
    weighed: Cell<Option<Instant>>,
    calls: Cell<u32>,
    lines: Cell<u32>,
    random: RefCell<Option<ChaCha8Rng>>,
    /// Every failure that the script was given, so that one thrown on is told as it was.
    pub failures: RefCell<Vec<Failure>>,
    /// Promises that were rejected with nobody waiting: promise and reason.
    rejections: RefCell<Vec<(Kept, Kept)>>,
    /// How many more there are, beyond those.
    forgotten: Cell<u32>,
    pub hooks: RefCell<Option<Rc<Hooks>>>,
    /// Limits that the run came up against, by their names.
    pub hits: RefCell<Vec<&'static str>>,
    /// A panic of the host's, to go on once the script is stopped.
    pub panic: RefCell<Option<Box<dyn Any + Send>>>,
    /// The number of the last thing that was begun outside; never used again in this engine.
    begun: Cell<u32>,
}

impl State {
    pub fn begin(&self, call: &Call<'_>, host: Box<dyn Host>) {
        self.host.replace(Some(host));
        self.limits.replace(call.limits.clone());
        self.random.replace(Some(ChaCha8Rng::from_seed(call.seed)));
        self.calls.set(0);
        self.lines.set(0);
        self.hits.borrow_mut().clear();
        self.stop.set(None);
        self.asked.set((None, 0));
        self.gave_way.set(Some(Instant::now()));
        self.weighed.set(Some(Instant::now()));
        self.began.set(Some(Instant::now()));
        self.deadline.set(Instant::now().checked_add(call.limits.time));
    }

    /// Ends the run: nothing of it is left.
    pub fn end(&self) {
        self.host.replace(None);
        self.random.replace(None);
        self.failures.borrow_mut().clear();
        self.take_rejections();
        self.deadline.set(None);
        self.stop.set(None);
    }

    /// Why the run must stop, if it must.
    pub fn stopped(&self) -> Option<Stop> {
        if self.stop.get().is_none() && self.deadline.get().is_some_and(|deadline| Instant::now() >= deadline) {
            self.stop.set(Some(Stop::Time));
        }
        self.stop.get()
    }

    /// The same, asked by a script on its way. One that computes for long gives way now and then: left to the operating
    /// system, it would keep others' short calls waiting for some milliseconds each time they need a processor.
    pub fn stopped_midway(&self) -> Option<Stop> {
        if self.gave_way.get().is_some_and(|at| at.elapsed() >= OWN) {
            std::thread::yield_now();
            self.gave_way.set(Some(Instant::now()));
        }
        self.stopped()
    }

    /// How many turns may go by until this is asked again: none where they prove to take long. Less than none where
    /// the run must stop.
    fn budget(&self) -> i32 {
        if self.stopped_midway().is_some() {
            return -1;
        }
        let now = Instant::now();
        let (before, given) = self.asked.get();
        let long = before.is_some_and(|before| now - before > LONG);
        let next = if long { 0 } else { (given * 2 + 1).min(MOST_TURNS) };
        self.asked.set((Some(now), next));
        if !long && self.weighed.get().is_some_and(|before| now - before < LONG) {
            return next;
        }
        self.weighed.set(Some(now));
        next + LOOK_AT_HEAP
    }

    /// Notes that the prelude ends the run.
    fn end_for(&self, stop: Stop) {
        if self.stop.get().is_none() {
            self.stop.set(Some(stop));
        }
    }

    /// When the run is over, whatever it does.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline.get()
    }

    /// Lets the prelude describe what was thrown, for a short while beyond the deadline.
    pub fn grace(&self) {
        let grace = Instant::now().checked_add(Duration::from_millis(50));
        self.deadline.set(self.deadline.get().max(grace));
    }

    fn hooks(&self) -> JsResult<Rc<Hooks>> {
        self.hooks.borrow().clone().ok_or(Error::Unknown)
    }

    /// Notes that the run came up against a limit.
    pub fn hit(&self, limit: &'static str) {
        let mut hits = self.hits.borrow_mut();
        if !hits.contains(&limit) {
            hits.push(limit);
        }
    }

    pub fn fail(&self, failure: Failure) {
        self.failures.borrow_mut().push(failure);
    }

    pub fn log(&self, level: Level, line: String) {
        let (most_lines, most_bytes) = {
            let limits = self.limits.borrow();
            (limits.log_lines, limits.log_line)
        };
        let lines = self.lines.get().saturating_add(1);
        self.lines.set(lines);
        let line = match lines.checked_sub(most_lines) {
            None | Some(0) => cut(line, most_bytes),
            Some(1) => {
                self.hit("logLines");
                format!("more than {most_lines} lines of console in one run (limits.logLines): the rest is left out")
            }
            Some(_) => return,
        };
        if let Some(host) = self.host.borrow_mut().as_mut() {
            host.log(level, line);
        }
    }

    fn call<'js>(&self, ctx: &Ctx<'js>, binding: usize, args: &[JsValue<'js>; 3]) -> JsResult<JsValue<'js>> {
        let calls = self.calls.get() + 1;
        self.calls.set(calls);
        if calls > self.limits.borrow().host_calls && self.stop.get().is_none() {
            self.stop.set(Some(Stop::HostCalls));
        }
        if self.stopped().is_some() {
            // The interrupt follows within a few thousand steps, and cannot be caught.
            return Err(Exception::throw_internal(ctx, "stopped"));
        }
        let (binding, names) = BINDINGS[binding];
        let outcome = match self.arguments(ctx, args, &names)? {
            Ok(args) => self.ask(binding, args).inspect_err(|failure| {
                if failure.code == Code::Limit {
                    let sends = matches!(binding, Binding::FlowStart | Binding::NotifyPublish);
                    self.hit(if sends { "payload" } else { "time" });
                }
            }),
            Err(failure) => {
                if failure.code == Code::Limit {
                    self.hit(if failure.detail.contains("nested") { "depth" } else { "arguments" });
                }
                Err(failure)
            }
        };
        match outcome {
            // `undefined` says "failed" to the prelude.
            Ok(Value::Undefined) => Ok(JsValue::new_null(ctx.clone())),
            Ok(value) => from_value(ctx, &value),
            Err(failure) => {
                self.fail(failure);
                Ok(JsValue::new_undefined(ctx.clone()))
            }
        }
    }

    fn ask(&self, binding: Binding, args: Vec<Value>) -> Result<Value, Failure> {
        match self.host.borrow_mut().as_mut() {
            // The engine would make an exception of a panic, and a script could catch that.
            Some(host) => catch_unwind(AssertUnwindSafe(|| host.call(binding, args))).unwrap_or_else(|panic| {
                self.panic.replace(Some(panic));
                self.stop.set(Some(Stop::HostCalls));
                Err(Failure::new(Code::Unavailable, "the host failed"))
            }),
            None => {
                Err(Failure::contract("no binding can be called here: the top level of a module runs before any call"))
            }
        }
    }

    /// Begins something outside. Gives its number, or `undefined` for a failure.
    fn begin_outside<'js>(&self, ctx: &Ctx<'js>, what: u32, args: &[JsValue<'js>; 4]) -> JsResult<JsValue<'js>> {
        let (what, names) = match what {
            0 => (Outside::Fetch, ["url", "method", "headers", "body"]),
            _ => (Outside::Invoke, ["plugin", "action", "input", "idempotencyKey"]),
        };
        let number = self.begun.get().wrapping_add(1);
        self.begun.set(number);
        let outcome = match self.arguments(ctx, args, &names)? {
            Ok(args) => match self.host.borrow_mut().as_mut() {
                Some(host) => host.begin(number, what, args),
                None => Err(Failure::contract("nothing can be begun at the top level of a module")),
            },
            Err(failure) => Err(failure),
        };
        Ok(match outcome {
            Ok(()) => JsValue::new_number(ctx.clone(), f64::from(number)),
            Err(failure) => {
                self.fail(failure);
                JsValue::new_undefined(ctx.clone())
            }
        })
    }

    fn secret(&self, name: &str) -> Option<String> {
        let given = match self.host.borrow_mut().as_mut() {
            Some(host) => host.secret(name),
            None => Err(Failure::contract("there are no secrets at the top level of a module")),
        };
        given.map_err(|failure| self.fail(failure)).ok()
    }

    fn arguments<'js, const N: usize>(
        &self,
        ctx: &Ctx<'js>,
        args: &[JsValue<'js>; N],
        names: &[&str; N],
    ) -> JsResult<Result<Vec<Value>, Failure>> {
        let hooks = self.hooks()?;
        let given = args.iter().rposition(|arg| !arg.is_undefined()).map_or(0, |last| last + 1);
        let mut walk = Walk::new(ctx, &hooks, self, self.limits.borrow().depth, MOST_ARGUMENT_BYTES);
        let mut values = Vec::with_capacity(given);
        for (arg, name) in args.iter().zip(names).take(given) {
            match to_value(&mut walk, arg) {
                Ok(value) => values.push(value),
                Err(trouble) => {
                    return match trouble.into_failure(if name.is_empty() { "the argument" } else { name }) {
                        Some(failure) => Ok(Err(failure)),
                        None => Err(Error::Exception),
                    };
                }
            }
        }
        Ok(Ok(values))
    }

    /// The last failure, as the prelude makes an error of it.
    fn failed<'js>(&self, ctx: &Ctx<'js>) -> JsResult<Array<'js>> {
        let failures = self.failures.borrow();
        let (Some(failure), Some(index)) = (failures.last(), failures.len().checked_sub(1)) else {
            return Err(Error::Unknown);
        };
        let parts = Array::new(ctx.clone())?;
        parts.set(0, index)?;
        parts.set(1, failure.code.name())?;
        parts.set(2, failure.detail.as_str())?;
        parts.set(3, failure.code.retryable())?;
        let details = if failure.details.is_null() {
            JsValue::new_undefined(ctx.clone())
        } else {
            parsed(ctx, &failure.details.to_string())?
        };
        parts.set(4, details)?;
        Ok(parts)
    }

    /// A fraction in [0, 1) with 53 random bits.
    fn random(&self) -> f64 {
        let bits = self.random.borrow_mut().as_mut().map_or(0, Rng::next_u64) >> 11;
        #[expect(clippy::cast_precision_loss, reason = "53 bits are exact")]
        let fraction = bits as f64 / (1_u64 << 53) as f64;
        fraction
    }

    pub fn random_bytes(&self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        if let Some(random) = self.random.borrow_mut().as_mut() {
            random.fill_bytes(&mut bytes);
        }
        bytes
    }

    /// Notes a rejected promise, or that somebody took care of it after all.
    pub fn rejected<'js>(&self, ctx: &Ctx<'js>, promise: JsValue<'js>, reason: JsValue<'js>, handled: bool) {
        let mut rejections = self.rejections.borrow_mut();
        let promise = Persistent::save(ctx, promise);
        if handled {
            let before = rejections.len();
            rejections.retain(|(known, _)| *known != promise);
            if rejections.len() == before {
                self.forgotten.set(self.forgotten.get().saturating_sub(1));
            }
        } else if rejections.len() < MOST_REJECTIONS {
            rejections.push((promise, Persistent::save(ctx, reason)));
        } else {
            self.forgotten.set(self.forgotten.get().saturating_add(1));
        }
    }

    /// Notes that the host itself waits for a promise, which may not have been rejected at all.
    pub fn awaited<'js>(&self, ctx: &Ctx<'js>, promise: JsValue<'js>) {
        let promise = Persistent::save(ctx, promise);
        self.rejections.borrow_mut().retain(|(known, _)| *known != promise);
    }

    /// The rejections that nobody took care of, and whether there are more than were remembered.
    pub fn take_rejections(&self) -> (Vec<(Kept, Kept)>, bool) {
        (self.rejections.take(), self.forgotten.take() > 0)
    }
}

/// At most `most` bytes of a line; that it was cut is said.
fn cut(mut line: String, most: usize) -> String {
    if line.len() > most {
        let end = line.floor_char_boundary(most);
        line.truncate(end);
        line.push_str(&format!("… (cut at {most} bytes, limits.logLine)"));
    }
    line
}

/// The object that the prelude knows as `native`.
///
/// # Errors
/// Only when memory runs out.
pub(super) fn natives<'js>(ctx: &Ctx<'js>, state: &Rc<State>) -> JsResult<Object<'js>> {
    let natives = Object::new(ctx.clone())?;
    let of = state.clone();
    let call = move |binding: usize, a: JsValue<'js>, b: JsValue<'js>, c: JsValue<'js>| {
        let ctx = a.ctx().clone();
        of.call(&ctx, binding, &[a, b, c])
    };
    natives.set("call", Function::new(ctx.clone(), call)?)?;
    let of = state.clone();
    let begin = move |what: u32, a: JsValue<'js>, b: JsValue<'js>, c: JsValue<'js>, d: JsValue<'js>| {
        let ctx = a.ctx().clone();
        of.begin_outside(&ctx, what, &[a, b, c, d])
    };
    natives.set("begin", Function::new(ctx.clone(), begin)?)?;
    let of = state.clone();
    natives.set("secret", Function::new(ctx.clone(), move |name: String| of.secret(&name))?)?;
    let of = state.clone();
    natives.set("failed", Function::new(ctx.clone(), move |ctx: Ctx<'js>| of.failed(&ctx))?)?;
    let of = state.clone();
    let contract = move |message: String| of.fail(Failure::contract(message));
    natives.set("contract", Function::new(ctx.clone(), contract)?)?;
    let reserved = |name: String| Code::from_name(&name).is_some();
    natives.set("reserved", Function::new(ctx.clone(), reserved)?)?;
    let of = state.clone();
    natives.set("random", Function::new(ctx.clone(), move || of.random())?)?;
    let of = state.clone();
    let log = move |level: u32, line: rquickjs::String<'js>| {
        let level = match level {
            0 => Level::Debug,
            1 => Level::Info,
            2 => Level::Warn,
            _ => Level::Error,
        };
        of.log(level, line.to_string().unwrap_or_else(|_| "a line that is not Unicode text".to_owned()));
    };
    natives.set("log", Function::new(ctx.clone(), log)?)?;
    let of = state.clone();
    natives.set("room", Function::new(ctx.clone(), move || of.limits.borrow().log_line)?)?;
    let of = state.clone();
    natives.set("budget", Function::new(ctx.clone(), move || of.budget())?)?;
    let of = state.clone();
    natives.set("full", Function::new(ctx.clone(), move || of.end_for(Stop::Memory))?)?;
    let of = state.clone();
    natives.set("huge", Function::new(ctx.clone(), move || of.end_for(Stop::BigInt))?)?;
    let of = state.clone();
    natives.set(
        "elapsed",
        Function::new(ctx.clone(), move || of.began.get().map_or(0.0, |began| began.elapsed().as_secs_f64() * 1e3))?,
    )?;
    natives.set("collect", Function::new(ctx.clone(), |ctx: Ctx<'js>| ctx.run_gc())?)?;
    natives.set("spare", Function::new(ctx.clone(), || SPARE)?)?;
    let of = state.clone();
    natives.set("stopped", Function::new(ctx.clone(), move || of.stopped().is_some())?)?;
    let plain = |value: JsValue<'js>| value.is_array() && !value.is_proxy();
    natives.set("isPlainArray", Function::new(ctx.clone(), plain)?)?;
    natives.set("isProxy", Function::new(ctx.clone(), |value: JsValue<'js>| value.is_proxy())?)?;
    patterns(ctx, &natives)?;
    natives.set("most", Function::new(ctx.clone(), || MOST_ARGUMENT_BYTES)?)?;
    Ok(natives)
}

/// What the prelude asks about regular expressions.
fn patterns<'js>(ctx: &Ctx<'js>, natives: &Object<'js>) -> JsResult<()> {
    let stoppable = |ctx: Ctx<'js>, source: String, flags: String| {
        pattern::stoppable(&source, &flags).map_err(|why| Exception::throw_range(&ctx, &why))
    };
    natives.set("stoppable", Function::new(ctx.clone(), stoppable)?)?;
    let manner = |source: String, flags: String| {
        let manner = pattern::manner(&source, &flags);
        let reach = manner.as_ref().and_then(|manner| manner.reach).map_or(f64::INFINITY, f64::from);
        List((reach, manner.is_some_and(|manner| manner.anchored)))
    };
    let counted = |source: String, flags: String| pattern::counted(&source, &flags);
    natives.set("opens", pattern::OPENS)?;
    natives.set("closes", pattern::CLOSES)?;
    natives.set("turns", pattern::TURNS)?;
    natives.set("manner", Function::new(ctx.clone(), manner)?)?;
    natives.set("counted", Function::new(ctx.clone(), counted)?)?;
    Ok(())
}
