//! Readiness reported by tokio.

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::task::{Context, Poll};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::Side;

/// A descriptor of this worker's event loop.
#[derive(Debug)]
pub(crate) struct Source {
    io: AsyncFd<OwnedFd>,
    /// Directions that count as ready regardless of tokio, until an operation returns `WouldBlock`.
    assumed: [Cell<bool>; 2],
}

impl Source {
    /// The descriptor must be non-blocking.
    pub(crate) fn new(descriptor: OwnedFd) -> io::Result<Source> {
        // SAFETY: an `OwnedFd` names one open descriptor as long as it lives, and this one is never
        // exchanged.
        let source = unsafe { AsyncFd::register(descriptor) };
        let io = source.map_err(|error| error.into_parts().1)?;
        Ok(Source { io, assumed: Default::default() })
    }

    /// Registers a descriptor whose state is known: the first attempt does not wait for the event
    /// loop.
    pub(crate) fn assuming(sides: &[Side], descriptor: OwnedFd) -> io::Result<Source> {
        let source = Source::new(descriptor)?;
        for side in sides {
            source.assumed[*side as usize].set(true);
        }
        Ok(source)
    }

    /// Registers a descriptor that may have duplicates; nothing else has to be done here.
    pub(crate) fn shared(descriptor: OwnedFd) -> io::Result<Source> {
        Source::new(descriptor)
    }

    pub(crate) fn raw(&self) -> RawFd {
        self.io.as_raw_fd()
    }

    /// Removes the descriptor from the event loop.
    pub(crate) fn into_descriptor(self) -> OwnedFd {
        self.io.into_inner()
    }

    /// Runs `operation` if it may succeed; `WouldBlock` marks the direction as not ready.
    pub(crate) fn try_io<R>(
        &self,
        side: Side,
        operation: impl FnOnce() -> io::Result<R>,
    ) -> io::Result<R> {
        let assumed = &self.assumed[side as usize];
        if assumed.get() {
            let result = operation();
            let blocked = |error: &io::Error| error.kind() == io::ErrorKind::WouldBlock;
            assumed.set(!result.as_ref().is_err_and(blocked));
            return result;
        }
        let interest = match side {
            Side::Read => Interest::READABLE,
            Side::Write => Interest::WRITABLE,
        };
        self.io.try_io(interest, |_| operation())
    }

    /// Ready when the direction may be used; registers the task otherwise.
    pub(crate) fn poll_ready(&self, side: Side, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.assumed[side as usize].get() {
            return Poll::Ready(Ok(()));
        }
        match side {
            Side::Read => self.io.poll_read_ready(cx).map_ok(drop),
            Side::Write => self.io.poll_write_ready(cx).map_ok(drop),
        }
    }

    /// Completes once the connection has failed.
    pub(crate) async fn failed(&self) {
        // An error of the call means that the event loop ends.
        let _ = self.io.ready(Interest::ERROR).await;
    }
}

impl AsFd for Source {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.io.as_fd()
    }
}

/// Nothing to poll: tokio does it.
#[derive(Debug, Default)]
pub(crate) struct Watch;

impl Watch {
    pub(crate) fn poll_now(&self) -> usize {
        0
    }

    pub(crate) fn poll_events(&self, _: &mut Context<'_>) -> Poll<usize> {
        Poll::Pending
    }
}
