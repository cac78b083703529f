//! Any text gives a plan or mistakes: never a panic, never a refusal without a mistake.

use config::{Kinds, TextSource, load};

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
    let kinds = Kinds::all();
    let environment = |name: &str| (name == "HOME").then(|| "${HOME}".to_owned());
    let (mut plans, mut refusals) = (0, 0);
    for _ in 0..2000 {
        let text = mutated(&mut dice);
        match load(&TextSource::new("noise.yaml", &text), &environment, &kinds) {
            Ok(_) => plans += 1,
            Err(report) => {
                assert!(!report.is_empty(), "refused without a mistake:\n{text}");
                assert!(!report.render().is_empty());
                refusals += 1;
            }
        }
    }
    assert!(plans > 0 || refusals > 0);
}

#[test]
fn random_pieces_never_panic() {
    let mut dice = Dice(0xD1B5_4A32_D192_ED03);
    let kinds = Kinds::all();
    for _ in 0..3000 {
        let text: String = (0..dice.below(40)).map(|_| PIECES[dice.below(PIECES.len())]).collect();
        if let Err(report) = load(&TextSource::new("noise.yaml", &text), &|_| None, &kinds) {
            assert!(!report.render().is_empty(), "refused without a mistake:\n{text}");
        }
    }
}
