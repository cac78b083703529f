//! What a stored object is found by.
//!
//! Owns the form of the key's text: the URL first (`scheme://authority/path?query`, normalised as
//! the route declares), then NUL and the route's name, then NUL and each declared part, then, for
//! one variant, NUL and the normalised values of its Vary fields, then, for a derived coding, NUL
//! and its token. NUL cannot stand in any of them. Promises that two keys are equal only if all of
//! their text is: the hash only says where to look.

use std::hash::BuildHasher;
use std::sync::LazyLock;

use foldhash::quality::RandomState;

/// Text of a key, with the length of the URL it begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    text: Box<[u8]>,
    url_len: u32,
}

impl Key {
    /// `url_len` bytes of `text` are the URL.
    pub fn new(text: impl Into<Box<[u8]>>, url_len: usize) -> Key {
        let text = text.into();
        let url_len = u32::try_from(url_len.min(text.len())).unwrap_or(u32::MAX);
        Key { text, url_len }
    }

    pub fn text(&self) -> &[u8] {
        &self.text
    }

    pub fn url(&self) -> &[u8] {
        &self.text[..self.url_len as usize]
    }

    pub fn hash(&self) -> u64 {
        hash(&self.text)
    }
}

/// Where to look for a text. The seed is of this process: nothing outside may rely on the number.
pub fn hash(text: &[u8]) -> u64 {
    static STATE: LazyLock<RandomState> = LazyLock::new(RandomState::default);
    STATE.hash_one(text)
}
