//! Ranges of HTTP statuses in the configuration.

use std::fmt;
use std::str::FromStr;

use settings::{Node, Reader, Schema, SchemaBuilder, Setting};

/// Statuses from a first to a last one: `200-399`, or just `204`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusRange {
    pub first: u16,
    pub last: u16,
}

impl StatusRange {
    pub fn contains(self, status: u16) -> bool {
        (self.first..=self.last).contains(&status)
    }
}

impl FromStr for StatusRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let status = |text: &str| {
            let digits = text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse().ok().filter(|status| digits && (100..600).contains(status))
        };
        match (status(first), status(last)) {
            (Some(first), Some(last)) if first <= last => Ok(StatusRange { first, last }),
            (Some(_), Some(_)) => Err("ends before it begins".to_owned()),
            _ => Err("is not a status such as 204 or a range such as 200-399".to_owned()),
        }
    }
}

impl fmt::Display for StatusRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            write!(f, "{}", self.first)
        } else {
            write!(f, "{}-{}", self.first, self.last)
        }
    }
}

impl Setting for StatusRange {
    fn schema(_: &mut SchemaBuilder) -> Schema {
        Schema::pattern("status range", "^[1-5][0-9]{2}(-[1-5][0-9]{2})?$")
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        reader.parse(node, "statuses such as 200-399")
    }
}

#[cfg(test)]
mod tests {
    use super::StatusRange;

    #[test]
    fn status_ranges() {
        let range: StatusRange = "200-399".parse().unwrap();
        assert!(range.contains(200) && range.contains(399) && !range.contains(400));
        assert_eq!(range.to_string(), "200-399");
        assert_eq!("204".parse::<StatusRange>().unwrap().to_string(), "204");
        for bad in ["399-200", "99", "20", "2000", "a-b", "", "200-", "+20"] {
            assert!(bad.parse::<StatusRange>().is_err(), "{bad}");
        }
    }
}
