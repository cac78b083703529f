//! Limits of sending a response, over any version of HTTP: the time that the client may take, and
//! the announced length.

use std::io;
use std::task::{Context, Poll};

use telemetry::{CloseReason, LimitHit};

use crate::allowance::Allowance;
use crate::connection::End;
use crate::h1::ConnectionIo;
use message::{Fault, Side, TransferTimeout};

/// Why a response did not reach its client.
pub(crate) enum SendError {
    Write(io::Error),
    WriteTimeout,
    /// Too many slow clients held connections of the server, and this one was the slowest.
    SlowClient,
    ClientGone,
    /// The body failed after the head was out.
    Body {
        fault: Box<Fault>,
        delimited: bool,
    },
}

impl SendError {
    pub(crate) fn reason(&self) -> CloseReason {
        match self {
            SendError::Write(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                CloseReason::ClientReset
            }
            SendError::Write(_) => CloseReason::WriteFailed,
            SendError::WriteTimeout => CloseReason::WriteTimeout,
            SendError::SlowClient => CloseReason::SlowClient,
            SendError::ClientGone => CloseReason::ClientGone,
            SendError::Body { fault, .. } => match fault.side() {
                Side::Upstream => CloseReason::UpstreamAborted,
                Side::Client => CloseReason::ClientGone,
                Side::Us => CloseReason::ResponseAborted,
            },
        }
    }

    /// Returns how the connection ends.
    pub(crate) fn end(&self) -> End {
        match self {
            // Without a length the close would be taken for the end of the body: only a reset
            // reports the error.
            SendError::Body { delimited: false, .. }
            | SendError::WriteTimeout
            | SendError::SlowClient => End::Abort(self.reason()),
            _ => End::Close(self.reason()),
        }
    }
}

/// Measures how fast the client reads the response.
pub(crate) struct WriteProgress {
    allowance: Allowance,
    /// The bytes that the kernel had taken at the last check.
    sent: u64,
    /// The bytes that the client's kernel had acknowledged at the last check.
    confirmed: u64,
}

impl WriteProgress {
    pub(crate) fn new(timeout: TransferTimeout) -> WriteProgress {
        WriteProgress { allowance: Allowance::new(timeout), sent: u64::MAX, confirmed: 0 }
    }

    /// The client has to take something: ready once it is too slow.
    pub(crate) fn poll(&mut self, io: &ConnectionIo, cx: &mut Context<'_>) -> Poll<SendError> {
        if io.sent.get() != self.sent {
            self.credit_confirmed(io);
        }
        let mut again = self.allowance.wait();
        let rate = self.allowance.slow_rate();
        if rate.is_some() || self.allowance.is_over() {
            // The socket becomes writable only after a good part of its buffer is free: a client
            // that reads slowly still makes progress.
            self.credit_confirmed(io);
            again = self.allowance.wait();
        }
        if self.allowance.is_over() {
            io.metrics.hit(LimitHit::SlowReader);
            return Poll::Ready(SendError::WriteTimeout);
        }
        if rate.is_some_and(|rate| io.held.must_give_way(rate, &io.metrics)) {
            return Poll::Ready(SendError::SlowClient);
        }
        io.write_timer.set_at(again);
        // Never ready, because its time is in the future. This registers the task.
        io.write_timer.poll(cx).map(|()| SendError::WriteTimeout)
    }

    /// The client has nothing to take.
    pub(crate) fn stop(&mut self) {
        self.allowance.stop();
    }

    /// Credits the client with what it has confirmed.
    fn credit_confirmed(&mut self, io: &ConnectionIo) {
        self.sent = io.sent.get();
        let confirmed = self.sent.saturating_sub(io.stream.unacknowledged() as u64);
        self.allowance.credit(confirmed.saturating_sub(self.confirmed));
        self.confirmed = self.confirmed.max(confirmed);
    }
}

/// Counts the content of a body against the length that its head announced.
pub(crate) struct ContentCount {
    announced: Option<u64>,
    pub(crate) sent: u64,
}

impl ContentCount {
    pub(crate) fn new(announced: Option<u64>) -> ContentCount {
        ContentCount { announced, sent: 0 }
    }

    pub(crate) fn add(&mut self, length: u64) -> Result<(), Fault> {
        self.sent += length;
        match self.announced {
            Some(announced) if self.sent > announced => {
                Err(Fault::internal("a body was longer than announced"))
            }
            _ => Ok(()),
        }
    }

    /// The body has ended.
    pub(crate) fn end(&self) -> Result<(), Fault> {
        match self.announced {
            Some(announced) if self.sent != announced => {
                Err(Fault::internal("a body was shorter than announced"))
            }
            _ => Ok(()),
        }
    }
}
