//! Parsing of replies of a Redis server, RESP2 and RESP3.
//!
//! Owns the syntax of replies. Guarantees: the result does not depend on how the bytes were split,
//! bytes that have been parsed are not parsed again when more arrive, and depth, number of values
//! and bytes are bounded. Attributes are parsed and dropped; the streamed types of RESP3, which no
//! server sends, are rejected.

use std::ops::Range;

/// The limits of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a simple string, an error or a length.
    pub line: usize,
    /// Bytes of the whole reply.
    pub bytes: usize,
    /// Values in it, including each aggregate.
    pub items: usize,
    /// Nesting depth of aggregates.
    pub depth: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { line: 64 << 10, bytes: 64 << 20, items: 1 << 20, depth: 64 }
    }
}

/// Why a reply is rejected; the connection cannot continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyError {
    LineTooLong,
    ReplyTooLong,
    TooManyItems,
    TooDeep,
    UnknownType,
    InvalidLine,
}

impl ReplyError {
    pub fn text(self) -> &'static str {
        match self {
            ReplyError::LineTooLong => "a line of a reply is too long",
            ReplyError::ReplyTooLong => "a reply is too long",
            ReplyError::TooManyItems => "a reply has too many values",
            ReplyError::TooDeep => "a reply is nested too deeply",
            ReplyError::UnknownType => "a reply of an unknown type",
            ReplyError::InvalidLine => "a malformed reply",
        }
    }
}

/// One value; the values of an aggregate follow it. Ranges are positions in the reply.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    Text(Range<usize>),
    Error(Range<usize>),
    Integer(i64),
    Double(f64),
    Boolean(bool),
    Null,
    Array(usize),
    Set(usize),
    /// The number of pairs.
    Map(usize),
    /// A push message.
    Push(usize),
}

/// The values that an aggregate still lacks.
#[derive(Debug)]
struct Level {
    left: usize,
    /// Index of the first item of an attribute, whose items are dropped.
    attribute: Option<usize>,
}

/// Parses replies one after the other.
#[derive(Debug, Default)]
pub struct Reader {
    at: usize,
    items: Vec<Item>,
    open: Vec<Level>,
    complete: bool,
}

/// The result of one step.
enum Step {
    Value(Item),
    Aggregate(Item, usize),
    Attribute(usize),
}

impl Reader {
    /// Returns the length of the reply at the start of `buf`, whose values are then in
    /// [`Reader::items`]; `None` for more bytes: the next call must get the same bytes and more.
    pub fn read(&mut self, buf: &[u8], limits: &Limits) -> Result<Option<usize>, ReplyError> {
        if self.complete {
            self.reset();
        }
        loop {
            let Some((step, next)) = self.step(buf, limits)? else { return Ok(None) };
            if next > limits.bytes {
                return Err(ReplyError::ReplyTooLong);
            }
            self.at = next;
            self.take(step, limits)?;
            if self.open.is_empty() && !self.items.is_empty() {
                self.complete = true;
                return Ok(Some(self.at));
            }
        }
    }

    /// The values of the last reply, in order.
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// Discards a complete or partial reply.
    pub fn reset(&mut self) {
        self.at = 0;
        self.items.clear();
        self.open.clear();
        self.complete = false;
    }

    fn take(&mut self, step: Step, limits: &Limits) -> Result<(), ReplyError> {
        let (item, level) = match step {
            Step::Value(item) => (Some(item), None),
            Step::Aggregate(item, left) => (Some(item), Some(Level { left, attribute: None })),
            Step::Attribute(left) => {
                (None, Some(Level { left, attribute: Some(self.items.len()) }))
            }
        };
        // A value inside an attribute does not count as one of the surrounding aggregate.
        if item.is_some()
            && let Some(parent) = self.open.last_mut()
        {
            parent.left -= 1;
        }
        self.items.extend(item);
        if let Some(level) = level {
            if level.left > limits.items.saturating_sub(self.items.len()) {
                return Err(ReplyError::TooManyItems);
            }
            if self.open.len() == limits.depth {
                return Err(ReplyError::TooDeep);
            }
            self.open.push(level);
        }
        while let Some(level) = self.open.pop_if(|level| level.left == 0) {
            if let Some(from) = level.attribute {
                self.items.truncate(from);
            }
        }
        if self.items.len() > limits.items { Err(ReplyError::TooManyItems) } else { Ok(()) }
    }

    /// Returns the next value and the position after it.
    fn step(&self, buf: &[u8], limits: &Limits) -> Result<Option<(Step, usize)>, ReplyError> {
        let Some(&kind) = buf.get(self.at) else { return Ok(None) };
        if !b"+-:$*_,#(!=%~>|".contains(&kind) {
            return Err(ReplyError::UnknownType);
        }
        let start = self.at + 1;
        let window = &buf[start..buf.len().min(start + limits.line)];
        let Some(found) = memchr::memchr(b'\n', window) else {
            let full = window.len() == limits.line;
            return if full { Err(ReplyError::LineTooLong) } else { Ok(None) };
        };
        let (end, next) = ((start + found).saturating_sub(1), start + found + 1);
        if end < start || buf[end] != b'\r' {
            return Err(ReplyError::InvalidLine);
        }
        let line = &buf[start..end];
        let step = match kind {
            b'+' | b'(' => Step::Value(Item::Text(start..end)),
            b'-' => Step::Value(Item::Error(start..end)),
            b':' => Step::Value(Item::Integer(number(line)?)),
            b',' => Step::Value(Item::Double(number(line)?)),
            b'#' if line == b"t" || line == b"f" => Step::Value(Item::Boolean(line == b"t")),
            b'_' if line.is_empty() => Step::Value(Item::Null),
            b'$' | b'*' if line == b"-1" => Step::Value(Item::Null),
            b'$' | b'!' | b'=' => return bulk(kind, buf, line, next, limits),
            b'*' => count(line, 1, Item::Array)?,
            b'~' => count(line, 1, Item::Set)?,
            b'>' => count(line, 1, Item::Push)?,
            b'%' => count(line, 2, Item::Map)?,
            b'|' => Step::Attribute(length(line)?.checked_mul(2).ok_or(ReplyError::TooManyItems)?),
            _ => return Err(ReplyError::InvalidLine),
        };
        Ok(Some((step, next)))
    }
}

/// Parses a text of `line` bytes at `start`, and CRLF.
fn bulk(
    kind: u8,
    buf: &[u8],
    line: &[u8],
    start: usize,
    limits: &Limits,
) -> Result<Option<(Step, usize)>, ReplyError> {
    let length = length(line)?;
    if length > limits.bytes {
        return Err(ReplyError::ReplyTooLong);
    }
    let end = start + length;
    if end > limits.bytes {
        return Err(ReplyError::ReplyTooLong);
    }
    match buf.get(end..) {
        None | Some([] | [b'\r']) => return Ok(None),
        Some([b'\r', b'\n', ..]) => {}
        Some(_) => return Err(ReplyError::InvalidLine),
    }
    let item = match kind {
        b'!' => Item::Error(start..end),
        // A verbatim string begins with three letters for its format, and a colon.
        b'=' if length < 4 || buf[start + 3] != b':' => return Err(ReplyError::InvalidLine),
        b'=' => Item::Text(start + 4..end),
        _ => Item::Text(start..end),
    };
    Ok(Some((Step::Value(item), end + 2)))
}

fn count(line: &[u8], each: usize, item: fn(usize) -> Item) -> Result<Step, ReplyError> {
    let count = length(line)?;
    let left = count.checked_mul(each).ok_or(ReplyError::TooManyItems)?;
    Ok(Step::Aggregate(item(count), left))
}

fn length(line: &[u8]) -> Result<usize, ReplyError> {
    let value = crate::token::decimal(line).ok_or(ReplyError::InvalidLine)?;
    usize::try_from(value).map_err(|_| ReplyError::InvalidLine)
}

fn number<T: std::str::FromStr>(line: &[u8]) -> Result<T, ReplyError> {
    let text = std::str::from_utf8(line).map_err(|_| ReplyError::InvalidLine)?;
    text.parse().map_err(|_| ReplyError::InvalidLine)
}

#[cfg(test)]
mod tests;
