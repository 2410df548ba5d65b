//! What operators ask of events: which deliveries there are, and to try dead ones again or give them up.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use super::{blocking, change, databases, look, subscriptions};
use crate::app::{App, Missing};
use crate::clock::{Millis, millis};
use crate::codec::time::shown;
use crate::failure::{Code, Failure};
use crate::plugin::Plugin;
use crate::store::deliveries::{self, Delivery, Selected};
use crate::store::{StoreError, Tx, outbox};

mod dry_run;

/// Deliveries that one transaction changes.
const BATCH: usize = 200;
/// Deliveries that are listed where nobody says how many, and the most.
const LISTED: u32 = 100;
pub const MOST_LISTED: u32 = 1000;
/// Replays a second where nobody says how many, and the most.
const RATE: u32 = 100;
pub const MOST_RATE: u32 = 10_000;
/// Deliveries that one dry run tries.
const DRY_RUNS: usize = 100;

/// Which deliveries are meant, and what is asked of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct Selection {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub event_ids: Vec<String>,
    pub plugin: Option<String>,
    pub tenant: Option<String>,
    #[serde(rename = "type")]
    pub event_type: Option<String>,
    pub source: Option<String>,
    pub subject: Option<String>,
    /// `events/HANDLER`, with or without `PLUGIN/` in front.
    pub subscription: Option<String>,
    /// A part of the error's text.
    pub error: Option<String>,
    /// `waiting`, `running`, `done`, `dead` or `discarded`.
    pub state: Option<String>,
    /// Instants: came at or after, and before.
    pub since: Option<String>,
    pub until: Option<String>,
    /// For replays and discards: all that are dead.
    pub all: bool,
    /// For lists: how many, and where the page before ended.
    pub limit: Option<u32>,
    pub cursor: Option<String>,
    /// For replays: also what is done or discarded; how many a second; and only to see what would happen.
    pub force: bool,
    pub rate: Option<u32>,
    pub dry_run: bool,
}

/// The states that deliveries can be asked for by, each with those that they are stored with.
pub const STATES: [(&str, &[&str]); 5] = [
    ("waiting", &["waiting", "behind"]),
    ("running", &["running"]),
    ("done", &["done"]),
    ("dead", &["dead"]),
    ("discarded", &["discarded"]),
];

impl Selection {
    /// Refuses what no delivery could be, whether there are any deliveries or not.
    fn check(&self) -> Result<(), Failure> {
        if let Some(state) = self.state.as_deref().filter(|state| !STATES.iter().any(|(name, _)| name == state)) {
            let text = format!("must be waiting, running, done, dead or discarded, not {state:?}");
            return Err(Failure::field("state", text));
        }
        for (name, at) in [("since", &self.since), ("until", &self.until)] {
            at.as_deref().map(|text| instant(name, text)).transpose()?;
        }
        for (name, number, most) in [("limit", self.limit, MOST_LISTED), ("rate", self.rate, MOST_RATE)] {
            if let Some(number) = number.filter(|number| !(1..=most).contains(number)) {
                return Err(Failure::field(name, format!("must be a whole number from 1 to {most}, not {number}")));
            }
        }
        Ok(())
    }

    /// The condition for one plugin's database; `None` where nothing of it is meant.
    fn for_plugin(&self, plugin: &str) -> Result<Option<Selected>, Failure> {
        let (mut named, mut subscription) = (self.plugin.clone(), self.subscription.clone());
        if let Some((owner, rest)) = self.subscription.as_deref().and_then(|it| it.split_once("/events/")) {
            named = named.or_else(|| Some(owner.to_owned()));
            subscription = Some(format!("events/{rest}"));
        }
        if named.is_some_and(|named| named != plugin) {
            return Ok(None);
        }
        let states = match self.state.as_deref() {
            None => Vec::new(),
            Some(wanted) => match STATES.iter().find(|(name, _)| *name == wanted) {
                Some((_, states)) => states.to_vec(),
                // Refused before.
                None => return Ok(None),
            },
        };
        Ok(Some(Selected {
            event_id: None,
            tenant: self.tenant.clone(),
            event_type: self.event_type.clone(),
            source: self.source.clone(),
            subject: self.subject.clone(),
            subscription,
            error: self.error.clone(),
            states,
            since: self.since.as_deref().map(|text| instant("since", text)).transpose()?,
            until: self.until.as_deref().map(|text| instant("until", text)).transpose()?,
        }))
    }

    /// Whether it says anything about which deliveries are meant.
    pub fn is_narrow(&self) -> bool {
        let texts = [
            &self.plugin,
            &self.tenant,
            &self.event_type,
            &self.source,
            &self.subject,
            &self.subscription,
            &self.error,
            &self.since,
            &self.until,
        ];
        self.all || !self.event_ids.is_empty() || texts.iter().any(|text| text.is_some())
    }
}

fn wrong(text: &str) -> Failure {
    Failure::new(Code::Validation, text)
}

fn instant(name: &str, text: &str) -> Result<Millis, Failure> {
    let normal = crate::codec::time::normal(text).ok().and_then(|text| text.parse::<jiff::Timestamp>().ok());
    let form = crate::codec::time::WANTED;
    normal
        .map(|at| at.as_millisecond())
        .ok_or_else(|| Failure::field(name, format!("must be {form}, which {text:?} is not")))
}

/// A page of deliveries, of all plugins or one, and how many events wait for the relay. Where a plugin's database is away,
/// the others' are listed and `missing` names it.
///
/// # Errors
/// `VALIDATION`; when the database fails of what belongs to no plugin, or that of the plugin that is asked for.
pub async fn list(app: &Arc<App>, selection: &Selection) -> Result<Json, Failure> {
    selection.check()?;
    let limit = usize::try_from(selection.limit.unwrap_or(LISTED)).unwrap_or(usize::MAX);
    let (from, mut after) = match selection.cursor.as_deref() {
        None => (String::new(), 0),
        Some(cursor) => {
            let parts = cursor.split_once(':').and_then(|(name, id)| Some((name.to_owned(), id.parse().ok()?)));
            let wrong = || Failure::field("cursor", "is none that a list gave; leave it out to begin anew");
            parts.ok_or_else(wrong)?
        }
    };
    let (mut found, mut cursor, mut missing) = (Vec::new(), None, Missing::default());
    let of = app.clone();
    missing.with_lost(blocking(move || of.stores.lost()).await??, selection.plugin.as_deref())?;
    for name in databases(app).await?.into_iter().filter(|name| *name >= from) {
        let begins = if name == from { std::mem::take(&mut after) } else { 0 };
        let Some(selected) = selection.for_plugin(&name)? else { continue };
        let room = limit - found.len();
        let looked = there(app, &name, move |tx| deliveries::list(tx, &selected, begins, room + 1)).await;
        let only = selection.plugin.is_some();
        let Some(page) = missing.without(&name, looked, only)? else { continue };
        let mut page = page.unwrap_or_default();
        let more = page.len() > room;
        page.truncate(room);
        let last = page.last().map_or(begins, |it| it.id);
        found.extend(page.iter().map(|it| told(app, &name, it)));
        if more {
            cursor = Some(format!("{name}:{last}"));
            break;
        }
    }
    let waiting = unrelayed(app, &mut missing).await?;
    Ok(json!({ "events": found, "nextCursor": cursor, "waitingForRelay": waiting, "missing": missing.told() }))
}

async fn unrelayed(app: &Arc<App>, missing: &mut Missing) -> Result<usize, Failure> {
    let db = app.host_db.clone();
    let mut count = blocking(move || db.count_waiting_events()).await??;
    for name in databases(app).await? {
        let looked = there(app, &name, outbox::count_waiting).await;
        count += missing.without(&name, looked, false)?.flatten().unwrap_or(0);
    }
    Ok(count)
}

/// Looks into a plugin's database, if it could be reached when it was looked at last.
async fn there<R: Send + 'static>(
    app: &Arc<App>,
    name: &str,
    work: impl FnMut(&Tx) -> Result<R, StoreError> + Send + 'static,
) -> Result<Option<R>, Failure> {
    app.database(name).ready().map_err(|error| Failure::from(error).of(name))?;
    look(app, name, work).await
}

fn told(app: &App, plugin: &str, it: &Delivery) -> Json {
    let behind = it.state == "behind";
    let waiting = behind || it.state == "waiting";
    json!({
        "eventId": it.event_id,
        "id": it.sender_id,
        "source": it.source,
        "type": it.event_type,
        "subject": it.subject,
        "tenant": it.tenant,
        "plugin": plugin,
        "subscription": subscription(plugin, it),
        "state": if behind { "waiting" } else { it.state.as_str() },
        "waitingFor": waiting.then(|| waiting_for(app, plugin, it)).flatten(),
        "tries": it.attempts,
        "nextTry": waiting.then(|| shown(it.due_at)),
        "error": it.error,
        "details": it.details.as_deref().map(read),
        "created": shown(it.created_at),
        "tried": it.tried_at.map(shown),
        "ended": it.ended_at.map(shown),
    })
}

/// `PLUGIN/events/HANDLER`, `PLUGIN/schedule:NAME`, or `PLUGIN/flows` for workflows that wait for an event.
fn subscription(plugin: &str, it: &Delivery) -> String {
    if it.subscription == super::awaited::NAME {
        return format!("{plugin}/{}", it.subscription);
    }
    match it.subscription.strip_prefix("schedule ") {
        Some(name) => format!("{plugin}/schedule:{name}"),
        None => format!("{plugin}/{}", subscriptions::path(&it.handler)),
    }
}

/// What a delivery waits for, besides its time.
fn waiting_for(app: &App, plugin: &str, it: &Delivery) -> Option<String> {
    let registry = app.registry();
    let has = |loaded: &Arc<Plugin>| {
        let subscribed = loaded.subscriptions.iter().any(|other| subscriptions::name(other) == it.subscription);
        let awaited = it.subscription == super::awaited::NAME && !loaded.flows.is_empty();
        subscribed
            || awaited
            || loaded.schedules.iter().any(|other| super::schedule::subscription(&other.name) == it.subscription)
    };
    match registry.plugins.get(plugin) {
        None if registry.broken.contains_key(plugin) => Some(format!("the plugin {plugin}, which does not load")),
        None => Some(format!("the plugin {plugin}, which is not loaded")),
        Some(loaded) if !has(loaded) => {
            Some(format!("a version of the plugin {plugin} that has this subscription; the loaded one has not"))
        }
        Some(_) if it.state == "behind" => Some("the event before it of the same subject".to_owned()),
        Some(_) => None,
    }
}

/// One event, and all that became of it.
///
/// # Errors
/// `NOT_FOUND`; when a database fails.
pub async fn show(app: &Arc<App>, event_id: &str) -> Result<Json, Failure> {
    let (db, id) = (app.host_db.clone(), event_id.to_owned());
    let mut event = blocking(move || db.event(&id)).await??.map(|accepted| {
        json!({
            "event": read(&accepted.incoming.event),
            "tenant": accepted.incoming.tenant,
            "accepted": shown(accepted.accepted_at),
            "relayed": accepted.relayed_at.map(shown),
        })
    });
    let (mut found, mut missing) = (Vec::new(), Missing::default());
    for name in databases(app).await? {
        let id = event_id.to_owned();
        let looked = there(app, &name, move |tx| Ok((outbox::find(tx, &id)?, deliveries::find(tx, &id)?))).await;
        let Some((published, delivered)) = missing.without(&name, looked, false)?.flatten() else { continue };
        if let Some(published) = published {
            let (at, relayed) = (shown(published.published_at), published.relayed_at.map(shown));
            let tenant = published.tenant.clone();
            let whole = super::relay::published(&name, published);
            event = Some(json!({ "event": whole, "tenant": tenant, "published": at, "relayed": relayed }));
        }
        for (delivery, text) in delivered {
            found.push(told(app, &name, &delivery));
            event = event.or_else(|| Some(json!({ "event": read(&text), "tenant": delivery.tenant })));
        }
    }
    let Some(mut event) = event else {
        if let Some(failure) = missing.first() {
            return Err(failure.clone());
        }
        let text =
            format!("there is no event {event_id}, or it is no longer kept; an id stands in `oncehost events list`");
        return Err(Failure::new(Code::NotFound, text));
    };
    event["eventId"] = json!(event_id);
    event["deliveries"] = json!(found);
    event["missing"] = missing.told();
    Ok(event)
}

fn read(text: &str) -> Json {
    serde_json::from_str(text).unwrap_or_default()
}

/// Has dead deliveries tried again from the start, at a bounded rate, or only shows what that would change.
///
/// # Errors
/// `VALIDATION`; when a database fails.
pub async fn replay(app: &Arc<App>, selection: &Selection) -> Result<Json, Failure> {
    must_be_narrow(selection, "replay")?;
    selection.check()?;
    let rate = selection.rate.unwrap_or(RATE);
    if selection.dry_run {
        return dry_run::run(app, selection).await;
    }
    let (mut replayed, mut skipped, mut missing) = (0, Vec::new(), Missing::default());
    let begun = app.clock.now();
    for name in databases(app).await? {
        let mut after = 0;
        loop {
            let page = meant(app, &name, selection, after).await;
            let Some((page, Some(last))) = missing.without(&name, page, selection.plugin.is_some())? else { break };
            after = last;
            let mut due = Vec::new();
            for it in page {
                match refusal(app, &it, selection.force) {
                    Some(why) => skipped.push(left(&name, &it, &why)),
                    None => {
                        let place = Millis::try_from(replayed + due.len()).unwrap_or(Millis::MAX);
                        due.push((it.id, begun.saturating_add(place.saturating_mul(1000) / Millis::from(rate))));
                    }
                }
            }
            replayed += change(app, &name, move |tx: &Tx| deliveries::replay(tx, &due)).await?;
        }
        app.events.arrived.nudge(&name);
    }
    must_be_found(selection, replayed + skipped.len(), &missing)?;
    Ok(json!({ "replayed": replayed, "skipped": skipped, "missing": missing.told() }))
}

/// A delivery that is left as it is.
fn left(plugin: &str, it: &Delivery, why: &str) -> Json {
    json!({ "eventId": it.event_id, "subscription": subscription(plugin, it), "state": it.state, "why": why })
}

/// Whoever names events is told where there are none.
fn must_be_found(selection: &Selection, found: usize, missing: &Missing) -> Result<(), Failure> {
    if found > 0 || selection.event_ids.is_empty() {
        return Ok(());
    }
    if let Some(failure) = missing.first() {
        return Err(failure.clone());
    }
    let ids = selection.event_ids.join(", ");
    let text = format!("there is no delivery of {ids}; `oncehost events list` has the ids (eventId)");
    Err(Failure::new(Code::NotFound, text))
}

fn must_be_narrow(selection: &Selection, verb: &str) -> Result<(), Failure> {
    if selection.is_narrow() {
        return Ok(());
    }
    Err(wrong(&format!("say which to {verb}: ids of events, a filter such as plugin or type, or all")))
}

/// Why a delivery is not replayed.
fn refusal(app: &App, it: &Delivery, force: bool) -> Option<String> {
    let ended = it.ended_at.unwrap_or(app.clock.now());
    match it.state.as_str() {
        "running" => Some("it runs just now".to_owned()),
        "done" | "discarded" if !force => Some(format!("it is {}; force it to deliver it again", it.state)),
        "done" if ended.saturating_add(millis(app.settings.mark_kept)) <= app.clock.now() => {
            Some("its record is no longer kept, so that its effect would come twice".to_owned())
        }
        _ => None,
    }
}

/// A page of the deliveries that a replay or a discard means, and where it ends; `None` behind the last page.
async fn meant(
    app: &Arc<App>,
    name: &str,
    selection: &Selection,
    after: i64,
) -> Result<(Vec<Delivery>, Option<i64>), Failure> {
    let Some(mut selected) = selection.for_plugin(name)? else { return Ok((Vec::new(), None)) };
    // Each once, however often it is named.
    let ids: BTreeSet<String> = selection.event_ids.iter().cloned().collect();
    if ids.is_empty() && selected.states.is_empty() {
        selected.states = if selection.force { vec!["dead", "done", "discarded"] } else { vec!["dead"] };
    }
    let looked = there(app, name, move |tx| {
        if ids.is_empty() {
            return deliveries::list(tx, &selected, after, BATCH);
        }
        let mut found = Vec::new();
        for id in ids.iter().filter(|_| after == 0) {
            let selected = Selected { event_id: Some(id.clone()), ..selected.clone() };
            found.extend(deliveries::list(tx, &selected, 0, BATCH)?);
        }
        Ok(found)
    });
    let found = looked.await?.unwrap_or_default();
    let last = found.iter().map(|it| it.id).max();
    Ok((found, last))
}

/// Gives deliveries up: dead ones, and those that wait where they are named by event or by state. What has ended
/// otherwise, or runs, is left as it is.
///
/// # Errors
/// `VALIDATION`; when a database fails.
pub async fn discard(app: &Arc<App>, selection: &Selection) -> Result<Json, Failure> {
    must_be_narrow(selection, "discard")?;
    selection.check()?;
    let selection = Selection { force: false, ..selection.clone() };
    let (mut discarded, mut skipped, now) = (0, Vec::new(), app.clock.now());
    let mut missing = Missing::default();
    for name in databases(app).await? {
        let mut after = 0;
        loop {
            let page = meant(app, &name, &selection, after).await;
            let Some((page, Some(last))) = missing.without(&name, page, selection.plugin.is_some())? else { break };
            after = last;
            let why = |it: &Delivery| match it.state.as_str() {
                "running" => Some("it runs just now"),
                "done" => Some("it is done"),
                "discarded" => Some("it is discarded already"),
                _ => None,
            };
            skipped.extend(page.iter().filter_map(|it| Some(left(&name, it, why(it)?))));
            let ids: Vec<i64> = page.iter().filter(|it| why(it).is_none()).map(|it| it.id).collect();
            discarded += change(app, &name, move |tx: &Tx| deliveries::discard(tx, &ids, now)).await?;
        }
        // Those behind them have their turn.
        app.events.arrived.nudge(&name);
    }
    must_be_found(&selection, discarded + skipped.len(), &missing)?;
    Ok(json!({ "discarded": discarded, "skipped": skipped, "missing": missing.told() }))
}
