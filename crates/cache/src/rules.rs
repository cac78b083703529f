//! The rules of a shared cache (RFC 9110, 9111, 5861, 9211, 9213, 9875), as pure functions.
//!
//! Heads, stored facts, a policy and the time go in; decisions come out. Nothing here has a clock, a
//! store or a socket, and nothing here waits.

mod meta;

pub use meta::{Flags, Meta, SearchRule, Vary};
