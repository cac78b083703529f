//! Several ranges in one response: `multipart/byteranges` (RFC 9110 14.6).
//!
//! The number of ranges is bounded and overlapping ones are joined before they get here
//! (`wire::range`), so a response is never much longer than the file.

use std::hash::BuildHasher;

use exchange::{Body, Response};
use wire::Known;
use wire::range::{ByteRange, write_content_range};

use crate::body::Pieces;
use crate::resource::Variant;

/// The 206 for these ranges.
pub(crate) fn response(variant: &Variant, ranges: &[ByteRange]) -> Response {
    // Nobody can put into a file what is made up per process and request.
    let unique = foldhash::quality::RandomState::default();
    let boundary = format!("{:016x}{:016x}", unique.hash_one(1), unique.hash_one(2));
    let content_type = variant.fields.get(Known::ContentType).unwrap_or_default();
    let mut pieces = Pieces::default();
    for (at, range) in ranges.iter().enumerate() {
        let mut head = Vec::with_capacity(160);
        head.extend_from_slice(if at == 0 { b"--" } else { b"\r\n--" });
        head.extend_from_slice(boundary.as_bytes());
        head.extend_from_slice(b"\r\nContent-Type: ");
        head.extend_from_slice(content_type);
        head.extend_from_slice(b"\r\nContent-Range: ");
        write_content_range(*range, variant.length, &mut head);
        head.extend_from_slice(b"\r\n\r\n");
        pieces.push(head);
        pieces.push_part(variant, range.first, range.len());
    }
    pieces.push(format!("\r\n--{boundary}--\r\n"));
    let mut response = Response::new(206);
    response.headers = variant.fields.clone();
    let content_type = format!("multipart/byteranges; boundary={boundary}");
    response.headers.set(Known::ContentType, content_type);
    response.body = Body::stream(pieces);
    response
}
