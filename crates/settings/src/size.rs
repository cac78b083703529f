//! Numbers of bytes with their unit: `16KiB`, `10MiB`, `1MB`, `512B`, `unlimited`.
//!
//! Promises: what is displayed reads back as the same size. Never accepts a number without a unit.

use std::fmt;
use std::str::FromStr;

use crate::duration::times;
use crate::{Node, Reader, Schema, SchemaBuilder, Setting};

/// A number of bytes. `unlimited` is larger than every other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Size(u64);

const UNITS: &[(&str, u64)] = &[
    ("TiB", 1 << 40),
    ("TB", 1_000_000_000_000),
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("kB", 1000),
    ("B", 1),
];

impl Size {
    pub const UNLIMITED: Size = Size(u64::MAX);

    pub const fn from_bytes(bytes: u64) -> Self {
        Size(bytes)
    }

    /// `u64::MAX` when unlimited, so that a comparison needs no case.
    pub const fn bytes(self) -> u64 {
        self.0
    }

    /// For sizes of memory; `usize::MAX` when unlimited.
    pub fn bytes_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }

    pub const fn is_unlimited(self) -> bool {
        self.0 == u64::MAX
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "unlimited" {
            return Ok(Size::UNLIMITED);
        }
        let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        if number.is_empty() {
            return Err("is not a size".into());
        }
        if unit.is_empty() {
            return Err(format!("has no unit: write {text}B or {text}KiB"));
        }
        let Some((_, factor)) = UNITS.iter().find(|(name, _)| *name == unit) else {
            let known = UNITS.iter().map(|(name, _)| *name);
            let near =
                crate::nearest::nearest(unit, known).map(|near| format!(", did you mean {near}?"));
            return Err(match near {
                Some(near) => format!("has the unknown unit {unit}{near}"),
                None => "is not a size".to_owned(),
            });
        };
        match times(number, *factor) {
            Some(bytes) if bytes < u64::MAX => Ok(Size(bytes)),
            _ => Err("is not a whole number of bytes below 16EiB".into()),
        }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_unlimited() {
            return f.write_str("unlimited");
        }
        // The largest unit that divides it; binary units before decimal ones of about the same
        // size.
        let fits = |factor: &u64| self.0 >= *factor && self.0.is_multiple_of(*factor);
        match UNITS.iter().find(|(_, factor)| fits(factor)) {
            Some((unit, factor)) => write!(f, "{}{unit}", self.0 / factor),
            None => f.write_str("0B"),
        }
    }
}

impl Setting for Size {
    fn schema(_: &mut SchemaBuilder) -> Schema {
        Schema::pattern("size", r"^(unlimited|[0-9]+(\.[0-9]+)?(B|kB|KiB|MB|MiB|GB|GiB|TB|TiB))$")
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        reader.parse(node, "a size such as 512B, 16KiB, 10MiB, 1GiB or unlimited")
    }
}

#[cfg(test)]
mod tests {
    use super::Size;
    use crate::{node, read};

    #[test]
    fn reads_and_shows() {
        for (text, bytes, shown) in [
            ("16KiB", 16 << 10, "16KiB"),
            ("10MiB", 10 << 20, "10MiB"),
            ("1.5GiB", 3 << 29, "1536MiB"),
            ("64kB", 64_000, "64kB"),
            ("1000kB", 1_000_000, "1MB"),
            ("512B", 512, "512B"),
            ("0B", 0, "0B"),
            ("unlimited", u64::MAX, "unlimited"),
        ] {
            let size: Size = text.parse().unwrap();
            assert_eq!((size.bytes(), size.to_string().as_str()), (bytes, shown), "{text}");
            assert_eq!(shown.parse(), Ok(size));
        }
        assert!(Size::UNLIMITED > Size::from_bytes(1 << 60));
    }

    #[test]
    fn refuses_with_a_reason() {
        for (text, why) in [
            ("1024", "\"1024\" has no unit: write 1024B or 1024KiB"),
            ("16kib", "unknown unit kib, did you mean KiB?"),
            ("16 KiB", "16 KiB"),
            ("-1B", "is not a size"),
            ("0.3B", "whole number of bytes"),
            ("99999999TiB", "whole number of bytes"),
            ("", "is not a size"),
        ] {
            let out = read::<Size>(&node!(text)).unwrap_err();
            assert!(out.contains(why), "{text}: {out}");
        }
    }
}
