//! docs/reference/cache-rules.md names every test of a rule, and no test that does not exist.

#![allow(clippy::unwrap_used)] // clippy knows test functions as such, and not their helpers

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Names of tests that begin with a section.
fn is_of_a_section(name: &str) -> bool {
    let after = |prefix: &str| name.strip_prefix(prefix).and_then(|rest| rest.chars().next());
    let numbered = ["s", "rfc", "no_vary_search_s"];
    numbered.iter().any(|prefix| after(prefix).is_some_and(|first| first.is_ascii_digit()))
}

fn functions(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            functions(&path, found);
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        for line in text.lines() {
            if let Some(rest) = line.trim_start().strip_prefix("fn ")
                && let Some((name, _)) = rest.split_once('(')
            {
                found.insert(name.to_owned());
            }
        }
    }
}

#[test]
fn every_rule_has_its_test_and_every_test_its_rule() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(here.join("../../docs/reference/cache-rules.md")).unwrap();
    let quoted: BTreeSet<&str> = page
        .lines()
        .filter(|line| line.starts_with('|'))
        .filter_map(|line| line.trim_end_matches('|').rsplit('|').next())
        .flat_map(|tests| tests.split('`').skip(1).step_by(2))
        .filter(|name| !name.contains('/'))
        .collect();
    let mut there = BTreeSet::new();
    functions(&here.join("src/rules/tests"), &mut there);
    functions(&here.join("tests/filling"), &mut there);
    let unknown: Vec<_> = quoted.iter().filter(|name| !there.contains(**name)).collect();
    assert!(unknown.is_empty(), "the page names tests that are not there: {unknown:?}");
    let missing: Vec<_> = there
        .iter()
        .filter(|name| is_of_a_section(name) && !quoted.contains(name.as_str()))
        .collect();
    assert!(missing.is_empty(), "the page does not name {missing:?}");
    assert!(quoted.len() > 100);
}
