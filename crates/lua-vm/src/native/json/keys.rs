//! A cache of keys, so that Lua does not hash and intern the same few names repeatedly.
//!
//! Each slot corresponds to a slot of a Lua table, which keeps the string alive. The cache has the
//! bytes too: nothing that a script does to that table can make a comparison unsound.

/// A power of two.
pub(super) const SLOTS: usize = 256;
/// Longer keys are not cached.
const BYTES_MAX: usize = 32;
const EMPTY: usize = usize::MAX;

/// The bytes of a short key as four words; with its length they identify it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Key {
    words: [u64; 4],
    length: usize,
}

impl Key {
    /// `None` for a key that is not cached.
    #[inline(always)]
    pub(super) fn new(bytes: &[u8]) -> Option<Self> {
        let length = bytes.len();
        let word = |at: usize| {
            bytes
                .get(at..at + 8)
                .and_then(|piece| piece.first_chunk())
                .map(|b| u64::from_le_bytes(*b))
        };
        let words = match length {
            // The pieces overlap, so no byte past the key is read.
            0..8 => [short(bytes), 0, 0, 0],
            8..=16 => [word(0)?, word(length - 8)?, 0, 0],
            17..=BYTES_MAX => [word(0)?, word(8)?, word(length - 16)?, word(length - 8)?],
            _ => return None,
        };
        Some(Self { words, length })
    }

    #[inline(always)]
    pub(super) fn slot(&self) -> usize {
        let [a, b, c, d] = self.words;
        let mixed = (a ^ b.rotate_left(23) ^ c.rotate_left(41) ^ d.rotate_left(11))
            .wrapping_add(self.length as u64)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> (u64::BITS - SLOTS.trailing_zeros())) as usize
    }
}

/// Up to seven bytes as one word.
#[inline(always)]
fn short(bytes: &[u8]) -> u64 {
    match *bytes {
        [] => 0,
        [a] => u64::from(a),
        [a, .., b] if bytes.len() < 4 => {
            let middle = u64::from(bytes[bytes.len() / 2]);
            u64::from(a) | middle << 8 | u64::from(b) << 16
        }
        [a, b, c, d, ..] => {
            let last = &bytes[bytes.len() - 4..];
            let last = u32::from_le_bytes([last[0], last[1], last[2], last[3]]);
            u64::from(u32::from_le_bytes([a, b, c, d])) | u64::from(last) << 32
        }
        _ => 0,
    }
}

/// Allocates nothing until the first key is cached.
#[derive(Debug, Default)]
pub(super) struct KeyCache {
    slots: Vec<Key>,
}

impl KeyCache {
    #[inline(always)]
    pub(super) fn holds(&self, slot: usize, key: &Key) -> bool {
        self.slots.get(slot) == Some(key)
    }

    pub(super) fn put(&mut self, slot: usize, key: Key) {
        if self.slots.is_empty() {
            self.slots = vec![Key { words: [0; 4], length: EMPTY }; SLOTS];
        }
        self.slots[slot] = key;
    }
}

#[cfg(test)]
mod tests {
    use super::{Key, KeyCache};

    #[test]
    fn different_keys_differ() {
        let text: Vec<u8> = (b'a'..=b'z').chain(b'A'..=b'F').collect();
        for length in 0..=32 {
            let key = Key::new(&text[..length]).unwrap();
            for at in 0..length {
                let mut other = text[..length].to_vec();
                other[at] ^= 1;
                assert_ne!(key, Key::new(&other).unwrap(), "{length} bytes, {at} changed");
            }
            let longer = Key::new(&[&text[..length], &[0]].concat());
            assert_ne!(Some(key), longer, "{length} bytes and a zero");
            let mut keys = KeyCache::default();
            assert!(!keys.holds(key.slot(), &key));
            keys.put(key.slot(), key);
            assert!(keys.holds(key.slot(), &key));
        }
        assert_eq!(Key::new(&[b'a'; 33]), None);
    }
}
