//! The HTTP cause: an invocation under a caller's key. Also the way in of `oncehost invoke`.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};

use crate::app::App;
use crate::aside::{ANYBODY, LONG, aside};
use crate::bindings::Scope;
use crate::clock::{Millis, millis};
use crate::failure::{Code, Failure};
use crate::invoke::{self, Cause, Claim, Invocation, InvokeError, Outcome, Unrecorded};
use crate::metrics::{self, PluginMetrics};
use crate::plugin::{Action, KeyRule, Kind, Plugin, Replay};
use crate::script::{EngineLimits, RunLimits};
use crate::store::Tx;
use crate::store::keys::{self, KeyId, KeyRecord};
use crate::suggest;
use crate::trace::{Facts, Origin};

mod cost;
mod fields;
mod in_flight;
pub mod key;
pub mod request;

pub use crate::auth::{Caller, User};
pub(crate) use fields::check_input;
pub use in_flight::InFlight;
use request::Fingerprint;

/// A call as it came in: nothing is checked yet but the credentials' form.
pub struct Request {
    pub plugin: String,
    pub action: String,
    /// The lines of the `Idempotency-Key` header, as raw bytes; empty without one.
    pub key: Vec<Vec<u8>>,
    /// The body, expected to be I-JSON.
    pub body: Vec<u8>,
    pub origin: Origin,
}

/// Does one call: checks it in the contract's order, replays or runs it, and gives the reply once it is on disk.
/// `caller` is awaited after the body is parsed and before the action is looked up.
///
/// # Errors
/// See [`InvokeError`]; nothing was committed then, unless the failure says that the outcome is unknown.
pub async fn call(
    app: &Arc<App>,
    request: Request,
    caller: impl Future<Output = Result<Caller, Failure>>,
) -> Result<Outcome, InvokeError> {
    let admitted = admit(app, &request, caller).await.inspect_err(|failure| app.metrics.turned_away(failure.code))?;
    let (metrics, action) = (app.metrics.plugin(&admitted.plugin.id), admitted.action.clone());
    let now = app.clock.now();
    let run = Run { now, invocation: app.ids.rising(now).to_string(), origin: request.origin };
    let told = run.origin.facts.clone().map(|facts| (facts, admitted.caller.tenant.clone(), run.invocation.clone()));
    let called = keyed(app, &request.key, admitted, run, &metrics).await;
    let outcome = counted(&called);
    metrics.call(&action.name, outcome);
    if let Some((facts, tenant, invocation)) = told {
        let (plugin, action) = (request.plugin, request.action);
        // Nobody else fills them in.
        let _once = facts.set(Facts { plugin, action, tenant, invocation, outcome: outcome.name() });
    }
    called
}

/// What tells one run from all others.
struct Run {
    now: Millis,
    invocation: String,
    origin: Origin,
}

/// A call that may be tried: its body is JSON, its caller known, and there is such an action.
struct Admitted {
    input: Json,
    is_long: bool,
    caller: Caller,
    plugin: Arc<Plugin>,
    action: Arc<Action>,
}

async fn admit(
    app: &App,
    request: &Request,
    caller: impl Future<Output = Result<Caller, Failure>>,
) -> Result<Admitted, Failure> {
    let is_long = request.body.len() > LONG;
    let input = aside(is_long, ANYBODY, || request::parse(&request.body)).await?;
    let caller = caller.await?;
    let (plugin, action) = find(app, &request.plugin, &request.action)?;
    caller.need(&format!("invoke:{}", plugin.id))?;
    Ok(Admitted { input, is_long, caller, plugin, action })
}

fn counted(called: &Result<Outcome, InvokeError>) -> metrics::Outcome {
    match called {
        Ok(outcome) if outcome.replayed => metrics::Outcome::Replayed,
        Ok(_) => metrics::Outcome::Ok,
        Err(InvokeError::Business { .. }) => metrics::Outcome::Refused,
        Err(InvokeError::Discard { .. }) => metrics::Outcome::Failed(Code::Contract),
        Err(InvokeError::Failure(failure)) => metrics::Outcome::Failed(failure.code),
    }
}

fn needs_a_key(action: &str) -> Failure {
    let text = format!(
        "{action} needs a key (the header Idempotency-Key, `--key`, idempotencyKey): a name of this one intent, kept \
         through its retries"
    );
    Failure::new(Code::KeyRequired, text)
}

async fn keyed(
    app: &Arc<App>,
    key: &[Vec<u8>],
    admitted: Admitted,
    run: Run,
    metrics: &PluginMetrics,
) -> Result<Outcome, InvokeError> {
    let Admitted { input, is_long, caller, plugin, action } = admitted;
    let key = key::parse(key)?;
    if key.is_none() && action.key == KeyRule::Required {
        return Err(needs_a_key(&action.name).into());
    }
    let operation = format!("{}/{}", plugin.id, action.name);
    let recorded = key.clone().filter(|_| action.kind == Kind::Write).map(|key| KeyId {
        tenant: caller.tenant.clone(),
        operation: operation.clone(),
        key,
    });
    let waits_until = Instant::now() + app.settings.key_wait;
    let hold = match &recorded {
        Some(id) => Some(app.in_flight.wait(id, app.settings.key_wait, metrics).await?),
        None => None,
    };
    let (tenant, subject) = (&caller.tenant, caller.user.as_ref().map(|user| user.subject.as_str()));
    let quick = action.input.as_ref().map_or(Some(0), |schema| fields::quick(schema, &input));
    let (input_fault, text) = aside(is_long || quick.is_none(), tenant, || checked(&action, &input, quick)).await;
    let cause: Box<dyn Cause> = match recorded {
        Some(id) => Box::new(HttpCall {
            id,
            fingerprint: aside(is_long, tenant, || Fingerprint::new(&input, &action.transient, subject)).await,
            transient: action.transient.clone(),
            subject: subject.map(str::to_owned),
            input,
            replay: action.replay,
            reply_kept: millis(app.settings.reply_kept),
            mark_kept: millis(app.settings.mark_kept),
            waits_until,
            began: AtomicI64::new(run.now),
        }),
        None => Box::new(Unrecorded),
    };
    let invocation = Invocation {
        run: invoke::Run::Entry(action.entry),
        input_fault,
        input: text,
        limits: run_limits(app, &plugin, action.kind),
        engine: engine_limits(app, &plugin),
        payload_limit: payload_limit(app, &plugin),
        cause,
        scope: Scope {
            action: action.name.clone(),
            user: caller.user.as_ref().map_or(
                Json::Null,
                |user| json!({ "subject": user.subject, "scopes": user.scopes, "claims": user.claims }),
            ),
            tenant: caller.tenant,
            operation,
            key,
            invocation: run.invocation,
            origin: run.origin,
            now: run.now,
            may_write: action.kind == Kind::Write,
            ids: app.ids.clone(),
            desk: app.flows.desk.clone(),
            plugin: plugin.clone(),
        },
    };
    app.lane(&plugin.id).invoke(Arc::new(invocation), action.kind, hold).await
}

/// What is wrong with an input, and its text: parsed and written again, so that the engine's JSON reader meets nothing but
/// what was checked here.
fn checked(action: &Action, input: &Json, quick: Option<usize>) -> (Option<Failure>, String) {
    let fault = action.input.as_ref().and_then(|schema| fields::check_after(schema, input, quick));
    (fault, input.to_string())
}

fn find(app: &App, plugin: &str, action: &str) -> Result<(Arc<Plugin>, Arc<Action>), Failure> {
    let registry = app.registry();
    let Some(found) = registry.plugins.get(plugin) else {
        if registry.broken.contains_key(plugin) {
            return Err(Failure::new(
                Code::NotFound,
                format!("the plugin \"{plugin}\" did not load; `oncehost plugin list` shows its faults"),
            ));
        }
        let near = suggest::hint(plugin, registry.plugins.keys().map(String::as_str));
        return Err(Failure::new(Code::NotFound, format!("there is no plugin \"{plugin}\"{near}")));
    };
    let Some(action) = found.actions.get(action) else {
        let near = suggest::hint(action, found.actions.keys().map(String::as_str));
        return Err(Failure::new(Code::NotFound, format!("the plugin \"{plugin}\" has no action \"{action}\"{near}")));
    };
    Ok((found.clone(), action.clone()))
}

/// The limits of a run of one of the plugin's actions.
pub(crate) fn run_limits(app: &App, plugin: &Plugin, kind: Kind) -> RunLimits {
    let (own, default, time_is) = match kind {
        Kind::Write => (plugin.limits.handler_ms, app.settings.handler_time, "limits.handler"),
        Kind::Read => (plugin.limits.read_ms, app.settings.read_time, "limits.read"),
    };
    let limits = RunLimits::default();
    RunLimits {
        time: own.map_or(default, Duration::from_millis),
        time_is,
        result: size(plugin.limits.result_bytes, app.settings.reply_limit),
        host_calls: plugin.limits.host_calls.unwrap_or(limits.host_calls),
        log_lines: plugin.limits.log_lines.unwrap_or(limits.log_lines),
        log_line: size(plugin.limits.log_line_bytes, limits.log_line),
        depth: plugin.limits.depth.unwrap_or(limits.depth),
    }
}

/// The limits of an engine that runs the plugin's code.
pub(crate) fn engine_limits(app: &App, plugin: &Plugin) -> EngineLimits {
    EngineLimits {
        memory: size(plugin.limits.memory_bytes, app.settings.memory),
        stack: size(plugin.limits.stack_bytes, app.settings.stack),
    }
}

/// Bytes of a payload or a seed.
pub(crate) fn payload_limit(app: &App, plugin: &Plugin) -> usize {
    size(plugin.limits.payload_bytes, app.settings.reply_limit)
}

fn size(own: Option<u64>, default: usize) -> usize {
    own.map_or(default, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX))
}

/// A call under a key.
#[derive(Debug)]
struct HttpCall {
    id: KeyId,
    fingerprint: Fingerprint,
    /// What the fingerprint was made of, to make it again as an older record's was.
    transient: Vec<String>,
    subject: Option<String>,
    input: Json,
    replay: Replay,
    reply_kept: Millis,
    mark_kept: Millis,
    /// Until when a try on another host is waited for.
    waits_until: Instant,
    /// When the intent was first done: set by the claim.
    began: AtomicI64,
}

impl Cause for HttpCall {
    /// Compares with the record: none → run, another request → `KEY_REUSED`, a kept reply → that, a mark →
    /// `KEY_EXPIRED`. With `replay: 'rerun'` an equal request runs again.
    fn claim(&self, tx: &Tx, now: Millis) -> Result<Claim, Failure> {
        self.began.store(now, Ordering::Relaxed);
        let Some(record) = keys::find(&tx.until(self.waits_until), &self.id)? else { return Ok(Claim::Run) };
        if now >= record.committed_at.saturating_add(self.mark_kept) {
            return Ok(Claim::Run);
        }
        self.began.store(record.committed_at, Ordering::Relaxed);
        // The plugin may have changed its list since; the request is compared as it was then.
        let as_then = (record.transient != self.transient)
            .then(|| Fingerprint::new(&self.input, &record.transient, self.subject.as_deref()));
        let fingerprint = as_then.as_ref().unwrap_or(&self.fingerprint);
        if record.request_hash != fingerprint.hash {
            return Err(Failure::new(
                Code::KeyReused,
                format!(
                    "this Idempotency-Key was used for another request ({}); use a new key for a new intent",
                    fingerprint.difference(&self.input, &record.transient, &record.fields)
                ),
            ));
        }
        if self.replay == Replay::Rerun {
            return Ok(Claim::Run);
        }
        let expires = record.committed_at.saturating_add(self.reply_kept);
        match record.reply {
            Some(reply) if now < expires => {
                Ok(Claim::Done(Outcome { replayed: true, expires: Some(expires), ..Outcome::new(reply) }))
            }
            Some(_) | None => Err(Failure::new(
                Code::KeyExpired,
                "this was done before under this Idempotency-Key, but its reply is no longer kept; read the data to \
                 see its result; under a new key it would be done again",
            )),
        }
    }

    fn settle(&self, tx: &Tx, data: &str, now: Millis) -> Result<Outcome, Failure> {
        let record = KeyRecord {
            request_hash: self.fingerprint.hash,
            transient: self.transient.clone(),
            fields: self.fingerprint.fields.clone(),
            reply: Some(data.to_owned()),
            committed_at: now,
        };
        keys::keep(tx, &self.id, &record, now.saturating_sub(self.mark_kept))?;
        let expires = (self.replay == Replay::Response).then(|| now.saturating_add(self.reply_kept));
        Ok(Outcome { expires, ..Outcome::new(data) })
    }

    fn key(&self) -> Option<&KeyId> {
        Some(&self.id)
    }

    fn is_recorded(&self) -> bool {
        true
    }

    /// Two intents of one key begin at least as far apart as a mark is kept, so they fall into different periods of
    /// that length. The instant itself would not do: a call that a restored backup has lost is done again, later, and
    /// is to publish its events under the same ids.
    fn intent(&self) -> Option<i64> {
        Some(self.began.load(Ordering::Relaxed).div_euclid(self.mark_kept.max(1)))
    }
}
