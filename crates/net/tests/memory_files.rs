//! Memory files leave half of the descriptors to others. The only test of its process, because it
//! lowers the process's limit.

#![cfg(target_os = "linux")]

use std::io::Write;

use rustix::process::{Resource, Rlimit, setrlimit};

const DESCRIPTORS: u64 = 200;

#[test]
fn half_of_the_descriptors_stay_free() {
    let limit = Rlimit { current: Some(DESCRIPTORS), maximum: Some(DESCRIPTORS) };
    setrlimit(Resource::Nofile, limit).unwrap();
    let make = || net::memory_file(|file| file.write_all(b"content"));
    let made: Vec<_> = std::iter::from_fn(|| make().ok()).take(200).collect();
    assert!((50..=100).contains(&made.len()), "{}", made.len());
    let others: Vec<_> = (0..90).map(|_| std::fs::File::open("/dev/null").unwrap()).collect();
    drop((made, others));
    assert!(make().is_ok());
}
