//! What ran into another transaction runs again, a few times and with pauses between.

use std::time::{Duration, Instant};

use crate::backoff::Retry;
use crate::failure::{Code, Failure};
use crate::metrics::PluginMetrics;

/// How often and when, and for how long at most.
const AGAIN: Retry = Retry { max_attempts: 20, initial_ms: 2, factor: 1.6, max_ms: 250 };
const PERSIST: Duration = Duration::from_secs(5);

/// The tries of one invocation.
pub(super) struct Tries {
    tried: u32,
    began: Instant,
}

impl Tries {
    /// The first is about to begin.
    pub fn new() -> Self {
        Self { tried: 1, began: Instant::now() }
    }

    /// Whether the present one is not the first.
    pub fn again(&self) -> bool {
        self.tried > 1
    }

    /// Rests until the next one; `false` when there is none.
    pub fn next(&mut self, metrics: &PluginMetrics) -> bool {
        let mut random = [0];
        // Without randomness those that ran into each other are kept apart by chance alone.
        let spread = getrandom::fill(&mut random).map_or(1.0, |()| f64::from(random[0]) / 255.0);
        let Some(pause) = AGAIN.pause(self.tried, spread).filter(|_| self.began.elapsed() < PERSIST) else {
            return false;
        };
        metrics.ran_again();
        let until = Instant::now() + pause;
        while let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            std::thread::park_timeout(left);
        }
        self.tried += 1;
        true
    }
}

/// What the caller hears when none of them went through.
pub(super) fn given_up() -> Failure {
    Failure::new(
        Code::Unavailable,
        "this ran into other calls that changed the same rows, or lost its connection to the database, time and again; \
         nothing was written, try again",
    )
}
