//! Ant patterns: `?` is one character, `*` any within a segment, `**` any segments, also none.
//!
//! Owns their translation into a linear-time regular expression, so that no pattern and no text can
//! make a match slow. Promises: `/a/**` is also `/a`, `/**/b` is also `/b`, everything else stands
//! for itself. Never captures anything.

use std::fmt;
use std::str::FromStr;

use settings::{Node, Reader, Regex, Schema, SchemaBuilder, Setting};

/// Characters of a pattern.
pub const PATH_GLOB_CHARS: usize = 1024;

/// A compiled Ant pattern that remembers its text.
#[derive(Clone, Debug)]
pub struct PathGlob {
    text: Box<str>,
    regex: Regex,
}

impl PathGlob {
    pub fn is_match(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The common prefix of all matching texts.
    pub fn literal_prefix(&self) -> &str {
        let wild = self.text.find(['?', '*']).unwrap_or(self.text.len());
        let prefix = &self.text[..wild];
        // `/a/**` is also `/a`: the slash before `**` may be missing.
        match self.text[wild..].starts_with("**") {
            true => prefix.strip_suffix('/').unwrap_or(prefix),
            false => prefix,
        }
    }
}

impl PartialEq for PathGlob {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for PathGlob {}

impl FromStr for PathGlob {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("is not a pattern".to_owned());
        }
        if text.chars().count() > PATH_GLOB_CHARS {
            return Err(format!("is longer than {PATH_GLOB_CHARS} characters"));
        }
        if text.contains(['{', '}']) {
            return Err("has braces, and an Ant pattern has no parameters".to_owned());
        }
        Ok(PathGlob { regex: expression(text).parse()?, text: text.into() })
    }
}

fn expression(pattern: &str) -> String {
    let mut segments: Vec<&str> = pattern.split('/').collect();
    // `**/**` is equivalent to `**`, and repetition would only make the automaton larger.
    segments.dedup_by(|next, before| *next == "**" && *before == "**");
    let mut out = String::from("(?s)^");
    let mut joined = true;
    for (at, segment) in segments.iter().enumerate() {
        if *segment == "**" {
            match (at == 0, at + 1 == segments.len()) {
                (true, true) => out.push_str(".*"),
                (true, false) => out.push_str("(?:[^/]*/)*"),
                _ => out.push_str("(?:/[^/]*)*"),
            }
            joined = at == 0;
            continue;
        }
        if !joined {
            out.push('/');
        }
        joined = false;
        push_segment(&mut out, segment);
    }
    out.push('$');
    out
}

fn push_segment(out: &mut String, segment: &str) {
    let mut before = None;
    for c in segment.chars() {
        match c {
            '*' if before == Some('*') => {}
            '*' => out.push_str("[^/]*"),
            '?' => out.push_str("[^/]"),
            c => out.push_str(&regex::escape(c.encode_utf8(&mut [0; 4]))),
        }
        before = Some(c);
    }
}

impl fmt::Display for PathGlob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Setting for PathGlob {
    fn schema(_: &mut SchemaBuilder) -> Schema {
        Schema::text("Ant pattern")
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        reader.parse(node, "an Ant pattern such as /a/**/b, /files/*.txt or v?")
    }
}

#[cfg(test)]
mod tests {
    use super::PathGlob;

    #[test]
    fn the_table_of_matches() {
        for (pattern, yes, no) in [
            ("/a/b", &["/a/b"][..], &["/a/b/", "/a", "x/a/b"][..]),
            ("/a/?", &["/a/b", "/a/é"], &["/a/", "/a/bc", "/a//"]),
            ("/a/*", &["/a/", "/a/bcd"], &["/a", "/a/b/c"]),
            ("/a/*.txt", &["/a/.txt", "/a/b.txt"], &["/a/b.txtx", "/a/b/c.txt", "/a/btxt"]),
            ("/a/**", &["/a", "/a/", "/a/b/c/d"], &["/ab", "/"]),
            ("/**", &["/", "/a", "/a/b", ""], &["a"]),
            ("**", &["", "a", "/a\nb"], &[]),
            ("/**/b", &["/b", "/a/b", "/a/a/b"], &["/a/bb", "b"]),
            ("**/b", &["b", "/b", "a/c/b"], &["ab"]),
            ("/a/**/b", &["/a/b", "/a/x/b", "/a/x/y/b"], &["/a/xb", "/ab"]),
            ("/a/**/**/b", &["/a/b", "/a/x/b"], &["/ab"]),
            ("/**/x/**", &["/x", "/a/x", "/x/b", "/a/x/b"], &["/ax", "/a"]),
            ("a**b", &["ab", "axb"], &["a/b"]),
            ("v1.(0)+[x]", &["v1.(0)+[x]"], &["v1x(0)+[x]", "v1.00x"]),
        ] {
            let ant: PathGlob = pattern.parse().unwrap();
            assert_eq!(ant.to_string(), pattern);
            for text in yes {
                assert!(ant.is_match(text), "{pattern} {text}");
                assert!(text.starts_with(ant.literal_prefix()), "{pattern} {text}");
            }
            for text in no {
                assert!(!ant.is_match(text), "{pattern} {text}");
            }
        }
    }

    #[test]
    fn what_is_not_a_pattern_is_refused() {
        for text in ["", "/a/{id}", &"x".repeat(2000)] {
            assert!(text.parse::<PathGlob>().is_err(), "{text}");
        }
    }

    #[test]
    fn many_stars_stay_fast() {
        let ant: PathGlob = "/**/a*a*a*a*a*a*a*a/**/b".parse().unwrap();
        assert!(!ant.is_match(&"/aaaaaaaaaaaaaaaaaaaaaaaa".repeat(200)));
    }
}
