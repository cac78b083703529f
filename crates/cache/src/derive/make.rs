//! Making a coding of content, where waiting is allowed.

use std::borrow::Cow;
use std::io;

use bytes::Bytes;
use coding::{Decode, DecodeError, decode_all, encode_all};

use super::Target;
use crate::fill::read;
use crate::held::hold_bytes;
use crate::limits::DECODED_RATIO_MAX;
use crate::{Content, Response};

/// Why there is no such coding.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unfit {
    /// The content is damaged.
    Damaged,
    /// It unpacks to more than it may.
    TooLong,
    /// It would be no shorter.
    NoShorter,
    /// Something is short here: it may be tried again.
    Failed,
}

/// `response`'s content in another coding. Neither what it unpacks to nor what comes of it is
/// longer than `bytes_max`, and what is coded is shorter than what `shorter_than` says.
pub(super) fn make(
    response: &Response,
    target: Target,
    level: u32,
    bytes_max: u64,
    shorter_than: Option<u64>,
) -> Result<Content, Unfit> {
    let content = bytes_of(&response.content).map_err(|_| Unfit::Failed)?;
    let plain = match response.coding {
        None => Cow::Borrowed(&*content),
        Some(coding) => {
            let allowed = Decode { output_bytes: bytes_max, ratio: DECODED_RATIO_MAX };
            let plain = decode_all(coding, &content, allowed);
            Cow::Owned(plain.map_err(|error| match error {
                DecodeError::TooLarge | DecodeError::TooDense => Unfit::TooLong,
                DecodeError::Corrupt | DecodeError::Truncated => Unfit::Damaged,
            })?)
        }
    };
    let Some(coding) = target else { return Ok(held(plain.into_owned())) };
    let coded = encode_all(coding, level, &plain).map_err(|_| Unfit::Failed)?;
    let limit = shorter_than.unwrap_or(plain.len() as u64);
    if coded.len() as u64 >= limit {
        return Err(Unfit::NoShorter);
    }
    Ok(held(coded))
}

fn held(bytes: Vec<u8>) -> Content {
    // A buffer that has grown is larger than what is in it.
    let tight = bytes.len() == bytes.capacity();
    let content = hold_bytes(Bytes::from(bytes));
    match content {
        Content::Memory(bytes) if !tight => Content::Memory(Bytes::copy_from_slice(&bytes)),
        content => content,
    }
}

/// The bytes of content that may be in a file.
pub(super) fn bytes_of(content: &Content) -> io::Result<Bytes> {
    match content {
        Content::Memory(bytes) => Ok(bytes.clone()),
        Content::File(range) | Content::MemoryFile(range) => read(range),
    }
}
