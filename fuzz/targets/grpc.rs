//! gRPC: what must hold for any input is written in crates/wire/tests/grpc.rs.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidegate_fuzz::grpc::protocol(data));
