//! The weight of an object: all memory that its removal frees.
//!
//! Counts blocks as the allocator (mimalloc) returns them. Content that several objects share
//! (after a 304) counts for each.

use bytes::Bytes;
use message::SharedHeaders;

use crate::{Content, Object, ObjectKind};

/// The counters of an `Arc`.
const COUNTERS: usize = 2 * size_of::<usize>();
/// Memory that `Bytes` adds once it is cloned.
const SHARED_BYTES: usize = 32;
/// An anonymous file in addition to its pages: descriptor, inode and directory entry in the kernel.
const FILE_BYTES: usize = 1536;
const PAGE: usize = 4096;
/// Few blocks of this size fit in a page of the allocator, which is returned when all of them are
/// free: under constant eviction, a third of the pages is partly empty
/// (`tests/scenarios/cache_soak.rs`). It counts, or a cache would take more than its limit.
const LOOSE_BYTES: usize = 1024;
/// The part of the content that this costs.
const LOST_PART: usize = 3;
/// Larger blocks have pages of their own, which exist only as far as they are written.
const BLOCK_BINS_MAX: usize = 32 * 1024;

/// The memory of an object in the store.
pub(crate) fn weigh(object: &Object) -> u64 {
    let mut bytes = block(COUNTERS + size_of::<Object>()) + block(object.key.text().len());
    if let Some(response) = object.response() {
        bytes += head(&response.head) + block(size_of_val(&*response.tags));
        if let Some(hidden) = &response.hidden {
            bytes += block(size_of::<SharedHeaders>()) + head(hidden);
        }
        bytes += match &response.content {
            Content::Memory(content) => memory(content),
            // The open file is that of all records in it.
            Content::File(_) => 0,
            Content::MemoryFile(range) => {
                FILE_BYTES + (range.length as usize).next_multiple_of(PAGE)
            }
        };
    }
    match &object.kind {
        ObjectKind::Response(_) => {}
        ObjectKind::Parts(parts) => {
            bytes += block(size_of_val(&**parts)) + block(size_of_val(parts.all()));
            bytes += parts.all().iter().map(|part| memory(&part.content)).sum::<usize>();
        }
        ObjectKind::Varies(vary) => bytes += texts(&vary.fields),
        ObjectKind::NoVarySearch(rule) => bytes += texts(&rule.params),
        ObjectKind::Uncacheable { .. } => {}
    }
    bytes as u64
}

fn memory(content: &Bytes) -> usize {
    if content.is_empty() {
        return 0;
    }
    let block = block(content.len());
    let lost = if content.len() < LOOSE_BYTES { 0 } else { block / LOST_PART };
    block + lost + SHARED_BYTES
}

fn head(kept: &SharedHeaders) -> usize {
    kept.blocks().into_iter().map(block).sum()
}

fn texts(list: &[Box<[u8]>]) -> usize {
    block(size_of_val(list)) + list.iter().map(|text| block(text.len())).sum::<usize>()
}

/// The block for a size: one word, multiples of two words up to eight words, then four sizes
/// between each power of two and the next.
pub(super) fn block(size: usize) -> usize {
    match size {
        0 => 0,
        1..=8 => 8,
        9..=64 => size.next_multiple_of(16),
        65..=BLOCK_BINS_MAX => {
            let step = 1 << ((size - 1).ilog2() - 2);
            size.next_multiple_of(step)
        }
        _ => size.next_multiple_of(PAGE),
    }
}

#[cfg(test)]
mod tests {
    use super::block;

    #[test]
    fn blocks_come_in_the_allocators_sizes() {
        let sizes = [(0, 0), (1, 8), (9, 16), (17, 32), (64, 64), (65, 80), (81, 96), (128, 128)];
        for (size, given) in sizes {
            assert_eq!(block(size), given, "{size}");
        }
        assert_eq!((block(129), block(176), block(1025)), (160, 192, 1280));
        assert_eq!(block(40_000), 40_960);
    }
}
