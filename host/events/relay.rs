//! The relay: from where events rest to a delivery for each subscription, and to those who listen.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use tokio::task::JoinSet;

use super::passing::Passing;
use super::{HOST, Round, awaited, blocking, change, change_beside_others, databases, look, subscriptions};
use crate::app::App;
use crate::failure::{Code, Failure};
use crate::store::deliveries::{self, NewDelivery};
use crate::store::host_db::Message;
use crate::store::outbox::{self, Outgoing};
use crate::store::steps;
use crate::store::{Alone, Notice, StoreError, Tx};

/// Events, and about how many bytes of them, that go together.
const BATCH: usize = 256;
const BATCH_BYTES: usize = 4 << 20;
/// Rounds that the relay of one host makes within a lease, if there is always more, so that others can have theirs.
const ROUNDS: u32 = 16;
/// How soon a host looks again whether another one still relays.
const LOOKS_AGAIN: Duration = Duration::from_millis(20);

/// A published event, as handlers see it.
pub(super) fn published(plugin: &str, event: Outgoing) -> Json {
    Passing::published(plugin, event).into_event()
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

/// Relays what waits in one database, in its order; gives how many events went. Where a subscriber cannot take an event,
/// the event goes to the others and keeps waiting, and with it what this subscriber would hear after it.
///
/// # Errors
/// The first that came up; the round is to be repeated then.
pub(super) async fn relay(app: &Arc<App>, name: &str) -> Result<usize, Failure> {
    let _turn = app.events.turn(Round::Relay, name).await;
    let Some(_alone) = alone(app, name).await? else { return Ok(0) };
    let begun = Instant::now();
    let (mut after, mut relayed, mut failed) = (0, 0, None);
    let mut behind = BTreeSet::new();
    loop {
        let (batch, newest) = waiting(app, name, after).await?;
        let Some(last) = batch.last() else { break };
        match pass_on(app, name, &batch, newest, &mut behind).await {
            // From the beginning again: what had its number before these may have been committed since.
            Ok(()) => relayed += batch.len(),
            Err(failure) => {
                after = last.id;
                failed.get_or_insert(failure);
            }
        }
        // What came meanwhile goes after a rest, with more of its kind.
        if batch.len() < BATCH || begun.elapsed() > app.settings.lease / ROUNDS {
            app.events.published.nudge(name);
            break;
        }
    }
    failed.map_or(Ok(relayed), Err)
}

/// Waits until no other host relays from this database: what two took from it at a time would arrive in any order.
/// `None` where the host stops meanwhile.
async fn alone(app: &Arc<App>, name: &str) -> Result<Option<Alone>, Failure> {
    // A file has one host anyway.
    if !app.database(name).is_shared() {
        return Ok(Some(Alone::default()));
    }
    let mut ending = app.events.ending.subscribe();
    let begun = Instant::now();
    while begun.elapsed() < app.settings.lease * 2 {
        let database = app.database(name);
        let held = blocking(move || database.relay_alone()).await?.map_err(Failure::from);
        if let Some(alone) = held.map_err(|failure| failure.of(name))? {
            return Ok(Some(alone));
        }
        tokio::select! {
            _ = ending.wait_for(|ending| *ending) => return Ok(None),
            () = tokio::time::sleep(LOOKS_AGAIN) => {}
        }
    }
    tracing::warn!(database = name, "another host holds the relay without an end; this one relays beside it");
    Ok(Some(Alone::default()))
}

/// What waits behind a row, and which row is the last one there.
async fn waiting(app: &Arc<App>, name: &str, after: i64) -> Result<(Vec<Passing>, i64), Failure> {
    if name == HOST {
        let db = app.host_db.clone();
        let found = blocking(move || db.waiting_events(after, BATCH, BATCH_BYTES)).await??;
        // Browsers hear nothing of these.
        return Ok((found.into_iter().map(Passing::accepted).collect(), 0));
    }
    let work = move |tx: &Tx| Ok((outbox::waiting(tx, after, BATCH, BATCH_BYTES)?, outbox::newest(tx)?));
    let (found, newest) = look(app, name, work).await?.unwrap_or_default();
    Ok((found.into_iter().map(|event| Passing::published(name, event)).collect(), newest))
}

/// `behind` are plugins that did not get an earlier event: they get none of these.
async fn pass_on(
    app: &Arc<App>,
    name: &str,
    batch: &[Passing],
    newest: i64,
    behind: &mut BTreeSet<String>,
) -> Result<(), Failure> {
    let (mut arriving, mut all) = deliveries_of(app, batch).await?;
    for plugin in &*behind {
        if arriving.remove(plugin).is_some() {
            let text = format!("{plugin}: an event before this one has not arrived");
            all = all.and(Err(Failure::new(Code::Unavailable, text)));
        }
    }
    // A backup that is taken from here on has the event where it came from, or where it went, or in both.
    let _passing = app.passing.read().await;
    let plugins: BTreeSet<String> = arriving.keys().cloned().collect();
    let (there, arrived) = arrive(app, arriving).await;
    behind.extend(plugins.difference(&there).cloned());
    for plugin in plugins {
        app.events.arrived.nudge(&plugin);
        app.stores.tell(&Notice::Arrived(plugin));
    }
    let messages: Vec<Message> = batch.iter().filter_map(|event| event.message.clone()).collect();
    if !messages.is_empty() {
        let (db, now, plugin) = (app.host_db.clone(), app.clock.now(), name.to_owned());
        let last = blocking(move || db.note(&plugin, newest, &messages, now)).await??;
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
        app.host_db.relayed(batch.iter().map(|event| event.event_id.as_str()));
    }
    crate::crash_point!("relay-after-mark");
    app.metrics.relayed(batch.len());
    Ok(())
}

/// What the events bring to whom, and the first failure to find out.
async fn deliveries_of(
    app: &Arc<App>,
    batch: &[Passing],
) -> Result<(BTreeMap<String, Vec<NewDelivery>>, Result<(), Failure>), Failure> {
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
    Ok((arriving, all))
}

/// Puts deliveries into their plugins' databases, beside each other: one that is slow or away holds up no other. Gives
/// who has them, and the first failure.
async fn arrive(
    app: &Arc<App>,
    arriving: BTreeMap<String, Vec<NewDelivery>>,
) -> (BTreeSet<String>, Result<(), Failure>) {
    let mut writing = JoinSet::new();
    for (plugin, new) in arriving {
        let app = app.clone();
        writing.spawn(async move {
            let now = app.clock.now();
            let add = move |tx: &Tx| deliveries::add_all(tx, &new, now);
            let added = change_beside_others(&app, &plugin, add).await;
            added.map_err(|failure| failure.of(&plugin))?;
            Ok(plugin)
        });
    }
    let (mut there, mut all) = (BTreeSet::new(), Ok(()));
    while let Some(written) = writing.join_next().await {
        match written.unwrap_or_else(|error| Err(super::broke_off(&error))) {
            Ok(plugin) => drop(there.insert(plugin)),
            Err(failure) => all = all.and(Err(failure)),
        }
    }
    crate::crash_point!("relay-delivered");
    (there, all)
}
