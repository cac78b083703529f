//! Route tables: what must hold for any is written in crates/router/tests/invariants.rs.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidegate_fuzz::router::route_table(data));
