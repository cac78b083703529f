//! PROXY headers: what must hold for any input is written in crates/wire/tests/preamble.rs.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidegate_fuzz::preamble::proxy_header(data));
