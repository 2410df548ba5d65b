//! The outbox: events that commit with the rows of the invocation that published them.

use crate::clock::Millis;

/// An event as it was published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub event_id: String,
    pub tenant: String,
    pub topic: String,
    pub subject: Option<String>,
    pub event_key: String,
    /// RFC 8785 text.
    pub payload: String,
}

/// What became of a published event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Published {
    Now,
    /// The same event was there already.
    Already,
    /// The id was there with another topic, subject or payload.
    Other,
}

/// An event as it rests in the outbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    pub id: i64,
    pub event_id: String,
    pub tenant: String,
    pub topic: String,
    pub subject: Option<String>,
    /// RFC 8785 text.
    pub payload: String,
    pub published_at: Millis,
    /// `None`: it waits for the relay.
    pub relayed_at: Option<Millis>,
}

verbs! { outbox:
    /// Puts an event in the outbox, once per event id.
    ///
    /// # Errors
    /// When the database fails.
    pub fn publish(tx, event: &Event, now: Millis) -> Published;

    /// The events behind the row `after` that wait for the relay, the oldest first: at most `limit`, and no more once
    /// their payloads pass `bytes`.
    ///
    /// # Errors
    /// When the database fails.
    pub fn waiting(tx, after: i64, limit: usize, bytes: usize) -> Vec<Outgoing>;

    /// The events behind the row `after` that were relayed after the instant `since`, the oldest first: at most `limit`,
    /// and no more once their payloads pass `bytes`.
    ///
    /// # Errors
    /// When the database fails.
    pub fn relayed(tx, after: i64, since: Millis, limit: usize, bytes: usize) -> Vec<Outgoing>;

    /// The last row of the outbox, whether it waits or not; 0 where there is none.
    ///
    /// # Errors
    /// When the database fails.
    pub fn newest(tx) -> i64;

    /// How many events wait for the relay.
    ///
    /// # Errors
    /// When the database fails.
    pub fn count_waiting(tx) -> usize;

    /// Notes that every subscription and listener has these events: all that wait from the first to the last.
    ///
    /// # Errors
    /// When the database fails, or others wait among them.
    pub fn mark_relayed(tx, ids: &[i64], now: Millis) -> ();

    /// One published event.
    ///
    /// # Errors
    /// When the database fails.
    pub fn find(tx, event_id: &str) -> Option<Outgoing>;

    /// Forgets at most `batch` events that were relayed at or before `before`; gives how many.
    ///
    /// # Errors
    /// When the database fails.
    pub fn clear(tx, before: Millis, batch: usize) -> usize;
}
