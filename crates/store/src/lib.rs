//! What the processes of an application share: keys and values with an end to their time, and
//! channels of messages.
//!
//! Owns the store itself ([`Space`]), the small server of RESP on a Unix socket that gives it to
//! other processes ([`Store`]), and the client of it ([`Client`]), which has the same calls for a
//! store in its own process. Promises bounded memory everywhere, that a publisher never waits for a
//! listener, and that a slow command delays nobody but who shares the store: it has a thread of its
//! own. Never writes to disk; what is in it is gone with the process that holds it.

pub mod client;
mod commands;
mod connection;
pub mod hub;
pub mod limits;
pub mod mailbox;
pub mod map;
mod meters;
mod outlet;
mod server;
mod session;
mod space;
pub mod value;

pub use client::{Answer, Client, Failure, Outcome, Request, Subscription, Waiting};
pub use mailbox::{Mailbox, Message, Shut};
pub use meters::Meters;
pub use server::Store;
pub use space::Space;
pub use value::Value;
