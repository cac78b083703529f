//! The rules against corpora: how many attacks they find, and how many ordinary inputs they reject.
//!
//! The guide prints the figures, which these tests pin. The rules were adjusted to the first corpus
//! of ordinary inputs and not to the second, which shows the rate to expect.

use waf::{Part, Scanner};

/// The threshold that is the default.
const THRESHOLD: u32 = 5;

fn score(input: &str) -> (u32, Vec<&'static str>) {
    let mut scanner = Scanner::default();
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
    assert_eq!((ordinary.len(), wrong.len()), (254, 0), "{wrong:#?}");
}

#[test]
fn the_second_corpus_has_the_rate_in_the_guide() {
    let ordinary: Vec<&str> = include_str!("corpus/second.txt").split("\n%%\n").collect();
    let rejected: Vec<_> = ordinary
        .iter()
        .map(|input| (input, score(input)))
        .filter(|(_, (score, _))| *score >= THRESHOLD)
        .collect();
    assert_eq!((ordinary.len(), rejected.len()), (114, 14), "{rejected:#?}");
}

#[test]
fn attacks_are_found() {
    let attacks = lines(include_str!("corpus/attacks.txt"));
    let missed: Vec<_> = attacks
        .iter()
        .map(|input| (input, score(input)))
        .filter(|(_, (score, _))| *score < THRESHOLD)
        .collect();
    assert_eq!((attacks.len(), missed.len()), (119, 1), "{missed:#?}");
}
