//! The first message of TLS: what must hold for any input is in crates/wire/tests/preamble.rs.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidegate_fuzz::preamble::client_hello(data));
