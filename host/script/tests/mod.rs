//! Runs scripts against a host that notes what it is asked.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use super::{Binding, Call, Engine, EngineLimits, Facts, Host, Level, RunLimits, ScriptError};
use crate::codec::Value;
use crate::failure::{Code as Name, Failure};
use crate::plugin::{Code, Module};

mod bindings;
mod guards;
mod hostile;
mod hunt;
mod names;
mod patterns;
mod realm;
mod results;
mod runs;
mod sweep;
mod thrown;
mod web;

/// What the host was asked and told, shared with the test.
#[derive(Default)]
pub struct Notes {
    pub calls: Vec<(Binding, Vec<Value>)>,
    pub lines: Vec<(Level, String)>,
}

/// Answers `echo` with the first argument's member, refuses the table `broken`.
pub struct Fake(pub Rc<RefCell<Notes>>);

impl Host for Fake {
    fn call(&mut self, binding: Binding, args: Vec<Value>) -> Result<Value, Failure> {
        self.0.borrow_mut().calls.push((binding, args.clone()));
        if args.first().and_then(Value::as_text) == Some("broken") {
            return Err(
                Failure::new(Name::Duplicate, "taken already").with_details(serde_json::json!({ "index": "u" }))
            );
        }
        Ok(match binding {
            Binding::StableId => Value::Text("stable".to_owned()),
            Binding::StoreCreateIfAbsent => Value::Object(vec![
                ("record".to_owned(), args.get(1).cloned().unwrap_or(Value::Null)),
                ("created".to_owned(), Value::Bool(true)),
            ]),
            Binding::StoreUpdate
            | Binding::StoreDelete
            | Binding::StoreGet
            | Binding::StoreList
            | Binding::StoreCount
            | Binding::FlowStart
            | Binding::FlowGet
            | Binding::FlowCancel
            | Binding::NotifyPublish => args.get(1).cloned().unwrap_or(Value::Null),
        })
    }

    fn log(&mut self, level: Level, line: String) {
        self.0.borrow_mut().lines.push((level, line));
    }
}

/// A module of its own, in the form that the compiler makes.
pub fn module(path: &str, body: &str, imports: Vec<usize>) -> Module {
    Module {
        path: path.to_owned(),
        js: format!(
            "(function (__import, __exports, __global) {{ \"use strict\"; (function (globalThis) {{{body}\n}})(__global) }})"
        ),
        map: oxc_sourcemap::SourceMap::new(None, vec![], None, vec![], vec![], vec![].into_boxed_slice(), None),
        source: String::new(),
        imports,
        whole: true,
        global: true,
        still: false,
    }
}

/// Code of one module whose `handle` is the given function expression.
pub fn handler(function: &str) -> Arc<Code> {
    code(&format!("const handle = {function}; {}", export("handle")))
}

pub fn export(name: &str) -> String {
    format!(
        "Object.defineProperty(__exports, '{name}', {{ enumerable: true, configurable: true, get() {{ return {name} }} }});"
    )
}

pub fn code(body: &str) -> Arc<Code> {
    Arc::new(Code { plugin: "p".to_owned(), modules: vec![module("p/handlers/a.ts", body, vec![])] })
}

/// One engine and what its host noted.
pub struct Bench {
    pub engine: Engine,
    pub notes: Rc<RefCell<Notes>>,
    pub limits: RunLimits,
}

impl Bench {
    pub fn new() -> Self {
        Self::with(EngineLimits::default())
    }

    pub fn with(limits: EngineLimits) -> Self {
        let limits_of_run = RunLimits { time: Duration::from_secs(2), ..RunLimits::default() };
        Self { engine: Engine::new(limits).unwrap(), notes: Rc::default(), limits: limits_of_run }
    }

    pub fn run(&mut self, code: &Arc<Code>, input: &str) -> Result<String, ScriptError> {
        let call = Call {
            code,
            entry: code.modules.len() - 1,
            export: "handle",
            input,
            ctx: &Facts { tenant: "acme", settings: Some(r#"{"a":[1]}"#), ..Facts::default() },
            now: 1_700_000_000_123,
            seed: [7; 32],
            limits: &self.limits,
            step: None,
        };
        self.engine.run(&call, Box::new(Fake(self.notes.clone())))
    }

    /// Runs `handle` given as a function expression.
    pub fn handle(&mut self, function: &str) -> Result<String, ScriptError> {
        self.run(&handler(function), "{}")
    }
}

/// Runs one function in an engine of its own, with time enough on a machine that is busy.
pub fn once(function: &str) -> Result<String, ScriptError> {
    let mut bench = Bench::new();
    bench.limits.time = Duration::from_secs(30);
    bench.handle(function)
}

/// The text of a contract error.
pub fn contract(outcome: Result<String, ScriptError>) -> String {
    match outcome {
        Err(ScriptError::Host(failure)) if failure.code == Name::Contract => failure.detail,
        other => panic!("not CONTRACT: {other:?}"),
    }
}
