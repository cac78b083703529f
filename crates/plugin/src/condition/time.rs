//! Times of the week and ranges of dates, in a time zone or at an offset from UTC.
//!
//! Owns their syntax; the calendar and the time zones are jiff's. Never reads a clock.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::{self, TimeZone};
use settings::{Node, Reader, Schema, SchemaBuilder, Setting};

const DAY_SECS: i64 = 86_400;
const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

/// Windows of time on the clock of a zone.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Times {
    windows: Vec<Window>,
    clock: Clock,
}

/// Relates UTC to local time.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Clock {
    Offset(Offset),
    Zone(Zone),
}

impl Clock {
    /// Seconds that the clock is ahead of UTC.
    fn ahead_secs(&self, utc: i64) -> i64 {
        match self {
            Clock::Offset(offset) => i64::from(offset.minutes) * 60,
            Clock::Zone(Zone(zone)) => {
                let now = Timestamp::from_second(utc).unwrap_or(Timestamp::MAX);
                i64::from(zone.to_offset(now).seconds())
            }
        }
    }
}

impl Times {
    pub(super) fn new(windows: Vec<Window>, clock: Clock) -> Times {
        Times { windows, clock }
    }

    pub(super) fn contain(&self, unix_secs: u64) -> bool {
        let utc = i64::try_from(unix_secs).unwrap_or(i64::MAX / 2);
        let local = utc + self.clock.ahead_secs(utc);
        self.windows.iter().any(|window| window.contains(local))
    }
}

/// One window, in local time.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Window {
    text: String,
    span: Span,
}

#[derive(Clone, Debug, PartialEq)]
enum Span {
    /// Days as bits, Monday lowest; minutes of the day. An end at or before the start lies on the
    /// next day.
    Week { days: u8, from: u32, to: u32 },
    /// Seconds since 1970, the end exclusive.
    Dates { from: i64, to: i64 },
}

impl Window {
    fn contains(&self, local: i64) -> bool {
        match self.span {
            Span::Dates { from, to } => (from..to).contains(&local),
            Span::Week { days, from, to } => {
                // 1970-01-01 was a Thursday.
                let today = (local.div_euclid(DAY_SECS) + 3).rem_euclid(7);
                let yesterday = (today + 6) % 7;
                let minute = (local.rem_euclid(DAY_SECS) / 60) as u32;
                let is = |day: i64| days & (1 << day) != 0;
                match from < to {
                    true => is(today) && (from..to).contains(&minute),
                    false => (is(today) && minute >= from) || (is(yesterday) && minute < to),
                }
            }
        }
    }
}

impl FromStr for Window {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let span = match text.split_once("..") {
            Some((from, to)) => dates(from.trim(), to.trim())?,
            None => week(text)?,
        };
        Ok(Window { text: text.to_owned(), span })
    }
}

fn week(text: &str) -> Result<Span, String> {
    let (mut days, mut times) = (None, None);
    for word in text.split_ascii_whitespace() {
        let is_time = word.starts_with(|c: char| c.is_ascii_digit());
        let place = if is_time { &mut times } else { &mut days };
        if place.replace(word).is_some() || (!is_time && times.is_some()) {
            return Err("is more than days and then a time of day".to_owned());
        }
    }
    let days = days.map_or(Ok(0b111_1111), days_of)?;
    let (from, to) = match times {
        None => (0, 24 * 60),
        Some(times) => {
            let (from, to) = times.split_once('-').ok_or("has a time without its end")?;
            (minute(from)?, minute(to)?)
        }
    };
    match text.trim().is_empty() || from == to || from == 24 * 60 {
        true => Err("is an empty time".to_owned()),
        false => Ok(Span::Week { days, from, to }),
    }
}

fn days_of(text: &str) -> Result<u8, String> {
    let mut days = 0;
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (day(first)?, day(last)?);
        let mut at = first;
        days |= 1 << at;
        while at != last {
            at = (at + 1) % 7;
            days |= 1 << at;
        }
    }
    Ok(days)
}

fn day(text: &str) -> Result<usize, String> {
    let found = DAYS.iter().position(|day| day.eq_ignore_ascii_case(text));
    found
        .ok_or_else(|| format!("has no day {}: days are {}", settings::quote(text), DAYS.join(" ")))
}

/// `08:00` as minutes; `24:00` is an end.
fn minute(text: &str) -> Result<u32, String> {
    let bad = || format!("has {}, which is not a time such as 08:00", settings::quote(text));
    let (hours, minutes) = text.split_once(':').ok_or_else(bad)?;
    let (hours, minutes) = (number(hours, 2).ok_or_else(bad)?, number(minutes, 2).ok_or_else(bad)?);
    let all = hours * 60 + minutes;
    if minutes > 59 || all > 24 * 60 { Err(bad()) } else { Ok(all as u32) }
}

fn number(text: &str, digits: usize) -> Option<i64> {
    let valid = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| valid)
}

fn dates(from: &str, to: &str) -> Result<Span, String> {
    if from.is_empty() && to.is_empty() {
        return Err("has neither a first nor a last date".to_owned());
    }
    let start = if from.is_empty() { i64::MIN } else { moment(from)?.0 };
    // A last day is meant whole; a last moment is where it ends.
    let end = if to.is_empty() { i64::MAX } else { moment(to).map(|(at, length)| at + length)? };
    if start >= end {
        return Err("ends before it begins".to_owned());
    }
    Ok(Span::Dates { from: start, to: end })
}

/// `2026-12-24` or `2026-12-24T08:00`: seconds since 1970, and how long what was named lasts.
fn moment(text: &str) -> Result<(i64, i64), String> {
    let bad = || format!("has {}, which is not a date such as 2026-12-24", settings::quote(text));
    let (date, time) = text.split_once('T').map_or((text, None), |(date, time)| (date, Some(time)));
    let mut parts = date.splitn(3, '-');
    let mut part = |digits| parts.next().and_then(|part| number(part, digits)).ok_or_else(bad);
    let (year, month, day) = (part(4)?, part(2)?, part(2)?);
    let midnight = midnight(year, month, day).ok_or_else(bad)?;
    match time {
        None => Ok((midnight, DAY_SECS)),
        Some(time) => Ok((midnight + i64::from(minute(time)?) * 60, 0)),
    }
}

/// Seconds from 1970 to the begin of a day from then on; `None` if there is no such day.
fn midnight(year: i64, month: i64, day: i64) -> Option<i64> {
    let date = Date::new(year.try_into().ok()?, month.try_into().ok()?, day.try_into().ok()?);
    let begin = tz::Offset::UTC.to_timestamp(date.ok()?.at(0, 0, 0, 0)).ok()?.as_second();
    (begin >= 0).then_some(begin)
}

impl Setting for Window {
    fn schema(_: &mut SchemaBuilder) -> Schema {
        Schema::text("time window")
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        reader.parse(node, "a time such as Mon-Fri 08:00-18:00, or dates 2026-12-24..2026-12-26")
    }
}

/// The offset of a clock from UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Offset {
    minutes: i32,
}

impl FromStr for Offset {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (sign, rest) = match text.split_at_checked(1) {
            Some(("+", rest)) => (1, rest),
            Some(("-", rest)) => (-1, rest),
            _ => return Err("has no sign: write +01:00 or -05:00".to_owned()),
        };
        let minutes = minute(rest)? as i32;
        if minutes > 14 * 60 {
            return Err("is farther from UTC than any place".to_owned());
        }
        Ok(Offset { minutes: sign * minutes })
    }
}

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.minutes < 0 { '-' } else { '+' };
        write!(f, "{sign}{:02}:{:02}", self.minutes.abs() / 60, self.minutes.abs() % 60)
    }
}

impl Setting for Offset {
    fn schema(_: &mut SchemaBuilder) -> Schema {
        Schema::pattern("offset", "^[+-][0-9]{2}:[0-9]{2}$")
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        reader.parse(node, "an offset from UTC such as +01:00")
    }
}

/// A time zone of the IANA database, with its daylight saving time.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Zone(TimeZone);

impl FromStr for Zone {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        TimeZone::get(text).map(Zone).map_err(|_| "is not a time zone of the IANA database".into())
    }
}

impl Setting for Zone {
    fn schema(_: &mut SchemaBuilder) -> Schema {
        Schema::text("time zone")
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        reader.parse(node, "a time zone such as Europe/Berlin")
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let windows: Vec<&str> = self.windows.iter().map(|window| window.text.as_str()).collect();
        let windows = windows.join(", ");
        match &self.clock {
            Clock::Offset(offset) => write!(f, "[{windows}] at {offset}"),
            Clock::Zone(Zone(zone)) => {
                write!(f, "[{windows}] in {}", zone.iana_name().unwrap_or("UTC"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Clock, Offset, Times, Window, midnight};

    fn holds(window: &str, offset: &str, secs: u64) -> bool {
        let window: Window = window.parse().unwrap();
        let clock = match offset.parse() {
            Ok(offset) => Clock::Offset(offset),
            Err(_) => Clock::Zone(offset.parse().unwrap()),
        };
        Times::new(vec![window], clock).contain(secs)
    }

    /// 2026-11-20 was a Friday; this is its midnight.
    const FRIDAY: u64 = 1_795_132_800;

    fn at(days: u64, hour: u64, minute: u64) -> u64 {
        FRIDAY + days * 86_400 + hour * 3600 + minute * 60
    }

    #[test]
    fn the_week() {
        assert_eq!(midnight(2026, 11, 20), Some(FRIDAY as i64));
        assert_eq!(midnight(1969, 12, 31), None);
        for (window, secs, inside) in [
            ("Mon-Fri 08:00-18:00", at(0, 8, 0), true),
            ("Mon-Fri 08:00-18:00", at(0, 17, 59), true),
            ("Mon-Fri 08:00-18:00", at(0, 18, 0), false),
            ("Mon-Fri 08:00-18:00", at(1, 9, 0), false),
            ("Sat,Sun", at(1, 0, 0), true),
            ("Sat,Sun", at(3, 0, 0), false),
            ("sun-mon", at(3, 23, 59), true),
            ("sun-mon", at(4, 0, 0), false),
            ("22:00-06:00", at(0, 5, 59), true),
            ("22:00-06:00", at(0, 6, 0), false),
            ("22:00-06:00", at(0, 22, 0), true),
            ("Fri 22:00-06:00", at(1, 5, 0), true),
            ("Fri 22:00-06:00", at(0, 5, 0), false),
            ("Fri 00:00-24:00", at(0, 23, 59), true),
            ("22:00-00:00", at(0, 23, 0), true),
            ("22:00-00:00", at(0, 0, 0), false),
        ] {
            assert_eq!(holds(window, "+00:00", secs), inside, "{window} {secs}");
        }
    }

    #[test]
    fn dates_and_offsets() {
        for (window, offset, secs, inside) in [
            ("2026-11-20..2026-11-20", "+00:00", at(0, 23, 59), true),
            ("2026-11-20..2026-11-20", "+00:00", at(1, 0, 0), false),
            ("2026-11-20T08:00..2026-11-20T09:00", "+00:00", at(0, 9, 0), false),
            ("2026-11-20T08:00..", "+00:00", at(0, 7, 59), false),
            ("2026-11-20T08:00..", "+00:00", at(900, 0, 0), true),
            ("..2026-11-19", "+00:00", at(0, 0, 0), false),
            ("..2026-11-20", "+00:00", 0, true),
            ("08:00-09:00", "+02:00", at(0, 6, 30), true),
            ("Thu", "-05:00", at(0, 4, 59), true),
            ("08:00-09:00", "Europe/Berlin", at(0, 7, 30), true),
            ("08:00-09:00", "Europe/Berlin", at(0, 6, 30), false),
            ("08:00-09:00", "Europe/Berlin", at(180, 6, 30), true), // daylight saving
            ("08:00-09:00", "Europe/Berlin", at(180, 7, 30), false),
        ] {
            assert_eq!(holds(window, offset, secs), inside, "{window} {offset} {secs}");
        }
        assert_eq!("-05:30".parse::<Offset>().unwrap().to_string(), "-05:30");
    }

    #[test]
    fn what_is_not_a_time_is_refused_with_a_reason() {
        for (window, why) in [
            ("", "empty"),
            ("08:00-08:00", "empty"),
            ("Mon Tue", "more than days"),
            ("08:00-09:00 Mon", "more than days"),
            ("Mo", "no day \"Mo\""),
            ("8:00-9:00", "not a time"),
            ("08:00", "without its end"),
            ("08:00-25:00", "not a time"),
            ("08:60-09:00", "not a time"),
            ("2026-02-29..", "not a date"),
            ("2026-13-01..", "not a date"),
            ("26-01-01..", "not a date"),
            ("2026-02-02..2026-02-01", "ends before"),
            ("..", "neither"),
        ] {
            let error = window.parse::<Window>().unwrap_err();
            assert!(error.contains(why), "{window}: {error}");
        }
        for offset in ["01:00", "+1:00", "+15:00", "", "é"] {
            assert!(offset.parse::<Offset>().is_err(), "{offset}");
        }
    }
}
