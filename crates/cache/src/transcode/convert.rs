//! Converts content from one coding to another. Blocks.

use std::borrow::Cow;
use std::io;

use bytes::Bytes;
use coding::{Decode, DecodeError, decode_all, encode_all};

use super::TargetCoding;
use crate::content_memory::store_bytes;
use crate::fill::read;
use crate::limits::DECODED_RATIO_MAX;
use crate::{Content, StoredResponse};

/// Why there is no such coding.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TranscodeError {
    /// The content is damaged.
    Damaged,
    /// It decodes to more than is allowed.
    TooLong,
    /// The result would be no shorter.
    NotShorter,
    /// A resource is exhausted: it may be tried again.
    Failed,
}

/// Converts the content of `response`. Neither the decoded content nor the result is longer than
/// `bytes_max`, and an encoded result is shorter than `shorter_than`.
pub(super) fn convert(
    response: &StoredResponse,
    target: TargetCoding,
    level: u32,
    bytes_max: u64,
    shorter_than: Option<u64>,
) -> Result<Content, TranscodeError> {
    let content = read_content(&response.content).map_err(|_| TranscodeError::Failed)?;
    let plain = match response.coding {
        None => Cow::Borrowed(&*content),
        Some(coding) => {
            let allowed = Decode { output_bytes: bytes_max, ratio: DECODED_RATIO_MAX };
            let plain = decode_all(coding, &content, allowed);
            Cow::Owned(plain.map_err(|error| match error {
                DecodeError::TooLarge | DecodeError::TooDense => TranscodeError::TooLong,
                DecodeError::Corrupt | DecodeError::Truncated => TranscodeError::Damaged,
            })?)
        }
    };
    let Some(coding) = target else { return Ok(in_memory(plain.into_owned())) };
    let coded = encode_all(coding, level, &plain).map_err(|_| TranscodeError::Failed)?;
    let limit = shorter_than.unwrap_or(plain.len() as u64);
    if coded.len() as u64 >= limit {
        return Err(TranscodeError::NotShorter);
    }
    Ok(in_memory(coded))
}

fn in_memory(bytes: Vec<u8>) -> Content {
    // The capacity of a buffer that has grown exceeds its length.
    let tight = bytes.len() == bytes.capacity();
    let content = store_bytes(Bytes::from(bytes));
    match content {
        Content::Memory(bytes) if !tight => Content::Memory(Bytes::copy_from_slice(&bytes)),
        content => content,
    }
}

/// Reads content that may be in a file.
pub(super) fn read_content(content: &Content) -> io::Result<Bytes> {
    match content {
        Content::Memory(bytes) => Ok(bytes.clone()),
        Content::File(range) | Content::MemoryFile(range) => read(range),
    }
}
