//! Runs that wait for something outside of the engine, as the scripts of flow steps do. One engine has one run; a thread
//! may have many engines whose runs wait.

use std::sync::Arc;
use std::time::Instant;

use rquickjs::promise::PromiseState;
use rquickjs::{Ctx, Persistent, Promise, Value as JsValue};

use super::engine::{Engine, Ran, called, concluded, drain, settle};
use super::errors::Judge;
use super::names;
use super::values::from_value;
use super::{Call, Host, Progress, ScriptError};
use crate::codec::Value;
use crate::failure::{Code as Name, Failure};
use crate::plugin::Code;

/// The run that waits: its promise, and the code that it runs.
pub(super) struct Waiting {
    promise: Persistent<JsValue<'static>>,
    code: Arc<Code>,
}

/// Where the engine's jobs came to a rest.
enum Rest {
    Done(Ran<String>),
    Waits(Persistent<JsValue<'static>>),
}

impl Engine {
    /// Begins a run that may wait for what it begins outside.
    pub fn start(&mut self, call: &Call<'_>, host: Box<dyn Host>) -> Progress {
        let known = names::check_input(call.input).map_err(ScriptError::Host);
        let begin = match known.and_then(|()| self.compiled(call.code, Some(call.entry))) {
            Ok(begin) => begin,
            Err(error) => return Progress::Done(Err(error)),
        };
        self.state.begin(call, host);
        self.go(call.code, |ctx, judge| match called(ctx, judge, call, begin) {
            Ok(returned) => rest(ctx, judge, returned),
            Err(_) => {
                let told = judge.pending(ctx);
                drain(ctx, judge);
                Rest::Done(concluded(ctx, judge, Err(told)))
            }
        })
    }

    /// Goes on with the run that waits: what was begun under `number` has ended.
    pub fn resume(&mut self, number: u32, outcome: Result<Value, Failure>) -> Progress {
        let state = self.state.clone();
        let refused = |value: &Value| names::refusal_of(value).map(|why| Failure::new(Name::Limit, why));
        let outcome = outcome.and_then(|value| refused(&value).map_or(Ok(value), Err));
        self.wake(move |ctx, judge| {
            let value = match outcome {
                Ok(value) => Some(from_value(ctx, &value)?),
                Err(failure) => {
                    state.fail(failure);
                    None
                }
            };
            judge.hooks.settle(ctx, number, value).map(drop)
        })
    }

    /// Tells the run that waits that it is to stop: everything that it waits for is rejected.
    pub fn abort(&mut self, why: &str) -> Progress {
        self.wake(|ctx, judge| judge.hooks.abort(ctx, why))
    }

    /// Looks at the run that waits: past its time limit it ends.
    pub fn expire(&mut self) -> Progress {
        self.wake(|_, _| Ok(()))
    }

    /// When the run's time is over.
    pub fn deadline(&self) -> Option<Instant> {
        self.state.deadline()
    }

    fn wake(&mut self, knock: impl FnOnce(&Ctx<'_>, &Judge<'_>) -> rquickjs::Result<()>) -> Progress {
        let Some(Waiting { promise, code }) = self.waiting.take() else { return Progress::Waits };
        self.go(&code, |ctx, judge| {
            let knocked = match judge.state.stopped() {
                Some(stop) => return Rest::Done(Err((judge.limit(stop, None), true))),
                None => knock(ctx, judge).and_then(|()| promise.restore(ctx)),
            };
            match knocked {
                Ok(promise) => rest(ctx, judge, promise),
                Err(_) => Rest::Done(Err(judge.pending(ctx))),
            }
        })
    }

    fn go(&mut self, code: &Arc<Code>, step: impl FnOnce(&Ctx<'_>, &Judge<'_>) -> Rest) -> Progress {
        // A panic of the host's passes through: what it leaves is not used again.
        let spent = std::mem::replace(&mut self.spent, true);
        let judge = self.judge(code);
        let (rest, collected) = self.context.with(|ctx| {
            let rest = step(&ctx, &judge);
            if matches!(rest, Rest::Done(_)) {
                // What is still open outside is nobody's any more.
                let _left = judge.hooks.enter(&ctx, None);
            }
            (rest, self.hooks.collected(&ctx).unwrap_or(true))
        });
        if let Some(panic) = self.state.panic.take() {
            self.state.end();
            std::panic::resume_unwind(panic);
        }
        self.spent = spent;
        match rest {
            Rest::Waits(promise) => {
                self.waiting = Some(Waiting { promise, code: code.clone() });
                Progress::Waits
            }
            Rest::Done(ran) => Progress::Done(self.finish(ran, collected)),
        }
    }
}

/// Drives the jobs until the promise is settled, or nothing is left but to wait.
fn rest<'js>(ctx: &Ctx<'js>, judge: &Judge<'_>, returned: JsValue<'js>) -> Rest {
    if let Some(promise) = returned.as_object().and_then(|it| Promise::from_value(it.clone().into_value()).ok()) {
        while promise.state() == PromiseState::Pending && judge.state.stopped().is_none() && ctx.execute_pending_job() {
        }
        let waits = promise.state() == PromiseState::Pending && judge.state.stopped().is_none();
        match waits.then(|| judge.hooks.waits(ctx)) {
            Some(Ok(open)) if open > 0 => return Rest::Waits(Persistent::save(ctx, returned)),
            Some(Err(_)) => return Rest::Done(Err(judge.pending(ctx))),
            Some(Ok(_)) | None => {}
        }
    }
    Rest::Done(concluded(ctx, judge, settle(ctx, judge, returned)))
}
