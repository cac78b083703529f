//! The head of a request as it goes to a server (RFC 9113 8.3.1, RFC 8441 4).

use std::cell::RefCell;

use message::{Body, Fault, FaultKind, Request, Retry};
use wire::h2::{Field, RequestLine, StreamKey, Unavailable};
use wire::{Known, Method, websocket};

use super::connection::Http2Connection;
use crate::faults;
use crate::h1::{Call, RequestFraming, write_head};
use crate::limits::KEPT_SCRATCH;
use crate::upgrade::Upgrade;

thread_local! {
    /// Where heads are written: one buffer per worker.
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Sends the head of a request, which opens its stream. It is written as for HTTP/1.1, so that both
/// versions send the same fields; those of a connection of HTTP/1.1 are left out by the protocol.
pub(super) fn send_head(
    connection: &Http2Connection,
    request: &Request,
    body: &Body,
    call: &Call<'_>,
) -> Result<StreamKey, Fault> {
    let is_tunnel = Upgrade::of(request) == Upgrade::WebSocket;
    if is_tunnel && accept_key(request).is_none() {
        let detail = "Sec-WebSocket-Key is not 16 bytes in Base64";
        return Err(Fault::new(FaultKind::WebSocketKey, detail));
    }
    SCRATCH.with_borrow_mut(|scratch| {
        scratch.clear();
        write_head(scratch, request, RequestFraming::of(request, body), call);
        let mut lines = scratch.split(|byte| *byte == b'\n').skip(1).filter_map(split_line);
        let (_, authority) = lines.next().unwrap_or_default();
        let line = RequestLine {
            method: if is_tunnel { &Method::Connect } else { &request.method },
            secure: connection.is_secure,
            authority,
            path: request.target.raw(),
            protocol: is_tunnel.then_some(b"websocket"),
        };
        let fields = lines
            .map(|(name, value)| Field { known: Known::from_bytes(name), name, value })
            // RFC 8441 5: the key is not used.
            .filter(|field| !(is_tunnel && field.known == Some(Known::SecWebSocketKey)));
        let ends = body.length() == Some(0) && !is_tunnel;
        let opened = connection.protocol.borrow_mut().request(line, fields, ends);
        if scratch.capacity() > KEPT_SCRATCH {
            *scratch = Vec::new();
        }
        opened.map_err(|unavailable| match unavailable {
            Unavailable::NoExtendedConnect => faults::no_websocket(),
            Unavailable::Busy | Unavailable::Ending => {
                let detail = "the connection takes no more requests";
                Fault::new(FaultKind::ConnectionTerminated, detail).with_retry(Retry::Unsent)
            }
        })
    })
}

/// What a client of HTTP/1.1 expects in the response to its upgrade.
pub(super) fn accept_key(request: &Request) -> Option<String> {
    websocket::accept_key(request.headers.get(Known::SecWebSocketKey)?)
}

/// Name and value of a line that ends with CR.
fn split_line(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let line = line.strip_suffix(b"\r")?;
    let colon = line.iter().position(|byte| *byte == b':')?;
    Some((&line[..colon], line[colon + 1..].trim_ascii()))
}
