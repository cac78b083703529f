//! Both sides of an HTTP/2 connection: what must hold for any input is written in
//! crates/wire/tests/h2.rs.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidegate_fuzz::h2::connection(data));
