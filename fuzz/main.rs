//! Runs the fuzz target that the variable `FUZZ_TARGET` named when this was built.
//!
//! No other target is linked: after each input libFuzzer reads the counters of the whole program,
//! which takes longer than most parsers. The seeds are written into fuzz/corpus, where it begins.
#![no_main]

use fuzz_targets::{FuzzTarget, TARGETS};
use std::fs;
use std::path::Path;

const NAME: &str = env!("FUZZ_TARGET");
const TARGET: FuzzTarget = find(NAME);

libfuzzer_sys::fuzz_target!(init: write_seeds(), |data: &[u8]| (TARGET.check)(data));

const fn find(name: &str) -> FuzzTarget {
    let mut at = 0;
    while at < TARGETS.len() {
        if is_same(TARGETS[at].0.as_bytes(), name.as_bytes()) {
            return TARGETS[at].1;
        }
        at += 1;
    }
    panic!("FUZZ_TARGET is the name of no target")
}

/// Slices cannot be compared by `==` while compiling.
const fn is_same(a: &[u8], b: &[u8]) -> bool {
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

fn write_seeds() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(NAME);
    fs::create_dir_all(&corpus).expect("a directory for the corpus");
    for (number, seed) in (TARGET.seeds)().iter().enumerate() {
        fs::write(corpus.join(format!("seed-{number}")), seed).expect("a seed is written");
    }
}
