//! Taking request heads from the input of a connection.

use std::future::poll_fn;
use std::io;
use std::task::Poll;

use bytes::Buf;
use telemetry::CloseReason;
use wire::Reject;
use wire::h1::{HeadLimits, RequestHead, parse_request};

use super::connection_io::ConnectionIo;
use super::listener_snapshot::ListenerSnapshot;
use super::respond;
use crate::Headers;

/// What taking a head came to.
pub(super) enum Taken {
    Head(RequestHead, Headers),
    /// Nothing is there.
    Nothing,
    /// A part of a head is there; it is back in the input.
    Part,
    Malformed(Reject),
    Ended(CloseReason),
}

/// Takes a head that is there in full.
pub(super) fn take(wire: &ConnectionIo, edge: &ListenerSnapshot) -> Taken {
    let mut taken = Taken::Nothing;
    let mut input = wire.input.take();
    if !input.is_empty() {
        let done = parse(&input, edge, &mut taken);
        input.advance(done);
        wire.unread(input);
        return taken;
    }
    if wire.drained.take() {
        return taken;
    }
    match wire.stream.try_receive_with(|bytes| parse(bytes, edge, &mut taken)) {
        Ok(lent) if lent.length == 0 => return Taken::Ended(CloseReason::ClientClosed),
        Ok(lent) => {
            wire.metrics.bytes_received.add(lent.length as u64);
            if lent.rest.is_empty() {
                wire.drained.set(lent.drained);
            } else {
                wire.unread(lent.rest);
            }
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
        Err(_) => return Taken::Ended(CloseReason::ClientReset),
    }
    taken
}

/// Reads a head from the start of `bytes`; how many of them are done with.
fn parse(bytes: &[u8], edge: &ListenerSnapshot, taken: &mut Taken) -> usize {
    let mut headers = Headers::new();
    match parse_request(bytes, &edge.head_limits, headers.spans()) {
        Ok(Some(head)) => {
            let length = head.len;
            headers.keep_head(&bytes[..length]);
            *taken = Taken::Head(head, headers);
            length
        }
        Ok(None) => {
            *taken = Taken::Part;
            0
        }
        Err(reject) => {
            *taken = Taken::Malformed(reject);
            bytes.len()
        }
    }
}

/// What waiting for the rest of a head came to.
pub(super) enum Waited {
    Head(RequestHead, Headers),
    Malformed(Reject),
    TimedOut,
    Ended(CloseReason),
}

/// Waits for the rest of a head that is there in part.
pub(super) async fn wait(wire: &ConnectionIo, edge: &ListenerSnapshot) -> Waited {
    // The part is copied, so that a slow client costs what it sent and not a block.
    let mut partial = net::detach(&wire.input.take());
    let mut has_line = partial.contains(&b'\n');
    if let Err(broken) = respond::flush(wire, edge.bounds.write_patience).await {
        return Waited::Ended(broken.reason());
    }
    wire.read_timer.set(edge.timeouts.head);
    loop {
        let received = poll_fn(|cx| match wire.stream.poll_receive(cx) {
            Poll::Ready(received) => Poll::Ready(Some(received)),
            Poll::Pending => wire.read_timer.poll(cx).map(|()| None),
        })
        .await;
        let chunk = match received {
            None => return Waited::TimedOut,
            Some(Err(_)) => return Waited::Ended(CloseReason::ClientReset),
            Some(Ok(chunk)) if chunk.is_empty() => return Waited::Ended(CloseReason::ClientGone),
            Some(Ok(chunk)) => chunk,
        };
        wire.metrics.bytes_received.add(chunk.len() as u64);
        partial.extend_from_slice(&chunk);
        let ends_line = chunk.contains(&b'\n');
        has_line |= ends_line;
        if !ends_line && !has_outgrown(partial.len(), has_line, &edge.head_limits) {
            continue;
        }
        let mut taken = Taken::Part;
        let done = parse(&partial, edge, &mut taken);
        match taken {
            Taken::Head(head, headers) => {
                partial.advance(done);
                wire.unread(partial.freeze());
                return Waited::Head(head, headers);
            }
            Taken::Malformed(reject) => return Waited::Malformed(reject),
            _ => {}
        }
    }
}

/// A head ends with a line: without one in the news there is nothing to parse again, unless this
/// says that it has outgrown what it may be. That keeps a client that sends byte by byte cheap.
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
