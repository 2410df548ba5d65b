//! Events for workflows that wait for one (`waitForEvent`): a delivery to all of a plugin's workflows together, so that
//! it is made once, waits for a plugin that does not load, and is seen like any other.

use std::fmt;
use std::sync::Arc;

use serde_json::Value as Json;

use super::delivery::Delivery;
use super::passing::Passing;
use crate::clock::Millis;
use crate::failure::Failure;
use crate::flow::Flows;
use crate::invoke::{Cause, Claim, Outcome};
use crate::plugin::Plugin;
use crate::store::Tx;
use crate::store::deliveries::NewDelivery;
use crate::store::keys::KeyId;

/// The name by which these are delivered; a subscription's has a space in it.
pub(super) const NAME: &str = "flows";

/// The delivery of an event to the workflows of a plugin.
pub(super) fn delivery(plugin: &str, passing: &Passing) -> NewDelivery {
    passing.delivery(NAME, format!("{plugin}/{NAME}"), NAME)
}

/// Gives the event to the steps that wait for it, in the transaction of the acknowledgement.
pub(super) struct Awaited {
    pub delivery: Delivery,
    pub event: Json,
    pub tenant: String,
    pub plugin: Arc<Plugin>,
    pub flows: Arc<Flows>,
}

impl fmt::Debug for Awaited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Awaited({:?})", self.delivery)
    }
}

impl Cause for Awaited {
    fn claim(&self, tx: &Tx, now: Millis) -> Result<Claim, Failure> {
        self.delivery.claim(tx, now)
    }

    fn settle(&self, tx: &Tx, data: &str, now: Millis) -> Result<Outcome, Failure> {
        let outcome = self.delivery.settle(tx, data, now)?;
        let wakes = self.flows.satisfy(tx, &self.plugin, &self.tenant, &self.event, now)?;
        Ok(outcome.waking(wakes))
    }

    fn key(&self) -> Option<&KeyId> {
        self.delivery.key()
    }

    fn is_recorded(&self) -> bool {
        true
    }
}
