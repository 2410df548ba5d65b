//! What browsers hear: the messages of some topics behind a position, for as long as somebody listens.

use std::sync::Arc;

use tokio::sync::watch;

use super::blocking;
use crate::app::App;
use crate::failure::Failure;
use crate::store::host_db::Placed;

/// Messages that are read at a time.
const BATCH: usize = 100;

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

impl Listener {
    /// Begins behind the message that `last` names, or with what comes from now on. The answer's second part says
    /// that what came after `last` is not all there any more.
    ///
    /// An id is the message's position and the beginning of its event's id: a position alone means something else
    /// after a restored backup.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn new(
        app: &Arc<App>,
        tenant: String,
        topics: Vec<String>,
        last: Option<&str>,
    ) -> Result<(Self, bool), Failure> {
        let heard = app.events.heard.subscribe();
        let known = last.map(|last| {
            let (position, event) = last.split_once('-').unwrap_or((last, ""));
            (position.parse::<i64>().ok(), event.to_owned())
        });
        let db = app.host_db.clone();
        let (position, gone) = blocking(move || match known {
            None => Ok((db.last_position()?, false)),
            Some((position, event)) => {
                let there = position.map(|position| db.event_at(position)).transpose()?.flatten();
                match position.filter(|_| there.is_some_and(|id| !event.is_empty() && id.starts_with(&event))) {
                    Some(position) => Ok((position, false)),
                    None => db.last_position().map(|last| (last, true)),
                }
            }
        })
        .await??;
        let (read, ending) = (Vec::new().into_iter(), app.events.ending.subscribe());
        Ok((Self { app: app.clone(), tenant, topics, position, read, heard, ending }, gone))
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
                let id = format!("{position}-{}", event_id.get(..ID_LENGTH).unwrap_or(&event_id));
                return Ok(Some(Heard { id, message }));
            }
            // Before the reading: what comes in meanwhile is not missed.
            self.heard.mark_unchanged();
            let (db, tenant, topics) = (self.app.host_db.clone(), self.tenant.clone(), self.topics.clone());
            let position = self.position;
            let read = blocking(move || db.messages(&tenant, &topics, position, BATCH)).await??;
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

/// Characters of an event's id in a message's id.
const ID_LENGTH: usize = 8;
