//! The page that says what of Silly runs here names tests that exist, and nothing is done without.

use std::fs;
use std::path::Path;

/// A row: feature, state, proof.
fn rows(page: &str) -> Vec<[&str; 3]> {
    page.lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| feature"))
        .map(|line| {
            let mut cells = line.trim_matches('|').split(" | ").map(str::trim);
            std::array::from_fn(|_| cells.next().unwrap_or_default())
        })
        .collect()
}

/// Each file and test of a proof: `path`: `test`, `test`; `path`: `test`. Remarks stand behind a
/// full stop.
fn proofs(text: &str) -> Vec<(&str, &str)> {
    let proof = text.split_once(". ").map_or(text, |(proof, _)| proof);
    let words: Vec<&str> = proof.split('`').skip(1).step_by(2).collect();
    let mut file = None;
    let mut proofs = Vec::new();
    for word in words {
        match (word.ends_with(".rs"), file) {
            (true, _) => file = Some(word),
            (false, Some(file)) => proofs.push((file, word)),
            (false, None) => {}
        }
    }
    proofs
}

#[test]
fn every_test_that_is_named_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let page = fs::read_to_string(root.join("docs/guide/lua/compatibility.md")).expect("the page");
    let rows = rows(&page);
    assert!(rows.len() >= 40, "{} rows", rows.len());
    let mut wrong = Vec::new();
    for [feature, state, proof] in rows {
        let proofs = proofs(proof);
        match state {
            "done" if proofs.is_empty() => wrong.push(format!("{feature}: no test")),
            "done" => {}
            "later" => continue,
            other => wrong.push(format!("{feature}: {other:?} is not a state")),
        }
        for (file, test) in proofs {
            let text = fs::read_to_string(root.join(file)).unwrap_or_default();
            if !text.contains(&format!("fn {test}(")) {
                wrong.push(format!("{feature}: {file} has no {test}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
