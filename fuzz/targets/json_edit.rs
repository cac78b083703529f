//! JSON bodies and edits: what must hold is written in crates/json-filters/tests/invariants.rs.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidegate_fuzz::json_edit::json_edit(data));
