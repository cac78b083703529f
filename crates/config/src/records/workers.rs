//! `workers: auto | N`.

use settings::{Node, Reader, Schema, SchemaBuilder, Setting};

/// How many workers serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workers {
    /// One per core that the process may use.
    Auto,
    Count(u16),
}

/// More workers than any machine has cores are a slip.
const WORKERS_MAX: u16 = 1024;

impl std::str::FromStr for Workers {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "auto" {
            return Ok(Workers::Auto);
        }
        match text.parse() {
            Ok(count @ 1..=WORKERS_MAX) => Ok(Workers::Count(count)),
            _ => Err(format!("is not auto and not a number from 1 to {WORKERS_MAX}")),
        }
    }
}

impl Setting for Workers {
    fn schema(_: &mut SchemaBuilder) -> Schema {
        let count = Schema::Integer { min: Some(1), max: Some(i64::from(WORKERS_MAX)) };
        Schema::OneOf(vec![Schema::words("auto", &["auto"]), count])
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        reader.parse(node, "auto or a number of workers")
    }
}

#[cfg(test)]
mod tests {
    use settings::{node, read};

    use super::Workers;

    #[test]
    fn auto_or_a_number() {
        assert_eq!(read(&node!("auto")), Ok(Workers::Auto));
        assert_eq!(read(&node!(4)), Ok(Workers::Count(4)));
        for text in ["0", "1025", "-1", "all", "1.5"] {
            assert!(read::<Workers>(&node!(text)).is_err(), "{text}");
        }
    }
}
