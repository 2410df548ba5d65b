//! Events that belong to no plugin: what came in, who subscribes, and what browsers hear.

use super::HostDb;
use crate::clock::Millis;
use crate::store::StoreError;

/// An event that came in over HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incoming {
    pub event_id: String,
    pub tenant: String,
    pub source: String,
    pub sender_id: String,
    pub event_type: String,
    pub subject: Option<String>,
    /// SHA-256 of what events with the same id must share.
    pub hash: [u8; 32],
    /// CloudEvents JSON.
    pub event: String,
}

/// What became of an event that came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepted {
    Now,
    /// The same event was there already.
    Already,
    /// Another event has this tenant, source and id.
    Other,
}

/// An accepted event as it rests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptedEvent {
    pub id: i64,
    pub incoming: Incoming,
    pub accepted_at: Millis,
    /// `None`: it waits for the relay.
    pub relayed_at: Option<Millis>,
}

/// A subscription as the host knows it, its plugin loaded or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscribed {
    pub plugin: String,
    pub name: String,
    /// The plugin's folder.
    pub folder: String,
    pub event_type: String,
    pub handler: String,
    /// JSON.
    pub filter: Option<String>,
    pub by_subject: bool,
    /// Events up to this instant still go to it; `None`: it goes on.
    pub ended_at: Option<Millis>,
}

/// A message to be heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its row in the outbox.
    pub row: i64,
    pub event_id: String,
    pub tenant: String,
    pub topic: String,
    /// JSON.
    pub message: String,
}

/// A message at its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    pub position: i64,
    pub event_id: String,
    pub message: String,
}

impl HostDb {
    /// Keeps events, once for each tenant, source and id; what is new is on disk when this returns.
    ///
    /// # Errors
    /// When the database fails; nothing of them is kept then.
    pub fn accept(&self, events: &[Incoming], now: Millis) -> Result<Vec<Accepted>, StoreError> {
        match self {
            HostDb::Sqlite(db) => db.accept(events, now),
            HostDb::Postgres(db) => db.accept(events, now),
        }
    }

    /// The events behind the row `after` that wait for the relay, the oldest first: at most `limit`, and no more once
    /// they pass `bytes`.
    ///
    /// # Errors
    /// When the database fails.
    pub fn waiting_events(&self, after: i64, limit: usize, bytes: usize) -> Result<Vec<AcceptedEvent>, StoreError> {
        match self {
            HostDb::Sqlite(db) => db.waiting_events(after, limit, bytes),
            HostDb::Postgres(db) => db.waiting_events(after, limit, bytes),
        }
    }

    /// How many events wait for the relay.
    ///
    /// # Errors
    /// When the database fails.
    pub fn count_waiting_events(&self) -> Result<usize, StoreError> {
        match self {
            HostDb::Sqlite(db) => db.count_waiting_events(),
            HostDb::Postgres(db) => db.count_waiting_events(),
        }
    }

    /// Notes that every subscription has these events: all that wait from the first to the last.
    ///
    /// # Errors
    /// When the database fails.
    pub fn mark_events_relayed(&self, ids: &[i64], now: Millis) -> Result<(), StoreError> {
        match self {
            HostDb::Sqlite(db) => db.mark_events_relayed(ids, now),
            HostDb::Postgres(db) => db.mark_events_relayed(ids, now),
        }
    }

    /// One accepted event.
    ///
    /// # Errors
    /// When the database fails.
    pub fn event(&self, event_id: &str) -> Result<Option<AcceptedEvent>, StoreError> {
        match self {
            HostDb::Sqlite(db) => db.event(event_id),
            HostDb::Postgres(db) => db.event(event_id),
        }
    }

    /// Forgets at most `batch` accepted events that were relayed at or before `before`; gives how many.
    ///
    /// # Errors
    /// When the database fails.
    pub fn clear_events(&self, before: Millis, batch: usize) -> Result<usize, StoreError> {
        match self {
            HostDb::Sqlite(db) => db.clear_events(before, batch),
            HostDb::Postgres(db) => db.clear_events(before, batch),
        }
    }

    /// All subscriptions, those that ended a short while ago included.
    ///
    /// # Errors
    /// When the database fails.
    pub fn subscriptions(&self) -> Result<Vec<Subscribed>, StoreError> {
        match self {
            HostDb::Sqlite(db) => db.subscriptions(),
            HostDb::Postgres(db) => db.subscriptions(),
        }
    }

    /// Writes what changed of the subscriptions.
    ///
    /// # Errors
    /// When the database fails.
    pub fn change_subscriptions(&self, changed: &[Subscribed]) -> Result<(), StoreError> {
        match self {
            HostDb::Sqlite(db) => db.change_subscriptions(changed),
            HostDb::Postgres(db) => db.change_subscriptions(changed),
        }
    }

    /// Forgets subscriptions that ended before `before`.
    ///
    /// # Errors
    /// When the database fails.
    pub fn forget_subscriptions(&self, before: Millis) -> Result<usize, StoreError> {
        match self {
            HostDb::Sqlite(db) => db.forget_subscriptions(before),
            HostDb::Postgres(db) => db.forget_subscriptions(before),
        }
    }

    /// Gives messages of a plugin's events their positions, once for each event, and gives the last position there is.
    /// `newest` is a row that the plugin's outbox had when these were taken from it, and the last one.
    ///
    /// # Errors
    /// When the database fails.
    pub fn note(&self, plugin: &str, newest: i64, messages: &[Message], now: Millis) -> Result<i64, StoreError> {
        match self {
            HostDb::Sqlite(db) => db.note(plugin, newest, messages, now),
            HostDb::Postgres(db) => db.note(messages, now),
        }
    }

    /// The last row of a plugin's outbox that was noted; `None` where that is not known.
    ///
    /// # Errors
    /// When the database fails.
    pub fn heard_up_to(&self, plugin: &str) -> Result<Option<i64>, StoreError> {
        match self {
            HostDb::Sqlite(db) => db.heard_up_to(plugin),
            HostDb::Postgres(_) => Ok(None),
        }
    }

    /// Has all messages that are kept recognised by their events, whatever rows those are in.
    ///
    /// # Errors
    /// When the database fails.
    pub fn index_messages(&self) -> Result<(), StoreError> {
        match self {
            HostDb::Sqlite(db) => db.index_messages(),
            // They are.
            HostDb::Postgres(_) => Ok(()),
        }
    }

    /// Says that these events were relayed, which is on disk.
    pub fn relayed<'a>(&self, event_ids: impl Iterator<Item = &'a str>) {
        match self {
            HostDb::Sqlite(db) => db.relayed(event_ids),
            // An index over all messages knows.
            HostDb::Postgres(_) => {}
        }
    }

    /// The last position that was given; 0 before the first.
    ///
    /// # Errors
    /// When the database fails.
    pub fn last_position(&self) -> Result<i64, StoreError> {
        match self {
            HostDb::Sqlite(db) => db.last_position(),
            HostDb::Postgres(db) => db.last_position(),
        }
    }

    /// At most `limit` messages of a tenant on these topics behind a position, in their order, and no more once they pass
    /// `bytes`.
    ///
    /// # Errors
    /// When the database fails.
    pub fn messages(
        &self,
        tenant: &str,
        topics: &[String],
        after: i64,
        limit: usize,
        bytes: usize,
    ) -> Result<Vec<Placed>, StoreError> {
        match self {
            HostDb::Sqlite(db) => db.messages(tenant, topics, after, limit, bytes),
            HostDb::Postgres(db) => db.messages(tenant, topics, after, limit, bytes),
        }
    }

    /// The event at a position, where that is still kept.
    ///
    /// # Errors
    /// When the database fails.
    pub fn event_at(&self, position: i64) -> Result<Option<String>, StoreError> {
        match self {
            HostDb::Sqlite(db) => db.event_at(position),
            HostDb::Postgres(db) => db.event_at(position),
        }
    }

    /// Forgets at most `batch` messages that were noted at or before `before`, the oldest first and never the newest of
    /// all; gives how many.
    ///
    /// # Errors
    /// When the database fails.
    pub fn clear_messages(&self, before: Millis, batch: usize) -> Result<usize, StoreError> {
        match self {
            HostDb::Sqlite(db) => db.clear_messages(before, batch),
            HostDb::Postgres(db) => db.clear_messages(before, batch),
        }
    }
}
