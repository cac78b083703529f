//! Structured fields: what must hold for any value is written in crates/wire/tests/structured.rs.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidegate_fuzz::structured::structured_field(data));
