//! The client's side of a tunnel on a stream (RFC 8441; extension point 3).
//!
//! An extended CONNECT for WebSocket is converted to the upgrade request of HTTP/1.1, so that
//! routes, filters and handlers handle one form. Its 101 becomes a 200.

use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use message::http2::Chunk;
use wire::{Known, Method};

use super::stream::{Piece, Stream};
use message::{Duplex, Fault, FaultKind, Request, Response};

/// The protocol of an extended CONNECT that is served.
pub(super) const WEBSOCKET: &[u8] = b"websocket";

/// Makes it the request for an upgrade.
pub(super) fn request_upgrade(request: &mut Request) {
    request.method = Method::Get;
    request.upgrade = true;
    let headers = &mut request.headers;
    headers.append(Known::Connection, "Upgrade");
    headers.append(Known::Upgrade, WEBSOCKET);
    // RFC 8441 5: not part of the client's handshake; the servers of HTTP/1.1 demand one.
    headers
        .set(Known::SecWebSocketKey, wire::websocket::encode_key(fastrand::u128(..).to_ne_bytes()));
}

/// Makes it the response that accepts the tunnel.
pub(super) fn accept(response: &mut Response) {
    response.status = 200;
    response.headers.remove(Known::SecWebSocketAccept);
}

/// The fault of a response that does not switch protocols and whose status would say that it does:
/// a 2xx opens the tunnel of a CONNECT (RFC 9110 9.3.6).
#[cold]
pub(super) fn not_opened(request: &Request) -> Fault {
    match &request.notes.upstream {
        Some(_) => {
            let detail = "the server responded to the request for a WebSocket without opening it";
            Fault::new(FaultKind::UpgradeFailed, detail)
        }
        None => Fault::new(FaultKind::ConnectRefused, "the route opens no WebSockets"),
    }
}

pub(super) struct StreamDuplex {
    stream: Rc<Stream>,
    is_finished: bool,
}

impl StreamDuplex {
    pub(super) fn new(stream: Rc<Stream>) -> StreamDuplex {
        StreamDuplex { stream, is_finished: false }
    }
}

impl Duplex for StreamDuplex {
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        Poll::Ready(match ready!(self.stream.poll_piece(cx)) {
            Piece::Data(data) => Ok(data),
            Piece::Trailers(_) | Piece::End => Ok(Bytes::new()),
            Piece::Gone => Err(io::ErrorKind::ConnectionReset.into()),
        })
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, chunk: &mut Bytes) -> Poll<io::Result<()>> {
        loop {
            if ready!(self.stream.poll_sent(cx)).is_err() {
                return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
            }
            if chunk.is_empty() {
                return Poll::Ready(Ok(()));
            }
            self.stream.send(Chunk::Bytes(std::mem::take(chunk)), false);
        }
    }

    fn finish(&mut self) {
        if !std::mem::replace(&mut self.is_finished, true) {
            self.stream.send(Chunk::Bytes(Bytes::new()), true);
        }
    }

    fn poll_draining(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.stream.connection.service.is_draining() {
            return Poll::Ready(());
        }
        // The driver notifies every exchange of a drain. That the client has gone is none.
        let _ = self.stream.poll_gone(cx);
        Poll::Pending
    }
}
