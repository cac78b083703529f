//! Protocols without I/O: parsers and writers of bytes.
//!
//! Owns the syntax of HTTP/1, connections of HTTP/2, the header fields that other crates interpret,
//! the PROXY protocol, the first message of a TLS client, and the frames between a gateway and
//! applications. Guarantees: allocation only where a result needs it, bounds on everything a peer
//! can make grow, and the same result however the bytes were split. Never reads a socket or a
//! clock: time is passed in.

pub mod alias;
pub mod authority;
pub mod authorization;
pub mod cache_control;
pub mod charset;
pub mod client_hello;
pub mod conditional;
pub mod cookie;
pub mod date;
pub mod forwarded;
pub mod frames;
pub mod grpc;
pub mod h1;
pub mod h2;
pub mod mysql;
pub mod negotiate;
pub mod postgres;
pub mod proxy_protocol;
pub mod range;
pub mod resp;
pub mod target;
pub mod token;
pub mod trace_context;
pub mod websocket;

mod ip_text;
mod known;
mod method;
mod reject;

pub use ip_text::IpText;
pub use known::Known;
pub use method::{Method, Version};
pub use reject::Reject;
