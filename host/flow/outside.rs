//! What the script of a step reaches: the store, a call at a time, and what is outside of this host.

use std::collections::HashMap;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value as Json;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use super::fetch::Wanted;
use super::scripts::Message;
use super::step::Prepared;
use crate::app::App;
use crate::auth::Caller;
use crate::bindings::{Bindings, Scope, ctx};
use crate::codec::{Value, json};
use crate::config::{GivenSettings, Veil};
use crate::failure::{Code, Failure};
use crate::idempotency;
use crate::invoke::{HostCall, Invocation, InvokeError, Run, Unrecorded};
use crate::plugin::Kind;
use crate::script::{Binding, Host, Level, Outside};

/// What one run has begun outside and what it was told; shared by the run and its thread.
#[derive(Clone, Default)]
pub(super) struct Reach(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    begun: Vec<AbortHandle>,
    /// Secrets that the script has, or may have from an earlier step.
    veil: Veil,
}

impl Reach {
    pub fn new(veil: Veil) -> Self {
        Self(Arc::new(Mutex::new(Inner { begun: Vec::new(), veil })))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nobody waits any more for what was begun.
    pub fn end(&self) {
        for begun in self.lock().begun.drain(..) {
            begun.abort();
        }
    }

    /// What errors and log lines of the run must not show.
    pub fn veil(&self) -> Veil {
        self.lock().veil.clone()
    }
}

/// The far side of a step's script.
pub(super) struct StepHost {
    app: Arc<App>,
    scope: Scope,
    payload_limit: usize,
    limits: crate::script::RunLimits,
    engine: crate::script::EngineLimits,
    handle: Handle,
    sender: Sender<Message>,
    run: u64,
    published: HashMap<String, u32>,
    reach: Reach,
}

impl StepHost {
    pub fn new(
        app: &Arc<App>,
        prepared: &Prepared,
        handle: &Handle,
        sender: Sender<Message>,
        run: u64,
        reach: Reach,
    ) -> Self {
        Self {
            app: app.clone(),
            scope: prepared.scope.clone(),
            payload_limit: idempotency::payload_limit(app, &prepared.scope.plugin),
            limits: prepared.limits.clone(),
            engine: prepared.engine.clone(),
            handle: handle.clone(),
            sender,
            run,
            published: HashMap::new(),
            reach,
        }
    }

    /// Does one call in a transaction of its own, and waits for its commit.
    fn in_the_lane(&mut self, kind: Kind, binding: Binding, args: Vec<Value>) -> Result<Value, Failure> {
        let call = HostCall { binding, args, published: self.published.clone(), gave: Mutex::default() };
        let invocation = Arc::new(Invocation {
            scope: self.scope.clone(),
            run: Run::Call(call),
            input: String::new(),
            input_fault: None,
            limits: self.limits.clone(),
            engine: self.engine.clone(),
            payload_limit: self.payload_limit,
            cause: Box::new(Unrecorded),
        });
        let (sender, answer) = std::sync::mpsc::channel();
        let lane = self.app.lane(&self.scope.plugin.id);
        lane.post(invocation.clone(), kind, move |reply| drop(sender.send(reply)))?;
        let lost = || Failure::new(Code::Unavailable, "the host is stopping; whether this was written is unknown");
        match answer.recv().map_err(|_| lost())? {
            Ok(_) => {}
            Err(InvokeError::Failure(failure)) => return Err(failure),
            Err(InvokeError::Business { .. } | InvokeError::Discard { .. }) => return Err(lost()),
        }
        let Run::Call(call) = &invocation.run else { return Err(lost()) };
        let gave = call.gave.lock().unwrap_or_else(PoisonError::into_inner).take();
        let (value, published) = gave.ok_or_else(lost)?;
        self.published = published;
        Ok(value)
    }

    fn fetch(&self, number: u32, args: &[Value]) -> Result<(), Failure> {
        let wanted = Wanted::read(args)?;
        let fetcher = self.app.flows.fetcher(&self.scope.plugin)?;
        self.begin_task(number, async move { fetcher.fetch(wanted).await });
        Ok(())
    }

    fn invoke(&self, number: u32, args: &[Value]) -> Result<(), Failure> {
        let form = "invoke(ctx, plugin, action, input, { idempotencyKey })";
        let undefined = Value::Undefined;
        let [Value::Text(plugin), Value::Text(action), rest @ ..] = args else {
            return Err(Failure::contract(format!("{form} takes the names of a plugin and an action")));
        };
        if !self.scope.plugin.permissions.invoke.iter().any(|named| named == plugin) {
            let text = format!("invoke of {plugin} needs the permission \"invoke:{plugin}\" in plugin.json");
            return Err(Failure::new(Code::Forbidden, text));
        }
        let Value::Text(key) = rest.get(1).unwrap_or(&undefined) else {
            return Err(Failure::contract(format!(
                "{form} needs a key, the same on every try: `${{run.idempotencyKey}}:what-this-call-is-for`"
            )));
        };
        let input = json::leaving(rest.first().unwrap_or(&undefined))
            .map_err(|unfit| Failure::contract(format!("the input of invoke cannot leave the script: {unfit}")))?;
        let request = idempotency::Request {
            plugin: plugin.clone(),
            action: action.clone(),
            key: vec![idempotency::key::written(key).into_bytes()],
            body: input.to_string().into_bytes(),
            origin: self.scope.origin.clone(),
        };
        let caller = Caller { tenant: self.scope.tenant.clone(), user: None };
        let app = self.app.clone();
        self.begin_task(number, async move {
            let data = match idempotency::call(&app, request, std::future::ready(Ok(caller))).await {
                Ok(outcome) => outcome.data,
                Err(error) => return Err(as_failure(error)),
            };
            Ok(serde_json::from_str(&data).map_or(Value::Null, |data: Json| json::from_json(&data)))
        });
        Ok(())
    }

    fn begin_task(&self, number: u32, work: impl Future<Output = Result<Value, Failure>> + Send + 'static) {
        let (sender, run) = (self.sender.clone(), self.run);
        let task = self.handle.spawn(async move {
            let outcome = work.await;
            // The thread may be gone with its runs.
            let _gone = sender.send(Message::Settled { run, number, outcome });
        });
        self.reach.lock().begun.push(task.abort_handle());
    }
}

/// What another plugin's action answered, as an error with its name.
fn as_failure(error: InvokeError) -> Failure {
    match error {
        InvokeError::Failure(failure) => failure,
        InvokeError::Business { name, message, details, .. } => {
            // A name that is none of the host's own stands in the text and in `details`.
            let details = serde_json::json!({ "name": name, "details": details });
            Failure::new(Code::Script, format!("{name}: {message}")).with_details(details)
        }
        InvokeError::Discard { why } => Failure::contract(format!("the action threw Discard: {why}")),
    }
}

impl Host for StepHost {
    fn call(&mut self, binding: Binding, args: Vec<Value>) -> Result<Value, Failure> {
        match binding {
            Binding::StableId => ctx::stable_id_of(&self.scope, &args),
            // What only looks waits behind nobody who writes.
            Binding::StoreGet | Binding::StoreList | Binding::StoreCount | Binding::FlowGet => {
                self.in_the_lane(Kind::Read, binding, args)
            }
            Binding::StoreCreateIfAbsent
            | Binding::StoreUpdate
            | Binding::StoreDelete
            | Binding::FlowStart
            | Binding::FlowCancel
            | Binding::NotifyPublish => self.in_the_lane(Kind::Write, binding, args),
        }
    }

    fn begin(&mut self, number: u32, what: Outside, args: Vec<Value>) -> Result<(), Failure> {
        match what {
            Outside::Fetch => self.fetch(number, &args),
            Outside::Invoke => self.invoke(number, &args),
        }
    }

    fn secret(&mut self, name: &str) -> Result<String, Failure> {
        let plugin = &self.scope.plugin;
        if !plugin.secrets.contains(name) {
            let known: Vec<&str> = plugin.secrets.iter().map(String::as_str).collect();
            let known =
                if known.is_empty() { "it has none".to_owned() } else { format!("it has {}", known.join(", ")) };
            return Err(Failure::contract(format!(
                "secret: the settings of {} in plugin.json have no secret {name:?} ({known})",
                plugin.id
            )));
        }
        let given = self.app.settings.given_settings.of(&plugin.id, name);
        let value = match given.map_err(|why| Failure::new(Code::Unavailable, why))? {
            Some(Json::String(text)) => text,
            Some(other) => other.to_string(),
            None => {
                let way = GivenSettings::way(&plugin.id, name);
                return Err(Failure::contract(format!("the secret {name} has no value: {way}")));
            }
        };
        self.reach.lock().veil.add(name, &value);
        Ok(value)
    }

    fn log(&mut self, level: Level, mut line: String) {
        self.reach.lock().veil.hide(&mut line);
        Bindings::log_line(&self.scope, level, &line);
    }
}
