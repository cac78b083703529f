//! Why a text is not JSON.

/// An error in a text, and its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ParseError {
    /// In bytes from the start of the text.
    pub(super) at: usize,
    pub(super) what: &'static str,
}

impl ParseError {
    pub(super) const fn new(at: usize, what: &'static str) -> Self {
        Self { at, what }
    }

    /// The text a script gets; lines and columns count from one, columns in bytes.
    pub(super) fn describe(&self, text: &[u8]) -> String {
        let before = &text[..self.at.min(text.len())];
        let line = memchr::memchr_iter(b'\n', before).count() + 1;
        let column = before.len() - memchr::memrchr(b'\n', before).map_or(0, |at| at + 1) + 1;
        format!("{} at byte {} (line {line}, column {column})", self.what, self.at + 1)
    }
}
