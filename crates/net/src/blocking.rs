//! Work that may wait for a disk or a processor, off the worker's loop.
//!
//! Owns the way onto the worker's pool of blocking threads (their number is a limit of `worker`).
//! Promises that a worker goes on meanwhile. Dropping the future does not stop the work; its result
//! is dropped with it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::task::JoinHandle;

/// The result to come; an error if the work panicked or the worker ends.
#[derive(Debug)]
pub struct Blocking<T>(JoinHandle<T>);

/// Runs `work` on the pool.
pub fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Blocking<T> {
    Blocking(tokio::task::spawn_blocking(work))
}

impl<T> Future for Blocking<T> {
    type Output = io::Result<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        Pin::new(&mut self.0).poll(cx).map_err(io::Error::other)
    }
}

#[cfg(test)]
mod tests {
    use super::blocking;

    #[test]
    fn work_runs_on_another_thread_and_may_panic() {
        crate::worker::block_on_local(async {
            let here = std::thread::current().id();
            let there = blocking(|| std::thread::current().id()).await.unwrap();
            assert_ne!(here, there);
            assert!(blocking(|| panic!("a bug")).await.is_err());
        });
    }
}
