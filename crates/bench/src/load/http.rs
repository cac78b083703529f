//! Checks one HTTP/1.1 response as its bytes arrive.
//!
//! Owns the framing rules of RFC 9112 for responses to one known request. Promises that a response
//! is complete only when its status line, every field line and its Content-Length or every chunk
//! have been checked, however the bytes are split; that ambiguity is a framing error; and that a
//! response whose lines arrive unsplit is neither copied nor allocated. Interprets only fields that
//! the framing needs, and the expected ones.

use memchr::{memchr, memchr2};

use super::{Expect, Kind};

/// The longest head or trailer section that is waited for.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// The longest line with a chunk size.
const CHUNK_LINE_BYTES_MAX: usize = 1024;

/// The result of feeding bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FeedResult {
    /// There is more to come.
    More { right: u32 },
    /// All outstanding requests have their responses.
    Last { right: u32, wrong: Option<Kind>, close: bool },
    /// The bytes are invalid, and the rest of the connection cannot be parsed.
    Broken { right: u32, kind: Kind },
}

/// The expectation for every response, computed once for a run.
#[derive(Debug)]
pub(super) struct Rules {
    pub(super) status: u16,
    pub(super) length: Option<u64>,
    body: Option<std::sync::Arc<[u8]>>,
    pub(super) fields: Vec<(String, String)>,
    /// The request was a HEAD: its response has no body whatever its fields say.
    bodiless: bool,
}

impl Rules {
    pub(super) fn new(request: &[u8], expect: &Expect) -> Self {
        let length = expect.length.or(expect.body.as_ref().map(|body| body.len() as u64));
        Self {
            status: expect.status,
            length,
            body: expect.body.clone(),
            fields: expect.headers.clone(),
            bodiless: request.starts_with(b"HEAD "),
        }
    }

    /// Returns true if the bytes are those of the expected body at this position. A longer body is
    /// detected by its length.
    pub(super) fn is_in_body(&self, from: u64, bytes: &[u8]) -> bool {
        let Some(expected) = &self.body else { return true };
        let from = (from as usize).min(expected.len());
        let to = (from + bytes.len()).min(expected.len());
        expected[from..to] == bytes[..to - from]
    }
}

/// The partial response of one connection.
#[derive(Debug, Default)]
pub(super) struct ResponseParser {
    state: ParserState,
    /// The beginning of a line or of headers that did not arrive in one piece.
    held: Vec<u8>,
    /// True if headers and body of this response are compared.
    compared: bool,
    wrong: Option<Kind>,
    close: bool,
    body_bytes: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ParserState {
    #[default]
    Head,
    Body {
        left: u64,
    },
    ChunkSize,
    Chunk {
        left: u64,
    },
    /// The line end behind a chunk.
    ChunkEnd,
    Trailers,
    UntilClose,
}

/// One step: how many bytes it took, and whether the response is whole.
enum Step {
    Took(usize),
    Whole(usize),
    /// All bytes are held; more are needed.
    Starved,
}

impl ResponseParser {
    /// Prepares for the next response.
    pub(super) fn expect(&mut self, compared: bool) {
        self.state = ParserState::Head;
        self.held.clear();
        self.compared = compared;
        self.wrong = None;
        self.close = false;
        self.body_bytes = 0;
    }

    pub(super) fn feed(&mut self, rules: &Rules, bytes: &[u8]) -> FeedResult {
        let mut rest = bytes;
        loop {
            match self.step(rules, rest) {
                Err(kind) => return FeedResult::Broken { right: 0, kind },
                Ok(Step::Starved) => return FeedResult::More { right: 0 },
                Ok(Step::Took(count)) => rest = &rest[count..],
                // Nothing is outstanding behind this response: what follows it belongs to none.
                Ok(Step::Whole(count)) if count < rest.len() => {
                    return FeedResult::Broken { right: 0, kind: Kind::Framing };
                }
                Ok(Step::Whole(_)) => return self.whole(rules),
            }
            if rest.is_empty() {
                return FeedResult::More { right: 0 };
            }
        }
    }

    /// The connection ended.
    pub(super) fn ended(&mut self, rules: &Rules) -> FeedResult {
        if self.state == ParserState::UntilClose {
            return self.whole(rules);
        }
        FeedResult::Broken { right: 0, kind: Kind::Read }
    }

    fn whole(&mut self, rules: &Rules) -> FeedResult {
        if rules.length.is_some_and(|length| length != self.body_bytes) {
            self.wrong.get_or_insert(Kind::Length);
        }
        FeedResult::Last {
            right: u32::from(self.wrong.is_none()),
            wrong: self.wrong,
            close: self.close,
        }
    }

    fn step(&mut self, rules: &Rules, bytes: &[u8]) -> Result<Step, Kind> {
        match self.state {
            ParserState::Head => self.head(rules, bytes),
            ParserState::Body { left } => {
                let count = self.body(rules, bytes, left);
                self.state = ParserState::Body { left: left - count as u64 };
                Ok(if left == count as u64 { Step::Whole(count) } else { Step::Took(count) })
            }
            ParserState::UntilClose => Ok(Step::Took(self.body(rules, bytes, u64::MAX))),
            ParserState::ChunkSize => self.line(bytes, CHUNK_LINE_BYTES_MAX, |answer, line| {
                answer.state = match chunk_size(line)? {
                    0 => ParserState::Trailers,
                    left => ParserState::Chunk { left },
                };
                Ok(false)
            }),
            ParserState::Chunk { left } => {
                let count = self.body(rules, bytes, left);
                let left = left - count as u64;
                self.state =
                    if left == 0 { ParserState::ChunkEnd } else { ParserState::Chunk { left } };
                Ok(Step::Took(count))
            }
            ParserState::ChunkEnd => self.line(bytes, 2, |answer, line| {
                answer.state = ParserState::ChunkSize;
                if line.is_empty() { Ok(false) } else { Err(Kind::Framing) }
            }),
            ParserState::Trailers => self.line(bytes, HEAD_BYTES_MAX, |_, line| {
                if !line.is_empty() {
                    name_and_value(line)?;
                }
                Ok(line.is_empty())
            }),
        }
    }

    /// Takes a line, and lets `read` say whether the response is whole with it.
    fn line(
        &mut self,
        bytes: &[u8],
        longest: usize,
        read: impl FnOnce(&mut Self, &[u8]) -> Result<bool, Kind>,
    ) -> Result<Step, Kind> {
        let held = self.held.len();
        let taken = if held == 0 {
            line(bytes)?.map(|(line, count)| Ok((read(self, line)?, count)))
        } else {
            self.held.extend_from_slice(bytes);
            let joined = std::mem::take(&mut self.held);
            let taken = line(&joined)?.map(|(line, count)| Ok((read(self, line)?, count - held)));
            self.held = joined;
            taken
        };
        match taken.transpose()? {
            Some((whole, count)) => {
                self.held.clear();
                Ok(if whole { Step::Whole(count) } else { Step::Took(count) })
            }
            None => self.hold(held, bytes, longest),
        }
    }

    fn head(&mut self, rules: &Rules, bytes: &[u8]) -> Result<Step, Kind> {
        let held = self.held.len();
        let head = if held == 0 {
            let head = Head::parse(bytes)?;
            if let Some((head, count)) = &head {
                self.judge(rules, head, &bytes[..*count]);
            }
            head
        } else {
            self.held.extend_from_slice(bytes);
            let joined = std::mem::take(&mut self.held);
            let head = Head::parse(&joined)?;
            if let Some((head, count)) = &head {
                self.judge(rules, head, &joined[..*count]);
            }
            self.held = joined;
            head.map(|(head, count)| (head, count - held))
        };
        let Some((head, count)) = head else { return self.hold(held, bytes, HEAD_BYTES_MAX) };
        self.held.clear();
        // RFC 9112 section 6.3, in its order.
        self.state = match head {
            // Interim: the response is still to come. No upgrade was requested.
            Head { status: 101, .. } => return Err(Kind::Framing),
            Head { status: 100..=199, .. } => ParserState::Head,
            Head { status: 204 | 304, .. } => return Ok(Step::Whole(count)),
            _ if rules.bodiless => return Ok(Step::Whole(count)),
            Head { chunked: true, .. } => ParserState::ChunkSize,
            Head { length: Some(0), .. } => return Ok(Step::Whole(count)),
            Head { length: Some(left), .. } => ParserState::Body { left },
            Head { length: None, .. } => {
                self.close = true;
                ParserState::UntilClose
            }
        };
        Ok(Step::Took(count))
    }

    /// Stores the bytes of an unfinished line; `held` of them are stored already.
    fn hold(&mut self, held: usize, bytes: &[u8], longest: usize) -> Result<Step, Kind> {
        if held == 0 {
            self.held.extend_from_slice(bytes);
        }
        if self.held.len() > longest { Err(Kind::Framing) } else { Ok(Step::Starved) }
    }

    /// The errors of a head.
    fn judge(&mut self, rules: &Rules, head: &Head, bytes: &[u8]) {
        if (100..200).contains(&head.status) {
            return;
        }
        self.close = head.close;
        if head.status != rules.status {
            self.wrong.get_or_insert(Kind::Status);
        } else if self.compared && !rules.fields.is_empty() && !has_fields(bytes, &rules.fields) {
            self.wrong.get_or_insert(Kind::Header);
        }
    }

    /// Takes at most `left` bytes of the body and compares them if it is this response's turn.
    fn body(&mut self, rules: &Rules, bytes: &[u8], left: u64) -> usize {
        let count = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
        if self.compared
            && self.wrong.is_none()
            && !rules.is_in_body(self.body_bytes, &bytes[..count])
        {
            self.wrong = Some(Kind::Body);
        }
        self.body_bytes += count as u64;
        count
    }
}

/// The fields of a head that the framing needs.
#[derive(Debug, Default, PartialEq, Eq)]
struct Head {
    status: u16,
    length: Option<u64>,
    chunked: bool,
    close: bool,
}

impl Head {
    /// The head and its length, or `None` if it is not all there.
    fn parse(bytes: &[u8]) -> Result<Option<(Self, usize)>, Kind> {
        let Some((first, mut at)) = line(bytes)? else { return Ok(None) };
        let (status, minor) = status_line(first)?;
        let mut head = Self { status, close: minor == 0, ..Self::default() };
        while let Some((field, count)) = line(&bytes[at..])? {
            at += count;
            if field.is_empty() {
                // RFC 9112 section 6.1: both fields are a smuggling attempt;
                // and HTTP/1.0 knows no chunks.
                let twice = head.chunked && (head.length.is_some() || minor == 0);
                return if twice { Err(Kind::Framing) } else { Ok(Some((head, at))) };
            }
            head.field(field)?;
        }
        Ok(None)
    }

    fn field(&mut self, line: &[u8]) -> Result<(), Kind> {
        let (name, value) = name_and_value(line)?;
        match name.len() {
            14 if name.eq_ignore_ascii_case(b"content-length") => {
                let before = self.length.replace(decimal(value)?);
                if before.is_some() {
                    return Err(Kind::Framing);
                }
            }
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => {
                if self.chunked || !value.eq_ignore_ascii_case(b"chunked") {
                    return Err(Kind::Framing);
                }
                self.chunked = true;
            }
            10 if name.eq_ignore_ascii_case(b"connection") => {
                for option in value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii) {
                    if option.eq_ignore_ascii_case(b"close") {
                        self.close = true;
                    } else if option.eq_ignore_ascii_case(b"keep-alive") {
                        self.close = false;
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// The first line without its end, and its length with it. A CR or LF alone is an error.
fn line(bytes: &[u8]) -> Result<Option<(&[u8], usize)>, Kind> {
    match memchr2(b'\r', b'\n', bytes) {
        None => Ok(None),
        Some(end) if bytes[end] == b'\n' => Err(Kind::Framing),
        Some(end) => match bytes.get(end + 1) {
            None => Ok(None),
            Some(b'\n') => Ok(Some((&bytes[..end], end + 2))),
            Some(_) => Err(Kind::Framing),
        },
    }
}

/// The status and the minor version.
fn status_line(line: &[u8]) -> Result<(u16, u8), Kind> {
    let minor = match line.get(..9) {
        Some(b"HTTP/1.1 ") => 1,
        Some(b"HTTP/1.0 ") => 0,
        _ => return Err(Kind::Framing),
    };
    // The space in front of an empty reason may be missing in practice.
    match line[9..] {
        [a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9', ref rest @ ..]
            if matches!(rest, [] | [b' ', ..]) =>
        {
            let digit = |byte: u8| u16::from(byte - b'0');
            Ok((digit(a) * 100 + digit(b) * 10 + digit(c), minor))
        }
        _ => Err(Kind::Framing),
    }
}

/// RFC 9112 section 5: a name directly in front of the colon; a folded line has none.
fn name_and_value(line: &[u8]) -> Result<(&[u8], &[u8]), Kind> {
    let colon = memchr(b':', line).ok_or(Kind::Framing)?;
    let name = &line[..colon];
    match name {
        [] => Err(Kind::Framing),
        _ if name[0] <= b' ' || name[colon - 1] <= b' ' => Err(Kind::Framing),
        _ => Ok((name, line[colon + 1..].trim_ascii())),
    }
}

fn decimal(value: &[u8]) -> Result<u64, Kind> {
    if value.is_empty() {
        return Err(Kind::Framing);
    }
    value.iter().try_fold(0u64, |sum, &byte| match byte {
        b'0'..=b'9' => sum
            .checked_mul(10)
            .and_then(|sum| sum.checked_add(u64::from(byte - b'0')))
            .ok_or(Kind::Framing),
        _ => Err(Kind::Framing),
    })
}

/// RFC 9112 section 7.1: hexadecimal digits, then perhaps extensions, which say nothing to us.
fn chunk_size(line: &[u8]) -> Result<u64, Kind> {
    let end = memchr(b';', line).unwrap_or(line.len());
    let digits = if end < line.len() { line[..end].trim_ascii_end() } else { line };
    if digits.is_empty() || digits.len() > 16 {
        return Err(Kind::Framing);
    }
    digits.iter().try_fold(0u64, |sum, &byte| {
        let digit = char::from(byte).to_digit(16).ok_or(Kind::Framing)?;
        Ok(sum << 4 | u64::from(digit))
    })
}

/// Returns true if these fields are in the headers.
pub(super) fn has_fields(head: &[u8], fields: &[(String, String)]) -> bool {
    fields.iter().all(|(name, value)| {
        let mut rest = head;
        while let Ok(Some((field, count))) = line(rest) {
            rest = &rest[count..];
            if let Ok(found) = name_and_value(field)
                && found.0.eq_ignore_ascii_case(name.as_bytes())
                && found.1 == value.as_bytes()
            {
                return true;
            }
        }
        false
    })
}

#[cfg(test)]
mod tests;
