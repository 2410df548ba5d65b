//! Deliveries: claimed, run as invocations, and acknowledged in the transaction of the handler's writes.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value as Json;
use tokio::task::JoinSet;

use super::awaited::Awaited;
use super::{Round, after, awaited, change, look, subscriptions};
use crate::app::App;
use crate::backoff::Retry;
use crate::bindings::Scope;
use crate::clock::{Millis, millis};
use crate::failure::{Code, Failure};
use crate::idempotency::{engine_limits, payload_limit, run_limits};
use crate::ids;
use crate::invoke::{Cause, Claim, Invocation, InvokeError, Outcome, Run};
use crate::plugin::{Kind, Plugin};
use crate::store::StoreError;
use crate::store::Tx;
use crate::store::deliveries::{self, Claimed, Hold, Next};
use crate::store::keys::{self, KeyId, KeyRecord};
use crate::trace::Origin;

/// Deliveries of one plugin under way at a time.
const BATCH: usize = 64;
/// Within one lease, claims of what runs are renewed this many times.
const RENEWALS: u32 = 3;
/// How many leases a lost delivery is left to the hosts that know its subscription.
const LEFT: u32 = 3;
/// The pause after a try that found no place in the plugin's queue.
const NO_ROOM: Duration = Duration::from_secs(1);
/// Characters of an error that are kept.
const ERROR_LENGTH: usize = 2000;

/// What a subscription or a schedule asks of its deliveries.
#[derive(Clone, Debug)]
struct Wanted {
    name: String,
    retry: Retry,
    most: usize,
}

/// What there is to deliver to in a loaded plugin.
fn wanted(plugin: &Plugin) -> Vec<Wanted> {
    let subscribed = plugin.subscriptions.iter().map(|it| Wanted {
        name: subscriptions::name(it),
        retry: it.retry,
        most: it.concurrency.map_or(BATCH, |most| usize::try_from(most).unwrap_or(BATCH).min(BATCH)),
    });
    let scheduled = plugin.schedules.iter().map(|it| Wanted {
        name: super::schedule::subscription(&it.name),
        retry: Retry::default(),
        most: BATCH,
    });
    let flows = (!plugin.flows.is_empty()).then(|| Wanted {
        name: awaited::NAME.to_owned(),
        retry: Retry::default(),
        most: BATCH,
    });
    subscribed.chain(scheduled).chain(flows).collect()
}

/// Delivers all that is due to one plugin; gives how many tries ended, and when the next is due. A plugin that is not
/// loaded has its deliveries wait.
///
/// # Errors
/// When its database fails; the round is to be repeated then.
pub(super) async fn deliver(app: &Arc<App>, name: &str) -> Result<(usize, Option<Millis>), Failure> {
    let _turn = app.events.turn(Round::Deliver, name).await;
    let mut tries = 0;
    loop {
        // Each time anew: a reload may have come between.
        let Some(plugin) = app.registry().plugins.get(name).cloned() else { return Ok((tries, None)) };
        let wanted = wanted(&plugin);
        if wanted.is_empty() {
            return Ok((tries, None));
        }
        recover(app, name, &wanted).await?;
        let due = next_due(app, name, &wanted).await?;
        if due.is_none_or(|due| due > app.clock.now()) || app.events.is_ending() {
            return Ok((tries, due));
        }
        let claimed = claim(app, name, wanted.clone()).await?;
        crate::crash_point!("delivery-claimed");
        tries += claimed.len();
        attempt(app, &plugin, claimed, &wanted).await?;
    }
}

async fn next_due(app: &Arc<App>, name: &str, wanted: &[Wanted]) -> Result<Option<Millis>, Failure> {
    let names: Vec<String> = wanted.iter().map(|it| it.name.clone()).collect();
    let looked = look(app, name, move |tx| {
        let due = names.iter().map(|name| deliveries::next_due(tx, name));
        due.collect::<Result<Vec<_>, StoreError>>()
    });
    Ok(looked.await?.into_iter().flatten().flatten().min())
}

/// Takes over what a host that died had claimed: on SQLite whatever another process owns, for nobody else has the
/// database, on Postgres what nobody extended. Of our own nothing is under way while this holds its turn. What is for a
/// subscription that only other hosts know, whose own count of tries decides about it, is left to them for a while.
async fn recover(app: &Arc<App>, name: &str, wanted: &[Wanted]) -> Result<(), Failure> {
    let (owner, now) = (app.events.house.me.clone(), app.clock.now());
    let long_ago = if app.stores.is_shared() { now - millis(app.settings.lease * LEFT) } else { now };
    let retries: HashMap<String, Retry> = wanted.iter().map(|it| (it.name.clone(), it.retry)).collect();
    let known: HashSet<String> = retries.keys().cloned().collect();
    let looked = look(app, name, move |tx| {
        let mut lost = deliveries::lost(tx, &owner, now)?;
        if lost.iter().any(|lost| !known.contains(&lost.subscription)) {
            let old = deliveries::lost(tx, &owner, long_ago)?;
            lost.retain(|lost| known.contains(&lost.subscription) || old.contains(lost));
        }
        Ok(lost)
    });
    let Some(lost) = looked.await?.filter(|lost| !lost.is_empty()) else { return Ok(()) };
    let shared = app.stores.is_shared();
    let recover = move |tx: &Tx| {
        lost.iter().try_for_each(|lost| {
            let text = format!("the host ended while try {} ran, or its lease ran out", lost.hold.attempt);
            let next = match retries.get(&lost.subscription) {
                Some(retry) => next(retry, &lost.hold, now),
                None if shared => Next::Again(now),
                None => next(&Retry::default(), &lost.hold, now),
            };
            deliveries::recover(tx, lost, &text, next, now)
        })
    };
    change(app, name, recover).await
}

/// The next try after one that failed. The jitter is made from the delivery and the try, so that it is spread and
/// still the same wherever it is computed.
fn next(retry: &Retry, hold: &Hold, now: Millis) -> Next {
    let digest = ids::digest(&[&hold.id.to_string(), &hold.attempt.to_string()]);
    let random = f64::from(digest[0]) / f64::from(u8::MAX);
    retry.pause(hold.attempt, random).map_or(Next::Dead, |pause| Next::Again(after(now, pause)))
}

/// Who had the last turn in a plugin's deliveries, so that neither a subscription nor a tenant with a long line keeps
/// the others from theirs.
#[derive(Clone, Default)]
pub(super) struct LastTurns {
    /// The subscription that a claim began with.
    subscription: String,
    /// The tenant that came last, by subscription.
    tenants: HashMap<String, String>,
}

/// Claims what is due: of each subscription, beginning with another one each time, a fair share.
async fn claim(app: &Arc<App>, name: &str, wanted: Vec<Wanted>) -> Result<Vec<Claimed>, Failure> {
    let (owner, now, lease) = (app.events.house.me.clone(), app.clock.now(), app.settings.lease);
    let last = app.events.last_turns(name);
    let claim = move |tx: &Tx| {
        let (mut turns, mut claimed) = (last.clone(), Vec::<Claimed>::new());
        let begin = wanted.iter().position(|it| it.name == last.subscription).map_or(0, |at| at + 1);
        for place in 0..wanted.len() {
            let subscription = &wanted[(begin + place) % wanted.len()];
            if place == 0 {
                turns.subscription.clone_from(&subscription.name);
            }
            let share = (BATCH - claimed.len()).div_ceil(wanted.len() - place);
            let (found, alone) = deliveries::claim(
                tx,
                deliveries::Wanted {
                    subscription: &subscription.name,
                    limit: subscription.most.min(share),
                    last: turns.tenants.get(&subscription.name).map_or("", String::as_str),
                    first: claimed.is_empty(),
                    owner: &owner,
                    lease_until: after(now, lease),
                },
                now,
            )?;
            if let Some(tenant) = found.iter().map(|it| &it.tenant).max() {
                turns.tenants.insert(subscription.name.clone(), tenant.clone());
            }
            claimed.extend(found);
            if alone || claimed.len() == BATCH {
                break;
            }
        }
        Ok((claimed, turns))
    };
    let (claimed, turns) = change(app, name, claim).await?;
    app.events.set_last_turns(name, turns);
    Ok(claimed)
}

/// Runs claimed deliveries beside each other, and notes what failed.
async fn attempt(
    app: &Arc<App>,
    plugin: &Arc<Plugin>,
    claimed: Vec<Claimed>,
    wanted: &[Wanted],
) -> Result<(), Failure> {
    let tries = claimed.len();
    let (mut running, mut holds, mut failed) = (JoinSet::new(), HashMap::new(), Vec::new());
    for claimed in claimed {
        let hold = Hold { id: claimed.id, owner: app.events.house.me.clone(), attempt: claimed.attempt };
        let retry = wanted.iter().find(|it| it.name == claimed.subscription).map(|it| it.retry).unwrap_or_default();
        holds.insert(hold.id, hold.clone());
        match invocation(app, plugin, claimed, hold.clone()) {
            Ok(invocation) => {
                let lane = app.lane(&plugin.id);
                running.spawn(async move {
                    let reply = lane.invoke(Arc::new(invocation), Kind::Write, None).await;
                    (hold, retry, reply.err())
                });
            }
            Err(failure) => failed.push((hold, retry, failure.into())),
        }
    }
    let renewal = (app.settings.lease / RENEWALS).max(Duration::from_millis(1));
    let mut renew = tokio::time::interval_at(tokio::time::Instant::now() + renewal, renewal);
    loop {
        tokio::select! {
            ended = running.join_next() => match ended {
                Some(Ok((hold, retry, error))) => {
                    holds.remove(&hold.id);
                    failed.extend(error.map(|error| (hold, retry, error)));
                }
                // Its lease runs out.
                Some(Err(error)) => drop(super::broke_off(&error)),
                None => break,
            },
            _ = renew.tick() => extend(app, &plugin.id, holds.values().cloned().collect()).await,
        }
    }
    app.metrics.delivered(&plugin.id, "done", tries - failed.len());
    note_failed(app, &plugin.id, failed).await
}

async fn extend(app: &Arc<App>, name: &str, holds: Vec<Hold>) {
    let until = after(app.clock.now(), app.settings.lease);
    // A few at a time: where each run has a transaction of its own, one that ends just now would have all others fail
    // with it.
    for some in holds.chunks(8).map(<[Hold]>::to_vec) {
        if let Err(failure) = change(app, name, move |tx| deliveries::extend(tx, &some, until)).await {
            tracing::warn!(plugin = name, "deliveries under way could not be held for longer: {failure}");
        }
    }
}

async fn note_failed(app: &Arc<App>, name: &str, failed: Vec<(Hold, Retry, InvokeError)>) -> Result<(), Failure> {
    if failed.is_empty() {
        return Ok(());
    }
    let now = app.clock.now();
    let note = move |tx: &Tx| {
        let mut dead = 0;
        for (hold, retry, error) in &failed {
            let next = match error {
                InvokeError::Discard { .. } => Next::Dead,
                InvokeError::Failure(failure) if failure.code == Code::Overloaded => {
                    Next::Uncounted(after(now, NO_ROOM))
                }
                InvokeError::Failure(_) | InvokeError::Business { .. } => next(retry, hold, now),
            };
            let held = deliveries::failed(tx, hold, &told(error), next, now)?;
            dead += usize::from(held && next == Next::Dead);
        }
        Ok((failed.len() - dead, dead))
    };
    let (again, dead) = change(app, name, note).await?;
    app.metrics.delivered(name, "failed", again);
    app.metrics.delivered(name, "dead", dead);
    Ok(())
}

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
fn invocation(app: &App, plugin: &Arc<Plugin>, claimed: Claimed, hold: Hold) -> Result<Invocation, Failure> {
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
