//! Clearing what is no longer kept of events, in small batches between other work.

use std::sync::Arc;

use super::{adjust, blocking, change, databases};
use crate::app::{App, beside_others};
use crate::clock::{Millis, millis};
use crate::failure::Failure;
use crate::plugin::Plugin;
use crate::store::StoreError;
use crate::store::{deliveries, outbox};

/// Rows that one transaction of the clearing takes.
const BATCH: usize = 200;

/// Forgets relayed events, ended deliveries and messages that are older than the settings keep them; gives how many.
/// Dead letters and what still waits stay. Lines of deliveries that stand still are set going on the way.
///
/// # Errors
/// The first database's that refuses; the others are cleared all the same.
pub async fn clear(app: &Arc<App>) -> Result<usize, Failure> {
    let (settings, now) = (&app.settings, app.clock.now());
    let before = |kept| now.saturating_sub(millis(kept));
    let (events, done) = (before(settings.events_kept), before(settings.deliveries_kept));
    let (messages, marks) = (before(settings.notifications_kept), before(settings.mark_kept));
    let (mut cleared, mut failed) = (0, None);
    for name in databases(app).await? {
        match clear_plugin(app, &name, events, done).await {
            Ok(count) => cleared += count,
            Err(failure) => drop(failed.get_or_insert(failure)),
        }
    }
    let forget = {
        let db = app.host_db.clone();
        move || db.forget_subscriptions(marks)
    };
    cleared += blocking(forget).await??;
    loop {
        let db = app.host_db.clone();
        let clear = move || Ok::<_, StoreError>(db.clear_events(events, BATCH)? + db.clear_messages(messages, BATCH)?);
        let batch = beside_others(blocking(clear)).await??;
        cleared += batch;
        if batch == 0 {
            break;
        }
    }
    failed.map_or(Ok(cleared), Err)
}

async fn clear_plugin(app: &Arc<App>, name: &str, events: Millis, done: Millis) -> Result<usize, Failure> {
    move_on(app, name).await?;
    let mut cleared = 0;
    loop {
        let clear = move |tx: &_| Ok(outbox::clear(tx, events, BATCH)? + deliveries::clear(tx, done, BATCH)?);
        let batch = beside_others(change(app, name, clear)).await?;
        cleared += batch;
        if batch == 0 {
            return Ok(cleared);
        }
    }
}

/// Has lines go on in which nobody goes, where the plugin's deliveries go in lines at all.
async fn move_on(app: &Arc<App>, name: &str) -> Result<(), Failure> {
    let in_line = |plugin: &Arc<Plugin>| plugin.subscriptions.iter().any(|it| it.by_subject);
    if !app.registry().plugins.get(name).is_some_and(in_line) {
        return Ok(());
    }
    let lines = adjust(app, name, deliveries::move_on).await?;
    if lines > 0 {
        tracing::warn!(plugin = name, lines, "lines of deliveries stood still, and go on");
        app.events.arrived(name);
    }
    Ok(())
}
