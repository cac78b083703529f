//! Splits a file into words, numbers, strings and symbols.

use super::SourceError;
use crate::descriptor::unescape;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token<'a> {
    /// Letters, digits and `_`; not a digit first.
    Word(&'a str),
    Integer(u64),
    Float(f64),
    Text(Vec<u8>),
    Symbol(char),
    End,
}

impl Token<'_> {
    /// The token in an error.
    pub(super) fn describe(&self) -> String {
        match self {
            Token::Word(word) => format!("'{word}'"),
            Token::Integer(number) => format!("'{number}'"),
            Token::Float(number) => format!("'{number}'"),
            Token::Text(_) => "a string".to_owned(),
            Token::Symbol(symbol) => format!("'{symbol}'"),
            Token::End => "the end of the file".to_owned(),
        }
    }
}

/// The text and the position of the next token.
#[derive(Clone)]
pub(super) struct Lexer<'a> {
    pub(super) text: &'a str,
    pub(super) at: usize,
}

impl<'a> Lexer<'a> {
    pub(super) fn error(&self, at: usize, message: impl Into<String>) -> SourceError {
        let before = &self.text.as_bytes()[..at.min(self.text.len())];
        let line_begin = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        SourceError { line, column: before.len() - line_begin + 1, message: message.into() }
    }

    fn byte(&self, ahead: usize) -> Option<u8> {
        self.text.as_bytes().get(self.at + ahead).copied()
    }

    fn while_byte(&mut self, is_part: impl Fn(u8) -> bool) -> &'a str {
        let begin = self.at;
        while self.byte(0).is_some_and(&is_part) {
            self.at += 1;
        }
        // The bytes are ASCII, so both ends are between characters.
        self.text.get(begin..self.at).unwrap_or_default()
    }

    /// Skips blanks and comments.
    pub(super) fn skip_blanks(&mut self) -> Result<(), SourceError> {
        loop {
            self.while_byte(|byte| byte.is_ascii_whitespace() || byte == 0x0b);
            let rest = &self.text.as_bytes()[self.at..];
            if rest.starts_with(b"//") {
                self.at += rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
            } else if rest.starts_with(b"/*") {
                let end = self.text.get(self.at + 2..).and_then(|rest| rest.find("*/"));
                let end = end.ok_or_else(|| self.error(self.at, "unfinished comment"))?;
                self.at += end + 4;
            } else {
                return Ok(());
            }
        }
    }

    /// The next token and where it begins.
    pub(super) fn token(&mut self) -> Result<(Token<'a>, usize), SourceError> {
        self.skip_blanks()?;
        let begin = self.at;
        let Some(byte) = self.byte(0) else { return Ok((Token::End, begin)) };
        let token = match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => {
                Token::Word(self.while_byte(|byte| byte.is_ascii_alphanumeric() || byte == b'_'))
            }
            b'0'..=b'9' => self.number()?,
            b'.' if self.byte(1).is_some_and(|byte| byte.is_ascii_digit()) => self.number()?,
            b'"' | b'\'' => self.string(byte)?,
            0x21..=0x7e => {
                self.at += 1;
                Token::Symbol(char::from(byte))
            }
            _ => return Err(self.error(begin, "a character that may not stand here")),
        };
        Ok((token, begin))
    }

    fn number(&mut self) -> Result<Token<'a>, SourceError> {
        let begin = self.at;
        let mut is_exponent = false;
        let word = {
            let start = self.at;
            while let Some(byte) = self.byte(0) {
                let is_part = byte.is_ascii_alphanumeric()
                    || byte == b'.'
                    || is_exponent && (byte == b'+' || byte == b'-');
                if !is_part {
                    break;
                }
                is_exponent = matches!(byte, b'e' | b'E') && !self.text[start..].starts_with("0x");
                self.at += 1;
            }
            &self.text[start..self.at]
        };
        let malformed = || self.error(begin, format!("malformed number '{word}'"));
        let digits =
            |digits: &str, radix| u64::from_str_radix(digits, radix).map_err(|_| malformed());
        if let Some(hex) = word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")) {
            return Ok(Token::Integer(digits(hex, 16)?));
        }
        if word.bytes().all(|byte| byte.is_ascii_digit()) {
            let octal = word.strip_prefix('0').filter(|rest| !rest.is_empty());
            return Ok(Token::Integer(match octal {
                Some(octal) => digits(octal, 8)?,
                None => digits(word, 10)?,
            }));
        }
        word.parse().map(Token::Float).map_err(|_| malformed())
    }

    fn string(&mut self, quote: u8) -> Result<Token<'a>, SourceError> {
        let begin = self.at;
        loop {
            self.at += 1;
            match self.byte(0) {
                Some(byte) if byte == quote => break,
                Some(b'\\') if self.byte(1).is_some_and(|byte| byte != b'\n') => self.at += 1,
                None | Some(b'\n') => return Err(self.error(begin, "unfinished string")),
                Some(_) => {}
            }
        }
        let content = unescape(&self.text[begin + 1..self.at]);
        self.at += 1;
        Ok(Token::Text(content))
    }
}
