//! ASGI 3 on one event loop: takes requests from the queue and runs the application's coroutines.
//!
//! ```text
//!  queue ─▶ drain ─▶ request loop (one Task for many requests) ─▶ app(scope, receive, send)
//! ```
//!
//! Promises that no other thread of this process waits for the GIL on behalf of the server; that a
//! request whose coroutine never suspends is complete within the drain in which it arrived, with
//! its own context and inside a Task; and that a drain yields to the event loop after a bounded
//! time, however many requests have arrived. See docs/design/python.md.

mod app_loop;
mod awaitable;
mod call_objects;
mod context;
mod coroutine;
mod disconnected;
mod exchange;
mod failed_awaitable;
mod functions;
mod guard;
mod header_pairs;
mod messages;
mod op_future;
mod pending_ops;
pub(crate) mod probe;
mod request_loop;
mod scope;
mod send;
mod server;
mod task_future;
mod tls_extension;
mod traces;
mod websocket;
mod websocket_send;

pub use disconnected::ClientDisconnected;
pub use server::{AppOptions, Server};
