//! An event on its way from where it rests to those who want it.

use std::sync::OnceLock;

use serde::Serialize;
use serde_json::Value as Json;
use serde_json::value::RawValue;

use super::relay::as_cloudevent;
use super::source_of;
use crate::clock::Millis;
use crate::codec::time::shown;
use crate::store::deliveries::NewDelivery;
use crate::store::host_db::{AcceptedEvent, Message};
use crate::store::outbox::Outgoing;

/// Most events have no subscriber, so its forms are made when somebody asks.
pub(super) struct Passing {
    /// Its row.
    pub id: i64,
    pub event_id: String,
    pub tenant: String,
    pub source: String,
    pub sender_id: String,
    pub event_type: String,
    pub subject: Option<String>,
    /// When it was accepted or published.
    pub at: Millis,
    /// What browsers hear of it.
    pub message: Option<Message>,
    /// Of a published one: the data as JSON text.
    payload: String,
    /// Of an accepted one it is there from the start.
    text: OnceLock<String>,
    event: OnceLock<Json>,
}

/// A message for browsers.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Heard<'a> {
    event_id: &'a str,
    topic: &'a str,
    subject: Option<&'a str>,
    payload: &'a RawValue,
    published_at: &'a str,
}

impl Passing {
    pub(super) fn accepted(event: AcceptedEvent) -> Self {
        let AcceptedEvent { id, incoming, accepted_at, .. } = event;
        Self {
            id,
            event_id: incoming.event_id,
            tenant: incoming.tenant,
            source: incoming.source,
            sender_id: incoming.sender_id,
            event_type: incoming.event_type,
            subject: incoming.subject,
            at: accepted_at,
            message: None,
            payload: String::new(),
            text: incoming.event.into(),
            event: OnceLock::new(),
        }
    }

    pub(super) fn published(plugin: &str, event: Outgoing) -> Self {
        let Outgoing { id, event_id, tenant, topic, subject, payload, published_at, .. } = event;
        let heard = Heard {
            event_id: &event_id,
            topic: &topic,
            subject: subject.as_deref(),
            // It was written as JSON; what another hand made of it is as if it said nothing.
            payload: serde_json::from_str(&payload).unwrap_or(RawValue::NULL),
            published_at: &shown(published_at),
        };
        let message = serde_json::to_string(&heard).unwrap_or_default();
        Self {
            id,
            message: Some(Message {
                row: id,
                event_id: event_id.clone(),
                tenant: tenant.clone(),
                topic: topic.clone(),
                message,
            }),
            sender_id: event_id.clone(),
            event_id,
            tenant,
            source: source_of(plugin),
            event_type: topic,
            subject,
            at: published_at,
            payload,
            text: OnceLock::new(),
            event: OnceLock::new(),
        }
    }

    /// As CloudEvents JSON.
    pub(super) fn text(&self) -> &str {
        self.text.get_or_init(|| self.event().to_string())
    }

    /// As handlers see it.
    pub(super) fn event(&self) -> &Json {
        self.event.get_or_init(|| {
            if let Some(text) = self.text.get() {
                return serde_json::from_str(text).unwrap_or_default();
            }
            let data = serde_json::from_str(&self.payload).unwrap_or_default();
            let subject = self.subject.as_deref();
            as_cloudevent(&self.event_id, &self.source, &self.event_type, subject, &shown(self.at), data)
        })
    }

    /// The same, for whoever needs nothing else of it.
    pub(super) fn into_event(self) -> Json {
        self.event();
        self.event.into_inner().unwrap_or_default()
    }

    /// Its delivery to `handler`, before anything is said about the order.
    pub(super) fn delivery(&self, subscription: &str, operation: String, handler: &str) -> NewDelivery {
        NewDelivery {
            event_id: self.event_id.clone(),
            subscription: subscription.to_owned(),
            operation,
            handler: handler.to_owned(),
            tenant: self.tenant.clone(),
            source: self.source.clone(),
            sender_id: self.sender_id.clone(),
            event_type: self.event_type.clone(),
            subject: self.subject.clone(),
            event: self.text().to_owned(),
            order_key: None,
        }
    }
}
