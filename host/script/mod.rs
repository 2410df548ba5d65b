//! The script engine: the only place that knows QuickJS.
//!
//! An [`Engine`] belongs to one thread. It runs a plugin's handler in a locked realm, with fresh modules for each
//! run, and reaches the outside only through a [`Host`].

use std::sync::Arc;
use std::time::Duration;

use crate::clock::Millis;
use crate::codec::Value;
use crate::failure::{Failure, Position};
use crate::plugin::Code;

mod compiled;
mod engine;
mod errors;
mod limits;
mod names;
mod output;
mod realm;
mod state;
mod values;
mod waiting;
mod walk;
mod web;

pub use engine::Engine;

/// What a script may ask of the host. Each is one global function or method of the contract (spec §4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Binding {
    StoreCreateIfAbsent,
    StoreUpdate,
    StoreDelete,
    StoreGet,
    StoreList,
    StoreCount,
    FlowStart,
    FlowGet,
    FlowCancel,
    NotifyPublish,
    StableId,
}

/// What a script can begin that ends later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outside {
    /// `fetch`: url, method, pairs of headers, `[body, redirect]`; gives `[status, url, pairs of headers, bytes]`.
    Fetch,
    /// `invoke`: plugin, action, input, key; gives the action's data.
    Invoke,
}

/// Where a run stands.
#[derive(Debug)]
pub enum Progress {
    Done(Result<String, ScriptError>),
    /// It waits for something outside.
    Waits,
}

/// The level of a line that a script logs with `console`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Debug,
    Info,
    Warn,
    Error,
}

/// The far side of the bindings: what one run of a script may do.
pub trait Host {
    /// Does one call. An `Err` reaches the script as `{ ok: false, error }` (`stableId` throws it).
    fn call(&mut self, binding: Binding, args: Vec<Value>) -> Result<Value, Failure>;
    /// Begins what ends later, outside of the engine; its end is told with `number`. An `Err` rejects at once.
    ///
    /// # Errors
    /// Where it cannot begin: only scripts of flow steps begin anything.
    fn begin(&mut self, number: u32, what: Outside, args: Vec<Value>) -> Result<(), Failure> {
        let _nothing = (number, what, args);
        Err(Failure::contract("nothing can be begun outside of a handler: move it to a flow step"))
    }
    /// The value of a secret setting.
    ///
    /// # Errors
    /// Where there is no such setting, or no value.
    fn secret(&mut self, name: &str) -> Result<String, Failure> {
        let _none = name;
        Err(Failure::contract("secrets are there only in the scripts of flow steps: move it to a flow step"))
    }
    /// Takes one line that the script logged.
    fn log(&mut self, level: Level, line: String);
}

/// Bytes of stack of a thread that runs scripts: the engine's share, and much more for what recurses natively with no
/// look at the engine's limit (generators that run through one another). Only what is used costs memory.
pub const THREAD_STACK: usize = 64 << 20;

/// Limits of one engine (spec §5, defaults).
#[derive(Clone, Debug)]
pub struct EngineLimits {
    /// Bytes of heap, for all that the engine holds.
    pub memory: usize,
    /// Bytes of stack; on a thread that has [`THREAD_STACK`] at most [`crate::config::MOST_STACK`].
    pub stack: usize,
}

impl Default for EngineLimits {
    fn default() -> Self {
        Self { memory: 64 << 20, stack: 512 << 10 }
    }
}

/// Limits of one run.
#[derive(Clone, Debug)]
pub struct RunLimits {
    /// Wall time from the first line of the module to the settled result.
    pub time: Duration,
    /// What sets that time, as its author finds it.
    pub time_is: &'static str,
    /// Bytes of the result as JSON text.
    pub result: usize,
    /// Calls of bindings.
    pub host_calls: u32,
    /// Lines of `console`, and bytes of each line (the rest is cut, and said).
    pub log_lines: u32,
    pub log_line: usize,
    /// Levels of nesting in arguments and in the result.
    pub depth: u32,
}

impl Default for RunLimits {
    fn default() -> Self {
        Self {
            time: Duration::from_secs(1),
            time_is: "limits.handler",
            result: 1 << 20,
            host_calls: 10_000,
            log_lines: 1_000,
            log_line: 8 << 10,
            depth: 128,
        }
    }
}

/// One run of an exported function.
pub struct Call<'a> {
    pub code: &'a Arc<Code>,
    /// Index of the module in `code.modules` that holds the function.
    pub entry: usize,
    /// The exported function, `handle`.
    pub export: &'a str,
    /// The first argument, as JSON text.
    pub input: &'a str,
    pub ctx: &'a Facts<'a>,
    /// What `Date.now()` says throughout.
    pub now: Millis,
    /// What `Math.random` and `crypto` are seeded from.
    pub seed: [u8; 32],
    pub limits: &'a RunLimits,
    /// What `run` says, as the text of a JSON object; `None` outside of flow steps.
    pub step: Option<&'a str>,
}

/// The plain members of `ctx`: all but `stableId`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Facts<'a> {
    pub tenant: &'a str,
    pub plugin: &'a str,
    pub action: &'a str,
    pub invocation: &'a str,
    /// `ctx.now`
    pub now: &'a str,
    pub key: Option<&'a str>,
    /// `ctx.user` and `ctx.settings`, as JSON text; without it `null` and `{}`.
    pub user: Option<&'a str>,
    pub settings: Option<&'a str>,
}

/// What a handler file exports.
#[derive(Clone, Debug, PartialEq)]
pub struct Exports {
    /// Whether `handle` is a function.
    pub handles: bool,
    pub config: Option<serde_json::Value>,
}

/// Why a run gave no result.
#[derive(Clone, Debug, PartialEq)]
pub enum ScriptError {
    /// `throw new BizError(name, message, { status, details })`
    Business { name: String, message: String, status: u16, details: serde_json::Value },
    /// `throw new Discard(why)`
    Discard { why: String },
    /// An error of the host's, thrown on as it is; or a result that breaks the contract.
    Host(Failure),
    /// Anything else that was thrown: `message` has the error's name and message, `stack` the mapped stack.
    Thrown { message: String, stack: String, position: Option<Position> },
    /// Time, memory, stack, host calls or result size: `what` names the limit in a full sentence.
    Limit { what: String, position: Option<Position> },
}

#[cfg(test)]
mod tests;
