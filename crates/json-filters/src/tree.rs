//! JSON (RFC 8259) as a tree that keeps the spelling of scalars.
//!
//! Promises: a parsed document is valid UTF-8 and valid JSON; a tree that is not changed is written
//! with the same numbers, strings and order of members, without white space between them. An object
//! with two members of one name is an error: receivers disagree about which of them counts (RFC
//! 8259 4).

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

/// The maximum nesting of arrays and objects.
pub const DEPTH_MAX: usize = 127;

/// A value, its scalars as they are written.
#[derive(Clone, Debug, PartialEq)]
pub enum Json<'a> {
    /// A number, a string with its quotes, `true`, `false` or `null`.
    Scalar(Cow<'a, str>),
    Array(Vec<Json<'a>>),
    /// Names are decoded.
    Object(Vec<(Cow<'a, str>, Json<'a>)>),
}

/// Why a text is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonError {
    /// Not JSON, at this byte.
    Syntax(usize),
    /// Nested deeper than [`DEPTH_MAX`].
    TooDeep,
    /// An object has two members of one name.
    DuplicateName,
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JsonError::Syntax(at) => write!(f, "not JSON at byte {at}"),
            JsonError::TooDeep => write!(f, "nested deeper than {DEPTH_MAX}"),
            JsonError::DuplicateName => f.write_str("an object has two members of one name"),
        }
    }
}

impl std::error::Error for JsonError {}

/// Parses one JSON text.
pub fn parse(text: &[u8]) -> Result<Json<'_>, JsonError> {
    let text = match std::str::from_utf8(text) {
        Ok(text) => text,
        Err(error) => return Err(JsonError::Syntax(error.valid_up_to())),
    };
    let mut parser = Parser { text, at: 0 };
    let value = parser.value(0)?;
    parser.skip_space();
    if parser.at == text.len() { Ok(value) } else { Err(parser.syntax()) }
}

/// Returns a text as a JSON string.
pub fn string(text: &str) -> Json<'static> {
    Json::Scalar(Cow::Owned(quoted(text)))
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

impl Json<'_> {
    /// Returns the value as a text: the content of a string, nothing for `null`, and the JSON of
    /// every other value. `None` for a string that is not text, because it has half a surrogate
    /// pair.
    pub fn to_text(&self) -> Option<Cow<'_, str>> {
        match self {
            Json::Scalar(text) if text.starts_with('"') => match text.contains('\\') {
                true => serde_json::from_str(text).ok().map(Cow::Owned),
                false => Some(Cow::Borrowed(&text[1..text.len() - 1])),
            },
            Json::Scalar(text) if text == "null" => Some(Cow::Borrowed("")),
            Json::Scalar(text) => Some(Cow::Borrowed(text)),
            composite => Some(Cow::Owned(composite.to_string())),
        }
    }

    /// The bytes of the value as a text, without those of escapes in names.
    pub fn length(&self) -> usize {
        match self {
            Json::Scalar(text) => text.len(),
            Json::Array(items) => {
                items.iter().map(|item| item.length() + 1).sum::<usize>().max(1) + 1
            }
            Json::Object(members) => {
                let members = members.iter().map(|(name, value)| name.len() + value.length() + 4);
                members.sum::<usize>().max(1) + 1
            }
        }
    }

    /// Appends the value to a text.
    pub fn write(&self, out: &mut String) {
        match self {
            Json::Scalar(text) => out.push_str(text),
            Json::Array(items) => {
                out.push('[');
                for (at, item) in items.iter().enumerate() {
                    if at > 0 {
                        out.push(',');
                    }
                    item.write(out);
                }
                out.push(']');
            }
            Json::Object(members) => {
                out.push('{');
                for (at, (name, value)) in members.iter().enumerate() {
                    if at > 0 {
                        out.push(',');
                    }
                    out.push_str(&quoted(name));
                    out.push(':');
                    value.write(out);
                }
                out.push('}');
            }
        }
    }
}

impl fmt::Display for Json<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = String::new();
        self.write(&mut out);
        f.write_str(&out)
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    fn syntax(&self) -> JsonError {
        JsonError::Syntax(self.at)
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// Consumes a byte after white space if it is this one.
    fn takes(&mut self, byte: u8) -> bool {
        self.skip_space();
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    fn value(&mut self, depth: usize) -> Result<Json<'a>, JsonError> {
        self.skip_space();
        let from = self.at;
        match self.peek().ok_or(self.syntax())? {
            b'[' | b'{' if depth == DEPTH_MAX => Err(JsonError::TooDeep),
            b'[' => self.array(depth + 1),
            b'{' => self.object(depth + 1),
            b'"' => self.string().map(|text| Json::Scalar(Cow::Borrowed(text))),
            b'-' | b'0'..=b'9' => {
                self.number()?;
                Ok(Json::Scalar(Cow::Borrowed(&self.text[from..self.at])))
            }
            _ => {
                let rest = &self.text[from..];
                let word = ["true", "false", "null"].into_iter().find(|w| rest.starts_with(w));
                let word = word.ok_or(self.syntax())?;
                self.at += word.len();
                Ok(Json::Scalar(Cow::Borrowed(word)))
            }
        }
    }

    fn array(&mut self, depth: usize) -> Result<Json<'a>, JsonError> {
        self.at += 1;
        let mut items = Vec::new();
        if self.takes(b']') {
            return Ok(Json::Array(items));
        }
        loop {
            items.push(self.value(depth)?);
            if self.takes(b']') {
                return Ok(Json::Array(items));
            }
            if !self.takes(b',') {
                return Err(self.syntax());
            }
        }
    }

    fn object(&mut self, depth: usize) -> Result<Json<'a>, JsonError> {
        self.at += 1;
        let mut members: Vec<(Cow<'a, str>, Json<'a>)> = Vec::new();
        if self.takes(b'}') {
            return Ok(Json::Object(members));
        }
        loop {
            self.skip_space();
            let name = self.name()?;
            if !self.takes(b':') {
                return Err(self.syntax());
            }
            members.push((name, self.value(depth)?));
            if self.takes(b'}') {
                break;
            }
            if !self.takes(b',') {
                return Err(self.syntax());
            }
        }
        let names: HashSet<&str> = members.iter().map(|(name, _)| &**name).collect();
        match names.len() == members.len() {
            true => Ok(Json::Object(members)),
            false => Err(JsonError::DuplicateName),
        }
    }

    fn name(&mut self) -> Result<Cow<'a, str>, JsonError> {
        let from = self.at;
        if self.peek() != Some(b'"') {
            return Err(self.syntax());
        }
        let raw = self.string()?;
        match raw.contains('\\') {
            false => Ok(Cow::Borrowed(&raw[1..raw.len() - 1])),
            // A lone surrogate is not text.
            true => serde_json::from_str(raw).map(Cow::Owned).map_err(|_| JsonError::Syntax(from)),
        }
    }

    /// A string with its quotes.
    fn string(&mut self) -> Result<&'a str, JsonError> {
        let from = self.at;
        self.at += 1;
        loop {
            match self.peek().ok_or(self.syntax())? {
                b'"' => {
                    self.at += 1;
                    return Ok(&self.text[from..self.at]);
                }
                b'\\' => self.escape()?,
                0..0x20 => return Err(self.syntax()),
                _ => self.at += 1,
            }
        }
    }

    fn escape(&mut self) -> Result<(), JsonError> {
        let rest = &self.text.as_bytes()[self.at + 1..];
        let length = match rest.first() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => 2,
            Some(b'u') if rest.len() > 4 && rest[1..5].iter().all(u8::is_ascii_hexdigit) => 6,
            _ => return Err(self.syntax()),
        };
        self.at += length;
        Ok(())
    }

    fn number(&mut self) -> Result<(), JsonError> {
        self.at += usize::from(self.peek() == Some(b'-'));
        match self.peek() {
            Some(b'0') => self.at += 1,
            _ => self.digits()?,
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            self.at += usize::from(matches!(self.peek(), Some(b'+' | b'-')));
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), JsonError> {
        let from = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if self.at > from { Ok(()) } else { Err(self.syntax()) }
    }
}

#[cfg(test)]
mod tests {
    use super::{DEPTH_MAX, JsonError, parse};

    #[test]
    fn spelling_is_kept() {
        for (text, written) in [
            (" { \"b\" : 1.50e+3 , \"a\" : [ ] } ", r#"{"b":1.50e+3,"a":[]}"#),
            ("123456789012345678901234567890", "123456789012345678901234567890"),
            (r#"["\u0041\/", true, null, false, -0]"#, r#"["\u0041\/",true,null,false,-0]"#),
            (r#"{"\u0061":{}}"#, r#"{"a":{}}"#),
            ("\"\u{e9}\"", "\"\u{e9}\""),
        ] {
            assert_eq!(parse(text.as_bytes()).unwrap().to_string(), written);
        }
    }

    #[test]
    fn what_is_not_json_is_rejected() {
        for text in [
            "",
            " ",
            "{",
            "[1,]",
            "{\"a\":1,}",
            "01",
            "1.",
            ".5",
            "-",
            "1e",
            "+1",
            "nul",
            "truex",
            "\"",
            "\"\n\"",
            "\"\\x\"",
            "\"\\u12g4\"",
            "'a'",
            "{a:1}",
            "[1 2]",
            "1 2",
            "\u{feff}1",
            "NaN",
            "{\"\\ud800\":1}",
            "[",
            "]",
            "// c\n1",
        ] {
            assert!(matches!(parse(text.as_bytes()), Err(JsonError::Syntax(_))), "{text:?}");
        }
        assert_eq!(parse(b"\"\xff\""), Err(JsonError::Syntax(1)));
        assert_eq!(parse(br#"{"a":1,"\u0061":2}"#), Err(JsonError::DuplicateName));
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(parse(nested(DEPTH_MAX).as_bytes()).is_ok());
        assert_eq!(parse(nested(DEPTH_MAX + 1).as_bytes()), Err(JsonError::TooDeep));
        assert_eq!(parse("[".repeat(1 << 20).as_bytes()), Err(JsonError::TooDeep));
    }
}
