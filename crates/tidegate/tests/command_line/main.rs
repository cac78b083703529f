//! The command line from outside: the built binary, its words, its exit codes, and whether what it
//! starts answers.
#![allow(clippy::disallowed_types, reason = "the client side of a test opens its own sockets")]
#![allow(clippy::unwrap_used, reason = "what surrounds the tests is part of them")]

#[cfg(feature = "bench")]
mod bench;
mod caching;
mod checking;
mod demo;
mod documents;
mod examples;
mod importing;
mod lua;
mod other_servers;
mod process;
mod running;
mod serving;
mod talking;
mod words;
