//! Taking request heads from the input of a connection.

use std::future::poll_fn;
use std::io;
use std::task::Poll;

use bytes::Bytes;
use telemetry::CloseReason;
use wire::Reject;
use wire::h1::{FieldSpan, RequestHead, parse_request};

use super::edge::Edge;
use super::respond;
use super::wire::Wire;

/// Fields a request has room for before its list grows.
const FIELDS_USUAL: usize = 16;

/// What taking a head came to.
pub(super) enum Taken {
    Head(RequestHead, Bytes, Vec<FieldSpan>),
    /// Nothing is there.
    Nothing,
    /// A part of a head is there; it is back in the input.
    Part,
    Malformed(Reject),
    Ended(CloseReason),
}

/// Takes a head that is there in full.
pub(super) fn take(wire: &Wire, edge: &Edge) -> Taken {
    let mut input = wire.input.take();
    if input.is_empty() {
        match wire.try_input() {
            Ok(chunk) if chunk.is_empty() => return Taken::Ended(CloseReason::ClientClosed),
            Ok(chunk) => input = chunk,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Taken::Nothing,
            Err(_) => return Taken::Ended(CloseReason::ClientReset),
        }
    }
    let mut fields = Vec::with_capacity(FIELDS_USUAL);
    match parse_request(&input, &edge.head_limits, &mut fields) {
        Ok(Some(head)) => {
            let bytes = split(&mut input, head.len);
            wire.unread(input);
            Taken::Head(head, bytes, fields)
        }
        Ok(None) => {
            wire.unread(input);
            Taken::Part
        }
        Err(reject) => Taken::Malformed(reject),
    }
}

/// The first bytes; mostly they are all.
fn split(input: &mut Bytes, length: usize) -> Bytes {
    if length == input.len() { std::mem::take(input) } else { input.split_to(length) }
}

/// What waiting for the rest of a head came to.
pub(super) enum Waited {
    Head(RequestHead, Bytes, Vec<FieldSpan>),
    Malformed(Reject),
    TimedOut,
    Ended(CloseReason),
}

/// Waits for the rest of a head that is there in part.
pub(super) async fn wait(wire: &Wire, edge: &Edge) -> Waited {
    // The part is copied, so that a slow client costs what it sent and not a block.
    let mut partial = net::detach(&wire.input.take());
    if let Err(broken) = respond::flush(wire, edge.bounds.write_pause).await {
        return Waited::Ended(broken.reason());
    }
    let mut fields = Vec::with_capacity(FIELDS_USUAL);
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
        // A head ends with a line: without one in the news there is nothing to parse again, unless
        // it has outgrown what it may be. That keeps a client that sends byte by byte cheap.
        if !chunk.contains(&b'\n') && partial.len() <= edge.head_limits.request_line {
            continue;
        }
        match parse_request(&partial, &edge.head_limits, &mut fields) {
            Ok(Some(head)) => {
                let mut input = partial.freeze();
                let bytes = split(&mut input, head.len);
                wire.unread(input);
                return Waited::Head(head, bytes, fields);
            }
            Err(reject) => return Waited::Malformed(reject),
            Ok(None) => {}
        }
    }
}
