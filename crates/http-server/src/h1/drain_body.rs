//! After a response: the rest of the request's body.
//!
//! A short rest is discarded so that the connection persists; a long one is not worth it, and one
//! whose end is unknown ends the connection.

use std::rc::Rc;

use bytes::Bytes;
use telemetry::CloseReason;
use wire::h1::{ChunkDecoder, ChunkEvent};

use super::body::{Decoder, RequestBody};
use super::connection_io::ConnectionIo;
use super::next_step::NextStep;
use super::unread_body::UnreadBody;
use crate::listener_snapshot::Service;
use crate::receiving::BodyProgress;
use message::{BodyStream, Bounds};

/// The longest rest that is discarded.
const REST_BYTES_MAX: u64 = 256 * 1024;

/// True if the connection may persist after the response: called before its head is written, so
/// that the head can say so. The length of a body in chunks is unknown, so the connection persists
/// only if the end of that body has arrived.
pub(super) fn may_continue(io: &ConnectionIo, body_limit: u64) -> bool {
    let mut unread_body = io.unread_body.borrow_mut();
    match &mut *unread_body {
        UnreadBody::None | UnreadBody::Held => true,
        UnreadBody::Bytes(left) => *left <= REST_BYTES_MAX.min(body_limit),
        UnreadBody::Lost => false,
        UnreadBody::Chunks(decoder) => {
            let ended = skip_to_end(decoder, &mut io.input.borrow_mut());
            *unread_body = if ended { UnreadBody::None } else { UnreadBody::Lost };
            ended
        }
    }
}

/// Drops what has arrived of a body; whether that was all of it.
fn skip_to_end(decoder: &mut ChunkDecoder, input: &mut Bytes) -> bool {
    while !input.is_empty() {
        match decoder.next(input) {
            Ok(ChunkEvent::Data(_)) => {}
            Ok(ChunkEvent::End(_)) => return true,
            Ok(ChunkEvent::NeedMore) | Err(_) => return false,
        }
    }
    false
}

/// Returns true if the request has been read to its end, so that the next one may begin.
pub(super) fn is_settled(io: &ConnectionIo) -> bool {
    matches!(*io.unread_body.borrow(), UnreadBody::None)
}

/// Discards the rest, with the time-outs of a body that is used.
pub(super) async fn rest_of_body(
    io: &Rc<ConnectionIo>,
    bounds: &Bounds,
    service: &Service,
) -> NextStep {
    let unread_body = io.unread_body.take();
    let decoder = match unread_body {
        UnreadBody::None => return NextStep::Continue,
        UnreadBody::Bytes(left) => Decoder::Length(left),
        UnreadBody::Chunks(decoder) => Decoder::Chunked(decoder),
        UnreadBody::Lost | UnreadBody::Held => return NextStep::linger(CloseReason::BodyUnread),
    };
    let bounds = Bounds { body: REST_BYTES_MAX, ..*bounds };
    let mut rest = RequestBody::new(io.clone(), decoder, BodyProgress::new(&bounds), false);
    loop {
        match std::future::poll_fn(|cx| rest.poll_frame(cx)).await {
            Some(Ok(_)) => {}
            Some(Err(_)) => return NextStep::linger(CloseReason::BodyUnread),
            None if service.is_draining() => return NextStep::close(CloseReason::Drain),
            None => return NextStep::Continue,
        }
    }
}
