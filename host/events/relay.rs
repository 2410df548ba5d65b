//! The relay: from where events rest to a delivery for each subscription, and to those who listen.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value as Json, json};
use tokio::task::JoinSet;

use super::passing::Passing;
use super::{HOST, Round, awaited, blocking, change, databases, look, subscriptions};
use crate::app::App;
use crate::failure::Failure;
use crate::store::deliveries::{self, NewDelivery};
use crate::store::host_db::Message;
use crate::store::outbox::{self, Outgoing};
use crate::store::steps;
use crate::store::{Notice, StoreError};

/// Events, and about how many bytes of them, that go together.
const BATCH: usize = 256;
const BATCH_BYTES: usize = 4 << 20;

/// A published event, as handlers see it.
pub(super) fn published(plugin: &str, event: Outgoing) -> Json {
    Passing::published(plugin, event).event().clone()
}

/// An event that the host makes, as handlers see it.
pub(super) fn as_cloudevent(
    id: &str,
    source: &str,
    event_type: &str,
    subject: Option<&str>,
    time: &str,
    data: Json,
) -> Json {
    let mut event = json!({ "specversion": "1.0", "id": id, "source": source, "type": event_type });
    if let Some(subject) = subject {
        event["subject"] = json!(subject);
    }
    event["time"] = json!(time);
    event["datacontenttype"] = json!("application/json");
    event["data"] = data;
    event
}

/// Relays all that waits in one database; gives how many events went. Where a subscriber cannot take an event, the
/// event goes to the others and keeps waiting.
///
/// # Errors
/// The first that came up; the round is to be repeated then.
pub(super) async fn relay(app: &Arc<App>, name: &str) -> Result<usize, Failure> {
    let _turn = app.events.turn(Round::Relay, name).await;
    let (mut after, mut relayed, mut failed) = (0, 0, None);
    loop {
        let batch = waiting(app, name, after).await?;
        let Some(last) = batch.last() else { break };
        after = last.id;
        match pass_on(app, name, &batch).await {
            Ok(()) => relayed += batch.len(),
            Err(failure) => drop(failed.get_or_insert(failure)),
        }
    }
    failed.map_or(Ok(relayed), Err)
}

async fn waiting(app: &Arc<App>, name: &str, after: i64) -> Result<Vec<Passing>, Failure> {
    if name == HOST {
        let db = app.host_db.clone();
        let found = blocking(move || db.waiting_events(after, BATCH, BATCH_BYTES)).await??;
        return Ok(found.into_iter().map(Passing::accepted).collect());
    }
    let found = look(app, name, move |tx| outbox::waiting(tx, after, BATCH, BATCH_BYTES)).await?;
    Ok(found.into_iter().flatten().map(|event| Passing::published(name, event)).collect())
}

async fn pass_on(app: &Arc<App>, name: &str, batch: &[Passing]) -> Result<(), Failure> {
    let mut arriving: BTreeMap<String, Vec<NewDelivery>> = BTreeMap::new();
    for known in subscriptions::current(app).await?.iter() {
        let found = batch.iter().filter_map(|event| known.delivery(event));
        let found: Vec<NewDelivery> = found.collect();
        if !found.is_empty() {
            arriving.entry(known.row.plugin.clone()).or_default().extend(found);
        }
    }
    let mut all = Ok(());
    for plugin in databases(app).await? {
        // What waits in a database that is away hears of the events later; the others do not wait for it.
        let looked = match app.database(&plugin).ready() {
            Ok(()) => look(app, &plugin, steps::awaited).await,
            Err(error) => Err(StoreError::Unavailable(format!("{plugin}: {error}")).into()),
        };
        let types = match looked {
            Ok(types) => types.unwrap_or_default(),
            Err(failure) => {
                all = all.and(Err(failure));
                continue;
            }
        };
        let awaited = batch.iter().filter(|event| types.contains(&event.event_type));
        let awaited: Vec<NewDelivery> = awaited.map(|event| awaited::delivery(&plugin, event)).collect();
        if !awaited.is_empty() {
            arriving.entry(plugin).or_default().extend(awaited);
        }
    }
    // A backup that is taken from here on has the event where it came from, or where it went, or in both.
    let _passing = app.passing.read().await;
    let plugins: BTreeSet<String> = arriving.keys().cloned().collect();
    let arrived = arrive(app, arriving).await;
    for plugin in plugins {
        app.events.arrived.nudge(&plugin);
        app.stores.tell(&Notice::Arrived(plugin));
    }
    let messages: Vec<Message> = batch.iter().filter_map(|event| event.message.clone()).collect();
    if !messages.is_empty() {
        let (db, now) = (app.host_db.clone(), app.clock.now());
        let last = blocking(move || db.note(&messages, now)).await??;
        app.events.heard.send_replace(last);
        app.stores.tell(&Notice::Heard);
    }
    arrived.and(all)?;
    crate::crash_point!("relay-before-mark");
    let (ids, now) = (batch.iter().map(|event| event.id).collect::<Vec<_>>(), app.clock.now());
    if name == HOST {
        let db = app.host_db.clone();
        blocking(move || db.mark_events_relayed(&ids, now)).await??;
    } else {
        change(app, name, move |tx| outbox::mark_relayed(tx, &ids, now)).await?;
    }
    crate::crash_point!("relay-after-mark");
    app.metrics.relayed(batch.len());
    Ok(())
}

/// Puts deliveries into their plugins' databases, beside each other: one that is slow or away holds up no other.
async fn arrive(app: &Arc<App>, arriving: BTreeMap<String, Vec<NewDelivery>>) -> Result<(), Failure> {
    let mut writing = JoinSet::new();
    for (plugin, new) in arriving {
        let (app, now) = (app.clone(), app.clock.now());
        writing.spawn(async move {
            let add = move |tx: &_| new.iter().try_for_each(|new| deliveries::add(tx, new, now).map(drop));
            let added = change(&app, &plugin, add).await;
            added.map_err(|failure| Failure { detail: format!("{plugin}: {}", failure.detail), ..failure })
        });
    }
    let mut all = Ok(());
    while let Some(written) = writing.join_next().await {
        let written = written.unwrap_or_else(|error| Err(super::broke_off(&error)));
        all = all.and(written);
    }
    crate::crash_point!("relay-delivered");
    all
}
