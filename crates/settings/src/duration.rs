//! Lengths of time with their unit: `250ms`, `5s`, `1m30s`, `1h`.
//!
//! Promises: what is displayed reads back as the same length. Never accepts a number without a
//! unit.

use std::fmt;
use std::ops::Deref;
use std::str::FromStr;

use crate::{Node, Reader, Schema, SchemaBuilder, Setting};

/// A length of time, to the millisecond.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(std::time::Duration);

const UNITS: &[(&str, u64)] =
    &[("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];
/// About 136 years: past it arithmetic on instants stops being safe.
const MAX_MS: u64 = u32::MAX as u64 * 1000;

impl Duration {
    pub const ZERO: Duration = Duration(std::time::Duration::ZERO);

    pub const fn from_millis(ms: u64) -> Self {
        Duration(std::time::Duration::from_millis(ms))
    }

    pub const fn from_secs(secs: u64) -> Self {
        Duration(std::time::Duration::from_secs(secs))
    }

    pub const fn get(self) -> std::time::Duration {
        self.0
    }

    pub fn as_millis_u64(self) -> u64 {
        u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX)
    }
}

impl Deref for Duration {
    type Target = std::time::Duration;

    fn deref(&self) -> &std::time::Duration {
        &self.0
    }
}

impl From<Duration> for std::time::Duration {
    fn from(duration: Duration) -> Self {
        duration.0
    }
}

impl FromStr for Duration {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut rest = text;
        let mut total_ms: u64 = 0;
        let mut last_unit_ms = u64::MAX;
        if rest.is_empty() {
            return Err("is not a duration".into());
        }
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
            let (number, after) = rest.split_at(digits);
            let letters = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
            let (unit, after) = after.split_at(letters);
            if number.is_empty() {
                return Err("is not a duration".into());
            }
            if unit.is_empty() {
                return Err(if after.is_empty() && number == text {
                    format!("has no unit: write {text}s or {text}ms")
                } else {
                    "is not a duration".to_owned()
                });
            }
            let Some((_, unit_ms)) = UNITS.iter().find(|(name, _)| *name == unit) else {
                return Err(format!("has the unknown unit {unit}: the units are ms, s, m, h, d"));
            };
            // `1m30s`, never `30s1m` or `1s1s`: the second reader should not have to add up.
            if *unit_ms >= last_unit_ms {
                return Err("does not name its units from large to small".into());
            }
            last_unit_ms = *unit_ms;
            total_ms = times(number, *unit_ms)
                .and_then(|ms| total_ms.checked_add(ms))
                .filter(|ms| *ms <= MAX_MS)
                .ok_or("is not a duration we can count: whole milliseconds up to 49710d")?;
            rest = after;
        }
        Ok(Duration::from_millis(total_ms))
    }
}

/// `number` (decimal, perhaps with a fraction) times `unit`, where that is a whole number.
pub(crate) fn times(number: &str, unit: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || number.ends_with('.') || fraction.len() > 9 {
        return None;
    }
    let whole: u64 = whole.parse().ok()?;
    let scale = 10_u64.pow(u32::try_from(fraction.len()).ok()?);
    let fraction: u64 = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
    let parts = fraction.checked_mul(unit)?;
    if parts % scale != 0 {
        return None;
    }
    whole.checked_mul(unit)?.checked_add(parts / scale)
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut left_ms = self.as_millis_u64();
        if left_ms == 0 {
            return f.write_str("0s");
        }
        for (unit, unit_ms) in UNITS {
            if left_ms >= *unit_ms {
                write!(f, "{}{unit}", left_ms / unit_ms)?;
                left_ms %= unit_ms;
            }
        }
        Ok(())
    }
}

impl Setting for Duration {
    fn schema(_: &mut SchemaBuilder) -> Schema {
        Schema::pattern("duration", r"^([0-9]+(\.[0-9]+)?(ms|s|m|h|d))+$")
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        reader.parse(node, "a duration such as 250ms, 5s, 1m30s or 1h")
    }
}

#[cfg(test)]
mod tests {
    use super::Duration;
    use crate::{node, read};

    #[test]
    fn reads_and_shows() {
        for (text, ms, shown) in [
            ("250ms", 250, "250ms"),
            ("5s", 5000, "5s"),
            ("1m30s", 90_000, "1m30s"),
            ("90s", 90_000, "1m30s"),
            ("1.5s", 1500, "1s500ms"),
            ("1h", 3_600_000, "1h"),
            ("2d", 172_800_000, "2d"),
            ("0s", 0, "0s"),
        ] {
            let duration: Duration = text.parse().unwrap();
            assert_eq!(duration.as_millis_u64(), ms, "{text}");
            assert_eq!(duration.to_string(), shown);
            assert_eq!(shown.parse(), Ok(duration));
        }
    }

    #[test]
    fn what_came_from_the_environment_is_not_repeated() {
        let typed = Some("${WAIT}".to_owned());
        let scalar = crate::Scalar { text: "hunter2".into(), plain: true, typed };
        let out = read::<Duration>(&crate::Node::made(crate::Value::Scalar(scalar))).unwrap_err();
        assert!(out.contains("\"${WAIT}\" does not hold") && !out.contains("hunter2"), "{out}");
    }

    #[test]
    fn refuses_with_a_reason() {
        for (text, why) in [
            ("5", "\"5\" has no unit: write 5s or 5ms"),
            ("5sec", "unknown unit sec"),
            ("5 s", "is not a duration"),
            ("-5s", "is not a duration"),
            ("soon", "is not a duration"),
            ("", "is not a duration"),
            ("30s1m", "large to small"),
            ("1s1", "is not a duration"),
            ("0.1ms", "whole milliseconds"),
            (".5s", "whole milliseconds"),
            ("99999999999999999999s", "whole milliseconds"),
            ("49711d", "whole milliseconds"),
        ] {
            let out = read::<Duration>(&node!(text)).unwrap_err();
            assert!(out.contains(why), "{text}: {out}");
        }
    }
}
