//! Messages that `host.db` has lost, since it was put back from a backup: their events rest in the plugins' outboxes.

use std::sync::Arc;

use futures_util::future::join_all;

use super::passing::Passing;
use super::{blocking, databases, look};
use crate::app::App;
use crate::clock::millis;
use crate::failure::Failure;
use crate::store::host_db::Message;
use crate::store::{StoreError, Tx, outbox};

/// Events, and about how many bytes of them, that go together.
const BATCH: usize = 256;
const BATCH_BYTES: usize = 4 << 20;

/// Tells browsers what was relayed behind the last event that `host.db` knows of. Subscribers have theirs: those are in
/// the plugins' files.
pub(super) async fn tell(app: &Arc<App>) {
    let names = databases(app).await.unwrap_or_default();
    let tell = async |name: &String| match tell_of(app, name).await {
        Ok(0) => {}
        Ok(count) => tracing::warn!(
            database = name,
            count,
            "host.db is older than this database, as from a backup: what browsers may have missed is told again"
        ),
        Err(failure) => tracing::warn!(database = name, "what browsers may have missed is not told: {failure}"),
    };
    join_all(names.iter().filter(|name| !app.database(name).is_shared()).map(tell)).await;
}

async fn tell_of(app: &Arc<App>, name: &str) -> Result<usize, Failure> {
    let (db, plugin) = (app.host_db.clone(), name.to_owned());
    let Some(mut after) = blocking(move || db.heard_up_to(&plugin)).await?? else { return Ok(0) };
    let since = app.clock.now().saturating_sub(millis(app.settings.notifications_kept));
    let mut count = 0;
    while !app.events.is_ending() {
        let read = move |tx: &Tx| Ok((outbox::relayed(tx, after, since, BATCH, BATCH_BYTES)?, outbox::newest(tx)?));
        let (events, newest) = look(app, name, read).await?.unwrap_or_default();
        let Some(last) = events.last() else { break };
        after = last.id;
        let (db, plugin, now, first) = (app.host_db.clone(), name.to_owned(), app.clock.now(), count == 0);
        count += events.len();
        let note = move || {
            let messages = events.into_iter().filter_map(|event| Passing::published(&plugin, event).message);
            let messages: Vec<Message> = messages.collect();
            if first {
                // Where it only does not know up to where it was told, no message is there twice.
                db.index_messages()?;
            }
            let last = db.note(&plugin, newest, &messages, now)?;
            db.relayed(messages.iter().map(|message| message.event_id.as_str()));
            Ok::<_, StoreError>(last)
        };
        app.events.heard.send_replace(blocking(note).await??);
    }
    Ok(count)
}
