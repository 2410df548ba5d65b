//! What ran into another transaction runs again, a few times and with pauses between.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::backoff::Retry;
use crate::failure::{Code, Failure};
use crate::metrics::PluginMetrics;

/// How often and when, and for how long at most.
const AGAIN: Retry = Retry { max_attempts: 20, initial_ms: 2, factor: 1.6, max_ms: 250 };
const PERSIST: Duration = Duration::from_secs(10);

/// Tries that each makes when it likes; whoever needs more of them waits for its turn.
const FREE: u32 = 3;
/// The pause of who has the turn, and how long it is waited for: its holder may be stuck.
const BRIEF: Duration = Duration::from_millis(5);
const PATIENCE: Duration = Duration::from_millis(500);

/// Lets those of a plugin that ran into others go one after the other: beside each other they would run into each other
/// again.
#[derive(Default)]
pub(super) struct Turn {
    taken: Mutex<bool>,
    free: Condvar,
}

impl Turn {
    fn take(&self) -> Option<Held<'_>> {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.free.wait_timeout_while(taken, PATIENCE, |taken| *taken);
        let (mut taken, late) = waited.unwrap_or_else(PoisonError::into_inner);
        if late.timed_out() {
            return None;
        }
        *taken = true;
        Some(Held(self))
    }
}

struct Held<'a>(&'a Turn);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        *self.0.taken.lock().unwrap_or_else(PoisonError::into_inner) = false;
        self.0.free.notify_one();
    }
}

/// The tries of one invocation.
pub(super) struct Tries<'a> {
    tried: u32,
    began: Instant,
    turn: &'a Turn,
    held: Option<Held<'a>>,
}

impl<'a> Tries<'a> {
    /// The first is about to begin.
    pub fn new(turn: &'a Turn) -> Self {
        Self { tried: 1, began: Instant::now(), turn, held: None }
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
        let until = Instant::now() + if self.held.is_some() { pause.min(BRIEF) } else { pause };
        while let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            std::thread::park_timeout(left);
        }
        self.tried += 1;
        if self.tried > FREE && self.held.is_none() {
            self.held = self.turn.take();
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_has_the_turn_at_a_time_and_none_keeps_it_for_good() {
        let turn = Turn::default();
        let held = turn.take().unwrap();
        // It may be stuck.
        assert!(turn.take().is_none());
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| turn.take().is_some());
            drop(held);
            assert!(waits.join().unwrap());
        });
        assert!(turn.take().is_some());
    }

    #[test]
    fn who_needs_many_tries_waits_for_the_turn() {
        let (turn, metrics) = (Turn::default(), crate::metrics::Metrics::default().plugin("p"));
        let mut tries = Tries::new(&turn);
        for tried in 1..=FREE {
            assert!(tries.held.is_none(), "{tried}");
            assert!(tries.next(&metrics));
        }
        assert!(tries.held.is_some() && turn.take().is_none());
        drop(tries);
        assert!(turn.take().is_some());
    }
}
