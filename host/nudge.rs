//! Nudges: who waits for work in a database hears that something was committed there. A nudge may come for nothing and
//! never carries what is to be done; that stands in the database.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use tokio::sync::Notify;

/// Names of databases in which something may wait.
#[derive(Debug, Default)]
pub struct Nudges {
    names: Mutex<BTreeSet<String>>,
    arrived: Notify,
}

impl Nudges {
    /// Says that something may wait in the database of that name.
    pub fn nudge(&self, name: &str) {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if !names.contains(name) {
            names.insert(name.to_owned());
            drop(names);
            self.arrived.notify_one();
        }
    }

    /// The names since the last time.
    pub fn take(&self) -> BTreeSet<String> {
        std::mem::take(&mut *self.names.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Ends when there is a name to take, and not before `from`.
    pub async fn wait_from(&self, from: Instant) {
        if from > Instant::now() {
            tokio::time::sleep_until(from.into()).await;
        }
        self.arrived.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn nudge_that_came_before_the_wait_is_not_missed() {
        let nudges = Nudges::default();
        nudges.nudge("a");
        nudges.nudge("a");
        nudges.nudge("b");
        nudges.wait_from(Instant::now()).await;
        assert_eq!(nudges.take().into_iter().collect::<Vec<_>>(), ["a", "b"]);
        assert!(nudges.take().is_empty());
    }
}
