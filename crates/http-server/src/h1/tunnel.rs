//! The client's side of an upgraded connection (extension point 3).

use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;

use super::connection_io::ConnectionIo;
use crate::listener_snapshot::Service;
use message::Duplex;

/// Holds the connection, but not the Plan: a tunnel outlives reloads.
pub(super) struct ClientDuplex {
    pub(super) io: Rc<ConnectionIo>,
    /// The connection's own, which lives as long as it does.
    pub(super) service: Rc<Service>,
}

impl Duplex for ClientDuplex {
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        self.io.poll_input(cx)
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, chunk: &mut Bytes) -> Poll<io::Result<()>> {
        if !chunk.is_empty() {
            self.io.out.borrow_mut().push(std::mem::take(chunk));
        }
        self.io.poll_flush(cx)
    }

    fn finish(&mut self) {
        self.io.stream.finish();
    }

    fn poll_draining(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.service.is_draining() {
            return Poll::Ready(());
        }
        // A drain nudges the tasks that this timer knows.
        self.io.read_timer.register(cx);
        Poll::Pending
    }
}
