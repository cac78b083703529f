//! What must hold for any text. The fuzz target calls [`configuration`] with what a fuzzer finds;
//! here it is called with mutations of a known configuration, the same ones in every run.

use config::{Kinds, TextSource, document_json, load};

/// A configuration: any text. It gives a plan or errors, the same ones each time; whatever is in
/// the environment is in no error; what is refused as a document is refused as a configuration.
pub fn configuration(text: &str) {
    const HELD: &str = "4f9d2c81b7";
    let environment = |name: &str| (name == "HOME").then(|| HELD.to_owned());
    let source = TextSource::new("any.yaml", text);
    let refused = || load(&source, &environment, &Kinds::all()).err().map(|report| report.render());
    let report = refused();
    assert_eq!(report, refused(), "another report the second time");
    if let Some(report) = &report {
        assert!(!report.is_empty(), "refused without an error");
        assert!(
            !report.contains(HELD) || text.contains(HELD),
            "the environment is shown:\n{report}"
        );
    }
    if document_json(&source).is_err() {
        assert!(report.is_some(), "no document and yet a plan");
    }
}

#[cfg(test)]
mod tests {
    use super::configuration;

    /// xorshift64: the same texts in every run, so that a failure can be looked at.
    struct Dice(u64);

    impl Dice {
        fn below(&mut self, bound: usize) -> usize {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            (self.0 % bound as u64) as usize
        }
    }

    const SEED: &str = include_str!("valid/contract.yaml");

    const PIECES: &[&str] = &[
        "{",
        "}",
        "[",
        "]",
        ":",
        ": ",
        "- ",
        "\n",
        "\n  ",
        "\t",
        "\"",
        "'",
        "#",
        "&a ",
        "*a",
        "!!str ",
        "<<: ",
        "? ",
        "| ",
        "> ",
        "---\n",
        "...\n",
        "${",
        "${HOME}",
        "$${",
        "{host}",
        "{path.x}",
        "unlimited",
        "5s",
        "1e9",
        "-0",
        "\u{0}",
        "\u{feff}",
        "ü",
        "\u{10ffff}",
        "%YAML 1.2\n",
        "@",
        "`",
        "\r\n",
        "\u{85}",
        "\u{2028}",
        "listeners:",
        "routes:",
    ];

    fn mutated(dice: &mut Dice) -> String {
        let mut text: Vec<char> = SEED.chars().collect();
        for _ in 0..1 + dice.below(6) {
            let at = dice.below(text.len());
            match dice.below(5) {
                0 => {
                    text.remove(at);
                }
                1 => {
                    let piece = PIECES[dice.below(PIECES.len())];
                    text.splice(at..at, piece.chars());
                }
                2 => {
                    let end = (at + dice.below(40)).min(text.len());
                    text.drain(at..end);
                }
                3 => {
                    let end = (at + dice.below(60)).min(text.len());
                    let copy: Vec<char> = text[at..end].to_vec();
                    let to = dice.below(text.len());
                    text.splice(to..to, copy);
                }
                _ => text[at] = char::from_u32(dice.below(128) as u32).unwrap_or('x'),
            }
            if text.is_empty() {
                text.push('x');
            }
        }
        text.into_iter().collect()
    }

    #[test]
    fn mutated_configurations_never_panic() {
        let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
        configuration(SEED);
        for _ in 0..1000 {
            configuration(&mutated(&mut dice));
        }
    }

    #[test]
    fn random_pieces_never_panic() {
        let mut dice = Dice(0xD1B5_4A32_D192_ED03);
        for _ in 0..2000 {
            let text: String =
                (0..dice.below(40)).map(|_| PIECES[dice.below(PIECES.len())]).collect();
            configuration(&text);
        }
    }
}
