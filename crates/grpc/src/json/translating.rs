//! A translation in progress: a large message is translated on the blocking pool, so that it does
//! not delay the worker.

use std::pin::Pin;
use std::task::{Context, Poll};

use net::Blocking;

/// A longer message is translated on the blocking pool.
const ON_WORKER_BYTES: usize = 64 * 1024;

/// The translation panicked, or the worker ends.
pub(super) struct Unfinished;

pub(super) enum Translating<T, E> {
    /// `None` once it was taken.
    Done(Option<Result<T, E>>),
    Elsewhere(Blocking<Result<T, E>>),
}

impl<T: Send + 'static, E: Send + From<Unfinished> + 'static> Translating<T, E> {
    /// Begins the translation of a message of that many bytes.
    pub(super) fn new(
        bytes: usize,
        translate: impl FnOnce() -> Result<T, E> + Send + 'static,
    ) -> Translating<T, E> {
        match bytes > ON_WORKER_BYTES {
            true => Translating::Elsewhere(net::blocking(translate)),
            false => Translating::Done(Some(translate())),
        }
    }

    /// The result; to be taken once.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<T, E>> {
        match self {
            Translating::Done(result) => {
                Poll::Ready(result.take().unwrap_or_else(|| Err(Unfinished.into())))
            }
            Translating::Elsewhere(work) => Pin::new(work)
                .poll(cx)
                .map(|result| result.unwrap_or_else(|_| Err(Unfinished.into()))),
        }
    }
}
