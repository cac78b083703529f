//! The client's side of an upgraded connection (extension point 3).

use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use telemetry::CloseReason;

use super::connection_io::ConnectionIo;
use crate::access_log::TunnelEntry;
use crate::connection::Connection;
use crate::counted_tunnel;
use crate::listener_snapshot::Service;
use message::{Duplex, Ending, Takeover};

/// Gives a connection to what it was upgraded to.
pub(super) async fn run(
    connection: &Connection,
    takeover: Takeover,
    entry: Option<Box<TunnelEntry>>,
) -> CloseReason {
    let io = connection.io.clone();
    let duplex = ClientDuplex { io: io.clone(), service: connection.service.clone() };
    match counted_tunnel::run(duplex, takeover, entry, &io.metrics).await {
        Ending::Finished | Ending::OtherGone => CloseReason::UpgradeFinished,
        Ending::ClientGone => CloseReason::ClientGone,
        Ending::Idle => CloseReason::TunnelIdle,
    }
}

/// Holds the connection, but not the configuration: a tunnel outlives reloads.
struct ClientDuplex {
    io: Rc<ConnectionIo>,
    /// The connection's own, which lives as long as it does.
    service: Rc<Service>,
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
        // A drain wakes the tasks that this timer knows.
        self.io.read_timer.register(cx);
        Poll::Pending
    }
}
