//! WSGI (PEP 3333): runs an application on a pool of threads that take requests from the queue.
//!
//! ```text
//!  queue ─▶ an idle thread ─▶ app(environ, start_response) ─▶ the next request, with the GIL held
//!  watcher ─▶ another thread, while requests wait and all running threads block
//! ```
//!
//! Or in greenlets: `greenlets.rs`.
//!
//! Promises all of PEP 3333; that an application which only computes runs on one thread, and one
//! that blocks on as many as it needs; and that no thread waits for a client's request body.

mod application;
mod body;
mod environ;
mod file;
mod functions;
mod greenlets;
mod input;
mod limits;
mod pool_thread;
mod reply;
mod server;
mod start;
mod text;
mod thread_pool;
mod watcher;

pub use greenlets::{GreenletRequest, GreenletServer};
pub use server::{AppOptions, Server};
pub use thread_pool::ThreadPool;
