//! Readiness of sockets.
//!
//! Owns the descriptors registered with a worker's event loop and their known readiness. On Linux
//! each worker has its own epoll instance, so that an event costs no lock and no atomic operation;
//! elsewhere tokio reports readiness (slower, never wrong). The portable side is compiled and
//! tested on Linux too. Guarantees: an operation is tried only while it may succeed, readiness that
//! was not consumed is remembered, and a waiter is woken once per wait.

#[cfg(target_os = "linux")]
mod epoll;
#[cfg(any(test, not(target_os = "linux")))]
mod portable;
#[cfg(test)]
mod tests;

#[cfg(target_os = "linux")]
pub(crate) use epoll::{Source, Watch};
#[cfg(not(target_os = "linux"))]
pub(crate) use portable::{Source, Watch};

/// A direction of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Read = 0,
    Write = 1,
}
