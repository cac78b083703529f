//! A parsed document as a flat list of words: the interface between the parser, which is safe Rust
//! without Lua, and the builder, which uses Lua's stack and cannot fail on the text.
//!
//! A container carries the number of its entries, so that its table is made in the right size.

/// The low bits of a word are its type; the rest is its payload.
const TAG_BITS: u32 = 4;
const LENGTH_BITS: u32 = 28;
/// The offset of a longer text does not fit into a word.
pub(super) const TEXT_BYTES_MAX: usize = (1 << LENGTH_BITS) - 1;

const NULL: u64 = 0;
const FALSE: u64 = 1;
const TRUE: u64 = 2;
const INTEGER: u64 = 3;
const WIDE: u64 = 4;
const FLOAT: u64 = 5;
const PLAIN: u64 = 6;
const UNESCAPED: u64 = 7;
const ARRAY: u64 = 8;
const OBJECT: u64 = 9;

/// One value of the document.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Node {
    Null,
    Boolean(bool),
    Integer(i64),
    Float(f64),
    /// A piece of the document.
    Plain {
        start: usize,
        length: usize,
    },
    /// A piece of the tape's `unescaped`.
    Unescaped {
        start: usize,
        length: usize,
    },
    /// The number of values that follow.
    Array(usize),
    /// The number of pairs of a string and a value that follow.
    Object(usize),
}

#[derive(Debug, Default)]
pub(super) struct Tape {
    words: Vec<u64>,
    /// Strings that were written with escapes, end to end.
    pub(super) unescaped: Vec<u8>,
    /// The depth of nested containers.
    pub(super) depth: usize,
}

impl Tape {
    pub(super) fn clear(&mut self) {
        self.words.clear();
        self.unescaped.clear();
        self.depth = 0;
    }

    /// Frees memory that a large document needed.
    pub(super) fn shrink(&mut self, words_kept: usize, bytes_kept: usize) {
        if self.words.capacity() > words_kept {
            self.words = Vec::new();
        }
        if self.unescaped.capacity() > bytes_kept {
            self.unescaped = Vec::new();
        }
    }

    pub(super) fn reserve(&mut self, words: usize) {
        self.words.reserve(words);
    }

    pub(super) fn words(&self) -> &[u64] {
        &self.words
    }

    #[inline]
    pub(super) fn null(&mut self) {
        self.words.push(NULL);
    }

    #[inline]
    pub(super) fn boolean(&mut self, value: bool) {
        self.words.push(if value { TRUE } else { FALSE });
    }

    #[inline]
    pub(super) fn integer(&mut self, value: i64) {
        if value << TAG_BITS >> TAG_BITS == value {
            self.words.push(((value as u64) << TAG_BITS) | INTEGER);
        } else {
            self.words.extend_from_slice(&[WIDE, value as u64]);
        }
    }

    #[inline]
    pub(super) fn float(&mut self, value: f64) {
        self.words.extend_from_slice(&[FLOAT, value.to_bits()]);
    }

    #[inline]
    pub(super) fn plain(&mut self, start: usize, length: usize) {
        self.words.push(span_bits(start, length) | PLAIN);
    }

    #[inline]
    pub(super) fn unescaped(&mut self, start: usize, length: usize) {
        self.words.push(span_bits(start, length) | UNESCAPED);
    }

    /// Begins a container; its position is needed to close it.
    #[inline]
    pub(super) fn open(&mut self) -> usize {
        self.words.push(ARRAY);
        self.words.len() - 1
    }

    #[inline]
    pub(super) fn close(&mut self, place: usize, object: bool, count: usize) {
        let tag = if object { OBJECT } else { ARRAY };
        self.words[place] = ((count as u64) << TAG_BITS) | tag;
    }
}

/// Reads the node at `at` and moves past it; past the end everything is null.
#[inline(always)]
pub(super) fn read(words: &[u64], at: &mut usize) -> Node {
    let word = words.get(*at).copied().unwrap_or(NULL);
    *at += 1;
    let payload = word >> TAG_BITS;
    let length = (payload & TEXT_BYTES_MAX as u64) as usize;
    let start = (payload >> LENGTH_BITS) as usize;
    match word & ((1 << TAG_BITS) - 1) {
        FALSE => Node::Boolean(false),
        TRUE => Node::Boolean(true),
        INTEGER => Node::Integer(word as i64 >> TAG_BITS),
        WIDE => Node::Integer(wide(words, at) as i64),
        FLOAT => Node::Float(f64::from_bits(wide(words, at))),
        PLAIN => Node::Plain { start, length },
        UNESCAPED => Node::Unescaped { start, length },
        ARRAY => Node::Array(payload as usize),
        OBJECT => Node::Object(payload as usize),
        _ => Node::Null,
    }
}

#[inline(always)]
fn wide(words: &[u64], at: &mut usize) -> u64 {
    *at += 1;
    words.get(*at - 1).copied().unwrap_or(0)
}

fn span_bits(start: usize, length: usize) -> u64 {
    ((start as u64) << (TAG_BITS + LENGTH_BITS)) | ((length as u64) << TAG_BITS)
}

#[cfg(test)]
mod tests {
    use super::{Node, Tape, read};

    #[test]
    fn what_is_written_is_read() {
        let mut tape = Tape::default();
        let place = tape.open();
        tape.null();
        tape.boolean(true);
        for value in [0, -1, 1 << 59, i64::MAX, i64::MIN] {
            tape.integer(value);
        }
        tape.float(-0.5);
        tape.plain(super::TEXT_BYTES_MAX, 7);
        tape.unescaped(3, super::TEXT_BYTES_MAX);
        tape.close(place, true, 5);
        let (mut at, mut nodes) = (0, Vec::new());
        while at < tape.words().len() {
            nodes.push(read(tape.words(), &mut at));
        }
        assert_eq!(nodes[..3], [Node::Object(5), Node::Null, Node::Boolean(true)]);
        let integers: Vec<_> = [0, -1, 1 << 59, i64::MAX, i64::MIN].map(Node::Integer).into();
        assert_eq!(nodes[3..8], integers);
        assert_eq!(nodes[8], Node::Float(-0.5));
        assert_eq!(nodes[9], Node::Plain { start: super::TEXT_BYTES_MAX, length: 7 });
        assert_eq!(nodes[10], Node::Unescaped { start: 3, length: super::TEXT_BYTES_MAX });
    }
}
