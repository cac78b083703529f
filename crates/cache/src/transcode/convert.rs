//! Transcodes a coding of content, where waiting is allowed.

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
    /// It unpacks to more than it may.
    TooLong,
    /// It would be no shorter.
    NotShorter,
    /// Something is short here: it may be tried again.
    Failed,
}

/// `response`'s content in another coding. Neither what it unpacks to nor what comes of it is
/// longer than `bytes_max`, and what is coded is shorter than what `shorter_than` says.
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
    // A buffer that has grown is larger than what is in it.
    let tight = bytes.len() == bytes.capacity();
    let content = store_bytes(Bytes::from(bytes));
    match content {
        Content::Memory(bytes) if !tight => Content::Memory(Bytes::copy_from_slice(&bytes)),
        content => content,
    }
}

/// The bytes of content that may be in a file.
pub(super) fn read_content(content: &Content) -> io::Result<Bytes> {
    match content {
        Content::Memory(bytes) => Ok(bytes.clone()),
        Content::File(range) | Content::MemoryFile(range) => read(range),
    }
}
