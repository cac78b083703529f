//! What a response can be purged by beside its URL: tags (Surrogate-Key, Cache-Tag) and cache
//! groups (RFC 9875).
//!
//! Only hashes are kept, 64 bits wide: two tags of one hash would purge too much, never too little.
//! They are the same in every process, because the tier on disk outlives one.

use exchange::Headers;
use wire::structured::{Bare, Member, parse_list};
use wire::{Known, token};

use super::UncachedReason;
use crate::limits::TAGS_MAX;

/// What a tag of Surrogate-Key or Cache-Tag is found by.
pub fn tag(text: &[u8]) -> u64 {
    hash(b't', &[text])
}

/// What a cache group of any origin is found by.
pub fn group(text: &[u8]) -> u64 {
    hash(b'g', &[text])
}

/// What a cache group of one origin (`scheme://authority`) is found by (RFC 9875 2.1).
pub fn group_of(origin: &[u8], text: &[u8]) -> u64 {
    hash(b'o', &[origin, text])
}

/// FNV-1a over the parts, each followed by a NUL that none of them has, then mixed.
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

/// The groups of this origin that an answer to an unsafe request makes invalid (RFC 9875 3). On
/// answers to safe ones the field is ignored.
pub(crate) fn invalidated(headers: &Headers, origin: &[u8]) -> Vec<u64> {
    let groups = strings(headers, Known::CacheGroupInvalidation);
    groups.iter().map(|text| group_of(origin, text.as_bytes())).collect()
}

/// A list of strings; none of it counts unless all of it can be read and is strings.
fn strings(headers: &Headers, name: Known) -> Vec<String> {
    let joined = headers.joined(name).unwrap_or_default();
    let members = parse_list(&joined).unwrap_or_default();
    let texts = members.into_iter().map(|member| match member {
        Member::Item(item) => match item.bare {
            Bare::String(text) => Some(text),
            _ => None,
        },
        Member::Inner(..) => None,
    });
    texts.collect::<Option<Vec<String>>>().unwrap_or_default()
}
