//! Templates with generators: `{path.id}` is a variable as everywhere, `{random.int 1 100}` is made
//! up for each response.

use std::fmt::Write;

use message::Request;
use plugin::variables;
use settings::{
    Node, Part, Piece, Reader, Schema, SchemaBuilder, Setting, Template, nearest, read_pieces,
};

const WORDS: [&str; 16] = [
    "amber", "basin", "cedar", "delta", "ember", "fjord", "grove", "harbour", "island", "jetty",
    "kelp", "lagoon", "marsh", "ocean", "pier", "quay",
];
const FIRST_NAMES: [&str; 8] =
    ["Ada", "Alan", "Barbara", "Dennis", "Edsger", "Grace", "Ken", "Radia"];
const LAST_NAMES: [&str; 8] =
    ["Allen", "Hopper", "Kay", "Knuth", "Liskov", "Lovelace", "Perlman", "Turing"];
/// The names after `random.`.
const GENERATORS: [&str; 11] =
    ["int", "float", "bool", "uuid", "hex", "word", "name", "email", "phone", "of", "time"];
/// Longest `{random.hex N}`.
const HEX_DIGITS_MAX: usize = 256;
const YEAR_SECS: u64 = 365 * 86_400;

/// Text with variables and generators.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct MockTemplate(Vec<Piece<Generator>>);

/// A generated value.
#[derive(Clone, Debug, PartialEq)]
enum Generator {
    Int(i64, i64),
    Float(f64, f64),
    Bool,
    Uuid,
    Hex(usize),
    Word,
    Name,
    Email,
    Phone,
    Of(Vec<String>),
    Time,
}

/// The escaping of the values of variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Escape {
    None,
    /// As the inside of a string of JSON (RFC 8259 7).
    Json,
    /// For HTML and XML.
    Markup,
}

impl Escape {
    /// For bodies of a content type.
    pub(super) fn of(content_type: &str) -> Escape {
        let content_type = content_type.to_ascii_lowercase();
        match content_type {
            json if json.contains("json") => Escape::Json,
            markup if markup.contains("html") || markup.contains("xml") => Escape::Markup,
            _ => Escape::None,
        }
    }
}

impl MockTemplate {
    pub(super) fn text(text: &str) -> MockTemplate {
        MockTemplate(vec![Piece::Template(Template::literal(text))])
    }

    /// Returns the text if nothing in it varies.
    pub(super) fn literal(&self) -> Option<&str> {
        match self.0.as_slice() {
            [] => Some(""),
            [Piece::Template(template)] => template.as_literal(),
            _ => None,
        }
    }

    /// Adds the filled-in text to a buffer.
    pub(super) fn append(&self, request: &Request, escape: Escape, out: &mut Vec<u8>) {
        for piece in &self.0 {
            match piece {
                Piece::Placeholder(generator) => {
                    let mut text = String::new();
                    generator.write(&mut text);
                    append_value(text.as_bytes(), escape, out);
                }
                Piece::Template(template) => {
                    for part in &template.parts {
                        match part {
                            Part::Text(text) => out.extend_from_slice(text.as_bytes()),
                            Part::Var(variable) => {
                                append_value(&variables::value(variable, request), escape, out);
                            }
                        }
                    }
                }
            }
        }
    }
}

fn append_value(value: &[u8], escape: Escape, out: &mut Vec<u8>) {
    if escape == Escape::None {
        return out.extend_from_slice(value);
    }
    // Bytes that are not UTF-8 become the replacement character.
    let text = String::from_utf8_lossy(value);
    if escape == Escape::Markup {
        let mut escaped = String::new();
        variables::escape_markup(&text, &mut escaped);
        return out.extend_from_slice(escaped.as_bytes());
    }
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend_from_slice(&[b'\\', c as u8]),
            c if c < ' ' => out.extend_from_slice(format!("\\u{:04x}", c as u32).as_bytes()),
            c => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
}

impl Setting for MockTemplate {
    fn schema(builder: &mut SchemaBuilder) -> Schema {
        Template::schema(builder)
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let help = format!("the generators are {}", GENERATORS.join(", "));
        let parse = |_: &str, written: &str| Generator::parse(written);
        read_pieces(node, reader, &["{random."], parse, &help).map(MockTemplate)
    }
}

impl Generator {
    fn parse(written: &str) -> Result<Generator, String> {
        let (name, given) = written.split_once(' ').unwrap_or((written, ""));
        let bad = |wanted: &str| format!("{{random.{written}}} is not {{random.{wanted}}}");
        let none = |generator: Generator| match given {
            "" => Ok(generator),
            _ => Err(bad(name)),
        };
        let two = || given.split_once(' ');
        match name {
            "int" => {
                let parse =
                    |(low, high): (&str, &str)| Some((low.parse().ok()?, high.parse().ok()?));
                let range = two().and_then(parse).filter(|(low, high): &(i64, i64)| low <= high);
                range.map(|(low, high)| Generator::Int(low, high)).ok_or_else(|| bad("int 1 100"))
            }
            "float" => {
                let parse =
                    |(low, high): (&str, &str)| Some((low.parse().ok()?, high.parse().ok()?));
                let valid = |(low, high): &(f64, f64)| low <= high && (high - low).is_finite();
                let range = two().and_then(parse).filter(valid);
                range.map(|(low, high)| Generator::Float(low, high)).ok_or_else(|| bad("float 0 1"))
            }
            "hex" => match given.parse() {
                Ok(digits) if (1..=HEX_DIGITS_MAX).contains(&digits) => Ok(Generator::Hex(digits)),
                _ => Err(bad("hex 16")),
            },
            "of" => match given {
                "" => Err(bad("of red|green")),
                list => Ok(Generator::Of(list.split('|').map(str::to_owned).collect())),
            },
            "bool" => none(Generator::Bool),
            "uuid" => none(Generator::Uuid),
            "word" => none(Generator::Word),
            "name" => none(Generator::Name),
            "email" => none(Generator::Email),
            "phone" => none(Generator::Phone),
            "time" => none(Generator::Time),
            _ => {
                let near = nearest(name, GENERATORS.iter().copied());
                let meant = near.map(|near| format!(", did you mean \"random.{near}\"?"));
                let meant = meant.unwrap_or_default();
                Err(format!("unknown generator \"random.{name}\"{meant}"))
            }
        }
    }

    fn write(&self, out: &mut String) {
        // Writing to a string cannot fail.
        let _ = match self {
            Generator::Int(low, high) => {
                write!(out, "{}", fastrand::i64(*low..=*high))
            }
            Generator::Float(low, high) => {
                write!(out, "{:.3}", low + (high - low) * fastrand::f64())
            }
            Generator::Bool => write!(out, "{}", fastrand::bool()),
            Generator::Uuid => {
                let (high, low) = (fastrand::u64(..), fastrand::u64(..));
                let (time, version) = (high >> 32, high >> 16 & 0xffff);
                // Version 4 and its variant (RFC 9562 5.4).
                let (random_a, variant) = (high & 0xfff | 0x4000, low >> 48 & 0x3fff | 0x8000);
                write!(
                    out,
                    "{time:08x}-{version:04x}-{random_a:04x}-{variant:04x}-{:012x}",
                    low & 0xffff_ffff_ffff
                )
            }
            Generator::Hex(digits) => {
                out.extend((0..*digits).filter_map(|_| char::from_digit(fastrand::u32(..16), 16)));
                Ok(())
            }
            Generator::Word => write!(out, "{}", one_of(&WORDS)),
            Generator::Name => {
                write!(out, "{} {}", one_of(&FIRST_NAMES), one_of(&LAST_NAMES))
            }
            // A reserved domain (RFC 2606) and numbers reserved for fiction.
            Generator::Email => {
                write!(out, "{}{}@example.com", one_of(&WORDS), fastrand::u64(..1000))
            }
            Generator::Phone => write!(out, "+1-555-01{:02}", fastrand::u64(..100)),
            Generator::Of(list) => write!(out, "{}", one_of(list)),
            Generator::Time => {
                let secs = net::clock::wall_secs().saturating_sub(fastrand::u64(..YEAR_SECS));
                let time =
                    i64::try_from(secs).ok().and_then(|s| jiff::Timestamp::from_second(s).ok());
                write!(out, "{}", time.unwrap_or_default())
            }
        };
    }
}

/// Random, but no secret.
fn one_of<T>(list: &[T]) -> &T {
    &list[fastrand::usize(..list.len())]
}
