//! The heart. Every run of an action or an event handler is one [`Invocation`] with one [`Cause`], done in one
//! transaction: claim → run the script against the bindings → settle. The lane commits it (with its neighbours),
//! and only then replies and wakes who waits.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value as Json;

use crate::bindings::{Bindings, Effects, Scope, ctx, script_line};
use crate::clock::Millis;
use crate::codec::Value;
use crate::config::Veil;
use crate::failure::{Code, Failure};
use crate::script::{Binding, Call, Engine, EngineLimits, Host, RunLimits, ScriptError};
use crate::store::keys::KeyId;
use crate::store::{Fate, Tx};
use crate::workflow::Wakes;

/// One run of an action, to be done once per cause. Immutable, so that it can be run again after a rollback that
/// was a neighbour's fault.
pub struct Invocation {
    pub scope: Scope,
    pub run: Run,
    /// The input as JSON text.
    pub input: String,
    /// What is wrong with the input, found before but told only when the cause has been claimed.
    pub input_fault: Option<Failure>,
    pub limits: RunLimits,
    pub engine: EngineLimits,
    /// Bytes of a published payload or a seed.
    pub payload_limit: usize,
    pub cause: Box<dyn Cause>,
}

/// What an invocation does between its claim and its settlement.
pub enum Run {
    /// Calls `handle` of this module in `scope.plugin.code`.
    Entry(usize),
    /// Does one call of a binding, for a script that runs outside of any transaction.
    Call(HostCall),
    /// Nothing: it has ended outside of any transaction, like this.
    Ended(Result<String, InvokeError>),
}

/// See [`Run::Call`].
pub struct HostCall {
    pub binding: Binding,
    pub args: Vec<Value>,
    /// How many events the script published before, by topic.
    pub published: HashMap<String, u32>,
    /// What the call gave, and how many events there are now.
    pub gave: Mutex<Option<(Value, HashMap<String, u32>)>>,
}

/// Why an invocation happens, and what makes it happen once.
pub trait Cause: Send + Sync + Debug {
    /// Takes the cause, inside the transaction and before the script.
    ///
    /// # Errors
    /// When this invocation must not run.
    fn claim(&self, tx: &Tx, now: Millis) -> Result<Claim, Failure>;

    /// Records that the cause was served, in the same transaction as the script's writes.
    ///
    /// # Errors
    /// When that cannot be recorded; nothing of the invocation is kept then.
    fn settle(&self, tx: &Tx, data: &str, now: Millis) -> Result<Outcome, Failure>;

    /// Records that the invocation failed, when its writes are undone and in the transaction that its neighbours are in.
    /// Gives the outcome where that settles it.
    ///
    /// # Errors
    /// When that cannot be recorded.
    fn failed(&self, _tx: &Tx, _error: &InvokeError, _now: Millis) -> Result<Option<Outcome>, Failure> {
        Ok(None)
    }

    /// The key of the record that [`Cause::claim`] looks for, where that is the first thing it does.
    fn key(&self) -> Option<&KeyId> {
        None
    }

    /// Whether a claim finds out, after a commit whose outcome is unknown, what became of it.
    fn is_recorded(&self) -> bool;

    /// Where the changes of the run are to be told; nobody asks for most.
    fn effects(&self) -> Option<Effects> {
        None
    }

    /// Once claimed: a number that is the same for each try of one intent, and another for a later intent that may use
    /// the same key, since the first one's record is no longer kept. `None`: a key has one intent for ever.
    fn intent(&self) -> Option<i64> {
        None
    }
}

/// The cause of what happens each time and leaves no record: a call without a key, one call of a script's.
#[derive(Debug)]
pub struct Unrecorded;

impl Cause for Unrecorded {
    fn claim(&self, _tx: &Tx, _now: Millis) -> Result<Claim, Failure> {
        Ok(Claim::Run)
    }

    fn settle(&self, _tx: &Tx, data: &str, _now: Millis) -> Result<Outcome, Failure> {
        Ok(Outcome::new(data))
    }

    fn is_recorded(&self) -> bool {
        false
    }
}

/// What a claim found.
#[derive(Debug)]
pub enum Claim {
    /// Not done yet (or to be done again): run it.
    Run,
    /// Done before: this is the recorded outcome.
    Done(Outcome),
}

/// What an invocation gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The result as JSON text.
    pub data: Arc<str>,
    /// From a record; nothing ran.
    pub replayed: bool,
    /// Until when the record keeps the result; `None` where there is no record.
    pub expires: Option<Millis>,
    /// What is to happen once it has committed.
    pub wakes: Option<Box<Wakes>>,
}

impl Outcome {
    /// A result that is not from a record, and that no record keeps.
    pub fn new(data: impl Into<Arc<str>>) -> Self {
        Self { data: data.into(), replayed: false, expires: None, wakes: None }
    }

    /// The same, with more to happen once it has committed.
    #[must_use]
    pub fn waking(mut self, wakes: Wakes) -> Self {
        if !wakes.is_empty() {
            self.wakes.get_or_insert_default().add(wakes);
        }
        self
    }
}

/// Why an invocation gave nothing; none of its writes are kept.
#[derive(Clone, Debug, PartialEq)]
pub enum InvokeError {
    /// `throw new BizError(name, message, { status, details })`
    Business {
        name: String,
        message: String,
        status: u16,
        details: Json,
    },
    /// `throw new Discard(why)`, which only event handlers may.
    Discard {
        why: String,
    },
    Failure(Failure),
}

/// Bytes of an error's details that are kept.
const MOST_DETAILS: usize = 8 << 10;

impl InvokeError {
    /// What it says for programs, as JSON text to be kept; `None` where it says nothing, or too much.
    pub fn details(&self) -> Option<String> {
        let details = match self {
            InvokeError::Business { details, .. } | InvokeError::Failure(Failure { details, .. }) => details,
            InvokeError::Discard { .. } => return None,
        };
        Some(details.to_string()).filter(|text| *details != Json::Null && text.len() <= MOST_DETAILS)
    }
}

impl From<Failure> for InvokeError {
    fn from(failure: Failure) -> Self {
        InvokeError::Failure(failure)
    }
}

impl From<crate::store::StoreError> for InvokeError {
    fn from(error: crate::store::StoreError) -> Self {
        InvokeError::Failure(error.into())
    }
}

/// Does one invocation inside the transaction that `tx` holds. `now` is the instant its record will carry. `engine`
/// is needed only where it runs a module.
///
/// # Errors
/// See [`InvokeError`]. The transaction is then as it was before, or, when the database rolled back all of it, gone.
pub fn invoke(
    invocation: &Invocation,
    engine: Option<&mut Engine>,
    tx: &Tx,
    now: Millis,
) -> Result<Outcome, InvokeError> {
    let error = match claimed(invocation, engine, tx, now) {
        Ok(outcome) => return Ok(outcome),
        Err(error) => error,
    };
    if tx.fate() != Fate::Open {
        return Err(error);
    }
    let cause = &invocation.cause;
    match within(tx, || cause.failed(tx, &error, now).map_err(InvokeError::from)) {
        Ok(Some(outcome)) => Ok(outcome),
        Ok(None) => Err(error),
        Err(unrecorded) => Err(unrecorded),
    }
}

fn claimed(invocation: &Invocation, engine: Option<&mut Engine>, tx: &Tx, now: Millis) -> Result<Outcome, InvokeError> {
    let writes = matches!(invocation.run, Run::Entry(_) | Run::Call(_));
    if writes && invocation.cause.key().is_none() && !invocation.scope.plugin.schema.tables.is_empty() {
        // Its tables must be as they are seen to be from before the transaction begins, which the claim may do.
        tx.tables_version()?;
    }
    if let Claim::Done(outcome) = invocation.cause.claim(tx, now)? {
        return Ok(outcome);
    }
    if let Some(fault) = &invocation.input_fault {
        return Err(fault.clone().into());
    }
    within(tx, || {
        let (data, wakes) = run(invocation, engine, tx)?;
        crate::crash_point!("in-invocation");
        Ok(invocation.cause.settle(tx, &data, now)?.waking(wakes))
    })
}

/// Does `work` so that nothing of it is left where it fails.
fn within<R>(tx: &Tx, work: impl FnOnce() -> Result<R, InvokeError>) -> Result<R, InvokeError> {
    tx.mark()?;
    let done = work().and_then(|done| tx.keep().map(|()| done).map_err(InvokeError::from));
    if done.is_err() {
        tx.undo();
    }
    done
}

/// Runs a read action on a connection that cannot write: no cause, no record.
///
/// # Errors
/// See [`InvokeError`].
pub fn read(invocation: &Invocation, engine: Option<&mut Engine>, tx: &Tx) -> Result<Outcome, InvokeError> {
    if let Some(fault) = &invocation.input_fault {
        return Err(fault.clone().into());
    }
    run(invocation, engine, tx).map(|(data, _)| Outcome::new(data))
}

fn run(invocation: &Invocation, engine: Option<&mut Engine>, tx: &Tx) -> Result<(String, Wakes), InvokeError> {
    let scope = &invocation.scope;
    let bindings = || {
        let tx = tx.until(Instant::now() + invocation.limits.time);
        Bindings::new(scope.clone(), tx, invocation.payload_limit)
    };
    let (entry, engine) = match (&invocation.run, engine) {
        (Run::Entry(entry), Some(engine)) => (*entry, engine),
        (Run::Entry(_), None) => return Err(Failure::new(Code::Unavailable, "no script engine").into()),
        (Run::Ended(result), _) => return result.clone().map(|data| (data, Wakes::default())),
        (Run::Call(call), _) => {
            let mut bindings = bindings();
            bindings.published.clone_from(&call.published);
            let value = bindings.call(call.binding, call.args.clone())?;
            let wakes = bindings.wakes().take();
            *call.gave.lock().unwrap_or_else(PoisonError::into_inner) = Some((value, bindings.published));
            return Ok(("null".to_owned(), wakes));
        }
    };
    let written = ctx::Written::new(scope);
    let call = Call {
        code: &scope.plugin.code,
        entry,
        export: "handle",
        input: &invocation.input,
        ctx: &written.facts(scope),
        now: scope.now,
        seed: ctx::seed(scope),
        limits: &invocation.limits,
        step: None,
    };
    let mut bindings = bindings().telling(invocation.cause.effects());
    bindings.intent = invocation.cause.intent();
    let wakes = bindings.wakes();
    let began = Instant::now();
    let ran = engine.run(&call, Box::new(bindings));
    scope.origin.part("handler", began, scope.ids.as_ref());
    let data = ran.map_err(|error| from_script(error, scope, invocation.limits.time, &scope.plugin.veil()))?;
    Ok((data, wakes.take()))
}

/// What an error of a script's is to those who called it; what was thrown goes to the log. Neither shows what is behind
/// the veil.
pub fn from_script(error: ScriptError, scope: &Scope, time: Duration, veil: &Veil) -> InvokeError {
    let hidden = |mut text: String| {
        veil.hide(&mut text);
        text
    };
    match error {
        ScriptError::Business { name, message, status, details } => {
            InvokeError::Business { name, message: hidden(message), status, details }
        }
        ScriptError::Discard { why } => InvokeError::Discard { why: hidden(why) },
        ScriptError::Host(failure) => {
            InvokeError::Failure(Failure { detail: hidden(failure.detail.clone()), ..failure })
        }
        ScriptError::Thrown { message, stack, position } => {
            let (message, stack) = (hidden(message), hidden(stack));
            script_line!(ERROR, scope, stack, "the handler threw: {message}");
            let mut failure = Failure::new(Code::Script, message);
            failure.position = position;
            InvokeError::Failure(failure)
        }
        ScriptError::Limit { what, position } => {
            script_line!(WARN, scope, ?time, "a limit ended the handler: {what}");
            let mut failure = Failure::new(Code::Limit, what);
            failure.position = position;
            InvokeError::Failure(failure)
        }
    }
}
