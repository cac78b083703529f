//! The rules of the cache: what must hold for any fields is written in crates/cache/tests/rules.rs.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidegate_fuzz::cache_rules::cache_rules(data));
