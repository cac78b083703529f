//! The invariants that the targets check. They are among the tests of their crates, where `cargo
//! test` runs them on known inputs; here a fuzzer searches for inputs that break them.

#[path = "../crates/wire/tests/invariants.rs"]
pub mod wire;

#[path = "../crates/config/tests/invariants.rs"]
pub mod config;

#[path = "../crates/router/tests/invariants.rs"]
pub mod router;

#[path = "../crates/json-filters/tests/invariants.rs"]
pub mod json_edit;

#[path = "../crates/lua-std/tests/invariants.rs"]
pub mod lua;

#[path = "../crates/cache/tests/rules.rs"]
pub mod cache_rules;

#[path = "../crates/wire/tests/h2.rs"]
pub mod h2;

#[path = "../crates/wire/tests/preamble.rs"]
pub mod preamble;

#[path = "../crates/wire/tests/grpc.rs"]
pub mod grpc;

#[path = "../crates/auth/tests/tokens.rs"]
pub mod tokens;
