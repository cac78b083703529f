//! The tags of a response (Surrogate-Key, Cache-Tag) and its cache groups (RFC 9875), by which it
//! can be purged.
//!
//! Only 64-bit hashes are stored: a collision purges too much, never too little. They are the same
//! in every process, because the disk tier outlives one.

use message::Headers;
use sfv::{BareItem, List, ListEntry, Parser};
use wire::{Known, token};

use super::UncachedReason;
use crate::limits::TAGS_MAX;

/// The hash of a tag of Surrogate-Key or Cache-Tag.
pub fn tag(text: &[u8]) -> u64 {
    hash(b't', &[text])
}

/// The hash of a cache group of any origin.
pub fn group(text: &[u8]) -> u64 {
    hash(b'g', &[text])
}

/// The hash of a cache group of one origin (`scheme://authority`, RFC 9875 2.1).
pub fn group_of(origin: &[u8], text: &[u8]) -> u64 {
    hash(b'o', &[origin, text])
}

/// FNV-1a over the parts, each followed by a NUL that no part contains, then mixed.
fn hash(kind: u8, parts: &[&[u8]]) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let mut hash = step(0xcbf2_9ce4_8422_2325, kind);
    for part in parts {
        hash = part.iter().chain(&[0]).fold(hash, |hash, &byte| step(hash, byte));
    }
    hash = (hash ^ (hash >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    hash ^ (hash >> 32)
}

/// The hashes of a response's tags and groups, sorted, each once.
pub(crate) fn of_response(headers: &Headers, origin: &[u8]) -> Result<Box<[u64]>, UncachedReason> {
    let mut found = Vec::new();
    let words = |value| <[u8]>::split(value, |byte: &u8| byte.is_ascii_whitespace());
    let keys = headers.get_all(Known::SurrogateKey).flat_map(words);
    let tags = headers.get_all(Known::CacheTag).flat_map(token::list);
    for text in keys.filter(|key| !key.is_empty()).chain(tags) {
        found.push(tag(text));
    }
    for text in strings(headers, Known::CacheGroups) {
        found.push(group(text.as_bytes()));
        found.push(group_of(origin, text.as_bytes()));
    }
    found.sort_unstable();
    found.dedup();
    match found.len() <= TAGS_MAX {
        true => Ok(found.into()),
        false => Err(UncachedReason::Tags),
    }
}

/// The groups of this origin that a response to an unsafe request invalidates (RFC 9875 3).
pub(crate) fn invalidated(headers: &Headers, origin: &[u8]) -> Vec<u64> {
    let groups = strings(headers, Known::CacheGroupInvalidation);
    groups.iter().map(|text| group_of(origin, text.as_bytes())).collect()
}

/// Reads a list of strings; empty if any of it is invalid or no string.
fn strings(headers: &Headers, name: Known) -> Vec<String> {
    let joined = headers.joined(name).unwrap_or_default();
    let members = Parser::new(&joined).parse::<List>().unwrap_or_default();
    let texts = members.into_iter().map(|member| match member {
        ListEntry::Item(item) => match item.bare_item {
            BareItem::String(text) => Some(text.into()),
            _ => None,
        },
        ListEntry::InnerList(_) => None,
    });
    texts.collect::<Option<Vec<String>>>().unwrap_or_default()
}
