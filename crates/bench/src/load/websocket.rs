//! A client of a WebSocket echo server (RFC 6455) that checks every byte.
//!
//! Owns the opening handshake and the one message that is sent repeatedly. Promises a correct
//! handshake before the first message, and that a response is the same message in one or more
//! frames without trailing bytes. Pings are ignored: a connection lives for one round, which is
//! shorter than a pong time-out. Never offers an extension, and masks with one key, because a load
//! generator has no proxy to protect.

use super::Kind;
use super::http::{FeedResult, has_fields};

/// The key of RFC 6455, section 1.3, and what a server has to make of it.
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";
const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];
/// The longest head of a response to the handshake.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// A payload that short has its length in the second byte; section 5.2.
const SHORT: usize = 125;

const FIN: u8 = 0x80;
const RESERVED: u8 = 0x70;
const CONTINUATION: u8 = 0x0;
const TEXT: u8 = 0x1;
const CLOSE: u8 = 0x8;
const PING: u8 = 0x9;
const PONG: u8 = 0xa;
const MASKED: u8 = 0x80;

/// The request that asks for a WebSocket; section 4.1.
pub(crate) fn greeting(host: impl std::fmt::Display, path: &str) -> Vec<u8> {
    format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Key: {KEY}\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
    .into_bytes()
}

/// The text as one frame of a client; section 5.3.
pub(crate) fn frame(text: &[u8]) -> Vec<u8> {
    let mut frame = vec![FIN | TEXT];
    match text.len() {
        length @ 0..=SHORT => frame.push(MASKED | length as u8),
        length @ 126..=0xffff => {
            frame.push(MASKED | 126);
            frame.extend((length as u16).to_be_bytes());
        }
        length => {
            frame.push(MASKED | 127);
            frame.extend((length as u64).to_be_bytes());
        }
    }
    frame.extend(MASK);
    frame.extend(text.iter().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    frame
}

/// The expectations of every response.
#[derive(Debug)]
pub(super) struct Rules {
    text: Vec<u8>,
    /// The header fields of the handshake.
    fields: Vec<(String, String)>,
}

impl Rules {
    pub(super) fn new(text: &[u8]) -> Self {
        let accept = ("Sec-WebSocket-Accept".to_owned(), ACCEPT.to_owned());
        Self { text: text.to_vec(), fields: vec![accept] }
    }
}

/// The partial response of one connection.
#[derive(Debug, Default)]
pub(super) struct EchoParser {
    state: ParserState,
    /// A frame header that did not arrive in one piece.
    held: Vec<u8>,
    /// A first frame came.
    begun: bool,
    /// The number of bytes of the text that have arrived.
    heard: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ParserState {
    /// The response to the handshake.
    #[default]
    Greeting,
    /// The head of a frame.
    Head,
    /// The payload of a frame of the message, perhaps its last.
    Payload { left: usize, last: bool },
    /// The content of a ping or pong.
    Control { left: usize },
}

/// The head of a frame.
struct Head {
    last: bool,
    opcode: u8,
    length: usize,
    bytes: usize,
}

impl EchoParser {
    /// Makes ready for a handshake.
    pub(super) fn greet(&mut self) {
        *self = Self::default();
    }

    /// Makes ready for the response to a message.
    pub(super) fn expect(&mut self) {
        self.state = ParserState::Head;
        self.held.clear();
        self.begun = false;
        self.heard = 0;
    }

    pub(super) fn feed(&mut self, rules: &Rules, bytes: &[u8]) -> FeedResult {
        let fed = match self.state {
            ParserState::Greeting => self.greeted(rules, bytes),
            _ => self.frames(rules, bytes),
        };
        match fed {
            Err(kind) => FeedResult::Broken { right: 0, kind },
            Ok(false) => FeedResult::More { right: 0 },
            Ok(true) => FeedResult::Last { right: 1, wrong: None, close: false },
        }
    }

    /// Returns true after the handshake, which is checked as section 4.1 says.
    fn greeted(&mut self, rules: &Rules, bytes: &[u8]) -> Result<bool, Kind> {
        self.held.extend_from_slice(bytes);
        let Some(end) = self.held.windows(4).position(|four| four == b"\r\n\r\n") else {
            return if self.held.len() > HEAD_BYTES_MAX { Err(Kind::Framing) } else { Ok(false) };
        };
        // No close frame was sent yet.
        if end + 4 < self.held.len() {
            return Err(Kind::Framing);
        }
        if !self.held.starts_with(b"HTTP/1.1 101") {
            return Err(Kind::Status);
        }
        let fields = self.held.iter().position(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        if !has_fields(&self.held[fields..], &rules.fields) {
            return Err(Kind::Header);
        }
        Ok(true)
    }

    /// Returns true when the message is complete.
    fn frames(&mut self, rules: &Rules, mut bytes: &[u8]) -> Result<bool, Kind> {
        loop {
            match self.state {
                ParserState::Greeting => return Err(Kind::Framing),
                ParserState::Head => {
                    let held = self.held.len();
                    let head = if held == 0 {
                        head(bytes)?
                    } else {
                        self.held.extend_from_slice(bytes);
                        head(&self.held)?
                    };
                    let Some(head) = head else {
                        if held == 0 {
                            self.held.extend_from_slice(bytes);
                        }
                        return Ok(false);
                    };
                    self.held.clear();
                    bytes = &bytes[head.bytes - held..];
                    self.state = self.payload(rules, &head)?;
                }
                ParserState::Control { left } => {
                    let count = left.min(bytes.len());
                    bytes = &bytes[count..];
                    self.state = ParserState::Control { left: left - count };
                    if left == count {
                        self.state = ParserState::Head;
                    }
                }
                ParserState::Payload { left, last } => {
                    let count = left.min(bytes.len());
                    if rules.text[self.heard..self.heard + count] != bytes[..count] {
                        return Err(Kind::Body);
                    }
                    self.heard += count;
                    bytes = &bytes[count..];
                    self.state = ParserState::Payload { left: left - count, last };
                    if left == count && last {
                        return self.whole(rules, bytes);
                    }
                    if left == count {
                        self.state = ParserState::Head;
                    }
                }
            }
            // A frame without a payload is over with its head.
            let waits = !matches!(
                self.state,
                ParserState::Payload { left: 0, .. } | ParserState::Control { left: 0 }
            );
            if bytes.is_empty() && waits {
                return Ok(false);
            }
        }
    }

    fn payload(&mut self, rules: &Rules, head: &Head) -> Result<ParserState, Kind> {
        let Head { last, opcode, length, .. } = *head;
        match (opcode, self.begun) {
            (PING | PONG, _) if last && length <= SHORT => {
                Ok(ParserState::Control { left: length })
            }
            (CLOSE, _) => Err(Kind::Status),
            // A text continues in a continuation frame; section 5.4.
            (TEXT, false) | (CONTINUATION, true) if length <= rules.text.len() - self.heard => {
                self.begun = true;
                Ok(ParserState::Payload { left: length, last })
            }
            (TEXT, false) | (CONTINUATION, true) => Err(Kind::Length),
            _ => Err(Kind::Framing),
        }
    }

    fn whole(&self, rules: &Rules, rest: &[u8]) -> Result<bool, Kind> {
        match () {
            () if self.heard < rules.text.len() => Err(Kind::Length),
            () if !rest.is_empty() => Err(Kind::Framing),
            () => Ok(true),
        }
    }
}

/// Compares a server's response with the expected one, of a handshake or of a text: true when it is
/// complete, `None` if it is wrong.
pub(crate) fn answers(text: &[u8], greets: bool, received: &[u8]) -> Option<bool> {
    let (rules, mut answer) = (Rules::new(text), EchoParser::default());
    if !greets {
        answer.expect();
    }
    match answer.feed(&rules, received) {
        FeedResult::More { .. } => Some(false),
        FeedResult::Last { .. } => Some(true),
        FeedResult::Broken { .. } => None,
    }
}

/// The head of a frame of a server, which masks nothing; section 5.2.
fn head(bytes: &[u8]) -> Result<Option<Head>, Kind> {
    let [first, second, ref rest @ ..] = *bytes else { return Ok(None) };
    if first & RESERVED != 0 || second & MASKED != 0 {
        return Err(Kind::Framing);
    }
    let (length, more) = match (second, rest) {
        (126, [a, b, ..]) => (usize::from(u16::from_be_bytes([*a, *b])), 2),
        (127, [0, 0, 0, 0, a, b, c, d, ..]) => (u32::from_be_bytes([*a, *b, *c, *d]) as usize, 8),
        (127, [_, _, _, _, _, _, _, _, ..]) => return Err(Kind::Length),
        (126 | 127, _) => return Ok(None),
        (length, _) => (usize::from(length), 0),
    };
    let (last, opcode) = (first & FIN != 0, first & !FIN);
    Ok(Some(Head { last, opcode, length, bytes: 2 + more }))
}

#[cfg(test)]
mod tests;
