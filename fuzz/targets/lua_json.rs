//! `encoding.json`: what must hold for any text is written in crates/lua-std/tests/invariants.rs.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidegate_fuzz::lua::json(data));
