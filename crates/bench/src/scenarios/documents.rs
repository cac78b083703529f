//! Generated JSON documents, shaped like those of library benchmarks.
//!
//! Promises the same bytes on every machine, and valid JSON of about 100 KB: an array of records
//! (citm and small services), of numbers (coordinates), of nested objects, of plain strings, and of
//! the same strings with every possible character escaped.

use serde_json::{Map, Value, json};

/// Which document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Document {
    Records,
    Numbers,
    Deep,
    Strings,
    Escapes,
}

const WORDS: [&str; 9] =
    ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota"];
/// Not ASCII, or to be escaped (RFC 8259, section 7).
const ODD: [&str; 7] =
    ["\"quoted\"", "line\nbreak", "tab\there", "back\\slash", "grüße", "日本語", "🌊"];
const RECORDS: u64 = 400;
const POINTS: u64 = 2500;
const NESTS: u64 = 40;
const NESTED: u64 = 60;
const TEXTS: u64 = 500;

impl Document {
    pub(crate) fn text(self) -> String {
        let mut random = Random(7);
        let list = |count: u64, make: &mut dyn FnMut(u64) -> Value| -> String {
            Value::Array((0..count).map(make).collect()).to_string()
        };
        match self {
            Self::Records => list(RECORDS, &mut |number| record(number, &mut random)),
            Self::Numbers => list(POINTS, &mut |_| point(&mut random)),
            Self::Deep => list(NESTS, &mut |_| nest(NESTED)),
            Self::Strings => list(TEXTS, &mut |_| text(&mut random)),
            Self::Escapes => escaped(&Self::Strings.text()),
        }
    }
}

fn record(number: u64, random: &mut Random) -> Value {
    json!({
        "id": number,
        "guid": format!("{:016x}", random.next()),
        "active": random.below(2) == 0,
        "balance": random.below(500_000) as f64 / 100.0,
        "age": 20 + random.below(40),
        "name": random.word(),
        "email": format!("{}@example.com", random.word()),
        "note": null,
        "tags": [random.word(), random.word(), random.word(), random.word()],
        "address": {
            "street": format!("{number} Main St"),
            "city": random.word(),
            "zip": 10_000 + random.below(89_999),
        },
    })
}

fn point(random: &mut Random) -> Value {
    let degrees = |random: &mut Random| (random.below(3_600_000) as f64 - 1_800_000.0) / 9973.0;
    json!([degrees(random), degrees(random), random.below(2_000_000) as i64 - 1_000_000])
}

fn nest(levels: u64) -> Value {
    let mut nested = Value::Object(Map::new());
    for level in 1..=levels {
        nested = json!({ "level": level, "next": nested, "list": [[level]] });
    }
    nested
}

fn text(random: &mut Random) -> Value {
    let count = 3 + random.below(50);
    let words: Vec<&str> =
        (0..count).map(|at| if at % 2 == 0 { random.of(&ODD) } else { random.word() }).collect();
    Value::String(words.join(" "))
}

/// With `\u` for all that is not ASCII, in surrogates beyond the first plane.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    for character in text.chars() {
        if character.is_ascii() {
            out.push(character);
        } else {
            let units = &mut [0; 2];
            for unit in character.encode_utf16(units) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    out
}

/// An LCG of Knuth's (MMIX), of which the upper half is used.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 32
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn of(&mut self, texts: &[&'static str]) -> &'static str {
        texts[self.below(texts.len() as u64) as usize]
    }

    fn word(&mut self) -> &'static str {
        self.of(&WORDS)
    }
}

#[cfg(test)]
mod tests {
    use super::{Document, NESTED};
    use serde_json::Value;

    const ALL: [Document; 5] = [
        Document::Records,
        Document::Numbers,
        Document::Deep,
        Document::Strings,
        Document::Escapes,
    ];

    fn value(document: Document) -> Value {
        serde_json::from_str(&document.text()).unwrap()
    }

    #[test]
    fn documents_are_valid_alike_in_size_and_the_same_every_time() {
        for document in ALL {
            let text = document.text();
            assert!(value(document).is_array(), "{document:?}");
            assert!((60_000..200_000).contains(&text.len()), "{document:?}: {}", text.len());
            assert_eq!(text, document.text());
        }
    }

    #[test]
    fn each_has_what_it_is_named_for() {
        let numbers = value(Document::Numbers);
        assert!(numbers[0].as_array().unwrap().iter().all(Value::is_number));
        let (mut nested, mut levels) = (&value(Document::Deep)[0], 0);
        while let Some(next) = nested.get("next") {
            (nested, levels) = (next, levels + 1);
        }
        assert_eq!(levels, NESTED);
        // The same values, one of them in ASCII only.
        assert_eq!(value(Document::Strings), value(Document::Escapes));
        assert!(Document::Escapes.text().is_ascii() && !Document::Strings.text().is_ascii());
        for escape in ["\\\"", "\\n", "\\t", "\\\\", "\\u00fc", "\\ud83c\\udf0a"] {
            assert!(Document::Escapes.text().contains(escape), "{escape}");
        }
        assert_eq!(value(Document::Records)[3]["address"]["street"], "3 Main St");
    }
}
