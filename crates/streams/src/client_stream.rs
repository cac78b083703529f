//! The client's side of a stream, as the tunnel uses it.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use message::Duplex;
use net::{Outgoing, Stream};

use crate::metrics::StreamMetrics;

/// Bytes of one stream.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    pub(crate) received: Cell<u64>,
    pub(crate) sent: Cell<u64>,
}

impl Traffic {
    /// Counts bytes from the client, also in the totals.
    pub(crate) fn count_received(&self, bytes: u64, totals: &StreamMetrics) {
        self.received.set(self.received.get() + bytes);
        totals.received.add(bytes);
        totals.worker.bytes_received.add(bytes);
    }

    /// Counts bytes to the client, also in the totals.
    pub(crate) fn count_sent(&self, bytes: u64, totals: &StreamMetrics) {
        self.sent.set(self.sent.get() + bytes);
        totals.sent.add(bytes);
        totals.worker.bytes_sent.add(bytes);
    }
}

pub(crate) struct ClientStream {
    pub(crate) stream: Rc<Stream>,
    /// Received before the upstream was chosen.
    pub(crate) early: Bytes,
    /// Accepted by the tunnel and not yet by the socket.
    pub(crate) outgoing: Outgoing,
    pub(crate) traffic: Rc<Traffic>,
    pub(crate) metrics: Rc<StreamMetrics>,
}

impl Duplex for ClientStream {
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        let chunk = if self.early.is_empty() {
            ready!(self.stream.poll_receive(cx))?
        } else {
            std::mem::take(&mut self.early)
        };
        self.traffic.count_received(chunk.len() as u64, &self.metrics);
        Poll::Ready(Ok(chunk))
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, chunk: &mut Bytes) -> Poll<io::Result<()>> {
        self.outgoing.push(std::mem::take(chunk));
        while !self.outgoing.is_empty() {
            let sent = ready!(self.stream.poll_send(cx, &mut self.outgoing))? as u64;
            self.traffic.count_sent(sent, &self.metrics);
        }
        Poll::Ready(Ok(()))
    }

    fn finish(&mut self) {
        self.stream.finish();
    }
}
