//! When a schedule ticks: a cron expression in a time zone. The only place that knows the cron library.
//!
//! A tick is an instant, told by its UTC time. Where clocks go forward, a time of day that is skipped ticks at the
//! first instant after the gap; where they go back, a time of day that comes twice ticks the first time only, and an
//! expression that runs by intervals (`*`) goes through both.

use std::cmp::Ordering;

use croner::Cron as Pattern;
use croner::errors::CronError;
use croner::time::{CivilDate, CivilDateTime, CivilTime, CronDateTime, Resolution, Weekday};
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{SignedDuration, Timestamp, ZonedDateTime};

use crate::clock::Millis;

/// A cron expression in its time zone.
#[derive(Clone, Debug)]
pub struct Cron {
    pattern: Pattern,
    zone: TimeZone,
}

impl Cron {
    /// Reads five fields (minute, hour, day of the month, month, weekday) and the IANA name of a time zone.
    ///
    /// # Errors
    /// What is wrong, as the end of a sentence.
    pub fn parse(expression: &str, zone: &str) -> Result<Self, String> {
        let pattern = expression.parse().map_err(|error: CronError| error.to_string())?;
        let zone = TimeZone::get(zone).map_err(|_| format!("there is no time zone \"{zone}\""))?;
        Ok(Self { pattern, zone })
    }

    /// The first tick after an instant; `None` where there is none within the calendar.
    pub fn after(&self, at: Millis) -> Option<Millis> {
        self.pattern.find_next_occurrence(&self.local(at)?, false).ok().map(|Local(tick)| millis(&tick))
    }

    /// The last tick at or before an instant.
    pub fn at_or_before(&self, at: Millis) -> Option<Millis> {
        self.pattern.find_previous_occurrence(&self.local(at)?, true).ok().map(|Local(tick)| millis(&tick))
    }

    fn local(&self, at: Millis) -> Option<Local> {
        // Ticks are whole seconds; a fraction would only stand in the way of being equal to one.
        let second = Timestamp::from_second(at.div_euclid(1000)).ok()?;
        Some(Local(second.to_zoned_datetime(self.zone.clone())))
    }
}

fn millis(at: &ZonedDateTime) -> Millis {
    at.timestamp().as_millisecond()
}

/// The library's view of this host's time library.
#[derive(Clone)]
struct Local(ZonedDateTime);

impl CronDateTime for Local {
    fn to_civil(&self) -> CivilDateTime {
        let (date, time) = (self.0.date(), self.0.time());
        let small = |number: i8| u32::from(number.unsigned_abs());
        CivilDateTime::new(
            CivilDate::from_parts_unchecked(i32::from(date.year()), small(date.month()), small(date.day())),
            CivilTime::from_parts_unchecked(small(time.hour()), small(time.minute()), small(time.second())),
        )
    }

    fn civil_weekday(&self) -> Weekday {
        Weekday::from_days_from_sunday(u32::from(self.0.weekday().to_sunday_zero_offset().unsigned_abs()))
    }

    fn resolve_civil(&self, civil: CivilDateTime) -> Result<Resolution<Self>, CronError> {
        let year = i16::try_from(civil.year()).map_err(|_| CronError::InvalidDate)?;
        let small = |number: u32| i8::try_from(number).unwrap_or(i8::MAX);
        let (month, day) = (small(civil.month()), small(civil.day()));
        let (hour, minute, second) = (small(civil.hour()), small(civil.minute()), small(civil.second()));
        let at = DateTime::new(year, month, day, hour, minute, second, 0).map_err(|_| CronError::InvalidDate)?;
        let ambiguous = self.0.time_zone().to_ambiguous_zoned_datetime(at);
        let invalid = |_| CronError::InvalidTime;
        Ok(match ambiguous.offset() {
            AmbiguousOffset::Unambiguous { .. } => Resolution::Single(Local(ambiguous.unambiguous().map_err(invalid)?)),
            AmbiguousOffset::Fold { .. } => Resolution::Ambiguous(
                Local(ambiguous.clone().earlier().map_err(invalid)?),
                Local(ambiguous.later().map_err(invalid)?),
            ),
            AmbiguousOffset::Gap { .. } => Resolution::Gap,
        })
    }

    fn checked_add_seconds(&self, seconds: i64) -> Option<Self> {
        self.0.checked_add(SignedDuration::from_secs(seconds)).ok().map(Local)
    }

    fn cmp_instant(&self, other: &Self) -> Ordering {
        self.0.timestamp().cmp(&other.0.timestamp())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Millis {
        text.parse::<Timestamp>().unwrap().as_millisecond()
    }

    fn shown(at: Millis) -> String {
        Timestamp::from_millisecond(at).unwrap().to_string()
    }

    /// The ticks after `from` and up to `until`, and the same found backwards.
    fn ticks(expression: &str, zone: &str, from: &str, until: &str) -> Vec<String> {
        let (cron, from, until) = (Cron::parse(expression, zone).unwrap(), at(from), at(until));
        let forwards: Vec<Millis> = std::iter::successors(cron.after(from), |tick| cron.after(*tick))
            .take_while(|tick| *tick <= until)
            .collect();
        let mut backwards: Vec<Millis> =
            std::iter::successors(cron.at_or_before(until), |tick| cron.at_or_before(*tick - 1000))
                .take_while(|tick| *tick > from)
                .collect();
        backwards.reverse();
        assert_eq!(forwards, backwards, "{expression} {zone}");
        forwards.into_iter().map(shown).collect()
    }

    #[test]
    fn ticks_are_in_the_time_of_the_zone() {
        let nights = ticks("0 3 * * *", "Asia/Shanghai", "2026-01-01T00:00:00Z", "2026-01-03T00:00:00Z");
        assert_eq!(nights, ["2026-01-01T19:00:00Z", "2026-01-02T19:00:00Z"]);
    }

    #[test]
    fn time_of_day_that_is_skipped_ticks_once_after_the_gap() {
        // Berlin, 2026-03-29: 02:00 becomes 03:00.
        let nights = ticks("30 2 * * *", "Europe/Berlin", "2026-03-27T12:00:00Z", "2026-03-30T12:00:00Z");
        assert_eq!(nights, ["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]);
    }

    #[test]
    fn time_of_day_that_comes_twice_ticks_once() {
        // Berlin, 2026-10-25: 03:00 becomes 02:00.
        let nights = ticks("30 2 * * *", "Europe/Berlin", "2026-10-23T12:00:00Z", "2026-10-26T12:00:00Z");
        assert_eq!(nights, ["2026-10-24T00:30:00Z", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]);
    }

    #[test]
    fn intervals_go_on_through_both_changes() {
        let spring = ticks("*/30 * * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", "2026-03-29T02:00:00Z");
        assert_eq!(
            spring,
            ["2026-03-29T00:30:00Z", "2026-03-29T01:00:00Z", "2026-03-29T01:30:00Z", "2026-03-29T02:00:00Z"]
        );
        let autumn = ticks("*/30 * * * *", "Europe/Berlin", "2026-10-25T00:00:00Z", "2026-10-25T02:00:00Z");
        assert_eq!(
            autumn,
            ["2026-10-25T00:30:00Z", "2026-10-25T01:00:00Z", "2026-10-25T01:30:00Z", "2026-10-25T02:00:00Z"]
        );
    }

    #[test]
    fn tick_of_this_very_instant_counts_as_past() {
        let cron = Cron::parse("0 0 * * *", "UTC").unwrap();
        let midnight = at("2026-01-02T00:00:00Z");
        assert_eq!(cron.at_or_before(midnight), Some(midnight));
        assert_eq!(cron.at_or_before(midnight + 999), Some(midnight));
        assert_eq!(cron.after(midnight), Some(at("2026-01-03T00:00:00Z")));
        assert_eq!(cron.after(midnight - 1), Some(midnight));
    }

    #[test]
    fn date_that_never_comes_never_ticks() {
        assert_eq!(Cron::parse("0 0 31 2 *", "UTC").unwrap().after(0), None);
    }

    #[test]
    fn zones_and_expressions_that_are_none_are_refused() {
        assert!(Cron::parse("0 0 * * *", "Mars/Olympus").unwrap_err().contains("Mars/Olympus"));
        assert!(Cron::parse("61 0 * * *", "UTC").is_err());
    }
}
