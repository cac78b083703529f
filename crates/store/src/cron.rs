//! Cron expressions: five fields (minute, hour, day of the month, month, day of the week), or a
//! name such as `@daily`. Times are UTC, so no run is skipped or repeated when clocks change.
//!
//! Lists, ranges, steps, names of months and days, and 7 for Sunday. As in cron(5), a time matches
//! if either of the two fields for days does when both are restricted.
//!
//! Stays our own: the crates for it read the clock or depend on a calendar, for a page of code.

use std::str::FromStr;

const MINUTES_PER_DAY: u64 = 24 * 60;
/// The end of the year 9999: later times are not searched.
const SECONDS_MAX: u64 = 253_402_300_799;
const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
const NAMED: [(&str, &str); 7] = [
    ("@hourly", "0 * * * *"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@weekly", "0 0 * * 0"),
    ("@monthly", "0 0 1 * *"),
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
];

/// A cron expression: a bit for each value that matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cron {
    minutes: u64,
    hours: u64,
    month_days: u64,
    months: u64,
    week_days: u64,
    /// Either of the fields for days suffices, because both are restricted.
    is_either_day: bool,
}

/// A field of an expression.
struct Field {
    what: &'static str,
    min: u64,
    max: u64,
    names: &'static [&'static str],
}

const FIELDS: [Field; 5] = [
    Field { what: "the minute", min: 0, max: 59, names: &[] },
    Field { what: "the hour", min: 0, max: 23, names: &[] },
    Field { what: "the day of the month", min: 1, max: 31, names: &[] },
    Field { what: "the month", min: 1, max: 12, names: &MONTHS },
    Field { what: "the day of the week", min: 0, max: 7, names: &DAYS },
];

impl Field {
    /// Returns the bits of the values that a field's text matches.
    fn parse(&self, text: &str) -> Result<u64, String> {
        text.split(',').try_fold(0, |bits, part| Ok(bits | self.part(part)?))
    }

    fn part(&self, part: &str) -> Result<u64, String> {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, Some(step)),
            None => (part, None),
        };
        let (first, last) = match range.split_once('-') {
            _ if range == "*" => (self.min, self.max),
            Some((first, last)) => (self.value(first)?, self.value(last)?),
            // As in cron(5), `5/10` means from 5 on.
            None if step.is_some() => (self.value(range)?, self.max),
            None => (self.value(range)?, self.value(range)?),
        };
        if first > last {
            return Err(format!("\"{part}\" of {} ends before it begins", self.what));
        }
        let step = match step {
            None => 1,
            Some(step) => {
                number(step).filter(|step| (1..=self.max).contains(step)).ok_or_else(|| {
                    format!("\"{part}\" of {} has no step from 1 to {}", self.what, self.max)
                })?
            }
        };
        Ok((first..=last).filter(|value| (value - first) % step == 0).fold(0, |b, v| b | 1 << v))
    }

    fn value(&self, text: &str) -> Result<u64, String> {
        let named = self.names.iter().position(|name| text.eq_ignore_ascii_case(name));
        let named = named.map(|at| at as u64 + self.min);
        let value = named.or_else(|| number(text)).filter(|v| (self.min..=self.max).contains(v));
        let names = match (self.names.first(), self.names.last()) {
            (Some(first), Some(last)) => format!(", or from {first} to {last}"),
            _ => String::new(),
        };
        value.ok_or_else(|| {
            let (what, min, max) = (self.what, self.min, self.max);
            format!("\"{text}\" is not a value of {what}, which is from {min} to {max}{names}")
        })
    }
}

fn number(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

impl FromStr for Cron {
    type Err = String;

    fn from_str(text: &str) -> Result<Cron, String> {
        if text.trim_start().starts_with('@') {
            let named = NAMED.iter().find(|(name, _)| text.trim().eq_ignore_ascii_case(name));
            let (_, meant) = named.ok_or_else(|| {
                let names: Vec<&str> = NAMED.iter().map(|(name, _)| *name).collect();
                format!("there is no {}: write one of {}", text.trim(), names.join(", "))
            })?;
            return meant.parse();
        }
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let &[minute, hour, month_day, month, week_day] = &words[..] else {
            return Err(format!(
                "{} fields instead of five: minute, hour, day of the month, month, day of the week",
                words.len()
            ));
        };
        let [minutes, hours, days, months, week] = &FIELDS;
        let week_days = week.parse(week_day)?;
        let cron = Cron {
            minutes: minutes.parse(minute)?,
            hours: hours.parse(hour)?,
            month_days: days.parse(month_day)?,
            months: months.parse(month)?,
            // Sunday is 0 and 7.
            week_days: (week_days | week_days >> 7) & 0x7f,
            is_either_day: !month_day.starts_with('*') && !week_day.starts_with('*'),
        };
        match cron.is_possible() {
            true => Ok(cron),
            false => Err("it names no day that exists".to_owned()),
        }
    }
}

impl Cron {
    /// False for a day such as 31 February.
    fn is_possible(&self) -> bool {
        let longest = |month: u64| month_days(2000, month);
        self.is_either_day
            || (1..=12)
                .filter(|month| has(self.months, *month))
                .any(|month| (1..=longest(month)).any(|day| has(self.month_days, day)))
    }

    /// Returns the first time after `unix_s` that matches, in seconds; `None` after the year 9999.
    pub fn next_after(&self, unix_s: u64) -> Option<u64> {
        let mut minute = unix_s.min(SECONDS_MAX) / 60 + 1;
        while minute * 60 <= SECONDS_MAX {
            let day = minute / MINUTES_PER_DAY;
            let (year, month, month_day) = date_of(day);
            if !has(self.months, month) {
                minute = (day + month_days(year, month) - month_day + 1) * MINUTES_PER_DAY;
                continue;
            }
            // 1 January 1970 was a Thursday.
            let in_month = has(self.month_days, month_day);
            let in_week = has(self.week_days, (day + 4) % 7);
            let is_day = if self.is_either_day { in_month || in_week } else { in_month && in_week };
            match self.first_in_day(minute % MINUTES_PER_DAY) {
                Some(found) if is_day => {
                    return Some((day * MINUTES_PER_DAY + found) * 60);
                }
                _ => minute = (day + 1) * MINUTES_PER_DAY,
            }
        }
        None
    }

    /// Returns the first minute of a day, at or after one, that matches.
    fn first_in_day(&self, minute: u64) -> Option<u64> {
        let of_hour = |hour: u64, from: u64| {
            let found = (from..60).find(|minute| has(self.minutes, *minute))?;
            has(self.hours, hour).then_some(hour * 60 + found)
        };
        let now = of_hour(minute / 60, minute % 60);
        now.or_else(|| (minute / 60 + 1..24).find_map(|hour| of_hour(hour, 0)))
    }
}

fn has(bits: u64, value: u64) -> bool {
    bits >> value & 1 == 1
}

fn month_days(year: u64, month: u64) -> u64 {
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        2 => 28 + u64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Returns year, month and day of a number of days since 1970.
fn date_of(days: u64) -> (u64, u64, u64) {
    // Years begin in March here, so that a leap day is the last of its year; 146097 days are 400
    // years, and 719468 days pass from 1 March of the year 0 to 1970.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let shifted = (5 * day + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let month_day = day - (153 * shifted + 2) / 5 + 1;
    (era * 400 + year + u64::from(month <= 2), month, month_day)
}

#[cfg(test)]
mod tests {
    use super::{Cron, date_of};

    /// 2026-11-22 10:21:30 UTC, a Sunday.
    const NOW: u64 = 1_795_342_890;

    fn next(text: &str, after: u64) -> String {
        let found = text.parse::<Cron>().unwrap().next_after(after).unwrap();
        let (year, month, day) = date_of(found / 86_400);
        let (hour, minute) = (found / 3600 % 24, found / 60 % 60);
        assert_eq!(found % 60, 0);
        format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}")
    }

    #[test]
    fn the_next_time() {
        for (text, expected) in [
            ("* * * * *", "2026-11-22 10:22"),
            ("*/15 * * * *", "2026-11-22 10:30"),
            ("7/20 * * * *", "2026-11-22 10:27"),
            ("0,10,20 * * * *", "2026-11-22 11:00"),
            ("30 9 * * *", "2026-11-23 09:30"),
            ("0 3 * * mon-fri", "2026-11-23 03:00"),
            ("0 3 * * 7", "2026-11-29 03:00"),
            ("0 0 1 * *", "2026-12-01 00:00"),
            ("0 0 31 * *", "2026-12-31 00:00"),
            ("0 0 29 FEB *", "2028-02-29 00:00"),
            ("0 0 13 * fri", "2026-11-27 00:00"),
            ("0 0 */2 * tue", "2026-12-01 00:00"),
            ("59 23 31 12 *", "2026-12-31 23:59"),
            ("@hourly", "2026-11-22 11:00"),
            ("@Daily", "2026-11-23 00:00"),
            ("@weekly", "2026-11-29 00:00"),
            (" @yearly ", "2027-01-01 00:00"),
        ] {
            assert_eq!(next(text, NOW), expected, "{text}");
        }
        assert_eq!(next("22 10 * * *", NOW - 30), "2026-11-22 10:22");
        // A time that matches is not its own successor.
        assert_eq!(next("21 10 * * *", NOW - 30), "2026-11-23 10:21");
        assert_eq!(next("0 0 29 2 *", 4_102_444_800), "2104-02-29 00:00");
        assert_eq!("* * * * *".parse::<Cron>().unwrap().next_after(u64::MAX), None);
    }

    #[test]
    fn what_cannot_be_a_time_is_an_error_that_says_why() {
        for (text, expected) in [
            ("* * * *", "4 fields instead of five"),
            ("", "0 fields instead of five"),
            ("60 * * * *", "\"60\" is not a value of the minute, which is from 0 to 59"),
            ("* * 0 * *", "\"0\" is not a value of the day of the month"),
            ("* * * januar *", "from 1 to 12, or from jan to dec"),
            ("* * * * 8", "from 0 to 7, or from sun to sat"),
            ("30-10 * * * *", "\"30-10\" of the minute ends before it begins"),
            ("*/0 * * * *", "has no step from 1 to 59"),
            ("*/x * * * *", "has no step from 1 to 59"),
            ("+5 * * * *", "\"+5\" is not a value of the minute"),
            ("1,,2 * * * *", "\"\" is not a value of the minute"),
            ("0 0 31 2 *", "it names no day that exists"),
            ("@fortnightly", "there is no @fortnightly: write one of @hourly, @daily"),
        ] {
            let why = text.parse::<Cron>().unwrap_err();
            assert!(why.contains(expected), "{text}: {why}");
        }
    }
}
