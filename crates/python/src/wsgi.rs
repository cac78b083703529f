//! WSGI (PEP 3333): exchanges from the desk, the application's threads, their answers.
//!
//! ```text
//!  alarm ─▶ a thread that sleeps ─▶ app(environ, start_response) ─▶ the next, with the GIL in hand
//!  watch ─▶ another thread, while what waits finds all of them blocked
//! ```
//!
//! Promises all of PEP 3333; that an application which only computes is run by one thread, and one
//! that waits for others by as many as that takes; and that no thread waits for a client while a
//! body comes.

mod body;
mod crew;
mod environ;
mod file;
mod functions;
mod input;
mod limits;
mod reply;
mod seat;
mod server;
mod start;
mod text;
mod watch;

pub use crew::Crew;
pub use server::{Application, Server};
