//! Replies of a Redis server, RESP2 and RESP3, as they arrive.
//!
//! Owns where a reply begins and ends and what stands in it. Promises that a verdict does not
//! depend on how the bytes were split, that what has been read is not read again when more comes,
//! and that depth, number of values and bytes are bounded. Attributes are read and dropped; the
//! streamed types of RESP3, which no server sends, are refused.

use std::ops::Range;

/// How large a reply may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a simple string, an error or a length.
    pub line: usize,
    /// Bytes of the whole reply.
    pub bytes: usize,
    /// Values in it, each aggregate among them.
    pub items: usize,
    /// How deep aggregates may stand in each other.
    pub depth: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { line: 64 << 10, bytes: 64 << 20, items: 1 << 20, depth: 64 }
    }
}

/// Why a reply is refused; the connection cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    LineTooLong,
    ReplyTooLong,
    TooManyItems,
    TooDeep,
    UnknownType,
    InvalidLine,
}

impl Fault {
    pub fn text(self) -> &'static str {
        match self {
            Fault::LineTooLong => "a line of a reply is too long",
            Fault::ReplyTooLong => "a reply is too long",
            Fault::TooManyItems => "a reply has too many values",
            Fault::TooDeep => "a reply is nested too deeply",
            Fault::UnknownType => "a reply of an unknown type",
            Fault::InvalidLine => "a malformed reply",
        }
    }
}

/// One value; those of an aggregate follow it. Ranges are places in the reply.
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
    /// So many pairs.
    Map(usize),
    /// A message out of turn.
    Push(usize),
}

/// Values that an aggregate still lacks.
#[derive(Debug)]
struct Level {
    left: usize,
    /// Where the items of an attribute begin, which are dropped.
    attribute: Option<usize>,
}

/// Reads one reply after the other.
#[derive(Debug, Default)]
pub struct Reader {
    at: usize,
    items: Vec<Item>,
    open: Vec<Level>,
    complete: bool,
}

/// What one step makes of the bytes.
enum Step {
    Value(Item),
    Aggregate(Item, usize),
    Attribute(usize),
}

impl Reader {
    /// The length of the reply at the start of `buf`, whose values are then in [`Reader::items`];
    /// `None` for more bytes: the next call gets the same ones again, and more.
    pub fn read(&mut self, buf: &[u8], limits: &Limits) -> Result<Option<usize>, Fault> {
        if self.complete {
            self.reset();
        }
        loop {
            let Some((step, next)) = self.step(buf, limits)? else { return Ok(None) };
            if next > limits.bytes {
                return Err(Fault::ReplyTooLong);
            }
            self.at = next;
            self.take(step, limits)?;
            if self.open.is_empty() && !self.items.is_empty() {
                self.complete = true;
                return Ok(Some(self.at));
            }
        }
    }

    /// The values of the reply that was read last, in the order they came.
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// Forgets a reply, read or half read.
    pub fn reset(&mut self) {
        self.at = 0;
        self.items.clear();
        self.open.clear();
        self.complete = false;
    }

    fn take(&mut self, step: Step, limits: &Limits) -> Result<(), Fault> {
        let (item, level) = match step {
            Step::Value(item) => (Some(item), None),
            Step::Aggregate(item, left) => (Some(item), Some(Level { left, attribute: None })),
            Step::Attribute(left) => {
                (None, Some(Level { left, attribute: Some(self.items.len()) }))
            }
        };
        // What stands in an attribute is no value of what it stands in.
        if item.is_some()
            && let Some(parent) = self.open.last_mut()
        {
            parent.left -= 1;
        }
        self.items.extend(item);
        if let Some(level) = level {
            if level.left > limits.items.saturating_sub(self.items.len()) {
                return Err(Fault::TooManyItems);
            }
            if self.open.len() == limits.depth {
                return Err(Fault::TooDeep);
            }
            self.open.push(level);
        }
        while let Some(level) = self.open.pop_if(|level| level.left == 0) {
            if let Some(from) = level.attribute {
                self.items.truncate(from);
            }
        }
        if self.items.len() > limits.items { Err(Fault::TooManyItems) } else { Ok(()) }
    }

    /// The next value and where the one after it begins.
    fn step(&self, buf: &[u8], limits: &Limits) -> Result<Option<(Step, usize)>, Fault> {
        let Some(&kind) = buf.get(self.at) else { return Ok(None) };
        if !b"+-:$*_,#(!=%~>|".contains(&kind) {
            return Err(Fault::UnknownType);
        }
        let start = self.at + 1;
        let window = &buf[start..buf.len().min(start + limits.line)];
        let Some(found) = memchr::memchr(b'\n', window) else {
            let full = window.len() == limits.line;
            return if full { Err(Fault::LineTooLong) } else { Ok(None) };
        };
        let (end, next) = ((start + found).saturating_sub(1), start + found + 1);
        if end < start || buf[end] != b'\r' {
            return Err(Fault::InvalidLine);
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
            b'|' => Step::Attribute(length(line)?.checked_mul(2).ok_or(Fault::TooManyItems)?),
            _ => return Err(Fault::InvalidLine),
        };
        Ok(Some((step, next)))
    }
}

/// A text of `line` bytes that begins at `start`, and CRLF.
fn bulk(
    kind: u8,
    buf: &[u8],
    line: &[u8],
    start: usize,
    limits: &Limits,
) -> Result<Option<(Step, usize)>, Fault> {
    let length = length(line)?;
    if length > limits.bytes {
        return Err(Fault::ReplyTooLong);
    }
    let end = start + length;
    if end > limits.bytes {
        return Err(Fault::ReplyTooLong);
    }
    match buf.get(end..) {
        None | Some([] | [b'\r']) => return Ok(None),
        Some([b'\r', b'\n', ..]) => {}
        Some(_) => return Err(Fault::InvalidLine),
    }
    let item = match kind {
        b'!' => Item::Error(start..end),
        // A verbatim text begins with three letters for its format, and a colon.
        b'=' if length < 4 || buf[start + 3] != b':' => return Err(Fault::InvalidLine),
        b'=' => Item::Text(start + 4..end),
        _ => Item::Text(start..end),
    };
    Ok(Some((Step::Value(item), end + 2)))
}

fn count(line: &[u8], each: usize, item: fn(usize) -> Item) -> Result<Step, Fault> {
    let count = length(line)?;
    let left = count.checked_mul(each).ok_or(Fault::TooManyItems)?;
    Ok(Step::Aggregate(item(count), left))
}

fn length(line: &[u8]) -> Result<usize, Fault> {
    let value = crate::token::decimal(line).ok_or(Fault::InvalidLine)?;
    usize::try_from(value).map_err(|_| Fault::InvalidLine)
}

fn number<T: std::str::FromStr>(line: &[u8]) -> Result<T, Fault> {
    let text = std::str::from_utf8(line).map_err(|_| Fault::InvalidLine)?;
    text.parse().map_err(|_| Fault::InvalidLine)
}

#[cfg(test)]
mod tests;
