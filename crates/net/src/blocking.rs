//! Work that may block on a disk or use the processor for long, off the worker's event loop.
//!
//! Owns access to the worker's pool of blocking threads (its size is a limit of `worker`). The
//! worker keeps running. Dropping the future does not stop the work; its result is dropped.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::task::JoinHandle;

/// The future result; an error if the work panicked or the worker ends.
#[derive(Debug)]
pub struct Blocking<T>(JoinHandle<T>);

/// Runs `work` on the pool of blocking threads.
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
    fn runs_on_another_thread_and_reports_a_panic() {
        crate::worker::block_on_local(async {
            let here = std::thread::current().id();
            let there = blocking(|| std::thread::current().id()).await.unwrap();
            assert_ne!(here, there);
            assert!(blocking(|| panic!("a bug")).await.is_err());
        });
    }
}
