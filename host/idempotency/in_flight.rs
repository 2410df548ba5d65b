//! Tries that run now: a second one with the same key waits for the first one's outcome.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::OwnedMutexGuard;

use crate::failure::{Code, Failure};
use crate::metrics::PluginMetrics;
use crate::store::keys::KeyId;

/// How many keys the table holds before those that nobody uses are thrown out.
const SWEEP_AT: usize = 4096;

/// One lock per key in flight. What a later try gets is decided by the record, not here: this only keeps it from
/// filling the queue, and bounds its wait.
#[derive(Debug, Default)]
pub struct InFlight {
    keys: Mutex<HashMap<KeyId, Arc<tokio::sync::Mutex<()>>>>,
}

impl InFlight {
    /// Waits until no other try with this key is under way, and holds the key from then on.
    ///
    /// # Errors
    /// `KEY_IN_PROGRESS` when the other one still runs after `limit`.
    pub async fn wait(
        &self,
        id: &KeyId,
        limit: Duration,
        metrics: &PluginMetrics,
    ) -> Result<OwnedMutexGuard<()>, Failure> {
        let lock = self.lock_of(id);
        if let Ok(held) = lock.clone().try_lock_owned() {
            return Ok(held);
        }
        let begun = Instant::now();
        let held = tokio::time::timeout(limit, lock.lock_owned()).await;
        metrics.waited(begun.elapsed());
        held.map_err(|_| {
            Failure::new(
                Code::KeyInProgress,
                format!(
                    "another try with this Idempotency-Key still runs after {limit:?}; try again with the same key"
                ),
            )
        })
    }

    fn lock_of(&self, id: &KeyId) -> Arc<tokio::sync::Mutex<()>> {
        let mut keys = match self.keys.lock() {
            Ok(keys) => keys,
            Err(poisoned) => poisoned.into_inner(),
        };
        if keys.len() >= SWEEP_AT {
            // A guard and a waiter each hold a count of their own.
            keys.retain(|_, lock| Arc::strong_count(lock) > 1);
        }
        keys.entry(id.clone()).or_default().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metrics;

    fn id(key: &str) -> KeyId {
        KeyId { tenant: "t".to_owned(), operation: "p/a".to_owned(), key: key.to_owned() }
    }

    #[tokio::test]
    async fn second_try_waits_for_the_first_and_other_keys_do_not() {
        let (in_flight, metrics) = (InFlight::default(), Metrics::default().plugin("p"));
        let first = in_flight.wait(&id("a"), Duration::from_secs(5), &metrics).await.unwrap();
        assert!(in_flight.wait(&id("b"), Duration::ZERO, &metrics).await.is_ok());
        let second = in_flight.wait(&id("a"), Duration::ZERO, &metrics).await;
        assert_eq!(second.unwrap_err().code, Code::KeyInProgress);
        drop(first);
        assert!(in_flight.wait(&id("a"), Duration::ZERO, &metrics).await.is_ok());
    }

    #[tokio::test]
    async fn keys_that_nobody_uses_are_swept() {
        let (in_flight, metrics) = (InFlight::default(), Metrics::default().plugin("p"));
        for n in 0..SWEEP_AT * 2 {
            drop(in_flight.wait(&id(&n.to_string()), Duration::ZERO, &metrics).await.unwrap());
        }
        assert!(in_flight.keys.lock().unwrap().len() <= SWEEP_AT);
    }
}
