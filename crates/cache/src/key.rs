//! Keys of stored objects.
//!
//! The text of a key is the URL (`scheme://authority/path?query`, normalised as the route
//! declares), then NUL and the route's name with a mark of its key rules, then NUL and each
//! declared component, then for a variant NUL, `v:` and the normalised values of its Vary fields,
//! then for a transcoded response NUL, `c:` and the coding, or for parts NUL and `p:`. None of them
//! contains NUL. Promises that two keys are equal only if all of their text is (the hash only says
//! where to look), that two requests share a key only where the route says so, and that a request
//! which cannot be distinguished safely from others has no key. Keys are built in a buffer of the
//! worker.

mod cookie;
mod path;
mod query;
mod rules;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::hash::BuildHasher;
use std::sync::LazyLock;

use foldhash::quality::RandomState;

pub use rules::{KeyPath, KeyQuery, KeyRules, SignificantParams};

use crate::limits::KEY_BYTES_MAX;

/// The text of a key, with the length of the URL it begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    text: Box<[u8]>,
    url_len: u32,
}

impl Key {
    /// Makes a key; the first `url_len` bytes of `text` are the URL.
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

    /// The text without the values of a variant.
    pub(crate) fn primary(&self) -> &[u8] {
        let end = memchr::memmem::find(&self.text, VARIANT);
        &self.text[..end.unwrap_or(self.text.len())]
    }

    /// True if the text is this primary key, alone or with the values of a variant.
    pub(crate) fn is_variant_of(&self, primary: &[u8]) -> bool {
        let values = self.text.strip_prefix(primary);
        values.is_some_and(|values| values.is_empty() || values.starts_with(VARIANT))
    }

    /// `scheme://authority` of the URL.
    pub(crate) fn origin(&self) -> &[u8] {
        let url = self.url();
        let authority = memchr::memmem::find(url, b"://").map_or(0, |at| at + 3);
        let path = memchr::memchr(b'/', &url[authority..]).map_or(url.len(), |at| authority + at);
        &url[..path]
    }

    pub fn hash(&self) -> u64 {
        hash(&self.text, self.url_len as usize)
    }
}

/// What the values of a variant begin with. No component of a key begins like this.
const VARIANT: &[u8] = b"\0v:";

/// Bits of a hash that depend on the URL alone: they choose the shard of the store, so that a shard
/// holds all objects of a URL. Tables use the lowest bits and the highest seven.
const URL_BITS: u64 = 0x01FF_F000_0000_0000;
/// The lowest of these bits.
pub(crate) const URL_SHIFT: u32 = URL_BITS.trailing_zeros();

/// The hash of a text whose first `url_len` bytes are the URL. The seed is that of this process:
/// nothing outside may rely on the number.
pub(crate) fn hash(text: &[u8], url_len: usize) -> u64 {
    let (url, rest) = text.split_at(url_len.min(text.len()));
    url_hash(url) ^ (text_hash(rest) & !URL_BITS)
}

/// The hash of a URL.
pub(crate) fn url_hash(url: &[u8]) -> u64 {
    // Rotated, because a URL that was the rest of another URL's key would cancel out.
    text_hash(url).rotate_left(32)
}

fn text_hash(text: &[u8]) -> u64 {
    static STATE: LazyLock<RandomState> = LazyLock::new(RandomState::default);
    STATE.hash_one(text)
}

/// Why a request has no key: it is forwarded, and its response is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyError {
    /// The path may mean something else to the origin.
    AmbiguousPath,
    /// The key would exceed its limit.
    TooLong,
    /// There are more query parameters than are compared.
    TooManyParameters,
    /// A component contains a control character.
    ControlCharacter,
}

impl KeyError {
    /// The name in metrics and `Cache-Status`.
    pub fn slug(self) -> &'static str {
        match self {
            KeyError::AmbiguousPath => "ambiguous_path",
            KeyError::TooLong => "key_too_long",
            KeyError::TooManyParameters => "too_many_parameters",
            KeyError::ControlCharacter => "control_character",
        }
    }
}

/// A key that is built and looked up.
#[derive(Debug, Default)]
pub struct KeyBuffer {
    text: Vec<u8>,
    url_len: usize,
    /// Length of the primary key, which variants and codings are appended to.
    primary_len: usize,
}

impl KeyBuffer {
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    pub fn url(&self) -> &[u8] {
        &self.text[..self.url_len]
    }

    pub fn hash(&self) -> u64 {
        hash(&self.text, self.url_len)
    }

    /// Length of the primary key.
    pub(crate) fn primary_len(&self) -> usize {
        self.primary_len
    }

    /// Copies the key.
    pub fn key(&self) -> Key {
        Key::new(&*self.text, self.url_len)
    }

    /// Truncates the text to the primary key.
    pub fn primary(&mut self) -> &mut KeyBuffer {
        self.text.truncate(self.primary_len);
        self
    }

    /// Appends the values of one variant; `write` must not write NUL.
    pub fn variant(
        &mut self,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Result<&mut KeyBuffer, KeyError> {
        self.text.extend_from_slice(VARIANT);
        let begin = self.text.len();
        write(&mut self.text);
        if memchr::memchr(0, &self.text[begin..]).is_some() {
            return Err(KeyError::ControlCharacter);
        }
        self.bounded()
    }

    /// Sets the primary key.
    pub fn resume(&mut self, key: &Key) {
        self.text.clear();
        self.text.extend_from_slice(key.text());
        (self.url_len, self.primary_len) = (key.url().len(), key.text().len());
    }

    /// Turns a key without query into that of its No-Vary-Search rule.
    pub fn search(&mut self) -> &mut KeyBuffer {
        self.text.extend_from_slice(b"\0s:");
        self
    }

    /// Appends the token of a coding.
    pub fn coding(&mut self, token: &str) -> &mut KeyBuffer {
        self.text.extend_from_slice(b"\0c:");
        self.text.extend_from_slice(token.as_bytes());
        self
    }

    /// Turns the key into that of its parts.
    pub fn parts(&mut self) -> &mut KeyBuffer {
        self.text.extend_from_slice(b"\0p:");
        self
    }

    fn bounded(&mut self) -> Result<&mut KeyBuffer, KeyError> {
        if self.text.len() > KEY_BYTES_MAX { Err(KeyError::TooLong) } else { Ok(self) }
    }
}

thread_local! {
    static KEY_BUFFER: RefCell<KeyBuffer> = RefCell::default();
}

/// Calls `work` with the buffer of the worker.
pub(crate) fn with_key_buffer<R>(work: impl FnOnce(&mut KeyBuffer) -> R) -> R {
    KEY_BUFFER.with(|buffer| match buffer.try_borrow_mut() {
        Ok(mut buffer) => work(&mut buffer),
        // The buffer is in use further up the stack.
        Err(_) => work(&mut KeyBuffer::default()),
    })
}

/// Appends `=` and the values, or nothing without any.
fn write_joined<T: AsRef<[u8]>>(
    values: impl IntoIterator<Item = T>,
    between: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), KeyError> {
    for (at, value) in values.into_iter().enumerate() {
        out.extend_from_slice(if at == 0 { b"=" } else { between });
        // Control characters other than tab could make one value look like two, or like several
        // components.
        if value.as_ref().iter().any(|byte| *byte < b' ' && *byte != b'\t') {
            return Err(KeyError::ControlCharacter);
        }
        out.extend_from_slice(value.as_ref());
    }
    Ok(())
}
