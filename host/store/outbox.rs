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

verbs! { outbox:
    /// Puts an event in the outbox, once per event id.
    ///
    /// # Errors
    /// When the database fails.
    pub fn publish(tx, event: &Event, now: Millis) -> Published;
}
