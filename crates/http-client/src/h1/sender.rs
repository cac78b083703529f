//! The body of a request on its way to a server.
//!
//! Takes a frame from the body only when the socket has taken the one before: that is the
//! back-pressure. The first look at the body is what makes the serving loop send 100 Continue, so
//! it happens when the head is out. A failed send is not an error yet: the server may have answered
//! before it closed.

use std::io;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use wire::h1;

use super::head::RequestFraming;
use crate::connection::Connection;
use message::{Body, Fault, Frame, Headers};

/// The data to be sent in addition to the connection's queue.
pub(super) enum Sender {
    /// Nothing: the queue has the rest, or is empty.
    Done,
    /// The body continues.
    Going { body: Body, framing: RequestFraming, left: u64 },
    /// The server takes no more.
    Broken(io::Error),
}

/// What sending waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sending {
    /// The request is out.
    Finished,
    /// Room in the socket.
    Room,
    /// The next piece of the body.
    Body,
    /// Sending cannot continue: the server takes no more.
    Broken,
}

impl Sender {
    pub(super) fn new(body: Body, framing: RequestFraming) -> Sender {
        match framing {
            RequestFraming::None => Sender::Done,
            RequestFraming::Length(left) => Sender::Going { body, framing, left },
            RequestFraming::Chunked => Sender::Going { body, framing, left: 0 },
        }
    }

    /// Sends as much as goes. `moved` is set when the socket took something.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        connection: &mut Connection,
        moved: &mut bool,
    ) -> Result<Sending, Fault> {
        loop {
            if let Sender::Broken(_) = self {
                return Ok(Sending::Broken);
            }
            match poll_flush(cx, connection, moved) {
                Poll::Pending => return Ok(Sending::Room),
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => {
                    connection.outgoing.clear();
                    *self = Sender::Broken(error);
                    return Ok(Sending::Broken);
                }
            }
            let Sender::Going { body, framing, left } = self else { return Ok(Sending::Finished) };
            let frame = match body.poll_frame(cx) {
                Poll::Pending => return Ok(Sending::Body),
                Poll::Ready(frame) => frame.transpose()?,
            };
            let chunked = *framing == RequestFraming::Chunked;
            let is_last = match frame {
                None => {
                    if *left > 0 {
                        // Ending here would let the next request be read as the rest of this body.
                        return Err(Fault::internal("a request body was shorter than announced"));
                    }
                    if chunked {
                        connection.outgoing.push(Bytes::from_static(h1::LAST_CHUNK));
                    }
                    true
                }
                Some(Frame::Trailers(trailers)) => {
                    if chunked {
                        push_trailers(connection, &trailers);
                    }
                    true
                }
                Some(Frame::Data(data)) => {
                    let length = data.len() as u64;
                    frame_around(connection, chunked, left, length, |outgoing| {
                        outgoing.push(data);
                    })?;
                    !chunked && *left == 0
                }
                Some(Frame::File(range)) => {
                    let length = range.length;
                    frame_around(connection, chunked, left, length, |outgoing| {
                        outgoing.push_file(range);
                    })?;
                    !chunked && *left == 0
                }
            };
            if is_last {
                *self = Sender::Done;
            }
        }
    }
}

fn frame_around(
    connection: &mut Connection,
    chunked: bool,
    left: &mut u64,
    length: u64,
    push: impl FnOnce(&mut net::Outgoing),
) -> Result<(), Fault> {
    if length == 0 {
        return Ok(());
    }
    if !chunked {
        let rest = left.checked_sub(length);
        *left = rest.ok_or_else(|| Fault::internal("a request body was longer than announced"))?;
        push(&mut connection.outgoing);
        return Ok(());
    }
    let mut head = Vec::with_capacity(18);
    h1::chunk_head(usize::try_from(length).unwrap_or(usize::MAX), &mut head);
    connection.outgoing.push(Bytes::from(head));
    push(&mut connection.outgoing);
    connection.outgoing.push(Bytes::from_static(h1::CHUNK_END));
    Ok(())
}

fn push_trailers(connection: &mut Connection, trailers: &Headers) {
    let mut section = Vec::from(h1::LAST_CHUNK_LINE);
    // RFC 9110 6.5.1: what frames, routes or authenticates may not stand in a trailer section.
    let allowed =
        trailers.iter().filter(|field| wire::alias::may_be_trailer(field.known, field.name));
    h1::trailer_section(allowed.map(|field| (field.name, field.value)), &mut section);
    connection.outgoing.push(Bytes::from(section));
}

fn poll_flush(
    cx: &mut Context<'_>,
    connection: &mut Connection,
    moved: &mut bool,
) -> Poll<io::Result<()>> {
    while !connection.outgoing.is_empty() {
        *moved |= ready!(connection.stream.poll_send(cx, &mut connection.outgoing))? > 0;
    }
    Poll::Ready(Ok(()))
}
