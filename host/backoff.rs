//! Pauses between the tries of work that failed.

use std::time::Duration;

/// How often and when something that failed is tried again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Retry {
    pub max_attempts: u32,
    pub initial_ms: u64,
    pub factor: f64,
    pub max_ms: u64,
}

impl Default for Retry {
    /// 8 tries, 1 s to 1 h (spec §6, §7).
    fn default() -> Self {
        Self { max_attempts: 8, initial_ms: 1_000, factor: 2.0, max_ms: 3_600_000 }
    }
}

impl Retry {
    /// The pause after the try number `tried` (the first is 1) failed, or `None` when that was the last. `random`,
    /// from 0 to 1, spreads it over its upper half, so that what failed together is not tried together.
    pub fn pause(&self, tried: u32, random: f64) -> Option<Duration> {
        if tried >= self.max_attempts {
            return None;
        }
        let exponent = f64::from(tried.saturating_sub(1));
        let most = Duration::from_millis(self.max_ms);
        // Past every limit the product is infinite, which is no duration.
        let grown = Duration::try_from_secs_f64(self.factor.powf(exponent) * millis_as_secs(self.initial_ms));
        let full = grown.map_or(most, |pause| pause.min(most));
        Some(full.mul_f64(0.5 + random.clamp(0.0, 1.0) / 2.0))
    }
}

fn millis_as_secs(millis: u64) -> f64 {
    Duration::from_millis(millis).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_the_most_and_end_with_the_last_try() {
        let retry = Retry { max_attempts: 5, initial_ms: 1_000, factor: 2.0, max_ms: 3_000 };
        let pauses: Vec<Option<Duration>> = (1..=5).map(|tried| retry.pause(tried, 1.0)).collect();
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        assert_eq!(pauses, [seconds(1), seconds(2), seconds(3), seconds(3), None]);
    }

    #[test]
    fn jitter_takes_up_to_half_of_a_pause() {
        let retry = Retry::default();
        assert_eq!(retry.pause(1, 0.0), Some(Duration::from_millis(500)));
        assert_eq!(retry.pause(1, 0.5), Some(Duration::from_millis(750)));
    }

    #[test]
    fn a_pause_beyond_all_numbers_is_the_longest_one() {
        let retry = Retry { max_attempts: u32::MAX, initial_ms: u64::MAX, factor: 1e300, max_ms: 60_000 };
        assert_eq!(retry.pause(4_000_000, 1.0), Some(Duration::from_secs(60)));
    }
}
