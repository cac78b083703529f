//! HTTP/1 messages (RFC 9112): heads and chunked bodies, bytes in, facts out.
//!
//! Owns the syntax of the start line and field lines, the framing of bodies, and what makes a
//! message malformed. Two parsers read heads: a quick one for heads as they nearly always are, and
//! a strict byte-by-byte one that is the law: whatever the first does not take is decided by the
//! second. So a verdict never depends on how the bytes were split: a prefix of a message gets
//! `Ok(None)` or the rejection of the whole. Never reads a socket or a clock, never repairs a
//! message.

mod chunk;
mod field;
mod quick;
mod request;
mod response;
mod scan;
mod status;
mod strict;

pub use chunk::{
    CHUNK_END, ChunkDecoder, ChunkEvent, LAST_CHUNK, LAST_CHUNK_LINE, MAX_EXTENSION_BYTES,
    Trailers, chunk_head, trailer_section,
};
pub use field::{FieldSpan, HeadLimits, MAX_HEADER_COUNT, Span};
pub use request::{Framing, RequestHead, TargetForm, parse_request};
pub use response::{ResponseFraming, ResponseHead, parse_response};
pub use status::{reason, status_line, write_status_line};
