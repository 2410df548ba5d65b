//! The relay: from where events rest to a delivery for each subscription, and to those who listen.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use tokio::task::JoinSet;

use super::passing::Passing;
use super::rounds::AGAIN;
use super::{HOST, Round, awaited, blocking, change, change_beside_others, databases, look, subscriptions};
use crate::app::App;
use crate::clock::{Millis, millis};
use crate::failure::{Code, Failure};
use crate::store::deliveries::{self, NewDelivery};
use crate::store::host_db::Message;
use crate::store::outbox::{self, Outgoing};
use crate::store::steps;
use crate::store::{Alone, Notice, StoreError, Tx};

/// Events, and about how many bytes of them, that go together.
const BATCH: usize = 256;
const BATCH_BYTES: usize = 4 << 20;
/// How many rows before the last one that was left waiting may come later than that: a server lets transactions commit in
/// another order than that of their rows.
const REACH: i64 = 512;
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

/// What a round came to.
#[derive(Debug, Default)]
pub(super) struct Relayed {
    pub events: usize,
    /// When those that a subscriber could not take are to be tried again.
    pub again: Option<Millis>,
    /// The first failure.
    pub failed: Option<Failure>,
}

/// What of one database waits since a subscriber cannot take it.
#[derive(Clone, Debug, Default)]
pub(super) struct HeldUp {
    /// The last row of it.
    after: i64,
    /// Those of its rows that are within reach of that one.
    left: BTreeSet<i64>,
    /// Plugins that did not get all up to there: they get nothing from behind it.
    behind: BTreeSet<String>,
    /// The pass through it that is under way.
    pass: Option<Pass>,
    /// Passes that failed, one after the other, and when the next one is due.
    times: u32,
    again: Millis,
}

/// A pass through all that waits, from the beginning.
#[derive(Clone, Debug, Default)]
struct Pass {
    /// The last row that it left waiting.
    after: i64,
    /// As above, in this pass.
    behind: BTreeSet<String>,
}

impl HeldUp {
    /// Whether a pass is under way or due, also where the clock was set back.
    fn is_due(&self, now: Millis) -> bool {
        let longest = i64::try_from(AGAIN.max_ms).unwrap_or(i64::MAX);
        self.times > 0 && (self.pass.is_some() || !(1..=longest).contains(&(self.again - now)))
    }

    /// Leaves these waiting as well.
    fn leave(&mut self, batch: &[Passing]) {
        self.left.extend(batch.iter().map(|event| event.id));
        self.after = self.after.max(self.left.last().copied().unwrap_or_default());
        self.left = self.left.split_off(&(self.after - REACH));
    }

    /// A pass took all that waits. Rounds begin behind a row that waits: behind one that does not, new events could have
    /// the rows of those that were cleared.
    fn gone_through(&mut self, pass: Pass) {
        (self.after, self.behind) = (pass.after, pass.behind);
        self.left.retain(|id| *id <= self.after);
    }

    fn try_again(&mut self, now: Millis) {
        self.times += 1;
        self.again = super::after(now, AGAIN.pause(self.times, 1.0).unwrap_or_default());
    }
}

/// Relays what waits in one database, in its order. Where a subscriber cannot take an event, the event goes to the others
/// and keeps waiting, and with it what this subscriber would hear after it. That is tried again now and then, a part in
/// each round; rounds begin behind it, so that the others hear what comes, however much waits.
///
/// # Errors
/// When the database, or what all events rest on, fails.
pub(super) async fn relay(app: &Arc<App>, name: &str) -> Result<Relayed, Failure> {
    let _turn = app.events.turn(Round::Relay, name).await;
    let Some(_alone) = alone(app, name).await? else { return Ok(Relayed::default()) };
    let mut held = app.events.held_up(name).unwrap_or_default();
    let mut round = Relayed::default();
    let begun = Instant::now();
    loop {
        let (batch, newest) = beyond(app, name, &held).await?;
        if batch.is_empty() {
            break;
        }
        match pass_on(app, name, &batch, newest, None, &mut held.behind).await? {
            // From the same place again: what had its number before these may have been committed since.
            None => round.events += batch.len(),
            Some(failure) => {
                held.leave(&batch);
                round.failed.get_or_insert(failure);
            }
        }
        // What came meanwhile goes after a rest, with more of its kind.
        if batch.len() < BATCH || begun.elapsed() > app.settings.lease / ROUNDS {
            app.events.published.nudge(name);
            break;
        }
    }
    if held.times == 0
        && let Some(failure) = &round.failed
    {
        held.try_again(app.clock.now());
        // Once, not each time.
        tracing::warn!(database = name, "a subscriber cannot take events, which is tried again: {failure}");
    }
    let now = app.clock.now();
    if held.is_due(now) && through(app, name, &mut held, &mut round).await? {
        held = HeldUp::default();
        round.failed = None;
    }
    round.again = (held.times > 0).then(|| if held.pass.is_some() { now } else { held.again });
    app.events.hold_up(name, Some(held).filter(|held| held.times > 0));
    Ok(round)
}

/// Goes on with the pass through what waits, or begins one; gives whether all have all of it now.
async fn through(app: &Arc<App>, name: &str, held: &mut HeldUp, round: &mut Relayed) -> Result<bool, Failure> {
    let (begun, shared) = (Instant::now(), app.database(name).is_shared());
    let kept = app.clock.now().saturating_sub(millis(app.settings.notifications_kept));
    let mut pass = held.pass.take().unwrap_or_default();
    loop {
        let (mut batch, newest) = waiting(app, name, pass.after, BATCH).await?;
        batch.retain(|event| event.id <= held.after);
        let Some(last) = batch.last().map(|event| event.id) else {
            held.gone_through(pass);
            break;
        };
        // Those were told before. Of a server's some may have come since, but hardly any so late.
        batch.iter_mut().filter(|event| !shared || event.at < kept).for_each(|event| event.message = None);
        // The others have them: again, they would come behind later ones, to a step that has begun to wait since, or once
        // more where the delivery was cleared. Of a server's nobody may have one that has come since.
        let to = (!shared).then_some(&held.behind);
        match pass_on(app, name, &batch, newest, to, &mut pass.behind).await? {
            None => round.events += batch.len(),
            Some(failure) => {
                pass.after = last;
                round.failed.get_or_insert(failure);
                // Whoever did not get all of it gets no more in this pass. A server may have what nobody got yet.
                if !shared && pass.behind.is_superset(&held.behind) {
                    break;
                }
            }
        }
        if !shared && last == held.after {
            // At once, so that no round begins behind this one.
            held.gone_through(pass);
            break;
        }
        if begun.elapsed() > app.settings.lease / ROUNDS {
            held.pass = Some(pass);
            return Ok(false);
        }
    }
    held.try_again(app.clock.now());
    Ok(held.behind.is_empty())
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

/// What waits and was not left waiting, and which row is the last one.
async fn beyond(app: &Arc<App>, name: &str, held: &HeldUp) -> Result<(Vec<Passing>, i64), Failure> {
    if app.database(name).is_shared() && !held.left.is_empty() {
        let (mut found, newest) = waiting(app, name, held.after - REACH, BATCH + held.left.len()).await?;
        // Those that were left may have taken all the room. Where they have not, another look would miss what came since.
        let seen_all = found.last().is_none_or(|last| last.id >= held.after);
        found.retain(|event| !held.left.contains(&event.id));
        if seen_all || !found.is_empty() {
            return Ok((found, newest));
        }
    }
    waiting(app, name, held.after, BATCH).await
}

/// At most so many events that wait behind a row, and which row is the last one.
async fn waiting(app: &Arc<App>, name: &str, after: i64, most: usize) -> Result<(Vec<Passing>, i64), Failure> {
    if name == HOST {
        let db = app.host_db.clone();
        let found = blocking(move || db.waiting_events(after, most, BATCH_BYTES)).await??;
        // Browsers hear nothing of these.
        return Ok((found.into_iter().map(Passing::accepted).collect(), 0));
    }
    let work = move |tx: &Tx| Ok((outbox::waiting(tx, after, most, BATCH_BYTES)?, outbox::newest(tx)?));
    let (found, newest) = look(app, name, work).await?.unwrap_or_default();
    Ok((found.into_iter().map(|event| Passing::published(name, event)).collect(), newest))
}

/// Passes events on to all who want them, or those of them in `to`, and notes that; gives the first failure of a plugin
/// that did not take them, for which they go on waiting. `behind` are plugins that did not get an earlier event, or
/// these: they get none of what comes later.
///
/// # Errors
/// When something else failed: nothing that comes later may go before these.
async fn pass_on(
    app: &Arc<App>,
    name: &str,
    batch: &[Passing],
    newest: i64,
    to: Option<&BTreeSet<String>>,
    behind: &mut BTreeSet<String>,
) -> Result<Option<Failure>, Failure> {
    let (mut arriving, unknown) = deliveries_of(app, batch, to).await?;
    behind.extend(unknown.keys().cloned());
    let mut failed = unknown.into_values().next();
    for plugin in &*behind {
        if arriving.remove(plugin).is_some() {
            let text = format!("{plugin}: an event before this one has not arrived");
            failed.get_or_insert_with(|| Failure::new(Code::Unavailable, text));
        }
    }
    // A backup that is taken from here on has the event where it came from, or where it went, or in both.
    let _passing = app.passing.read().await;
    let plugins: BTreeSet<String> = arriving.keys().cloned().collect();
    // Who listens does not wait for subscribers that are busy.
    let (told, (there, arrived)) = tokio::join!(tell(app, name, batch, newest), arrive(app, arriving));
    behind.extend(plugins.difference(&there).cloned());
    for plugin in plugins {
        app.events.arrived.nudge(&plugin);
        app.stores.tell(&Notice::Arrived(plugin));
    }
    told?;
    failed = failed.or(arrived.err());
    if failed.is_some() {
        return Ok(failed);
    }
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
    Ok(None)
}

/// Has browsers hear of events.
async fn tell(app: &Arc<App>, name: &str, batch: &[Passing], newest: i64) -> Result<(), Failure> {
    let of = |event: &Passing| Some((event.at, event.message.clone()?));
    let messages: Vec<(Millis, Message)> = batch.iter().filter_map(of).collect();
    if messages.is_empty() {
        return Ok(());
    }
    let (db, now, plugin) = (app.host_db.clone(), app.clock.now(), name.to_owned());
    let kept = now.saturating_sub(millis(app.settings.notifications_kept));
    let note = move || {
        // What is so old and was told, before this host began, may be forgotten: nobody knows it any more.
        let any_old = messages.iter().any(|(at, _)| *at < kept);
        let up_to = if any_old { db.heard_up_to(&plugin)?.unwrap_or(i64::MIN) } else { i64::MIN };
        let new = messages.into_iter().filter(|(at, message)| *at >= kept || message.row > up_to);
        let new: Vec<Message> = new.map(|(_, message)| message).collect();
        if new.is_empty() { db.last_position() } else { db.note(&plugin, newest, &new, now) }
    };
    let last = blocking(note).await??;
    app.events.heard.send_replace(last);
    app.stores.tell(&Notice::Heard);
    Ok(())
}

/// What the events bring to whom, of all or of those in `to`, and of which plugins that is not known.
async fn deliveries_of(
    app: &Arc<App>,
    batch: &[Passing],
    to: Option<&BTreeSet<String>>,
) -> Result<(BTreeMap<String, Vec<NewDelivery>>, BTreeMap<String, Failure>), Failure> {
    let is_meant = |plugin: &str| to.is_none_or(|to| to.contains(plugin));
    let mut arriving: BTreeMap<String, Vec<NewDelivery>> = BTreeMap::new();
    for known in subscriptions::current(app).await?.iter().filter(|known| is_meant(&known.row.plugin)) {
        let found = batch.iter().filter_map(|event| known.delivery(event));
        let found: Vec<NewDelivery> = found.collect();
        if !found.is_empty() {
            arriving.entry(known.row.plugin.clone()).or_default().extend(found);
        }
    }
    let mut unknown = BTreeMap::new();
    for plugin in databases(app).await?.into_iter().filter(|plugin| is_meant(plugin)) {
        // What waits in a database that is away hears of the events later; the others do not wait for it.
        let looked = match app.database(&plugin).ready() {
            Ok(()) => look(app, &plugin, steps::awaited).await,
            Err(error) => Err(StoreError::Unavailable(format!("{plugin}: {error}")).into()),
        };
        let types = match looked {
            Ok(types) => types.unwrap_or_default(),
            Err(failure) => {
                unknown.insert(plugin, failure);
                continue;
            }
        };
        let awaited = batch.iter().filter(|event| types.contains(&event.event_type));
        let awaited: Vec<NewDelivery> = awaited.map(|event| awaited::delivery(&plugin, event)).collect();
        if !awaited.is_empty() {
            arriving.entry(plugin).or_default().extend(awaited);
        }
    }
    Ok((arriving, unknown))
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

#[cfg(test)]
mod tests;
