//! Builds the stored object from a response.

use std::io;

use bytes::Bytes;
use coding::Coding;
use message::{Fault, Frame, Headers, SharedHeaders};
use wire::Known;

use super::decode::add_vary_accept_encoding;
use super::decoding_body::read;
use crate::content_memory::store_content;
use crate::rules::{Flags, StorableResponse};
use crate::{CodingSettings, Content, Hits, Key, Object, ObjectKind, StoredResponse};

/// Content up to this is joined on the worker; longer content and parts of files on the blocking
/// pool.
const ON_WORKER_BYTES: u64 = 256 * 1024;

pub(crate) fn new_object(key: Key, kind: ObjectKind) -> Object {
    Object { key, kind, state: Default::default() }
}

/// Joins the pieces of a body.
pub(super) async fn join_pieces(pieces: Vec<Frame>) -> Result<Content, Fault> {
    let mut length = 0;
    let mut files = false;
    for piece in &pieces {
        match piece {
            Frame::Data(data) => length += data.len() as u64,
            Frame::File(range) => {
                length += range.length;
                files = true;
            }
            Frame::Trailers(_) => {}
        }
    }
    let joined = if length <= ON_WORKER_BYTES && !files {
        joined(pieces, length)
    } else {
        net::blocking(move || joined(pieces, length)).await.flatten()
    };
    let failed = |error| Fault::internal(format!("the content cannot be stored: {error}"));
    joined.map_err(failed)
}

/// Copies the pieces: one may be a slice of a block that other slices keep alive.
fn joined(pieces: Vec<Frame>, length: u64) -> io::Result<Content> {
    store_content(length, |whole| {
        pieces.iter().try_for_each(|piece| match piece {
            Frame::Data(data) => whole.write_all(data),
            Frame::File(range) => whole.write_all(&read(range)?),
            Frame::Trailers(_) => Ok(()),
        })
    })
}

/// Makes a stored response; `length` is that of its content, where it is known.
pub(super) fn stored_response(
    storing: &StorableResponse,
    (content, length): (Content, Option<u64>),
    coding: Option<Coding>,
    version: u64,
    codings: &CodingSettings,
) -> StoredResponse {
    let hidden = &storing.hidden;
    let mut head = storing.head.clone();
    let mut meta = storing.meta.clone();
    // RFC 9110 7.7 forbids others; content in an unknown coding stays as it is.
    let readable = coding.is_some() == head.contains(Known::ContentEncoding);
    let length = length.filter(|_| coding.is_none());
    let codable = readable && !meta.flags.has(Flags::NO_TRANSFORM);
    if codable && may_be_coded(&head, length, codings) {
        meta.flags = meta.flags.with(Flags::CODABLE);
    }
    if coding.is_some() || meta.flags.has(Flags::CODABLE) {
        add_vary_accept_encoding(&mut head);
    }
    StoredResponse {
        version,
        meta,
        head: SharedHeaders::from(&head),
        hidden: (!hidden.is_empty()).then(|| Box::new(SharedHeaders::from(hidden))),
        content,
        coding,
        derived: false,
        hits: Hits::default(),
        tags: storing.tags.clone(),
    }
}

/// Makes the response of a list of parts: without content of its own.
pub(crate) fn parts_response(
    storing: &StorableResponse,
    version: u64,
    codings: &CodingSettings,
) -> StoredResponse {
    stored_response(storing, (Content::Memory(Bytes::new()), Some(0)), None, version, codings)
}

/// True if other codings of it may be made. `length` is that of the decoded content.
fn may_be_coded(head: &Headers, length: Option<u64>, codings: &CodingSettings) -> bool {
    let content_type = head.get(Known::ContentType);
    let fits = |content_type| codings.types.iter().any(|pattern| pattern.matches(content_type));
    let worth_it = |length| (codings.min_size.bytes()..=codings.max_size.bytes()).contains(&length);
    !codings.offer.is_empty() && length.is_none_or(worth_it) && content_type.is_some_and(fits)
}
