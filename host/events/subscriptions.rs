//! Who subscribes to what. `host.db` knows it too, since an event reaches every subscription there was at its moment,
//! also that of a plugin that cannot be loaded just now, or of one that has gone since.

use std::sync::{Arc, PoisonError};

use super::blocking;
use super::others::Voice;
use super::passing::Passing;
use crate::app::App;
use crate::clock::Millis;
use crate::failure::Failure;
use crate::plugin::{EventFilter, Plugin, Registry, Subscription};
use crate::store::deliveries::NewDelivery;
use crate::store::host_db::{HostDb, Subscribed};

/// A subscription, ready to be compared with events.
#[derive(Clone, Debug, PartialEq)]
pub struct Known {
    pub row: Subscribed,
    filter: Option<EventFilter>,
}

impl Known {
    fn new(row: Subscribed) -> Self {
        let filter = row.filter.as_deref().and_then(|text| {
            let read = serde_json::from_str(text).map_err(|error| error.to_string());
            // It was read once before, from plugin.json.
            read.and_then(|filter| EventFilter::parse(&filter))
                .inspect_err(|error| tracing::error!(plugin = row.plugin, error, "a kept filter cannot be read"))
                .ok()
        });
        Self { row, filter }
    }

    /// The delivery that an event makes for this subscription, if it is for it.
    pub(super) fn delivery(&self, passing: &Passing) -> Option<NewDelivery> {
        let row = &self.row;
        let wanted = row.event_type == passing.event_type
            && row.ended_at.is_none_or(|ended| passing.at <= ended)
            && self.filter.as_ref().is_none_or(|filter| filter.passes(passing.event()));
        wanted.then(|| NewDelivery {
            // A tenant has no `/` in it.
            order_key: passing.subject.as_ref().filter(|_| row.by_subject).map(|it| format!("{}/{it}", passing.tenant)),
            ..passing.delivery(&row.name, format!("{}/event:{}", row.plugin, row.handler), &row.handler)
        })
    }
}

/// The name of a subscription within its plugin.
pub(super) fn name(subscription: &Subscription) -> String {
    format!("{} {}", subscription.event_type, path(&subscription.handler))
}

/// A handler as `plugin.json` writes it: `events/video-uploaded`.
pub(super) fn path(handler: &str) -> String {
    format!("events/{}", handler.replace('.', "/"))
}

/// Notes in `host.db` what a set of plugins changes about the subscriptions, and gives them all. Those of a plugin
/// whose folder does not load stay; those of one that is gone end now. `voice` says about which plugins this host has
/// a say.
///
/// # Errors
/// When the database fails.
pub(super) fn follow(db: &HostDb, registry: &Registry, voice: &Voice, now: Millis) -> Result<Vec<Known>, Failure> {
    let before = db.subscriptions()?;
    let decided = registry.plugins.values().filter(|plugin| voice.decides(plugin));
    let wanted: Vec<Subscribed> = decided.flat_map(|plugin| of_plugin(plugin)).collect();
    let mut changed: Vec<Subscribed> = wanted.iter().filter(|row| !before.contains(row)).cloned().collect();
    for row in &before {
        let goes_on = wanted.iter().any(|other| (&other.plugin, &other.name) == (&row.plugin, &row.name));
        let ends = match registry.plugins.get(&row.plugin) {
            Some(plugin) => voice.decides(plugin),
            None => !registry.broken.contains_key(&row.folder) && voice.removed(&row.plugin),
        };
        if !goes_on && ends && row.ended_at.is_none() {
            changed.push(Subscribed { ended_at: Some(now), ..row.clone() });
        }
    }
    if changed.is_empty() {
        return Ok(before.into_iter().map(Known::new).collect());
    }
    db.change_subscriptions(&changed)?;
    Ok(db.subscriptions()?.into_iter().map(Known::new).collect())
}

fn of_plugin(plugin: &Plugin) -> impl Iterator<Item = Subscribed> {
    plugin.subscriptions.iter().map(|it| Subscribed {
        plugin: plugin.id.clone(),
        name: name(it),
        folder: plugin.folder(),
        event_type: it.event_type.clone(),
        handler: it.handler.clone(),
        filter: it.filter.as_ref().map(|filter| filter.source().to_string()),
        by_subject: it.by_subject,
        ended_at: None,
    })
}

/// The same for a running host, before it goes over to the next set of plugins.
///
/// # Errors
/// When the database fails; the host must then stay with the plugins it has.
pub async fn change(app: &Arc<App>, next: Registry) -> Result<Registry, Failure> {
    let (db, now, before) = (app.host_db.clone(), app.clock.now(), app.registry());
    let of = app.clone();
    let (next, known) = blocking(move || {
        let voice = Voice::after(&db, &of.events.house, &before, now);
        let known = voice.and_then(|voice| follow(&db, &next, &voice, now));
        (next, known)
    })
    .await?;
    *app.events.known.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(known?);
    Ok(next)
}

/// The subscriptions that there are now, also those that another host noted a moment ago.
///
/// # Errors
/// When the database fails.
pub(super) async fn current(app: &Arc<App>) -> Result<Arc<Vec<Known>>, Failure> {
    if !app.stores.is_shared() {
        return Ok(app.events.known());
    }
    let db = app.host_db.clone();
    let rows = blocking(move || db.subscriptions()).await??;
    Ok(Arc::new(rows.into_iter().map(Known::new).collect()))
}
