//! Frames between gateway and application: what must hold for any input is written in
//! crates/wire/tests/invariants.rs.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidegate_fuzz::wire::frames(data));
