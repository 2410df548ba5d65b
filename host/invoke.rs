//! The heart. Every run of an action or an event handler is one [`Invocation`] with one [`Cause`], done in one
//! transaction: claim → run the script against the bindings → settle. The lane commits it (with its neighbours),
//! and only then replies and wakes who waits.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value as Json;

use crate::bindings::{Bindings, Effects, Scope, ctx, script_line};
use crate::clock::Millis;
use crate::failure::{Code, Failure};
use crate::script::{Call, Engine, EngineLimits, RunLimits, ScriptError};
use crate::store::Tx;

/// One run of an action, to be done once per cause. Immutable, so that it can be run again after a rollback that
/// was a neighbour's fault.
pub struct Invocation {
    pub scope: Scope,
    /// The module to run, in `scope.plugin.code`.
    pub entry: usize,
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

/// What a claim found.
#[derive(Debug)]
pub enum Claim {
    /// Not done yet (or to be done again): run it.
    Run,
    /// Done before: this is the recorded outcome.
    Done(Outcome),
}

/// What an invocation gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The result as JSON text.
    pub data: Arc<str>,
    /// From a record; nothing ran.
    pub replayed: bool,
    /// Until when the record keeps the result; `None` where there is no record.
    pub expires: Option<Millis>,
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

/// Does one invocation inside the transaction that `tx` holds. `now` is the instant its record will carry.
///
/// # Errors
/// See [`InvokeError`]. The transaction is then as it was before, or, when the database rolled back all of it, gone.
pub fn invoke(invocation: &Invocation, engine: &mut Engine, tx: &Tx, now: Millis) -> Result<Outcome, InvokeError> {
    if let Claim::Done(outcome) = invocation.cause.claim(tx, now)? {
        return Ok(outcome);
    }
    if let Some(fault) = &invocation.input_fault {
        return Err(fault.clone().into());
    }
    tx.mark()?;
    let outcome = run(invocation, engine, tx)
        .inspect(|_| {
            crate::crash_point!("in-invocation");
        })
        .and_then(|data| invocation.cause.settle(tx, &data, now).map_err(InvokeError::from))
        .and_then(|outcome| tx.keep().map(|()| outcome).map_err(InvokeError::from));
    if outcome.is_err() {
        tx.undo();
    }
    outcome
}

/// Runs a read action on a connection that cannot write: no cause, no record.
///
/// # Errors
/// See [`InvokeError`].
pub fn read(invocation: &Invocation, engine: &mut Engine, tx: &Tx) -> Result<Outcome, InvokeError> {
    if let Some(fault) = &invocation.input_fault {
        return Err(fault.clone().into());
    }
    let data = run(invocation, engine, tx)?;
    Ok(Outcome { data: data.into(), replayed: false, expires: None })
}

fn run(invocation: &Invocation, engine: &mut Engine, tx: &Tx) -> Result<String, InvokeError> {
    let scope = &invocation.scope;
    let call = Call {
        code: &scope.plugin.code,
        entry: invocation.entry,
        export: "handle",
        input: &invocation.input,
        ctx: &ctx::members(scope),
        now: scope.now,
        seed: ctx::seed(scope),
        limits: &invocation.limits,
    };
    let mut bindings =
        Bindings::new(scope.clone(), tx.until(Instant::now() + invocation.limits.time), invocation.payload_limit)
            .telling(invocation.cause.effects());
    bindings.intent = invocation.cause.intent();
    let began = Instant::now();
    let ran = engine.run(&call, Box::new(bindings));
    scope.origin.part("handler", began, scope.ids.as_ref());
    ran.map_err(|error| from_script(error, scope, invocation.limits.time))
}

fn from_script(error: ScriptError, scope: &Scope, time: Duration) -> InvokeError {
    match error {
        ScriptError::Business { name, message, status, details } => {
            InvokeError::Business { name, message, status, details }
        }
        ScriptError::Discard { why } => InvokeError::Discard { why },
        ScriptError::Host(failure) => InvokeError::Failure(failure),
        ScriptError::Thrown { message, stack, position } => {
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
