//! The server's side of a tunnel on a stream (RFC 8441).

use std::io;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use message::Takeover;
use message::duplex::Duplex;
use message::http2::Chunk;

use super::exchange::{Http2Exchange, Piece};
use crate::tunnel::relay;

/// The tunnel between client and server. Its end resets the stream unless both sides have finished.
pub(super) fn tunnel(exchange: Box<Http2Exchange>) -> Takeover {
    Box::new(move |client| {
        Box::pin(async move {
            let idle = exchange.options.tunnel_idle;
            let counted = Some(exchange.lease.worker_metrics());
            relay(client, &mut StreamDuplex(exchange), Bytes::new(), idle, counted).await
        })
    })
}

struct StreamDuplex(Box<Http2Exchange>);

impl Duplex for StreamDuplex {
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        Poll::Ready(match ready!(self.0.poll_piece(cx, false)) {
            Ok(Piece::Data(data)) => Ok(data),
            Ok(Piece::Trailers(_) | Piece::End) => Ok(Bytes::new()),
            Err(_) => Err(io::ErrorKind::ConnectionReset.into()),
        })
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, chunk: &mut Bytes) -> Poll<io::Result<()>> {
        let Http2Exchange { connection, stream, .. } = &*self.0;
        let mut protocol = connection.protocol.borrow_mut();
        if !chunk.is_empty() {
            let chunk = Chunk::Bytes(std::mem::take(chunk));
            let sent = protocol.send_data(stream.key(), chunk, false);
            sent.map_err(|_| io::ErrorKind::ConnectionReset)?;
            connection.wake();
        }
        if protocol.pending(stream.key()) > 0 {
            stream.register(cx);
            return Poll::Pending;
        }
        drop(protocol);
        connection.poll_room(cx).map(Ok)
    }

    fn finish(&mut self) {
        let Http2Exchange { connection, stream, .. } = &*self.0;
        let end = Chunk::Bytes(Bytes::new());
        // A stream that has ended needs no end.
        let _ = connection.protocol.borrow_mut().send_data(stream.key(), end, true);
        connection.wake();
    }
}
