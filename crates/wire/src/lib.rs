//! Protocols without sockets: bytes in, facts out.
//!
//! Owns the syntax of HTTP/1, of the header fields other rooms reason about, and of the frames
//! between a gateway and applications. Promises to allocate only where a result needs it, to bound
//! everything a peer can make grow, and to give the same verdict however the bytes were split.
//! Never reads a socket or a clock: time is passed in.

pub mod alias;
pub mod authority;
pub mod authorization;
pub mod conditional;
pub mod cookie;
pub mod date;
pub mod forwarded;
pub mod frames;
pub mod h1;
pub mod negotiate;
pub mod range;
pub mod resp;
pub mod structured;
pub mod target;
pub mod token;
pub mod websocket;

mod known;
mod method;
mod reject;

pub use known::Known;
pub use method::{Method, Version};
pub use reject::Reject;
