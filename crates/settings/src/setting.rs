//! The trait of all settings: they describe themselves and are read. With the basic ones: text,
//! truth values, numbers.

use crate::node::{Node, Scalar};
use crate::reader::Reader;
use crate::schema::{Schema, SchemaBuilder};

/// A type that configuration can hold. Derived for structs and enums, as the
/// [documentation of the crate](crate) shows; implemented by hand only for vocabulary.
pub trait Setting: Sized {
    /// Describes the allowed values.
    fn schema(defs: &mut SchemaBuilder) -> Schema;

    /// Reads it. `None` means that an error was reported and there is no value; `Some` may come
    /// with errors too (a default in place of an invalid value), so that dependent settings are
    /// still checked. A configuration whose report is not empty is never used.
    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self>;

    /// The value when the key is not written and the declaration has no default. Only `Option` has
    /// one.
    fn missing() -> Option<Self> {
        None
    }

    /// A stand-in for a required value that is missing or wrong, after this has been reported. With
    /// one, the map around it is complete enough for what is read and checked in a second step.
    fn placeholder() -> Option<Self> {
        None
    }
}

impl Setting for String {
    fn schema(_: &mut SchemaBuilder) -> Schema {
        Schema::text("text")
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        reader.scalar(node, "text").map(|scalar| scalar.text.clone())
    }
}

impl Setting for bool {
    fn schema(_: &mut SchemaBuilder) -> Schema {
        Schema::Bool
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        match reader.scalar(node, "true or false")? {
            scalar if scalar.untyped() && scalar.text == "true" => Some(true),
            scalar if scalar.untyped() && scalar.text == "false" => Some(false),
            scalar => {
                let quoted = !scalar.untyped();
                let error = reader.expected(node, "true or false");
                if quoted {
                    error.help("a truth value is written without quotes");
                }
                None
            }
        }
    }
}

/// A decimal number without quotes. `0755` and `0x10` are refused: they mean something else
/// elsewhere.
fn number<'n>(node: &'n Node, what: &str, reader: &mut Reader<'_>) -> Option<&'n Scalar> {
    let scalar = reader.scalar(node, what)?;
    let digits = scalar.text.trim_start_matches(['-', '+']);
    if !scalar.untyped() {
        reader.expected(node, what).help("a number is written without quotes");
        return None;
    }
    if digits.len() > 1 && digits.starts_with('0') && !digits.starts_with("0.") {
        reader.expected(node, what).help("a number is decimal and has no leading zero");
        return None;
    }
    Some(scalar)
}

macro_rules! integers {
    ($($int:ident)*) => {$(
        impl Setting for $int {
            fn schema(_: &mut SchemaBuilder) -> Schema {
                // JSON numbers past 2^53 are not exact: such a bound is left out.
                let max = i64::try_from($int::MAX).ok().filter(|max| *max < 1 << 53);
                let min = i64::try_from($int::MIN).ok().filter(|min| *min > -(1 << 53));
                Schema::Integer { min, max }
            }

            fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
                let what = "a whole number";
                let scalar = number(node, what, reader)?;
                if let Ok(value) = scalar.text.parse() {
                    return Some(value);
                }
                let digits = scalar.text.trim_start_matches('-');
                if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) {
                    let why = format!("is not between {} and {}", $int::MIN, $int::MAX);
                    reader.refuse(node, scalar, &why);
                } else {
                    reader.expected(node, what);
                }
                None
            }
        }
    )*};
}

integers!(u8 u16 u32 u64 usize i64);

impl Setting for f64 {
    fn schema(_: &mut SchemaBuilder) -> Schema {
        Schema::Number
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let scalar = number(node, "a number", reader)?;
        let value = scalar.text.parse().ok().filter(|value: &f64| value.is_finite());
        if value.is_none() {
            reader.expected(node, "a number");
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use crate::node::{Node, Scalar, Value};
    use crate::{node, read};

    #[test]
    fn text_keeps_its_spelling() {
        for text in ["8080", "0755", "on", "1.10", "true"] {
            assert_eq!(read::<String>(&Node::plain(text)).as_deref(), Ok(text));
        }
        assert!(read::<String>(&node!(null)).unwrap_err().contains("expected text, found nothing"));
        assert!(read::<String>(&node!([1])).unwrap_err().contains("found a list"));
    }

    #[test]
    fn truth_is_spelled_one_way() {
        assert_eq!(read::<bool>(&node!(true)), Ok(true));
        assert_eq!(read::<bool>(&node!("false")), Ok(false));
        for text in ["on", "yes", "True", "1"] {
            assert!(read::<bool>(&Node::plain(text)).is_err(), "{text}");
        }
        assert!(read::<bool>(&Node::quoted("true")).is_err());
    }

    #[test]
    fn numbers_have_ranges_and_no_surprises() {
        assert_eq!(read::<u16>(&node!(8080)), Ok(8080));
        assert_eq!(read::<i64>(&node!("-5")), Ok(-5));
        assert_eq!(read::<f64>(&node!(0.5)), Ok(0.5));
        let out = read::<u16>(&node!(70000)).unwrap_err();
        assert!(out.contains("\"70000\" is not between 0 and 65535"), "{out}");
        for text in ["0755", "0x10", "1e3", "1_000", "", "-1", "ten"] {
            assert!(read::<u16>(&Node::plain(text)).is_err(), "{text}");
        }
        for text in ["nan", "inf", "1e999", "1,5"] {
            assert!(read::<f64>(&Node::plain(text)).is_err(), "{text}");
        }
        assert!(read::<u16>(&Node::quoted("80")).unwrap_err().contains("without quotes"));
    }

    #[test]
    fn what_is_broken_was_reported_already() {
        let mut report = crate::Report::new();
        let broken = Node::made(Value::Broken);
        let mut reader = crate::Reader::new(&mut report);
        assert!(<u16 as crate::Setting>::read(&broken, &mut reader).is_none());
        assert!(<Vec<u16> as crate::Setting>::read(&broken, &mut reader).is_none());
        assert!(<crate::Secret as crate::Setting>::read(&broken, &mut reader).is_none());
        assert!(<crate::Duration as crate::Setting>::read(&broken, &mut reader).is_none());
        assert!(report.is_empty(), "{report}");
    }

    #[test]
    fn a_number_from_the_environment_may_be_quoted() {
        let typed = Some("${PORT}".to_owned());
        let scalar = Scalar { text: "80".into(), plain: false, typed: typed.clone() };
        assert_eq!(read::<u16>(&Node::made(Value::Scalar(scalar))), Ok(80));
        let scalar = Scalar { text: "secret".into(), plain: false, typed };
        let out = read::<u16>(&Node::made(Value::Scalar(scalar))).unwrap_err();
        assert!(out.contains("found \"${PORT}\"") && !out.contains("secret"), "{out}");
    }
}
