//! Periods of quotas: days, weeks and months of a time zone, or a length of time from the first
//! request of a key.

use std::cell::Cell;
use std::fmt;
use std::str::FromStr;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use settings::{Duration, Node, Reader, Schema, SchemaBuilder, Setting};

/// The shortest and the longest period that is not a calendar period, in seconds.
const ROLLING_S: std::ops::RangeInclusive<u64> = 60..=366 * 86400;

/// How long a quota lasts: `day`, `week`, `month`, or a length of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Period {
    Day,
    Week,
    Month,
    /// So many minutes from the first request of a key.
    Rolling {
        minutes: u32,
    },
}

impl FromStr for Period {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "day" => Period::Day,
            "week" => Period::Week,
            "month" => Period::Month,
            _ => {
                let unknown = |_| "is not a period: write day, week, month or a time such as 30d";
                let length = text.parse::<Duration>().map_err(unknown)?.as_secs();
                if !ROLLING_S.contains(&length) || length % 60 != 0 {
                    return Err("is not between 1m and 366d in whole minutes".to_owned());
                }
                Period::Rolling { minutes: (length / 60) as u32 }
            }
        })
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Period::Day => f.write_str("day"),
            Period::Week => f.write_str("week"),
            Period::Month => f.write_str("month"),
            Period::Rolling { minutes } if minutes % 1440 == 0 => write!(f, "{}d", minutes / 1440),
            Period::Rolling { minutes } if minutes % 60 == 0 => write!(f, "{}h", minutes / 60),
            Period::Rolling { minutes } => write!(f, "{minutes}m"),
        }
    }
}

impl Setting for Period {
    fn schema(_: &mut SchemaBuilder) -> Schema {
        Schema::text("period")
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        reader.parse(node, "a period: day, week, month or a time such as 30d")
    }
}

impl Period {
    /// The length in seconds; of a month that of 30 days.
    pub(super) fn nominal_s(self) -> u64 {
        match self {
            Period::Day => 86400,
            Period::Week => 7 * 86400,
            Period::Month => 30 * 86400,
            Period::Rolling { minutes } => u64::from(minutes) * 60,
        }
    }
}

/// A time zone by its name in the IANA database.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Zone(pub(super) TimeZone);

impl FromStr for Zone {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        TimeZone::get(text)
            .map(Zone)
            .map_err(|_| "is not a time zone such as Europe/Berlin".to_owned())
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.iana_name().unwrap_or("UTC"))
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

/// A period at a point in time, in minutes since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    /// The start of the period of a count that begins now.
    pub(super) start: u64,
    /// Counts that began within so many minutes from here belong to this period.
    pub(super) first: u64,
    /// The length of the period.
    pub(super) minutes: u64,
}

impl Span {
    /// Seconds since 1970 at which the period ends for a count that began at `start`.
    pub(super) fn end_s(self, start: u64) -> u64 {
        // Counts of a calendar period end with it, whenever they began.
        let rolling = self.first != self.start;
        let start = if rolling { start } else { self.start };
        (start + self.minutes) * 60
    }
}

/// Computes spans; those of a calendar only when one has ended.
pub(super) struct Calendar {
    period: Period,
    zone: TimeZone,
    current: Cell<Span>,
}

impl Calendar {
    pub(super) fn new(period: Period, zone: &Zone) -> Calendar {
        let never = Span { start: 0, first: 0, minutes: 0 };
        Calendar { period, zone: zone.0.clone(), current: Cell::new(never) }
    }

    /// The span at a time, in seconds since 1970.
    pub(super) fn at(&self, now_s: u64) -> Span {
        let now = now_s / 60;
        if let Period::Rolling { minutes } = self.period {
            let minutes = u64::from(minutes);
            return Span { start: now, first: now + 1 - minutes, minutes };
        }
        let known = self.current.get();
        if (known.start..known.start + known.minutes).contains(&now) {
            return known;
        }
        // Times out of the range of dates do not occur; they would be one endless period.
        let span = self.span(now_s).unwrap_or(Span { start: 0, first: 0, minutes: u64::MAX / 120 });
        self.current.set(span);
        span
    }

    fn span(&self, now_s: u64) -> Option<Span> {
        let now = Timestamp::from_second(i64::try_from(now_s).ok()?).ok()?;
        let today = now.to_zoned(self.zone.clone()).date();
        let (first, length) = match self.period {
            Period::Week => {
                let since_monday = today.weekday().to_monday_zero_offset();
                (today.checked_sub(since_monday.days()).ok()?, 1.week())
            }
            Period::Month => (today.first_of_month(), 1.month()),
            Period::Day | Period::Rolling { .. } => (today, 1.day()),
        };
        let minute = |date: Date| -> Option<u64> {
            let start = date.to_zoned(self.zone.clone()).ok()?.timestamp();
            u64::try_from(start.as_second() / 60).ok()
        };
        let start = minute(first)?;
        let end = minute(first.checked_add(length).ok()?)?;
        Some(Span { start, first: start, minutes: end - start })
    }
}

#[cfg(test)]
mod tests {
    use super::{Calendar, Period, Zone};

    fn span(period: &str, zone: &str, at: &str) -> (String, String) {
        let zone: Zone = zone.parse().unwrap();
        let calendar = Calendar::new(period.parse().unwrap(), &zone);
        let now: jiff::Timestamp = at.parse().unwrap();
        let span = calendar.at(now.as_second() as u64);
        assert_eq!(calendar.at(now.as_second() as u64), span);
        let text = |s: u64| jiff::Timestamp::from_second(s as i64).unwrap().to_string();
        (text(span.start * 60), text(span.end_s(span.start)))
    }

    #[test]
    fn calendar_periods_follow_the_time_zone() {
        for (period, zone, at, start, end) in [
            ("day", "UTC", "2026-02-28T23:59:59Z", "2026-02-28T00:00:00Z", "2026-03-01T00:00:00Z"),
            // The day on which summer time begins has 23 hours.
            (
                "day",
                "Europe/Berlin",
                "2026-03-29T10:00:00Z",
                "2026-03-28T23:00:00Z",
                "2026-03-29T22:00:00Z",
            ),
            (
                "day",
                "Asia/Kolkata",
                "2026-01-01T00:00:00Z",
                "2025-12-31T18:30:00Z",
                "2026-01-01T18:30:00Z",
            ),
            ("week", "UTC", "2026-11-22T12:00:00Z", "2026-11-16T00:00:00Z", "2026-11-23T00:00:00Z"),
            (
                "month",
                "America/New_York",
                "2024-02-29T04:00:00Z",
                "2024-02-01T05:00:00Z",
                "2024-03-01T05:00:00Z",
            ),
            ("90m", "UTC", "2026-01-01T12:34:56Z", "2026-01-01T12:34:00Z", "2026-01-01T14:04:00Z"),
        ] {
            assert_eq!(span(period, zone, at), (start.to_owned(), end.to_owned()), "{period} {at}");
        }
    }

    #[test]
    fn periods_are_read_and_written() {
        for text in ["day", "week", "month", "30d", "12h", "90m"] {
            assert_eq!(text.parse::<Period>().unwrap().to_string(), text);
        }
        for (text, why) in
            [("days", "is not a period"), ("30s", "between"), ("601s", "whole minutes")]
        {
            let error = text.parse::<Period>().unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
        assert!("Europe/Berlyn".parse::<Zone>().is_err());
    }
}
