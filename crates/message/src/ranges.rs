//! Parts of a representation that is there whole (RFC 9110 14, 15.3.7, 15.5.17).
//!
//! The number of ranges is bounded and overlapping ones are joined (`wire::range`), so a response
//! is never much longer than the whole. Whether a Range is to be honoured at all (If-Range,
//! preconditions) its caller decides.

use std::hash::BuildHasher;

use wire::Known;
use wire::range::{ByteRange, Ranges, resolve, write_content_range, write_unsatisfied};

use crate::content::Pieces;
use crate::{Body, Content, Fault, FaultKind, HandlerResult, Headers, Response};

/// What a Range asks of `content`, whose 200 has these `fields`: 206, 416, or 200 if it asks for
/// nothing that can be read.
pub fn ranged(requested: &[u8], content: &Content, mut fields: Headers) -> HandlerResult {
    let mut content_range = Vec::new();
    let (status, body) = match resolve(requested, content.len()) {
        Ranges::Whole => (200, content.body()),
        Ranges::Single(range) => {
            write_content_range(range, content.len(), &mut content_range);
            fields.append(Known::ContentRange, content_range);
            (206, content.part(range.first, range.len()))
        }
        Ranges::Multi(ranges) => (206, multipart(content, &mut fields, &ranges)),
        Ranges::Unsatisfiable => {
            write_unsatisfied(content.len(), &mut content_range);
            let fault = Fault::new(FaultKind::RangeNotSatisfiable, "");
            return Err(fault.with_field(Known::ContentRange, content_range));
        }
    };
    Ok(Response { status, headers: fields, body, ..Response::default() })
}

/// Several ranges in one response: `multipart/byteranges` (RFC 9110 14.6).
fn multipart(content: &Content, fields: &mut Headers, ranges: &[ByteRange]) -> Body {
    // No content can contain what is random per process and request.
    let unique = foldhash::quality::RandomState::default();
    let boundary = format!("{:016x}{:016x}", unique.hash_one(1), unique.hash_one(2));
    let content_type = fields.get(Known::ContentType);
    let mut pieces = Pieces::default();
    for (at, range) in ranges.iter().enumerate() {
        let mut head = Vec::with_capacity(160);
        head.extend_from_slice(if at == 0 { b"--" } else { b"\r\n--" });
        head.extend_from_slice(boundary.as_bytes());
        // RFC 9110 15.3.7.2: the type that the whole has, if it has one.
        for part in content_type.into_iter().flat_map(|kind| [b"\r\nContent-Type: ", kind]) {
            head.extend_from_slice(part);
        }
        head.extend_from_slice(b"\r\nContent-Range: ");
        write_content_range(*range, content.len(), &mut head);
        head.extend_from_slice(b"\r\n\r\n");
        pieces.push(head);
        pieces.push_part(content, range.first, range.len());
    }
    pieces.push(format!("\r\n--{boundary}--\r\n"));
    fields.set(Known::ContentType, format!("multipart/byteranges; boundary={boundary}"));
    Body::stream(pieces)
}
