//! The rules against a corpus: how many attacks they find, and how many ordinary inputs they
//! reject.
//!
//! The guide prints both figures.

use waf::{Part, Scanner};

/// The threshold that is the default.
const THRESHOLD: u32 = 5;

fn score(input: &str) -> (u32, Vec<&'static str>) {
    let mut scanner = Scanner::new();
    scanner.inspect(Part::Argument, b"q", input.as_bytes());
    let names = scanner.verdict.matched.iter().map(|at| waf::RULES[*at].name);
    (scanner.verdict.score, names.collect())
}

fn lines(text: &str) -> Vec<&str> {
    text.lines().filter(|line| !line.is_empty()).collect()
}

#[test]
fn ordinary_inputs_are_not_rejected() {
    let ordinary = lines(include_str!("corpus/ordinary.txt"));
    let wrong: Vec<_> = ordinary
        .iter()
        .map(|input| (input, score(input)))
        .filter(|(_, (score, _))| *score >= THRESHOLD)
        .collect();
    assert!(wrong.is_empty(), "{} of {}: {wrong:#?}", wrong.len(), ordinary.len());
}

#[test]
fn attacks_are_found() {
    let attacks = lines(include_str!("corpus/attacks.txt"));
    let missed: Vec<_> = attacks
        .iter()
        .map(|input| (input, score(input)))
        .filter(|(_, (score, _))| *score < THRESHOLD)
        .collect();
    let share = 100 * missed.len() / attacks.len();
    assert!(share < 5, "{} of {} missed: {missed:#?}", missed.len(), attacks.len());
}
