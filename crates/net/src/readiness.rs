//! When a socket may be read or written.
//!
//! Owns descriptors that take part in a worker's event loop and what is known of their readiness.
//! On Linux each worker has an epoll of its own, so that an event costs no lock and no atomic step;
//! elsewhere tokio tells (slower, never wrong). The portable side is compiled and tested on Linux
//! too. Promises that an operation is tried only while it may succeed, that readiness which was not
//! used up is kept, and that a waiter is woken once for each time that it waits.

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

/// A direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Read = 0,
    Write = 1,
}
