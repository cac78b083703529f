//! RESP, the protocol of Redis, on the server side; [`reply`] is the client side.
//!
//! Owns the two forms of a command: an inline line of words, and an array of bulk strings. Every
//! count and length is bounded by `Limits`; the result does not depend on how the bytes were split.
//! Quoting in inline commands is not supported: they are for people and health checks.
//!
//! Stays our own: `redis-protocol` has neither inline commands nor limits on counts and lengths,
//! which a server needs before it allocates.

pub mod reply;

use std::ops::Range;

/// The limits of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of an inline command and of any length line.
    pub line: usize,
    /// Arguments of one command.
    pub args: usize,
    /// Bytes of one argument.
    pub bulk: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { line: 64 << 10, args: 1024, bulk: 8 << 20 }
    }
}

/// Why a command is rejected; the connection cannot continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandError {
    LineTooLong,
    InvalidCount,
    InvalidLength,
    ExpectedBulk,
    MissingCrlf,
}

impl CommandError {
    /// The text of the error reply, the same as that of Redis.
    pub fn text(self) -> &'static str {
        match self {
            CommandError::LineTooLong => "ERR Protocol error: too big inline request",
            CommandError::InvalidCount => "ERR Protocol error: invalid multibulk length",
            CommandError::InvalidLength => "ERR Protocol error: invalid bulk length",
            CommandError::ExpectedBulk => "ERR Protocol error: expected '$'",
            CommandError::MissingCrlf => "ERR Protocol error: expected CRLF after a bulk",
        }
    }
}

/// Parses one command at the start of `buf`: `Ok(Some(len))` with the ranges of its arguments in
/// `args`, or `Ok(None)` for more bytes. A command without arguments (an empty line) is to be
/// skipped.
pub fn parse_command(
    buf: &[u8],
    limits: &Limits,
    args: &mut Vec<Range<usize>>,
) -> Result<Option<usize>, CommandError> {
    args.clear();
    match buf.first() {
        None => Ok(None),
        Some(b'*') => multi_bulk(buf, limits, args),
        Some(_) => inline(buf, limits, args),
    }
}

fn inline(
    buf: &[u8],
    limits: &Limits,
    args: &mut Vec<Range<usize>>,
) -> Result<Option<usize>, CommandError> {
    let Some(end) = line_end(buf, 0, limits)? else {
        return Ok(None);
    };
    let line = buf[..end].strip_suffix(b"\r").unwrap_or(&buf[..end]);
    let mut at = 0;
    for word in line.split(|&b| b == b' ' || b == b'\t') {
        if !word.is_empty() {
            if args.len() == limits.args {
                return Err(CommandError::InvalidCount);
            }
            args.push(at..at + word.len());
        }
        at += word.len() + 1;
    }
    Ok(Some(end + 1))
}

fn multi_bulk(
    buf: &[u8],
    limits: &Limits,
    args: &mut Vec<Range<usize>>,
) -> Result<Option<usize>, CommandError> {
    let Some((count, mut at)) =
        length_line(buf, 1, limits, limits.args, CommandError::InvalidCount)?
    else {
        return Ok(None);
    };
    for _ in 0..count {
        match buf.get(at) {
            None => return Ok(None),
            Some(b'$') => {}
            Some(_) => return Err(CommandError::ExpectedBulk),
        }
        let line = length_line(buf, at + 1, limits, limits.bulk, CommandError::InvalidLength)?;
        let Some((len, start)) = line else {
            return Ok(None);
        };
        let end = start + len;
        match buf.get(end..) {
            None | Some([] | [b'\r']) => return Ok(None),
            Some([b'\r', b'\n', ..]) => {}
            Some(_) => return Err(CommandError::MissingCrlf),
        }
        args.push(start..end);
        at = end + 2;
    }
    Ok(Some(at))
}

/// Parses a number up to `most` and CRLF; returns it and the position after it.
fn length_line(
    buf: &[u8],
    at: usize,
    limits: &Limits,
    most: usize,
    fault: CommandError,
) -> Result<Option<(usize, usize)>, CommandError> {
    let Some(end) = line_end(buf, at, limits)? else {
        return Ok(None);
    };
    let digits = buf[at..end].strip_suffix(b"\r").ok_or(fault)?;
    let value = crate::token::decimal(digits).ok_or(fault)?;
    match usize::try_from(value) {
        Ok(value) if value <= most => Ok(Some((value, end + 1))),
        _ => Err(fault),
    }
}

fn line_end(buf: &[u8], at: usize, limits: &Limits) -> Result<Option<usize>, CommandError> {
    let window = &buf[at..buf.len().min(at + limits.line)];
    match memchr::memchr(b'\n', window) {
        Some(found) => Ok(Some(at + found)),
        None if window.len() == limits.line => Err(CommandError::LineTooLong),
        None => Ok(None),
    }
}

/// Appends `+text`; the text must not contain a line end.
pub fn simple_string(text: &[u8], out: &mut Vec<u8>) {
    line(b'+', text, out);
}

/// Appends `-text`; the text must not contain a line end.
pub fn error(text: &[u8], out: &mut Vec<u8>) {
    line(b'-', text, out);
}

/// Appends `:value`.
pub fn integer(value: i64, out: &mut Vec<u8>) {
    line(b':', itoa::Buffer::new().format(value).as_bytes(), out);
}

/// Appends a bulk string.
pub fn bulk(bytes: &[u8], out: &mut Vec<u8>) {
    line(b'$', itoa::Buffer::new().format(bytes.len()).as_bytes(), out);
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

/// Appends the null bulk string.
pub fn null_bulk(out: &mut Vec<u8>) {
    out.extend_from_slice(b"$-1\r\n");
}

/// Appends the head of an array; `len` replies follow.
pub fn array_head(len: usize, out: &mut Vec<u8>) {
    line(b'*', itoa::Buffer::new().format(len).as_bytes(), out);
}

/// Appends a verbatim string of format `txt` (RESP3); `text` is UTF-8.
pub fn verbatim(text: &[u8], out: &mut Vec<u8>) {
    line(b'=', itoa::Buffer::new().format(text.len() + 4).as_bytes(), out);
    out.extend_from_slice(b"txt:");
    out.extend_from_slice(text);
    out.extend_from_slice(b"\r\n");
}

/// Appends null (RESP3).
pub fn null(out: &mut Vec<u8>) {
    out.extend_from_slice(b"_\r\n");
}

/// Appends the head of a push message (RESP3); `len` replies follow.
pub fn push_head(len: usize, out: &mut Vec<u8>) {
    line(b'>', itoa::Buffer::new().format(len).as_bytes(), out);
}

/// Appends the head of a map (RESP3); `pairs` times two replies follow.
pub fn map_head(pairs: usize, out: &mut Vec<u8>) {
    line(b'%', itoa::Buffer::new().format(pairs).as_bytes(), out);
}

fn line(kind: u8, text: &[u8], out: &mut Vec<u8>) {
    out.push(kind);
    out.extend_from_slice(text);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::{CommandError, Limits, parse_command};

    const SMALL: Limits = Limits { line: 32, args: 4, bulk: 16 };

    fn words(input: &str) -> Result<Option<(Vec<String>, usize)>, CommandError> {
        let mut args = Vec::new();
        let len = parse_command(input.as_bytes(), &SMALL, &mut args)?;
        Ok(len.map(|len| (args.iter().map(|arg| input[arg.clone()].to_owned()).collect(), len)))
    }

    #[test]
    fn commands_and_their_prefixes() {
        let table: &[(&str, &[&str])] = &[
            ("PING\r\n", &["PING"]),
            ("  SET a\t b\n", &["SET", "a", "b"]),
            ("\r\n", &[]),
            ("*0\r\n", &[]),
            ("*1\r\n$4\r\nPING\r\n", &["PING"]),
            ("*2\r\n$3\r\nGET\r\n$4\r\na\r\nb\r\n", &["GET", "a\r\nb"]),
            ("*1\r\n$0\r\n\r\n", &[""]),
        ];
        for (input, expected) in table {
            let more = format!("{input}*9");
            let (found, len) = words(&more).unwrap().unwrap();
            assert_eq!((&found[..], len), (&owned(expected)[..], input.len()), "{input:?}");
            for end in 0..input.len() {
                assert_eq!(words(&input[..end]), Ok(None), "{:?}", &input[..end]);
            }
        }
    }

    fn owned(words: &[&str]) -> Vec<String> {
        words.iter().map(|&word| word.to_owned()).collect()
    }

    #[test]
    fn malformed_commands_are_rejected_however_split() {
        let table = [
            ("*5\r\n", CommandError::InvalidCount),
            ("*-1\r\n", CommandError::InvalidCount),
            ("*x\r\n", CommandError::InvalidCount),
            ("*1\n$4\r\n", CommandError::InvalidCount),
            ("*1\r\n+PING\r\n", CommandError::ExpectedBulk),
            ("*1\r\n$17\r\n", CommandError::InvalidLength),
            ("*1\r\n$-1\r\n", CommandError::InvalidLength),
            ("*1\r\n$4\r\nPINGxx", CommandError::MissingCrlf),
            ("*1\r\n$4\r\nPING\rx", CommandError::MissingCrlf),
            ("a b c d e\r\n", CommandError::InvalidCount),
            ("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n", CommandError::LineTooLong),
            ("*00000000000000000000000000000000001\r\n", CommandError::LineTooLong),
        ];
        for (input, fault) in table {
            assert_eq!(words(input), Err(fault), "{input:?}");
            for end in 0..input.len() {
                let found = words(&input[..end]);
                assert!(found == Ok(None) || found == Err(fault), "{:?}", &input[..end]);
            }
        }
    }

    #[test]
    fn replies() {
        let mut out = Vec::new();
        super::simple_string(b"PONG", &mut out);
        super::error(b"ERR no", &mut out);
        super::integer(-7, &mut out);
        super::array_head(2, &mut out);
        super::bulk(b"a\r\n", &mut out);
        super::null_bulk(&mut out);
        assert_eq!(out, b"+PONG\r\n-ERR no\r\n:-7\r\n*2\r\n$3\r\na\r\n\r\n$-1\r\n");
        out.clear();
        super::push_head(2, &mut out);
        super::verbatim(b"yes", &mut out);
        super::null(&mut out);
        super::map_head(1, &mut out);
        assert_eq!(out, b">2\r\n=7\r\ntxt:yes\r\n_\r\n%1\r\n");
    }
}
