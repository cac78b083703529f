//! Frames of a WebSocket: what must hold for any input is in crates/wire/tests/invariants.rs.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidegate_fuzz::wire::websocket(data));
