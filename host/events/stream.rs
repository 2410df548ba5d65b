//! What browsers hear: the messages of some topics behind a position, for as long as somebody listens.

use std::sync::Arc;

use tokio::sync::watch;

use super::blocking;
use crate::app::App;
use crate::failure::Failure;
use crate::ids;
use crate::store::StoreError;
use crate::store::host_db::{HostDb, Placed};

/// Messages, and about how many bytes of them, that are read at a time: a listener that reads slowly holds them all.
const BATCH: usize = 100;
const BATCH_BYTES: usize = 256 << 10;

/// A listener.
pub struct Listener {
    app: Arc<App>,
    tenant: String,
    topics: Vec<String>,
    position: i64,
    read: std::vec::IntoIter<Placed>,
    heard: watch::Receiver<i64>,
    ending: watch::Receiver<bool>,
}

/// What a listener hears.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    /// What to come back with; see [`Listener::new`].
    pub id: String,
    /// JSON.
    pub message: String,
}

/// Where a listener begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Begin {
    /// The last message before all that it will hear: what to come back with as long as nothing was heard.
    pub id: String,
    /// What came after the message that was named is not all there any more.
    pub gone: bool,
}

impl Listener {
    /// Begins behind the message that `last` names, or with what comes from now on.
    ///
    /// An id is a message's position and a few digits made from its event's id: a position alone means something else
    /// after a restored backup.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn new(
        app: &Arc<App>,
        tenant: String,
        topics: Vec<String>,
        last: Option<&str>,
    ) -> Result<(Self, Begin), Failure> {
        let heard = app.events.heard.subscribe();
        let (db, last) = (app.host_db.clone(), last.map(str::to_owned));
        let (position, begin) = blocking(move || begin(&db, last)).await??;
        let (read, ending) = (Vec::new().into_iter(), app.events.ending.subscribe());
        Ok((Self { app: app.clone(), tenant, topics, position, read, heard, ending }, begin))
    }

    /// The next message; `None` when the host is about to stop.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn next(&mut self) -> Result<Option<Heard>, Failure> {
        loop {
            if *self.ending.borrow() {
                return Ok(None);
            }
            if let Some(Placed { position, event_id, message }) = self.read.next() {
                self.position = position;
                return Ok(Some(Heard { id: id(position, &event_id), message }));
            }
            // Before the reading: what comes in meanwhile is not missed.
            self.heard.mark_unchanged();
            let (db, tenant, topics) = (self.app.host_db.clone(), self.tenant.clone(), self.topics.clone());
            let position = self.position;
            let read = blocking(move || db.messages(&tenant, &topics, position, BATCH, BATCH_BYTES)).await??;
            self.read = read.into_iter();
            if self.read.len() == 0 {
                tokio::select! {
                    _ = self.heard.changed() => {}
                    _ = self.ending.wait_for(|ending| *ending) => {}
                }
            }
        }
    }
}

/// The position to begin behind, and what to say about it.
fn begin(db: &HostDb, last: Option<String>) -> Result<(i64, Begin), StoreError> {
    if let Some(last) = &last
        && let Some(position) = last.split_once('-').and_then(|(position, _)| position.parse().ok())
        && db.event_at(position)?.is_some_and(|event_id| id(position, &event_id) == *last)
    {
        return Ok((position, Begin { id: last.clone(), gone: false }));
    }
    let position = db.last_position()?;
    // The newest message is never cleared, so that there is one as soon as there was any.
    let event_id = db.event_at(position)?.unwrap_or_default();
    let begin = Begin { id: id(position, &event_id), gone: last.as_ref().is_some_and(|last| *last != NOTHING_YET) };
    // Whoever began before the first message hears all from the first on, if that is still there.
    let from_the_first = last.is_some() && !begin.gone;
    match from_the_first {
        true if position == 0 || db.event_at(1)?.is_some() => {
            Ok((0, Begin { id: NOTHING_YET.to_owned(), gone: false }))
        }
        true => Ok((position, Begin { gone: true, ..begin })),
        false => Ok((position, begin)),
    }
}

/// The id of a message; see [`Listener::new`].
fn id(position: i64, event_id: &str) -> String {
    if position == 0 {
        return NOTHING_YET.to_owned();
    }
    let digest = ids::digest(&["notification", event_id]);
    let digits: String = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    format!("{position}-{digits}")
}

/// The place before the first message.
const NOTHING_YET: &str = "0-0";
