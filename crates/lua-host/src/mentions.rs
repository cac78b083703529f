//! Upstreams that a Lua file names, found without running it.
//!
//! Promises that a name written in `tide.upstream("name")` is found with its line, and that every
//! other string of the file is listed, because it may be such a name. Names in comments, and names
//! that are built at run time, are not found. The file is valid Lua.

use plugin::{Mention, Mentions};
use settings::Span;

/// A token of a Lua file.
#[derive(Debug, PartialEq)]
enum Token<'t> {
    Word(&'t [u8]),
    Text(String),
    Sign(u8),
}

struct Scanner<'t> {
    text: &'t [u8],
    at: usize,
    line: usize,
}

/// Returns the upstreams that the file `name` mentions; `text` is its content, and `span` the place
/// in the configuration that names it.
pub(crate) fn find(text: &[u8], name: &str, span: Span) -> Mentions {
    let mut scanner = Scanner { text, at: 0, line: 1 };
    let mut mentions = Mentions::default();
    let mut before: Vec<Token<'_>> = Vec::new();
    let mut bracketed: Option<Mention> = None;
    while let Some(token) = scanner.next() {
        // If an operator follows, the string is only a part of the name.
        let whole = bracketed.take().filter(|_| token == Token::Sign(b')'));
        mentions.upstreams.extend(whole);
        if let Token::Text(said) = &token {
            mentions.texts.insert(said.clone());
            let place = || format!("{name}:{}", scanner.line);
            let mention = || Mention { upstream: said.clone(), span, place: place() };
            if before.ends_with(&ASKED) {
                mentions.upstreams.push(mention());
            } else if before.strip_suffix(&[Token::Sign(b'(')]).is_some_and(|b| b.ends_with(&ASKED))
            {
                bracketed = Some(mention());
            }
        }
        before.push(token);
        if before.len() > ASKED.len() + 1 {
            before.remove(0);
        }
    }
    mentions
}

/// The text before the name of an upstream, with an optional bracket.
const ASKED: [Token<'static>; 3] =
    [Token::Word(b"tide"), Token::Sign(b'.'), Token::Word(b"upstream")];

impl<'t> Scanner<'t> {
    fn peek(&self, ahead: usize) -> Option<u8> {
        self.text.get(self.at + ahead).copied()
    }

    fn step(&mut self) -> Option<u8> {
        let byte = self.peek(0)?;
        self.at += 1;
        self.line += usize::from(byte == b'\n');
        Some(byte)
    }

    fn next(&mut self) -> Option<Token<'t>> {
        loop {
            let byte = self.peek(0)?;
            match byte {
                b'-' if self.peek(1) == Some(b'-') => self.comment(),
                b'"' | b'\'' => return Some(Token::Text(self.quoted(byte))),
                b'[' if self.level().is_some() => return Some(Token::Text(self.long())),
                b'_' | b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => return Some(self.word()),
                _ => {
                    self.step();
                    if !byte.is_ascii_whitespace() {
                        return Some(Token::Sign(byte));
                    }
                }
            }
        }
    }

    fn word(&mut self) -> Token<'t> {
        let start = self.at;
        while self.peek(0).is_some_and(|byte| byte == b'_' || byte.is_ascii_alphanumeric()) {
            self.at += 1;
        }
        Token::Word(&self.text[start..self.at])
    }

    fn comment(&mut self) {
        self.at += 2;
        if self.peek(0) == Some(b'[') && self.level().is_some() {
            self.long();
            return;
        }
        while self.peek(0).is_some_and(|byte| byte != b'\n') {
            self.at += 1;
        }
    }

    /// A string in quotes. A string with an escape is not taken as a name of an upstream.
    fn quoted(&mut self, quote: u8) -> String {
        self.step();
        let start = self.at;
        while let Some(byte) = self.step() {
            match byte {
                b'\\' => {
                    self.step();
                }
                _ if byte == quote => break,
                _ => {}
            }
        }
        String::from_utf8_lossy(&self.text[start..self.at.saturating_sub(1).max(start)])
            .into_owned()
    }

    /// The number of signs in `[==[`.
    fn level(&self) -> Option<usize> {
        let signs = self.text[self.at + 1..].iter().take_while(|byte| **byte == b'=').count();
        (self.peek(signs + 1) == Some(b'[')).then_some(signs)
    }

    fn long(&mut self) -> String {
        let level = self.level().unwrap_or_default();
        self.at += level + 2;
        let start = self.at;
        let end = [&b"]"[..], &vec![b'='; level], b"]"].concat();
        while self.at < self.text.len() && !self.text[self.at..].starts_with(&end) {
            self.step();
        }
        let said = &self.text[start..self.at];
        self.at = (self.at + end.len()).min(self.text.len());
        // The first line break of a long string is not part of it.
        let said = said.strip_prefix(b"\n").unwrap_or(said);
        String::from_utf8_lossy(said).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::find;
    use settings::Span;

    #[test]
    fn names_are_found_where_they_stand_and_nowhere_else() {
        let text = r#"-- tide.upstream("comment")
--[==[ tide.upstream("long
comment") ]==]
local a = tide.upstream("one"):request{ path = '/x' }
local b = tide . upstream 'two'
local c = other.upstream("three") + #"a\"b"
local d = tide.upstream([[four]])
tide.upstream(name .. "five") tide.upstream(("six")) tide.upstream("six" .. x)
local e = t[1] [=[ [x] ]=]
return tide.upstream"#;
        let found = find(text.as_bytes(), "x.lua", Span::NOWHERE);
        let named: Vec<_> =
            found.upstreams.iter().map(|m| (m.upstream.as_str(), m.place.as_str())).collect();
        assert_eq!(named, [("one", "x.lua:4"), ("two", "x.lua:5"), ("four", "x.lua:7")]);
        for said in ["three", "five", "six", "/x", " [x] "] {
            assert!(found.texts.contains(said), "{said}");
        }
        assert!(!found.texts.contains("comment"));
    }

    #[test]
    fn no_text_is_too_strange() {
        for text in ["", "[", "[==", "[==[", "\"", "\"\\", "'abc", "--", "--[[", "tide.upstream(\""]
        {
            find(text.as_bytes(), "x.lua", Span::NOWHERE);
        }
    }
}
