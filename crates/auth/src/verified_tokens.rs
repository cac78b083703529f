//! A table of tokens that were verified before, by their whole text.
//!
//! Promises that a token is found by a hash under a random key, and is then compared as a whole and
//! in constant time; that the table has a bounded number of entries and of bytes. The digest of a
//! token takes longer than both.

use std::collections::HashMap;
use std::hash::BuildHasher;

use foldhash::quality::RandomState;

use crate::credential::is_same;

/// Tokens that a table holds.
const TOKENS_MAX: usize = 4096;
/// The bytes of all tokens together.
const BYTES_MAX: usize = 8 * 1024 * 1024;

/// Values of verified tokens. A full table begins again.
pub(crate) struct VerifiedTokens<T> {
    hasher: RandomState,
    /// By the hash of the token: of two with one hash, the later one.
    tokens: HashMap<u64, (Box<[u8]>, T), foldhash::fast::RandomState>,
    bytes: usize,
}

impl<T> Default for VerifiedTokens<T> {
    fn default() -> Self {
        VerifiedTokens { hasher: RandomState::default(), tokens: HashMap::default(), bytes: 0 }
    }
}

impl<T> VerifiedTokens<T> {
    pub(crate) fn get_mut(&mut self, token: &[u8]) -> Option<&mut T> {
        let (known, value) = self.tokens.get_mut(&self.hasher.hash_one(token))?;
        is_same(known, token).then_some(value)
    }

    pub(crate) fn insert(&mut self, token: &[u8], value: T) {
        if self.tokens.len() >= TOKENS_MAX || self.bytes + token.len() > BYTES_MAX {
            self.clear();
        }
        self.bytes += token.len();
        let before = self.tokens.insert(self.hasher.hash_one(token), (token.into(), value));
        self.bytes -= before.map_or(0, |(token, _)| token.len());
    }

    pub(crate) fn clear(&mut self) {
        self.tokens.clear();
        self.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_found_as_a_whole() {
        let mut table = VerifiedTokens::default();
        table.insert(b"one.two.three", 1);
        table.insert(b"one.two.four", 2);
        table.insert(b"one.two.three", 3);
        assert_eq!(table.get_mut(b"one.two.three"), Some(&mut 3));
        assert_eq!(table.get_mut(b"one.two.four"), Some(&mut 2));
        for other in ["one.two.thred", "one.two.thre", "one.two.three.", "", "One.two.three"] {
            assert_eq!(table.get_mut(other.as_bytes()), None, "{other}");
        }
        // Two tokens with one hash: only the text decides.
        let hash = table.hasher.hash_one(&b"one.two.three"[..]);
        table.tokens.insert(hash, (b"one.two.other"[..].into(), 4));
        assert_eq!(table.get_mut(b"one.two.three"), None);
        table.clear();
        assert_eq!(table.get_mut(b"one.two.four"), None);
    }

    #[test]
    fn a_full_table_begins_again() {
        let mut table = VerifiedTokens::default();
        for number in 0..=TOKENS_MAX {
            table.insert(&number.to_ne_bytes(), number);
        }
        assert_eq!((table.tokens.len(), table.bytes), (1, size_of::<usize>()));
        let long = vec![b'x'; BYTES_MAX / 2];
        table.insert(&long, 0);
        table.insert(&[&long[..], b"y"].concat(), 0);
        assert_eq!((table.tokens.len(), table.bytes), (1, long.len() + 1));
        table.insert(&[&long[..], b"y"].concat(), 0);
        assert_eq!((table.tokens.len(), table.bytes), (1, long.len() + 1));
    }
}
