//! ASGI 3 on one thread: exchanges from the desk, the application's coroutines, their answers.
//!
//! ```text
//!  bell ─▶ drain ─▶ slot (a Task for one request after another) ─▶ app(scope, receive, send)
//! ```
//!
//! Promises that the thread of the event loop is the only one of this process that the server lets
//! wait for the GIL; that a coroutine which never suspends is answered within the drain in which it
//! arrived, with its own context and inside of a Task; and that a drain gives the loop its turn
//! after a while, however much has arrived. The page is docs/design/python.md.

mod awaitable;
mod exchange;
mod failed;
mod functions;
mod guard;
mod messages;
mod parked;
pub(crate) mod probe;
mod scope;
mod send;
mod server;
mod slot;
mod talk;
mod traces;
mod wait;
mod waits;
mod websocket;

pub use send::ClientDisconnected;
pub use server::{Hosted, Server};
