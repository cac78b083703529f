//! Configurations: what must hold for any text is written in crates/config/tests/invariants.rs.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| tidegate_fuzz::config::configuration(text));
