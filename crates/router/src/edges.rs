//! Edges of the whole table: from a node and a segment to the next node.
//!
//! Owns one open-addressed hash table in a few flat arrays, so that a lookup touches one cache line
//! per segment and 5 000 routes need no 5 000 small maps. Built once and never changed. The seed is
//! fixed: requests insert nothing, and at half full runs are short.

use std::hash::{BuildHasher, Hasher};

use foldhash::fast::FixedState;

#[derive(Clone, Debug)]
pub(crate) struct Edges {
    slots: Box<[EdgeEntry]>,
    /// The texts of all segments, concatenated.
    text: Box<[u8]>,
    mask: usize,
}

/// 16 bytes, so that none crosses a cache line.
#[derive(Clone, Copy, Debug)]
struct EdgeEntry {
    from: u32,
    /// [`EMPTY`] in a free slot.
    to: u32,
    at: u32,
    length: u16,
    /// Part of the hash: distinguishes most other segments without reading their text.
    tag: u16,
}

const EMPTY: u32 = u32::MAX;

impl Edges {
    /// Texts have to be shorter than 64 KiB; a longer one is never found.
    pub(crate) fn new<'e>(edges: impl ExactSizeIterator<Item = (u32, &'e [u8], u32)>) -> Edges {
        let size = (edges.len() * 2).next_power_of_two().max(2);
        let empty = EdgeEntry { from: 0, to: EMPTY, at: 0, length: 0, tag: 0 };
        let mut built =
            Edges { slots: vec![empty; size].into(), text: Box::default(), mask: size - 1 };
        let mut text = Vec::new();
        for (from, segment, to) in edges {
            let Ok(length) = u16::try_from(segment.len()) else { continue };
            let (mut index, tag) = built.start(from, segment);
            while built.slots[index].to != EMPTY {
                index = (index + 1) & built.mask;
            }
            built.slots[index] = EdgeEntry { from, to, at: text.len() as u32, length, tag };
            text.extend_from_slice(segment);
        }
        built.text = text.into();
        built
    }

    #[inline]
    pub(crate) fn get(&self, from: u32, segment: &[u8]) -> Option<u32> {
        let (mut index, tag) = self.start(from, segment);
        loop {
            // At least half of the slots are free, so this ends.
            let slot = &self.slots[index];
            if slot.to == EMPTY {
                return None;
            }
            if slot.tag == tag && slot.from == from && self.text(slot) == segment {
                return Some(slot.to);
            }
            index = (index + 1) & self.mask;
        }
    }

    #[inline]
    fn text(&self, slot: &EdgeEntry) -> &[u8] {
        let at = slot.at as usize;
        &self.text[at..at + usize::from(slot.length)]
    }

    #[inline]
    fn start(&self, from: u32, segment: &[u8]) -> (usize, u16) {
        let mut hasher = FixedState::with_seed(u64::from(from)).build_hasher();
        hasher.write(segment);
        let hash = hasher.finish();
        (hash as usize & self.mask, (hash >> 48) as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::Edges;
    use std::collections::HashMap;

    #[test]
    fn what_was_put_in_is_found_and_nothing_else() {
        let mut map = HashMap::new();
        for from in 0..50u32 {
            for name in 0..20u32 {
                map.insert((from, format!("segment-{name}").into_bytes()), from * 100 + name);
            }
        }
        map.insert((7, Vec::new()), 9999);
        let edges = Edges::new(map.iter().map(|((from, text), to)| (*from, &**text, *to)));
        for ((from, segment), to) in &map {
            assert_eq!(edges.get(*from, segment), Some(*to));
        }
        assert_eq!(edges.get(50, b"segment-1"), None);
        assert_eq!(edges.get(1, b"segment-20"), None);
        assert_eq!(edges.get(8, b""), None);
        assert_eq!(Edges::new(std::iter::empty()).get(0, b"a"), None);
    }
}
