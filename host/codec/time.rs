//! Instants in the one form that is stored, compared and shown: `YYYY-MM-DDTHH:MM:SS.sssZ`, years 0001 to 9999.

use jiff::SignedDuration;
use jiff::civil::DateTime;

use crate::clock::Millis;

/// What an instant has to look like, for error messages.
pub const WANTED: &str =
    "an ISO 8601 time with a zone, such as \"2026-01-31T08:30:00.000Z\" or \"2026-01-31T16:30:00+08:00\"";

const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

/// The form of an instant given in milliseconds since 1970; `None` outside the years 0001 to 9999.
pub fn iso(millis: Millis) -> Option<String> {
    EPOCH.checked_add(SignedDuration::from_millis(millis)).ok().and_then(show)
}

/// The instant that a text in the one form means, in milliseconds since 1970.
pub fn millis(text: &str) -> Option<Millis> {
    // A civil time, for a timestamp of this library ends a day before the last year does.
    let at: DateTime = text.strip_suffix('Z')?.parse().ok()?;
    Millis::try_from(EPOCH.duration_until(at).as_millis()).ok()
}

/// The same as [`iso`] for what the host shows; an instant outside those years as the nearest within them.
pub fn shown(millis: Millis) -> String {
    const FIRST: Millis = -62_135_596_800_000;
    const LAST: Millis = 253_402_300_799_999;
    iso(millis.clamp(FIRST, LAST)).unwrap_or_default()
}

/// Brings a written instant into the one form: an offset is converted, seconds and fraction may be missing.
///
/// # Errors
/// What is wrong with it, as the end of a sentence: no zone, no such date, a year outside 0001 to 9999, or a
/// fraction finer than milliseconds (two instants must not become one in silence).
pub fn normal(text: &str) -> Result<String, &'static str> {
    let mut rest = Scanner(text.as_bytes());
    let shape = "it does not have that form";
    let year = rest.number(4).ok_or(shape)?;
    let month = rest.after(b'-', 2).ok_or(shape)?;
    let day = rest.after(b'-', 2).ok_or(shape)?;
    let hour = match rest.peek() {
        None => return Err("the time of day is missing"),
        Some(b' ' | b't') => return Err("between date and time of day stands a capital T"),
        Some(_) => rest.after(b'T', 2).ok_or(shape)?,
    };
    let minute = rest.after(b':', 2).ok_or(shape)?;
    let second = if rest.peek() == Some(b':') { rest.after(b':', 2).ok_or(shape)? } else { 0 };
    let millis = rest.fraction()?;
    let offset = rest.offset()?;
    if year == 0 {
        return Err("years run from 0001 to 9999");
    }
    if second > 59 {
        return Err("there is no such time");
    }
    let (small, no_such) = (|n: i32| i8::try_from(n).unwrap_or(i8::MAX), "there is no such date or time");
    let year = i16::try_from(year).map_err(|_| no_such)?;
    DateTime::new(year, small(month), small(day), small(hour), small(minute), small(second), millis * 1_000_000)
        .map_err(|_| no_such)?
        .checked_sub(SignedDuration::from_mins(i64::from(offset)))
        .ok()
        .and_then(show)
        .ok_or("years run from 0001 to 9999, in UTC")
}

fn show(at: DateTime) -> Option<String> {
    let (date, time) = (at.date(), at.time());
    if date.year() < 1 {
        return None;
    }
    // Several of these go into each write, and `format!` takes ten times as long.
    let mut text = String::with_capacity(24);
    digits(&mut text, date.year(), 4);
    for (mark, number) in [('-', date.month()), ('-', date.day()), ('T', time.hour()), (':', time.minute())] {
        text.push(mark);
        digits(&mut text, number.into(), 2);
    }
    text.push(':');
    digits(&mut text, time.second().into(), 2);
    text.push('.');
    digits(&mut text, time.millisecond(), 3);
    text.push('Z');
    Some(text)
}

/// The last `count` decimal digits of a number, which is not negative.
fn digits(text: &mut String, number: i16, count: u32) {
    let places = (0..count).rev().map(|place| number / 10_i16.pow(place) % 10);
    text.extend(places.filter_map(|digit| char::from_digit(u32::try_from(digit).ok()?, 10)));
}

struct Scanner<'a>(&'a [u8]);

impl Scanner<'_> {
    fn peek(&self) -> Option<u8> {
        self.0.first().copied()
    }

    fn take(&mut self, wanted: u8) -> Option<()> {
        (self.peek()? == wanted).then(|| self.0 = &self.0[1..])
    }

    fn number(&mut self, digits: usize) -> Option<i32> {
        let (head, tail) = self.0.split_at_checked(digits)?;
        let mut number = 0;
        for byte in head {
            number = number * 10 + i32::from(byte.is_ascii_digit().then(|| byte - b'0')?);
        }
        self.0 = tail;
        Some(number)
    }

    fn after(&mut self, mark: u8, digits: usize) -> Option<i32> {
        self.take(mark)?;
        self.number(digits)
    }

    /// Milliseconds.
    fn fraction(&mut self) -> Result<i32, &'static str> {
        if self.take(b'.').is_none() {
            return Ok(0);
        }
        let digits = self.0.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (fraction, tail) = self.0.split_at(digits);
        if digits == 0 {
            return Err("there is nothing behind its point");
        }
        if fraction.iter().skip(3).any(|digit| *digit != b'0') {
            return Err("it is finer than milliseconds; round it first, new Date(text).toISOString() does");
        }
        self.0 = tail;
        Ok((0..3).fold(0, |sum, at| sum * 10 + fraction.get(at).map_or(0, |digit| i32::from(digit - b'0'))))
    }

    /// Minutes east of UTC, up to the end of the text.
    fn offset(&mut self) -> Result<i32, &'static str> {
        let none = "it names no zone; end it with Z, or with an offset such as +08:00";
        if self.0 == b"z" {
            return Err("its zone is a small z; write a capital Z");
        }
        let sign = match self.peek().ok_or(none)? {
            b'Z' if self.0.len() == 1 => return Ok(0),
            b'+' => 1,
            b'-' => -1,
            _ => return Err(none),
        };
        self.0 = &self.0[1..];
        let bad = "its offset is not of the form +08:00";
        let hours = self.number(2).ok_or(bad)?;
        let colon = self.take(b':').is_some();
        let minutes = if self.0.is_empty() && !colon { 0 } else { self.number(2).ok_or(bad)? };
        if !self.0.is_empty() || hours > 23 || minutes > 59 {
            return Err(bad);
        }
        Ok(sign * (hours * 60 + minutes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_in_the_form_is_named() {
        for (came, told) in [
            ("2026-01-02", "time of day is missing"),
            ("2026-01-02 03:04:05Z", "capital T"),
            ("2026-01-02t03:04:05Z", "capital T"),
            ("2026-01-02T03:04:05z", "capital Z"),
            ("2026-01-02T03:04:05", "no zone"),
            ("2026-01-02X03:04:05Z", "not have that form"),
        ] {
            assert!(normal(came).unwrap_err().contains(told), "{came}: {:?}", normal(came));
        }
    }

    #[test]
    fn offsets_are_converted_and_missing_parts_filled() {
        for (came, stored) in [
            ("2026-01-02T03:04:05.678Z", "2026-01-02T03:04:05.678Z"),
            ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05.000Z"),
            ("2026-01-02T03:04Z", "2026-01-02T03:04:00.000Z"),
            ("2026-01-02T03:04:05.5Z", "2026-01-02T03:04:05.500Z"),
            ("2026-01-02T03:04:05.678000Z", "2026-01-02T03:04:05.678Z"),
            ("2026-01-01T01:00:00+08:00", "2025-12-31T17:00:00.000Z"),
            ("2026-01-01T01:00:00+0800", "2025-12-31T17:00:00.000Z"),
            ("2025-12-31T20:30:00-03:30", "2026-01-01T00:00:00.000Z"),
            ("2024-02-29T00:00:00-00:00", "2024-02-29T00:00:00.000Z"),
            ("0001-01-01T00:00:00.000Z", "0001-01-01T00:00:00.000Z"),
            ("9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(normal(came).as_deref(), Ok(stored), "{came}");
        }
    }

    #[test]
    fn times_that_name_no_single_instant_are_refused() {
        for came in [
            "2026-01-02T03:04:05",
            "2026-01-02 03:04:05Z",
            "2026-01-02",
            "2026-01-02T03:04:05.Z",
            "2026-01-02T03:04:05.0001Z",
            "2026-02-29T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01T23:59:60Z",
            "2026-01-01T00:00:00+24:00",
            "2026-01-01T00:00:00+08:0",
            "2026-01-01T00:00:00+08:",
            "2026-01-01T00:00:00ZZ",
            "0000-01-01T00:00:00Z",
            "0001-01-01T00:00:00+00:01",
            "9999-12-31T23:59:00-00:01",
            "+10000-01-01T00:00:00Z",
            "",
            "now",
            "２026-01-01T00:00:00Z",
        ] {
            assert!(normal(came).is_err(), "{came}");
        }
    }

    #[test]
    fn milliseconds_have_the_same_form_within_the_years() {
        assert_eq!(iso(0).as_deref(), Some("1970-01-01T00:00:00.000Z"));
        assert_eq!(iso(-1).as_deref(), Some("1969-12-31T23:59:59.999Z"));
        assert_eq!(iso(-62_135_596_800_000).as_deref(), Some("0001-01-01T00:00:00.000Z"));
        assert_eq!(iso(253_402_300_799_999).as_deref(), Some("9999-12-31T23:59:59.999Z"));
        assert_eq!(iso(-62_135_596_800_001), None);
        assert_eq!(iso(253_402_300_800_000), None);
        assert_eq!((iso(i64::MAX), iso(i64::MIN)), (None, None));
    }

    proptest::proptest! {
        #[test]
        fn every_instant_comes_back_as_it_was_written(millis in -62_135_596_800_000_i64..=253_402_300_799_999) {
            let text = iso(millis).unwrap();
            proptest::prop_assert_eq!(normal(&text), Ok(text));
        }

        #[test]
        fn text_order_is_time_order(a in -62_135_596_800_000_i64..=253_402_300_799_999, b in -62_135_596_800_000_i64..=253_402_300_799_999) {
            proptest::prop_assert_eq!(iso(a).unwrap().cmp(&iso(b).unwrap()), a.cmp(&b));
        }

        #[test]
        fn no_text_makes_it_panic(text in ".{0,40}") {
            let _either = normal(&text);
        }
    }
}
