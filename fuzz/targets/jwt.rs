//! Signed tokens and key sets: what must hold for any input is in crates/auth/tests/tokens.rs.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidegate_fuzz::tokens::token(data));
