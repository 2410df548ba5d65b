//! How often each tenant may call.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::clock::Millis;
use crate::config::Rate;
use crate::failure::{Code, Failure};

/// Tenants that are remembered before those without recent calls are forgotten.
const REMEMBERED: usize = 1024;

/// Microseconds since 1970.
type Micros = i64;

/// A pace for each tenant, by the generic cell rate algorithm: of each tenant it keeps the instant at which its calls
/// so far would have come at an even pace, and how far that may lie ahead is the burst. (Libraries for this count on
/// a clock that never goes back; this one is the host's own clock, which can be set back, or moved by a test.)
pub struct Rates {
    /// Between two calls at an even pace.
    interval: Micros,
    /// How far a tenant may be ahead of that.
    ahead: Micros,
    seen: Mutex<Seen>,
}

struct Seen {
    due: HashMap<String, Micros>,
    /// When this many are there, those that are no longer ahead of their pace are forgotten: they are as good as new.
    sweep_at: usize,
}

impl Rates {
    /// `burst` calls may come at once; `None`: as many as the rate has in its unit of time.
    pub fn new(rate: Rate, burst: Option<usize>) -> Self {
        let per = Micros::try_from(rate.per.as_micros()).unwrap_or(Micros::MAX);
        let interval = (per / Micros::from(rate.count)).max(1);
        let burst = burst.map_or(Micros::from(rate.count), |burst| Micros::try_from(burst).unwrap_or(Micros::MAX));
        let seen = Mutex::new(Seen { due: HashMap::new(), sweep_at: REMEMBERED });
        Self { interval, ahead: interval.saturating_mul(burst - 1), seen }
    }

    /// Counts a call of `tenant`.
    ///
    /// # Errors
    /// `RATE_LIMITED` when it is too early; such a call is not counted.
    pub fn count(&self, tenant: &str, now: Millis) -> Result<(), Failure> {
        let now = now.saturating_mul(1000);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        // Never further ahead than the burst, as only a clock that was set back can make it. That is noted also where
        // the call is refused, or it would be refused until the clock has caught up.
        let furthest = now.saturating_add(self.ahead + self.interval);
        let due = seen.due.get_mut(tenant).map_or(now, |due| {
            *due = (*due).min(furthest);
            (*due).max(now)
        });
        let wait = due - now - self.ahead;
        if wait > 0 {
            let mut failure = Failure::new(
                Code::RateLimited,
                "this tenant calls more often than its rate allows; wait as Retry-After says",
            );
            failure.retry_after =
                Some(u32::try_from(wait.div_euclid(1_000_000) + i64::from(wait % 1_000_000 > 0)).unwrap_or(u32::MAX));
            return Err(failure);
        }
        match seen.due.get_mut(tenant) {
            Some(known) => *known = due + self.interval,
            None => {
                seen.due.insert(tenant.to_owned(), due + self.interval);
                if seen.due.len() >= seen.sweep_at {
                    seen.due.retain(|_, due| *due > now);
                    seen.sweep_at = (2 * seen.due.len()).max(REMEMBERED);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn rates(count: u32, seconds: u64, burst: Option<usize>) -> Rates {
        Rates::new(Rate { count, per: Duration::from_secs(seconds) }, burst)
    }

    fn passed(rates: &Rates, tenant: &str, now: Millis, tries: usize) -> usize {
        (0..tries).filter(|_| rates.count(tenant, now).is_ok()).count()
    }

    #[test]
    fn burst_passes_at_once_and_then_the_rate() {
        let rates = rates(10, 1, Some(3));
        assert_eq!(passed(&rates, "a", 0, 10), 3);
        assert_eq!(passed(&rates, "a", 99, 10), 0);
        assert_eq!(passed(&rates, "a", 100, 10), 1);
        assert_eq!(passed(&rates, "a", 250, 10), 1);
        assert_eq!(passed(&rates, "a", 10_000, 10), 3);
    }

    #[test]
    fn burst_is_the_rates_number_unless_it_is_set() {
        assert_eq!(passed(&rates(100, 60, None), "a", 0, 200), 100);
        assert_eq!(passed(&rates(100, 60, Some(1)), "a", 0, 200), 1);
    }

    #[test]
    fn tenants_do_not_share_a_rate() {
        let rates = rates(1, 1, None);
        assert_eq!((passed(&rates, "a", 0, 5), passed(&rates, "b", 0, 5)), (1, 1));
    }

    #[test]
    fn refusal_says_how_long_to_wait() {
        let rates = rates(2, 60, Some(1));
        assert!(rates.count("a", 0).is_ok());
        let failure = rates.count("a", 500).unwrap_err();
        assert_eq!((failure.code, failure.retry_after), (Code::RateLimited, Some(30)));
        assert!(rates.count("a", 30_000).is_ok());
    }

    #[test]
    fn clock_set_back_an_hour_stops_nobody_for_an_hour() {
        let rates = rates(1, 1, Some(5));
        assert_eq!(passed(&rates, "a", 3_600_000, 9), 5);
        assert_eq!(passed(&rates, "a", 0, 9), 0);
        assert_eq!(passed(&rates, "a", 1_000, 9), 1);
    }

    #[test]
    fn tenants_without_recent_calls_are_forgotten() {
        let rates = rates(1, 1, None);
        for number in 0..100_000_i64 {
            assert!(rates.count(&format!("t{number}"), number * 100).is_ok());
        }
        assert!(rates.seen.lock().unwrap().due.len() <= 2 * REMEMBERED);
    }
}
