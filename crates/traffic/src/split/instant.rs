//! A point in time, `2027-01-11T09:00:00Z`.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use settings::{Node, Reader, Schema, SchemaBuilder, Setting};

/// A point in time as RFC 3339 writes it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Instant(Timestamp);

impl Instant {
    /// Seconds since 1970.
    pub(super) fn unix_s(self) -> i64 {
        self.0.as_second()
    }
}

impl FromStr for Instant {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.parse()
            .map(Instant)
            .map_err(|_| "is not a time such as 2027-01-11T09:00:00Z".to_owned())
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Setting for Instant {
    fn schema(_: &mut SchemaBuilder) -> Schema {
        Schema::text("time")
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        reader.parse(node, "a time such as 2027-01-11T09:00:00Z")
    }
}
