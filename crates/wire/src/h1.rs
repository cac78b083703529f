//! HTTP/1 messages (RFC 9112): parsing of heads and chunked bodies.
//!
//! Owns the syntax of the start line and field lines, the framing of bodies, and the definition of
//! a malformed message. Two parsers read heads: a fast one for usual heads, and a strict
//! byte-by-byte one that is authoritative: whatever the first does not accept is decided by the
//! second. So the result does not depend on how the bytes were split: a prefix of a message gets
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
pub(crate) use field::{Expectation, HeadFacts};
pub use field::{FieldSpan, HeadLimits, MAX_HEADER_COUNT, Span};
pub use request::{Framing, RequestHead, TargetForm, parse_request};
pub use response::{ResponseFraming, ResponseHead, parse_response};
pub(crate) use strict::METHOD_LEN_MAX;

pub use status::{reason, status_line, write_status_line};
