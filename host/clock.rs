//! Time, as something that is handed in: the host never asks the operating system anywhere else.

use std::fmt::Debug;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

/// Milliseconds since 1970-01-01T00:00:00Z.
pub type Millis = i64;

/// A duration in milliseconds; the longest there is where it is longer.
pub fn millis(duration: Duration) -> Millis {
    Millis::try_from(duration.as_millis()).unwrap_or(Millis::MAX)
}

/// Where the time of day comes from.
pub trait Clock: Send + Sync + Debug {
    /// The present instant.
    fn now(&self) -> Millis;
}

/// The machine's clock.
#[derive(Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place where the machine's clock is read")]
    fn now(&self) -> Millis {
        match std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH) {
            Ok(since) => millis(since),
            Err(before) => -millis(before.duration()),
        }
    }
}

/// A clock that stands still until it is moved, for tests.
#[derive(Debug)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    /// A clock that shows `start`.
    pub fn at(start: Millis) -> Self {
        Self(AtomicI64::new(start))
    }

    /// Moves the clock by `by` milliseconds; a negative number sets it back.
    pub fn advance(&self, by: Millis) {
        self.0.fetch_add(by, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Millis {
        self.0.load(Ordering::SeqCst)
    }
}
