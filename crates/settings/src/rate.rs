//! Rates: `100/s`, `10/m`, `1000/h`. And percentages: `20%`.

use std::fmt;
use std::str::FromStr;

use crate::{Node, Reader, Schema, SchemaBuilder, Setting};

/// So many per second, minute or hour; never none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rate {
    pub count: u32,
    pub per: Per,
}

/// The time a [`Rate`] counts in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Per {
    Second,
    Minute,
    Hour,
}

impl Per {
    pub const fn secs(self) -> u64 {
        match self {
            Per::Second => 1,
            Per::Minute => 60,
            Per::Hour => 3600,
        }
    }
}

impl Rate {
    pub fn per_second(self) -> f64 {
        f64::from(self.count) / self.per.secs() as f64
    }

    /// The time between two, when they are evenly spread.
    pub fn interval(self) -> std::time::Duration {
        std::time::Duration::from_nanos(
            self.per.secs() * 1_000_000_000 / u64::from(self.count.max(1)),
        )
    }
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((count, per)) = text.split_once('/') else {
            let number = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
            return Err(match number {
                true => format!("has no unit: write {text}/s, {text}/m or {text}/h"),
                false => "is not a rate".to_owned(),
            });
        };
        let per = match per {
            "s" => Per::Second,
            "m" => Per::Minute,
            "h" => Per::Hour,
            _ => return Err(format!("has the unknown unit {per}: the units are s, m, h")),
        };
        if !count.bytes().all(|b| b.is_ascii_digit()) {
            return Err("is not a rate".to_owned());
        }
        match count.parse() {
            Ok(0) => Err("would allow nothing".to_owned()),
            Ok(count) => Ok(Rate { count, per }),
            Err(_) => Err("is not a rate".to_owned()),
        }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let per = match self.per {
            Per::Second => "s",
            Per::Minute => "m",
            Per::Hour => "h",
        };
        write!(f, "{}/{per}", self.count)
    }
}

impl Setting for Rate {
    fn schema(_: &mut SchemaBuilder) -> Schema {
        Schema::pattern("rate", "^[0-9]+/(s|m|h)$")
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        reader.parse(node, "a rate such as 100/s, 10/m or 1000/h")
    }
}

/// A share of a whole, 0% to 100%.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Percent(f64);

impl Percent {
    /// 0.0 to 1.0.
    pub fn fraction(self) -> f64 {
        self.0 / 100.0
    }
}

impl FromStr for Percent {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.strip_suffix('%').unwrap_or(text);
        let number = digits.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        let value = digits.parse::<f64>().ok().filter(|_| number).ok_or("is not a percentage")?;
        if digits.len() == text.len() {
            return Err(format!("has no unit: write {text}%"));
        }
        if value > 100.0 {
            return Err("is more than 100%".to_owned());
        }
        Ok(Percent(value))
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.0)
    }
}

impl Setting for Percent {
    fn schema(_: &mut SchemaBuilder) -> Schema {
        Schema::pattern("percentage", r"^[0-9]+(\.[0-9]+)?%$")
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        reader.parse(node, "a percentage such as 20%")
    }
}

#[cfg(test)]
mod tests {
    use super::{Percent, Rate};
    use crate::{node, read};

    #[test]
    fn rates() {
        for (text, per_second) in [("100/s", 100.0), ("30/m", 0.5), ("3600/h", 1.0)] {
            let rate: Rate = text.parse().unwrap();
            assert_eq!((rate.per_second(), rate.to_string().as_str()), (per_second, text));
        }
        assert_eq!("200/s".parse::<Rate>().unwrap().interval().as_millis(), 5);
        for (text, why) in [
            ("100", "has no unit: write 100/s"),
            ("100/d", "unknown unit d"),
            ("0/s", "would allow nothing"),
            ("-1/s", "is not a rate"),
            ("+1/s", "is not a rate"),
            ("/s", "is not a rate"),
            ("99999999999/s", "is not a rate"),
            ("fast", "is not a rate"),
        ] {
            let out = read::<Rate>(&node!(text)).unwrap_err();
            assert!(out.contains(why), "{text}: {out}");
        }
    }

    #[test]
    fn percentages() {
        let percent: Percent = "12.5%".parse().unwrap();
        assert_eq!((percent.fraction(), percent.to_string().as_str()), (0.125, "12.5%"));
        for (text, why) in [
            ("20", "has no unit: write 20%"),
            ("101%", "more than 100%"),
            ("-1%", "is not a percentage"),
            ("inf%", "is not a percentage"),
            ("%", "is not a percentage"),
        ] {
            let out = read::<Percent>(&node!(text)).unwrap_err();
            assert!(out.contains(why), "{text}: {out}");
        }
    }
}
