//! Ranges of a 200 whose content is still arriving, and 304 in its place.

use std::task::{Context, Poll, ready};

use message::{
    Body, BodyStream, Fault, FaultKind, Frame, HandlerResult, Headers, Request, Response,
    asked_range, preconditions,
};
use wire::Known;
use wire::conditional::{EntityTag, PreconditionResult, Validators};
use wire::date::parse_http_date;
use wire::range::{ByteRange, Ranges, resolve, write_content_range, write_unsatisfied};

use crate::limits::SKIPPED_BYTES_MAX;
use crate::serve::{PARTIAL_REQUEST_FIELDS, without_content};

/// Applies conditions and Range to a 200 that is not stored. `None` if the range begins so late
/// that the origin should be requested again.
pub(crate) fn partial_or_not_modified(whole: Response, request: &Request) -> Option<HandlerResult> {
    if whole.status != 200 || !request.headers.contains_any(&PARTIAL_REQUEST_FIELDS) {
        return Some(Ok(whole));
    }
    let have = validators(&whole.headers);
    if preconditions(request, &have) == PreconditionResult::NotModified {
        return Some(Ok(without_content(&whole.headers)));
    }
    let length = whole.body.length();
    let requested = asked_range(request, &have).zip(length);
    match requested.map(|(requested, length)| resolve(requested, length)) {
        Some(Ranges::Single(range)) if range.first > SKIPPED_BYTES_MAX => None,
        _ => Some(requested_range(whole, length, request)),
    }
}

/// Applies Range to a 200 whose content has this length, as far as it is known.
pub(super) fn requested_range(
    whole: Response,
    length: Option<u64>,
    request: &Request,
) -> HandlerResult {
    match (asked_range(request, &validators(&whole.headers)), length) {
        (Some(requested), Some(length)) => range_response(requested, length, whole),
        _ => Ok(whole),
    }
}

fn validators(headers: &Headers) -> Validators<'_> {
    Validators {
        exists: true,
        etag: headers.get(Known::Etag).and_then(EntityTag::parse),
        last_modified: headers.get(Known::LastModified).and_then(parse_http_date),
    }
}

/// Applies Range to content of this length. Several ranges would have to wait for each other, so
/// they get the whole (RFC 9110 14.2 allows that).
fn range_response(requested: &[u8], length: u64, mut whole: Response) -> HandlerResult {
    let mut text = Vec::new();
    match resolve(requested, length) {
        Ranges::Whole | Ranges::Multi(_) => Ok(whole),
        Ranges::Single(range) => {
            write_content_range(range, length, &mut text);
            whole.headers.set(Known::ContentRange, &text);
            whole.headers.remove(Known::ContentLength);
            whole.status = 206;
            let body = std::mem::take(&mut whole.body);
            whole.body = Body::stream(RangeBody { body, at: 0, range });
            Ok(whole)
        }
        Ranges::Unsatisfiable => {
            write_unsatisfied(length, &mut text);
            let fault = Fault::new(FaultKind::RangeNotSatisfiable, "");
            Err(fault.with_field(Known::ContentRange, &text))
        }
    }
}

/// A range of a body: bytes before it are read and dropped.
struct RangeBody {
    body: Body,
    /// Bytes read from the body.
    at: u64,
    range: ByteRange,
}

impl RangeBody {
    /// The part of the next `length` bytes that belongs to the range.
    fn cut(&mut self, length: u64) -> std::ops::Range<u64> {
        let first = self.range.first.max(self.at).min(self.at + length);
        let end = (self.range.last + 1).min(self.at + length).max(first);
        let cut = first - self.at..end - self.at;
        self.at += length;
        cut
    }
}

impl BodyStream for RangeBody {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, Fault>>> {
        while self.at <= self.range.last {
            let frame = match ready!(self.body.poll_frame(cx)) {
                Some(Ok(Frame::Data(data))) => {
                    let cut = self.cut(data.len() as u64);
                    Frame::Data(data.slice(cut.start as usize..cut.end as usize))
                }
                Some(Ok(Frame::File(mut file))) => {
                    let cut = self.cut(file.length);
                    file.offset += cut.start;
                    file.length = cut.end - cut.start;
                    Frame::File(file)
                }
                Some(Ok(Frame::Trailers(_))) => continue,
                Some(Err(fault)) => return Poll::Ready(Some(Err(fault))),
                None => break,
            };
            let empty = match &frame {
                Frame::Data(data) => data.is_empty(),
                Frame::File(file) => file.length == 0,
                Frame::Trailers(_) => true,
            };
            if !empty {
                return Poll::Ready(Some(Ok(frame)));
            }
        }
        Poll::Ready(None)
    }

    fn length(&self) -> Option<u64> {
        Some((self.range.last + 1).saturating_sub(self.at.max(self.range.first)))
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use message::shared_body;
    use net::worker::block_on_local;

    use super::*;

    #[test]
    fn a_part_is_cut_out_of_whatever_pieces_come() {
        block_on_local(async {
            for (requested, expected, content_range) in [
                ("bytes=0-0", "0", "bytes 0-0/10"),
                ("bytes=1-4", "1234", "bytes 1-4/10"),
                ("bytes=3-", "3456789", "bytes 3-9/10"),
                ("bytes=-2", "89", "bytes 8-9/10"),
            ] {
                let (mut writer, content) = shared_body(1 << 20, Some(10));
                let mut whole = Response::new(200);
                whole.body = content.body();
                let mut part = range_response(requested.as_bytes(), 10, whole).unwrap();
                for piece in ["012", "3", "456789"] {
                    writer.push(Bytes::from_static(piece.as_bytes())).unwrap();
                }
                writer.finish(None);
                assert_eq!(part.status, 206);
                assert_eq!(part.body.length(), Some(expected.len() as u64));
                let sent = part.headers.get(Known::ContentRange);
                assert_eq!(sent, Some(content_range.as_bytes()));
                assert_eq!(part.body.collect(100).await.unwrap(), expected, "{requested}");
            }
            let refused = range_response(b"bytes=10-", 10, Response::new(200)).err().unwrap();
            assert_eq!(refused.status, 416);
        });
    }
}
