//! The server's side of a tunnel that has a connection of its own.

use std::io;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;

use crate::pool::Lease;
use crate::tunnel::relay;
use crate::upgrade::Upgrade;
use message::duplex::{Duplex, Ending, Takeover};

/// The tunnel between client and server; `early` are bytes that the server sent after its head. The
/// messages of a WebSocket are counted.
pub fn tunnel(lease: Lease, early: Bytes, idle: Duration, upgrade: Upgrade) -> Takeover {
    Box::new(move |client| {
        Box::pin(async move {
            let counted = (upgrade == Upgrade::WebSocket).then(|| lease.worker_metrics());
            let mut server = ServerDuplex(lease);
            let ending = relay(client, &mut server, early, idle, counted).await;
            if ending == Ending::ClientGone {
                // An ordinary close would tell the server that it has received everything.
                server.0.connection().stream.reset_on_close();
            }
            ending
        })
    })
}

struct ServerDuplex(Lease);

impl Duplex for ServerDuplex {
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        self.0.connection().stream.poll_receive(cx)
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, chunk: &mut Bytes) -> Poll<io::Result<()>> {
        let connection = self.0.connection_mut();
        if !chunk.is_empty() {
            connection.outgoing.push(std::mem::take(chunk));
        }
        while !connection.outgoing.is_empty() {
            ready!(connection.stream.poll_send(cx, &mut connection.outgoing))?;
        }
        Poll::Ready(Ok(()))
    }

    fn finish(&mut self) {
        self.0.connection().stream.finish();
    }
}
