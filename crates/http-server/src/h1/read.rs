//! Taking request heads from the input of a connection.

use std::future::poll_fn;
use std::io;
use std::task::Poll;

use bytes::Buf;
use telemetry::{CloseReason, LimitHit};
use wire::h1::{Framing, HeadLimits, parse_request};

use super::connection_io::ConnectionIo;
use super::respond;
use crate::build_request;
use crate::connection::Connection;
use crate::listener_snapshot::ListenerSnapshot;
use message::{Fault, FaultKind, Headers, Request};

/// Why no request head is to be expected.
pub(super) enum HeadError {
    /// The input is not a request, or was too late: it gets a response, and the connection ends.
    Rejected(Fault),
    /// The connection ends without a response.
    Ended(CloseReason),
}

impl From<Fault> for HeadError {
    fn from(fault: Fault) -> Self {
        HeadError::Rejected(fault)
    }
}

/// A request whose head has arrived.
pub(super) struct ReceivedRequest {
    pub(super) request: Box<Request>,
    /// How the body is delimited.
    pub(super) framing: Framing,
    /// The client waits for 100 Continue.
    pub(super) expects_continue: bool,
    pub(super) keep_alive: bool,
    /// Bytes of the head.
    length: usize,
}

/// Takes a head that is there in full. Part of one stays in the input, and so do bytes that are
/// none: they may be the preface of HTTP/2.
pub(super) fn take(
    connection: &Connection,
    snapshot: &ListenerSnapshot,
) -> Result<Option<ReceivedRequest>, HeadError> {
    let io: &ConnectionIo = &connection.io;
    let mut input = io.input.take();
    if !input.is_empty() {
        let taken = parse(&input, connection, snapshot);
        if let Ok(Some(received)) = &taken {
            input.advance(received.length);
        }
        io.unread(input);
        return Ok(taken?);
    }
    if io.drained.take() {
        return Ok(None);
    }
    let mut taken = Ok(None);
    let received = io.stream.try_receive_with(|bytes| {
        taken = parse(bytes, connection, snapshot);
        match &taken {
            Ok(Some(received)) => received.length,
            Ok(None) | Err(_) => 0,
        }
    });
    match received {
        Ok(chunk) if chunk.length == 0 => Err(HeadError::Ended(CloseReason::ClientClosed)),
        Ok(chunk) => {
            io.metrics.bytes_received.add(chunk.length as u64);
            if chunk.rest.is_empty() {
                io.drained.set(chunk.drained);
            } else {
                io.unread(chunk.rest);
            }
            Ok(taken?)
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(_) => Err(HeadError::Ended(CloseReason::ClientReset)),
    }
}

/// Parses a head at the start of `bytes`; `None` if it is not complete.
fn parse(
    bytes: &[u8],
    connection: &Connection,
    snapshot: &ListenerSnapshot,
) -> Result<Option<ReceivedRequest>, Fault> {
    let mut headers = Headers::new();
    let head = parse_request(bytes, &snapshot.head_limits, headers.spans());
    let Some(head) = head.map_err(Fault::rejected)? else {
        return Ok(None);
    };
    headers.keep_head(&bytes[..head.len]);
    let (framing, length) = (head.framing, head.len);
    let (expects_continue, keep_alive) = (head.expect_continue, head.keep_alive);
    let request = build_request::request(head, headers, &connection.facts, snapshot)?;
    Ok(Some(ReceivedRequest { request, framing, expects_continue, keep_alive, length }))
}

/// Waits for the rest of a head of which a part is in the input.
pub(super) async fn rest_of_head(
    connection: &Connection,
    snapshot: &ListenerSnapshot,
) -> Result<ReceivedRequest, HeadError> {
    let io: &ConnectionIo = &connection.io;
    let first_us = net::clock::now_us();
    // The part is copied, so that a slow client costs what it sent and not a block.
    let mut partial = net::detach(&io.input.take());
    let mut has_line = partial.contains(&b'\n');
    if let Err(broken) = respond::flush(io, snapshot.bounds.write_timeout).await {
        return Err(HeadError::Ended(broken.reason()));
    }
    io.read_timer.set(snapshot.timeouts.head);
    loop {
        let received = poll_fn(|cx| match io.stream.poll_receive(cx) {
            Poll::Ready(received) => Poll::Ready(Some(received)),
            Poll::Pending => io.read_timer.poll(cx).map(|()| None),
        })
        .await;
        let chunk = match received {
            None => {
                io.metrics.hit(LimitHit::SlowHead);
                let fault = Fault::new(FaultKind::HeadTimeout, "the head was not whole in time");
                return Err(HeadError::Rejected(fault.closing()));
            }
            Some(Err(_)) => return Err(HeadError::Ended(CloseReason::ClientReset)),
            Some(Ok(chunk)) if chunk.is_empty() => {
                return Err(HeadError::Ended(CloseReason::ClientGone));
            }
            Some(Ok(chunk)) => chunk,
        };
        io.metrics.bytes_received.add(chunk.len() as u64);
        partial.extend_from_slice(&chunk);
        let ends_line = chunk.contains(&b'\n');
        has_line |= ends_line;
        if !ends_line && !has_outgrown(partial.len(), has_line, &snapshot.head_limits) {
            continue;
        }
        match parse(&partial, connection, snapshot) {
            Ok(None) => {}
            Ok(Some(mut received)) => {
                received.request.note_first_byte(first_us);
                partial.advance(received.length);
                io.unread(partial.freeze());
                return Ok(received);
            }
            Err(fault) => {
                io.unread(partial.freeze());
                return Err(fault.into());
            }
        }
    }
}

/// Headers end with a line: without a new line in the input there is nothing to parse again, unless
/// the input exceeds a limit. That makes a client that sends byte by byte cheap.
fn has_outgrown(length: usize, has_line: bool, limits: &HeadLimits) -> bool {
    length >= limits.request_line + if has_line { limits.headers } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_end_no_line_are_parsed_once_they_are_too_many() {
        let limits = HeadLimits { request_line: 100, headers: 1000, header_count: 8 };
        // (length, a line has ended, whether it is too long)
        let table = [
            (99, false, false),
            (100, false, true),
            (100, true, false),
            (1099, true, false),
            (1100, true, true),
        ];
        for (length, has_line, outgrown) in table {
            assert_eq!(has_outgrown(length, has_line, &limits), outgrown, "{length}");
            let mut head = vec![b'a'; length];
            if has_line {
                head[..21].copy_from_slice(b"GET / HTTP/1.1\r\na: aa");
            }
            let parsed = parse_request(&head, &limits, &mut Vec::new());
            assert!(parsed.is_err() || !outgrown, "{length}");
        }
    }
}
