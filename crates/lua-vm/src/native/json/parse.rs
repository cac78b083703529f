//! The grammar of RFC 8259, strictly: nothing before or after the value but white space, no
//! trailing commas, no comments.
//!
//! Does not use Lua and does not recurse: a hostile document meets safe Rust and a depth limit.

use super::number::{Number, number};
use super::parse_error::ParseError;
use super::string::{plain_end, unescape};
use super::tape::{TEXT_BYTES_MAX, Tape};

/// A container that is being read.
#[derive(Debug, Clone, Copy)]
struct OpenContainer {
    place: usize,
    count: usize,
    object: bool,
}

/// Reuses its memory for the next document.
#[derive(Debug, Default)]
pub(super) struct Parser {
    outer: Vec<OpenContainer>,
    pub(super) tape: Tape,
}

impl Parser {
    /// Reads one document; `tape` has it afterwards.
    pub(super) fn parse(&mut self, text: &[u8], depth_max: usize) -> Result<(), ParseError> {
        self.outer.clear();
        self.tape.clear();
        if text.len() > TEXT_BYTES_MAX {
            return Err(ParseError::new(0, "the text is longer than 256 MiB"));
        }
        self.tape.reserve(text.len() / 8 + 2);
        let (tape, outer) = (&mut self.tape, &mut self.outer);
        let end = Reader { text, at: 0, tape, outer, depth_max }.document()?;
        match text.get(end) {
            None => Ok(()),
            Some(_) => Err(ParseError::new(end, "unexpected text after the value")),
        }
    }
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    tape: &'a mut Tape,
    outer: &'a mut Vec<OpenContainer>,
    depth_max: usize,
}

impl Reader<'_> {
    /// Returns the end of the white space after the value.
    fn document(&mut self) -> Result<usize, ParseError> {
        // The container whose entries are being read. Before the first there is none: count 0 of a
        // container that is never closed.
        let mut open = OpenContainer { place: 0, count: 0, object: false };
        loop {
            let entered = match self.skip_space() {
                Some(b'"') => self.string()?,
                Some(b'-' | b'0'..=b'9') => self.number()?,
                Some(b'{') => self.enter(&mut open, true)?,
                Some(b'[') => self.enter(&mut open, false)?,
                Some(b't') => self.literal(b"true", |tape| tape.boolean(true))?,
                Some(b'f') => self.literal(b"false", |tape| tape.boolean(false))?,
                Some(b'n') => self.literal(b"null", Tape::null)?,
                Some(_) => return Err(ParseError::new(self.at, "a value is expected")),
                None => {
                    return Err(ParseError::new(self.at, "the text ends where a value should be"));
                }
            };
            if entered {
                continue;
            }
            // After a value: containers that close here, and whether another value follows.
            loop {
                let next = self.skip_space();
                if self.outer.is_empty() {
                    return Ok(self.at);
                }
                open.count += 1;
                match next {
                    Some(b',') => {
                        self.at += 1;
                        if open.object {
                            self.key()?;
                        }
                        break;
                    }
                    Some(b'}') if open.object => self.leave(&mut open),
                    Some(b']') if !open.object => self.leave(&mut open),
                    _ => return Err(self.unclosed(&open)),
                }
            }
        }
    }

    #[cold]
    fn unclosed(&self, open: &OpenContainer) -> ParseError {
        ParseError::new(
            self.at,
            match (self.text.get(self.at), open.object) {
                (None, true) => "the text ends within an object",
                (None, false) => "the text ends within an array",
                (_, true) => "',' or '}' is expected",
                (_, false) => "',' or ']' is expected",
            },
        )
    }

    /// Skips white space; returns the byte after it.
    #[inline(always)]
    fn skip_space(&mut self) -> Option<u8> {
        loop {
            let byte = *self.text.get(self.at)?;
            if byte > b' ' || !matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
                return Some(byte);
            }
            self.at += 1;
        }
    }

    /// Begins a container; false if it is empty.
    #[inline]
    fn enter(&mut self, open: &mut OpenContainer, object: bool) -> Result<bool, ParseError> {
        if self.outer.len() >= self.depth_max {
            return Err(ParseError::new(self.at, "the document is nested too deeply"));
        }
        let place = self.tape.open();
        self.at += 1;
        let next = self.skip_space();
        if next == Some(if object { b'}' } else { b']' }) {
            self.at += 1;
            self.tape.close(place, object, 0);
            self.tape.depth = self.tape.depth.max(self.outer.len() + 1);
            return Ok(false);
        }
        self.outer.push(*open);
        self.tape.depth = self.tape.depth.max(self.outer.len());
        *open = OpenContainer { place, count: 0, object };
        if object {
            self.key()?;
        }
        Ok(true)
    }

    #[inline]
    fn leave(&mut self, open: &mut OpenContainer) {
        self.at += 1;
        self.tape.close(open.place, open.object, open.count);
        if let Some(outer) = self.outer.pop() {
            *open = outer;
        }
    }

    #[inline(always)]
    fn key(&mut self) -> Result<(), ParseError> {
        if self.skip_space() != Some(b'"') {
            return Err(ParseError::new(self.at, "a key in quotes is expected"));
        }
        self.string()?;
        if self.skip_space() != Some(b':') {
            return Err(ParseError::new(self.at, "':' is expected"));
        }
        self.at += 1;
        Ok(())
    }

    #[inline(always)]
    fn string(&mut self) -> Result<bool, ParseError> {
        let start = self.at + 1;
        let at = plain_end(self.text, start);
        if self.text.get(at) == Some(&b'"') {
            self.tape.plain(start, at - start);
            self.at = at + 1;
        } else {
            let before = self.tape.unescaped.len();
            self.at = unescape(self.text, start, at, &mut self.tape.unescaped)? + 1;
            self.tape.unescaped(before, self.tape.unescaped.len() - before);
        }
        Ok(false)
    }

    #[inline(always)]
    fn number(&mut self) -> Result<bool, ParseError> {
        let (number, end) = number(self.text, self.at)?;
        match number {
            Number::Integer(value) => self.tape.integer(value),
            Number::Float(value) => self.tape.float(value),
        }
        self.at = end;
        Ok(false)
    }

    #[inline(always)]
    fn literal(&mut self, word: &[u8], put: impl FnOnce(&mut Tape)) -> Result<bool, ParseError> {
        if !self.text[self.at..].starts_with(word) {
            return Err(ParseError::new(self.at, "a value is expected"));
        }
        put(self.tape);
        self.at += word.len();
        Ok(false)
    }
}
