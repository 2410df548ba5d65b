//! One delivery as an invocation: acknowledged in the transaction of the handler's writes.

use std::sync::Arc;

use serde_json::Value as Json;

use super::awaited::Awaited;
use super::{awaited, subscriptions};
use crate::app::App;
use crate::bindings::Scope;
use crate::clock::{Millis, millis};
use crate::failure::{Code, Failure};
use crate::idempotency::{engine_limits, payload_limit, run_limits};
use crate::ids;
use crate::invoke::{Cause, Claim, Invocation, InvokeError, Outcome, Run};
use crate::plugin::{Kind, Plugin};
use crate::store::Tx;
use crate::store::deliveries::{self, Claimed, Hold};
use crate::store::keys::{self, KeyId, KeyRecord};
use crate::trace::Origin;

/// Characters of an error that are kept.
const ERROR_LENGTH: usize = 2000;

/// An error as a dead letter tells it.
pub(super) fn told(error: &InvokeError) -> String {
    let text = match error {
        InvokeError::Business { name, message, .. } => format!("{name}: {message}"),
        InvokeError::Discard { why } => format!("discarded by the handler: {why}"),
        InvokeError::Failure(failure) => match &failure.position {
            Some(place) if !failure.detail.contains(&place.to_string()) => format!("{failure} ({place})"),
            _ => failure.to_string(),
        },
    };
    // Postgres keeps no NUL.
    text.chars().map(|c| if c == '\0' { '\u{fffd}' } else { c }).take(ERROR_LENGTH).collect()
}

/// The invocation of one try.
///
/// # Errors
/// When the plugin has no such handler any more.
pub(super) fn invocation(app: &App, plugin: &Arc<Plugin>, claimed: Claimed, hold: Hold) -> Result<Invocation, Failure> {
    let key =
        KeyId { tenant: claimed.tenant.clone(), operation: claimed.operation.clone(), key: claimed.event_id.clone() };
    let hash = ids::digest(&[&claimed.event]);
    let delivery = Delivery { hold, key, hash, mark_kept: millis(app.settings.mark_kept) };
    if claimed.subscription != awaited::NAME {
        return handling(app, plugin, &Handling::from(claimed), Box::new(delivery));
    }
    let cause = Awaited {
        delivery,
        event: serde_json::from_str(&claimed.event).unwrap_or_default(),
        tenant: claimed.tenant.clone(),
        plugin: plugin.clone(),
        flows: app.flows.clone(),
    };
    let run = Run::Ended(Ok("null".to_owned()));
    Ok(prepared(app, plugin, &Handling::from(claimed), run, Box::new(cause)))
}

/// What a handler is given, whatever the cause.
pub(super) struct Handling {
    pub handler: String,
    pub operation: String,
    pub tenant: String,
    pub event_id: String,
    pub event: String,
}

impl From<Claimed> for Handling {
    fn from(claimed: Claimed) -> Self {
        let Claimed { handler, operation, tenant, event_id, event, .. } = claimed;
        Self { handler, operation, tenant, event_id, event }
    }
}

/// An invocation of an event handler.
///
/// # Errors
/// When the plugin has no such handler any more.
pub(super) fn handling(
    app: &App,
    plugin: &Arc<Plugin>,
    it: &Handling,
    cause: Box<dyn Cause>,
) -> Result<Invocation, Failure> {
    let Some(entry) = plugin.events.get(&it.handler) else {
        let file = subscriptions::path(&it.handler);
        return Err(Failure::contract(format!("{} has no handler {file}.ts any more", plugin.id)));
    };
    Ok(prepared(app, plugin, it, Run::Entry(entry.entry), cause))
}

fn prepared(app: &App, plugin: &Arc<Plugin>, it: &Handling, run: Run, cause: Box<dyn Cause>) -> Invocation {
    let now = app.clock.now();
    let action = it.operation.split_once('/').map_or(it.operation.as_str(), |(_, action)| action);
    Invocation {
        run,
        input: it.event.clone(),
        input_fault: None,
        limits: run_limits(app, plugin, Kind::Write),
        engine: engine_limits(app, plugin),
        payload_limit: payload_limit(app, plugin),
        cause,
        scope: Scope {
            plugin: plugin.clone(),
            tenant: it.tenant.clone(),
            action: action.to_owned(),
            operation: it.operation.clone(),
            key: Some(it.event_id.clone()),
            invocation: app.ids.rising(now).to_string(),
            origin: Origin::default(),
            user: Json::Null,
            now,
            may_write: true,
            ids: app.ids.clone(),
            desk: app.flows.desk.clone(),
        },
    }
}

/// The cause of a delivery: it is still held, and the event was not handled before.
#[derive(Debug)]
pub(super) struct Delivery {
    hold: Hold,
    key: KeyId,
    hash: [u8; 32],
    mark_kept: Millis,
}

impl Delivery {
    fn acknowledge(&self, tx: &Tx, now: Millis) -> Result<(), Failure> {
        if deliveries::done(tx, &self.hold, now)? {
            return Ok(());
        }
        Err(Failure::new(Code::Unavailable, "another host has taken this delivery over"))
    }
}

impl Cause for Delivery {
    fn claim(&self, tx: &Tx, now: Millis) -> Result<Claim, Failure> {
        // First, since what it waits for has to be seen.
        let found = keys::find(tx, &self.key)?;
        if !deliveries::is_held(tx, &self.hold)? {
            return Err(Failure::new(Code::Unavailable, "this delivery ended, or another host has taken it over"));
        }
        match found {
            Some(record) if now < record.committed_at.saturating_add(self.mark_kept) => {
                self.acknowledge(tx, now)?;
                Ok(Claim::Done(Outcome { replayed: true, ..Outcome::new("null") }))
            }
            Some(_) | None => Ok(Claim::Run),
        }
    }

    fn settle(&self, tx: &Tx, data: &str, now: Millis) -> Result<Outcome, Failure> {
        let record = KeyRecord {
            request_hash: self.hash,
            transient: Vec::new(),
            fields: Vec::new(),
            reply: None,
            committed_at: now,
        };
        keys::keep(tx, &self.key, &record, now.saturating_sub(self.mark_kept))?;
        self.acknowledge(tx, now)?;
        Ok(Outcome::new(data))
    }

    fn key(&self) -> Option<&KeyId> {
        Some(&self.key)
    }

    fn is_recorded(&self) -> bool {
        true
    }
}
