//! The client's side of an upgraded connection (seam 3).

use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;

use super::connection_io::ConnectionIo;
use super::listener_snapshot::Service;
use crate::Duplex;

/// Holds the connection, but not the Plan: a tunnel outlives reloads.
pub(super) struct ClientDuplex {
    pub(super) wire: Rc<ConnectionIo>,
    /// The connection's own, which lives as long as it does.
    pub(super) service: Rc<Service>,
}

impl Duplex for ClientDuplex {
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        self.wire.poll_input(cx)
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, chunk: &mut Bytes) -> Poll<io::Result<()>> {
        if !chunk.is_empty() {
            self.wire.out.borrow_mut().push(std::mem::take(chunk));
        }
        self.wire.poll_flush(cx)
    }

    fn finish(&mut self) {
        self.wire.stream.finish();
    }

    fn poll_draining(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.service.is_draining() {
            return Poll::Ready(());
        }
        // A drain nudges the tasks that this timer knows.
        self.wire.read_timer.register(cx);
        Poll::Pending
    }
}
