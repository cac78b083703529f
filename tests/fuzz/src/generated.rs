//! Runs a target on its seeds, on what libFuzzer stored, and on generated inputs.
//!
//! A generated input is a seed with edits, a sequence of words of the dictionary, or any bytes. The
//! inputs are the same in every run; `PROPTEST_RNG_SEED=2` takes others, and
//! `PROPTEST_CASES=1000000` more. The input that breaks a target is shrunk, printed and stored.

use crate::FuzzTarget;
use proptest::collection::vec;
use proptest::prelude::{Strategy, any, prop_oneof};
use proptest::sample::{Index, select};
use proptest::test_runner::{Config, RngSeed, TestError, TestRunner};
use std::env;
use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

/// How many seeds a test runs as they are, evenly chosen; libFuzzer runs all of them.
const SEEDS_MAX: usize = 100;

/// One change of an input.
#[derive(Clone, Debug)]
enum Edit {
    Set(Index, u8),
    Remove(Index, usize),
    Insert(Index, Vec<u8>),
    Copy { from: Index, length: usize, to: Index },
    Truncate(Index),
}

impl Edit {
    fn apply(&self, data: &mut Vec<u8>) {
        let place = |index: &Index| index.index(data.len() + 1);
        match self {
            Self::Set(at, byte) => {
                let at = place(at);
                if let Some(old) = data.get_mut(at) {
                    *old = *byte;
                }
            }
            Self::Remove(at, length) => {
                let at = place(at);
                data.drain(at..data.len().min(at + length));
            }
            Self::Insert(at, bytes) => {
                let at = place(at);
                data.splice(at..at, bytes.iter().copied());
            }
            Self::Copy { from, length, to } => {
                let (from, to) = (place(from), place(to));
                let copy = data[from..data.len().min(from + length)].to_vec();
                data.splice(to..to, copy);
            }
            Self::Truncate(at) => data.truncate(place(at)),
        }
    }
}

fn edit(words: &[Vec<u8>]) -> impl Strategy<Value = Edit> + use<> {
    let at = any::<Index>;
    prop_oneof![
        3 => (at(), any::<u8>()).prop_map(|(at, byte)| Edit::Set(at, byte)),
        2 => (at(), select(words.to_vec())).prop_map(|(at, word)| Edit::Insert(at, word)),
        2 => (at(), 1..3usize).prop_map(|(at, length)| Edit::Remove(at, length)),
        1 => (at(), 3..40usize).prop_map(|(at, length)| Edit::Remove(at, length)),
        1 => (at(), 1..60usize, at())
            .prop_map(|(from, length, to)| Edit::Copy { from, length, to }),
        1 => at().prop_map(Edit::Truncate),
    ]
}

fn input(target: &FuzzTarget) -> impl Strategy<Value = Vec<u8>> + use<> {
    let mut words = crate::owned(target.dictionary);
    words.extend([vec![0], vec![0x7f], vec![0xff], b"\n".to_vec()]);
    let edited = (select((target.seeds)()), vec(edit(&words), 1..6)).prop_map(|(seed, edits)| {
        let mut data = seed;
        edits.iter().for_each(|edit| edit.apply(&mut data));
        data
    });
    let sequence = vec(select(words), 0..40).prop_map(|words| words.concat());
    prop_oneof![
        16 => edited,
        3 => sequence,
        1 => vec(any::<u8>(), 0..600),
    ]
}

/// Fails with the smallest input found that breaks the target.
pub(crate) fn check(name: &str, target: &FuzzTarget) {
    let seeds = (target.seeds)();
    let step = seeds.len().div_ceil(SEEDS_MAX).max(1);
    for data in seeds.into_iter().step_by(step).chain(stored(name)) {
        if catch_unwind(|| (target.check)(&data)).is_err() {
            fail(name, "an invariant is broken", &data);
        }
    }
    let mut config = Config { failure_persistence: None, ..Config::default() };
    // proptest's own number would be 256.
    let asked = env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    config.cases = target.cases.max(asked.unwrap_or(0));
    config.max_shrink_iters = 10_000;
    if config.rng_seed == RngSeed::Random {
        config.rng_seed = RngSeed::Fixed(1);
    }
    let result = TestRunner::new(config).run(&input(target), |data| {
        (target.check)(&data);
        Ok(())
    });
    match result {
        Ok(()) => {}
        Err(TestError::Fail(reason, data)) => fail(name, reason.message(), &data),
        Err(TestError::Abort(reason)) => panic!("{name}: {reason}"),
    }
}

/// What libFuzzer and failed tests stored here.
fn stored(name: &str) -> impl Iterator<Item = Vec<u8>> {
    let files =
        ["artifacts", "corpus"].map(|kind| fs::read_dir(fuzz_directory().join(kind).join(name)));
    let entries = files.into_iter().flatten().flatten();
    entries.map(|entry| fs::read(entry.expect("a directory entry").path()).expect("a stored input"))
}

fn fuzz_directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

fn fail(name: &str, reason: &str, data: &[u8]) -> ! {
    let directory = fuzz_directory().join("artifacts").join(name);
    fs::create_dir_all(&directory).expect("a directory for the input");
    let file = directory.join("generated");
    fs::write(&file, data).expect("the input is stored");
    panic!("{reason}\nbroken by b\"{}\"\nstored in {}", data.escape_ascii(), file.display());
}

#[test]
fn a_broken_invariant_is_found_and_its_input_is_shrunk_and_stored() {
    let target = FuzzTarget {
        check: |data| assert!(!data.contains(&b'#'), "a number sign"),
        seeds: || crate::owned(&["GET /a HTTP/1.1\r\n\r\n"]),
        dictionary: &["#"],
        cases: 1000,
    };
    let name = "test-of-the-generator";
    let payload = catch_unwind(|| check(name, &target)).expect_err("the invariant is broken");
    let message = payload.downcast::<String>().expect("a formatted message");
    let directory = fuzz_directory().join("artifacts").join(name);
    let stored = fs::read(directory.join("generated")).expect("the input is stored");
    fs::remove_dir_all(directory).expect("the directory is removed");
    assert!(stored.contains(&b'#') && stored.len() <= 20, "{}", stored.escape_ascii());
    assert!(message.contains("a number sign") && message.contains("stored in"), "{message}");
}
