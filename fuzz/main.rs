//! Runs the fuzz target that the variable `FUZZ_TARGET` names; without it, prints their names.
//!
//! Its seeds are written into fuzz/corpus first, where libFuzzer begins.
#![no_main]

use fuzz_targets::{FuzzTarget, TARGETS};
use std::fs;
use std::path::Path;
use std::sync::OnceLock;

static TARGET: OnceLock<&FuzzTarget> = OnceLock::new();

libfuzzer_sys::fuzz_target!(init: choose(), |data: &[u8]| {
    (TARGET.get().expect("a target is chosen before the first input").check)(data);
});

fn choose() {
    let Ok(name) = std::env::var("FUZZ_TARGET") else {
        TARGETS.iter().for_each(|(name, _)| println!("{name}"));
        std::process::exit(0);
    };
    let Some((_, target)) = TARGETS.iter().find(|(other, _)| *other == name) else {
        eprintln!("FUZZ_TARGET={name}: there is no such target");
        std::process::exit(2);
    };
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(&name);
    fs::create_dir_all(&corpus).expect("a directory for the corpus");
    for (number, seed) in (target.seeds)().iter().enumerate() {
        fs::write(corpus.join(format!("seed-{number}")), seed).expect("a seed is written");
    }
    let _ = TARGET.set(target);
}
