//! Path patterns: `/a/{id}/{*rest}`, `{ ant: "/a/**/b" }`, `{ regex: "^/x/[0-9]+$" }`.
//!
//! Owns their syntax. Patterns are compared with the normal form of a path (`wire::target`):
//! decoded, without dot segments and double slashes; a pattern that equals no normal form is
//! rejected. Promises: a parameter is a whole segment and never empty; `{*rest}` is the rest of the
//! path, perhaps empty.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use message::PARAMS_MAX;
use plugin::PathGlob;
use settings::{Node, Reader, Regex, Schema, SchemaBuilder, Setting, Value, quote};
use wire::target::PathFault;

use crate::limits::{PATTERN_BYTES, SEGMENTS_MAX};

/// A path pattern of a route.
#[derive(Clone, Debug, PartialEq)]
pub enum PathPattern {
    Segments(Segments),
    PathGlob(PathGlob),
    Regex(Regex),
}

/// A pattern that is compared segment by segment, as it is written: there may be 100 000, and only
/// the compiled table is asked by requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segments {
    text: Box<str>,
}

/// A segment of a pattern, between two slashes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Segment<'p> {
    /// A literal; empty only at the end, for a path that ends with a slash.
    Literal(Cow<'p, str>),
    /// `{name}`: any non-empty text.
    Param(&'p str),
    /// `{*name}`: the rest of the path, at the end of a pattern only.
    Rest(&'p str),
}

/// A pattern that is not compared by segments. It is tried after all patterns that are.
#[derive(Clone, Debug, PartialEq, Setting)]
pub(crate) enum Special {
    /// An Ant pattern: `?` is one character, `*` any within a segment, `**` any segments.
    #[setting(word = "ant")]
    PathGlob(PathGlob),
    /// An expression that occurs in the path; `^` and `$` anchor it. Its named groups are
    /// parameters.
    Regex(Regex),
}

impl PathPattern {
    /// True if a path in normal form matches. For checks of a configuration: requests are routed by
    /// the compiled table.
    pub fn covers(&self, path: &str) -> bool {
        crate::compare::compare(self, path).is_ok()
    }

    /// The names of its parameters, in the order of their values.
    pub fn params(&self) -> Vec<&str> {
        match self {
            PathPattern::Segments(segments) => segments.params().collect(),
            PathPattern::PathGlob(_) => Vec::new(),
            PathPattern::Regex(regex) => regex.capture_names().flatten().collect(),
        }
    }

    /// The whole first segment of every matching path, if the pattern shows it.
    pub(crate) fn first_segment(&self) -> Option<String> {
        match self {
            PathPattern::PathGlob(ant) => {
                let first = ant.as_str().strip_prefix('/')?.split('/').next()?;
                (!first.contains(['?', '*'])).then(|| first.to_owned())
            }
            _ => {
                let prefix = self.literal_prefix();
                let (first, _) = prefix.strip_prefix('/')?.split_once('/')?;
                Some(first.to_owned())
            }
        }
    }

    /// A prefix of every matching path, as far as the pattern shows it.
    pub(crate) fn literal_prefix(&self) -> String {
        match self {
            PathPattern::Segments(segments) => {
                let literal = segments.parts().map_while(|part| match part {
                    Segment::Literal(text) => Some(text),
                    _ => None,
                });
                literal.fold(String::new(), |prefix, text| prefix + "/" + &text)
            }
            PathPattern::PathGlob(ant) => ant.literal_prefix().to_owned(),
            PathPattern::Regex(regex) => expression_prefix(regex.as_str()),
        }
    }
}

impl Segments {
    pub fn parts(&self) -> impl Iterator<Item = Segment<'_>> {
        self.text.split('/').skip(1).map(Segment::written)
    }

    fn params(&self) -> impl Iterator<Item = &str> {
        self.parts().filter_map(|part| match part {
            Segment::Param(name) | Segment::Rest(name) => Some(name),
            Segment::Literal(_) => None,
        })
    }
}

/// The literal prefix of an anchored expression. If in doubt it is shorter.
fn expression_prefix(expression: &str) -> String {
    // Flags and alternatives may change what looks literal.
    if expression.contains('|') || expression.contains("(?") {
        return String::new();
    }
    let Some(rest) = expression.strip_prefix('^') else { return String::new() };
    let mut prefix = String::new();
    let mut chars = rest.chars().peekable();
    while let Some(c) = chars.next() {
        let literal = match c {
            '\\' => chars.next_if(|next| "./-_".contains(*next)),
            c if c.is_alphanumeric() || "/-_ ~!@%&=:;,'\"<>".contains(c) => Some(c),
            _ => None,
        };
        let Some(literal) = literal else { break };
        if matches!(chars.peek(), Some('*' | '?' | '{' | '+')) {
            break;
        }
        prefix.push(literal);
    }
    prefix
}

impl FromStr for Segments {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some(inner) = text.strip_prefix('/') else {
            return Err("does not begin with a slash, as every path does".to_owned());
        };
        if text.len() > PATTERN_BYTES {
            return Err(format!("is longer than {PATTERN_BYTES} bytes"));
        }
        let mut last = None;
        for (before, written) in inner.split('/').enumerate() {
            match &last {
                Some(Segment::Rest(_)) => {
                    return Err("continues after {*…}, which is the rest of the path".to_owned());
                }
                Some(Segment::Literal(text)) if text.is_empty() => {
                    return Err(
                        "has an empty segment: slashes are merged before routing".to_owned()
                    );
                }
                _ if before >= SEGMENTS_MAX => {
                    return Err(format!("has more than {SEGMENTS_MAX} segments"));
                }
                _ => last = Some(checked_segment(written)?),
            }
        }
        let segments = Segments { text: text.into() };
        let names: Vec<_> = segments.params().collect();
        if names.len() > PARAMS_MAX {
            return Err(format!("has more than {PARAMS_MAX} parameters"));
        }
        if let Some(name) = repeated(&names) {
            return Err(format!("has two parameters called {}", quote(name)));
        }
        Ok(segments)
    }
}

fn repeated<'a>(names: &[&'a str]) -> Option<&'a str> {
    names.iter().enumerate().find(|(at, name)| names[..*at].contains(name)).map(|(_, name)| *name)
}

impl Segment<'_> {
    /// The segment of a valid pattern that is written like this.
    fn written(text: &str) -> Segment<'_> {
        let name = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
        match name.filter(|name| !name.starts_with('{')) {
            Some(name) => name.strip_prefix('*').map_or(Segment::Param(name), Segment::Rest),
            None if text.contains(['{', '}']) => {
                Segment::Literal(text.replace("{{", "{").replace("}}", "}").into())
            }
            None => Segment::Literal(text.into()),
        }
    }
}

fn checked_segment(written: &str) -> Result<Segment<'_>, String> {
    let segment = Segment::written(written);
    let unescaped = written.replace("{{", "").replace("}}", "");
    let name = match &segment {
        Segment::Literal(text) if !unescaped.contains(['{', '}']) => {
            check_literal(text)?;
            return Ok(segment);
        }
        Segment::Literal(_) => {
            return Err(format!(
                "has {}: a parameter is a whole segment, and a brace itself is {{{{",
                quote(written)
            ));
        }
        Segment::Param(name) | Segment::Rest(name) => name,
    };
    let valid = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if name.is_empty() || !name.chars().all(valid) {
        return Err(format!(
            "has a parameter {}, and names consist of letters, digits, - and _",
            quote(written)
        ));
    }
    Ok(segment)
}

/// A literal equals the normal form of some path.
fn check_literal(text: &str) -> Result<(), String> {
    if text == "*" || text == "**" {
        return Err(format!("has {}: write {{name}} or {{*rest}}, or {{ ant: … }}", quote(text)));
    }
    if text.contains('?') {
        return Err("has a question mark: a query is tested under `when`, and an Ant pattern is \
                    written { ant: … }"
            .to_owned());
    }
    if text == "." || text == ".." {
        return Err("has a dot segment: those are resolved before routing".to_owned());
    }
    let whole = format!("/{text}");
    let normal = wire::target::normalize(whole.as_bytes()).map_err(|fault| match fault {
        PathFault::BadEscape => "has a % without two digits: a percent sign itself is %25".into(),
        other => format!("matches no request: {other}, and such requests get 400"),
    })?;
    let normal = String::from_utf8_lossy(&normal[1..]);
    if normal != text {
        return Err(format!("is compared decoded: write {} instead", quote(&normal)));
    }
    Ok(())
}

impl fmt::Display for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PathPattern::Segments(segments) => f.write_str(&segments.text),
            PathPattern::PathGlob(ant) => write!(f, "ant {ant}"),
            PathPattern::Regex(regex) => write!(f, "regex {regex}"),
        }
    }
}

impl fmt::Display for Segment<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Segment::Literal(text) => write!(f, "{}", quote(text)),
            Segment::Param(name) => write!(f, "{{{name}}}"),
            Segment::Rest(name) => write!(f, "{{*{name}}}"),
        }
    }
}

impl Setting for PathPattern {
    fn schema(builder: &mut SchemaBuilder) -> Schema {
        Schema::OneOf(vec![Schema::pattern("path", "^/"), Special::schema(builder)])
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        if let Value::Map(_) = node.value {
            let special = match Special::read(node, reader)? {
                Special::PathGlob(ant) => PathPattern::PathGlob(ant),
                Special::Regex(regex) => PathPattern::Regex(regex),
            };
            return checked(special, node, reader);
        }
        reader.parse(node, "a path such as /a/{id} or /files/{*rest}").map(PathPattern::Segments)
    }
}

fn checked(special: PathPattern, node: &Node, reader: &mut Reader<'_>) -> Option<PathPattern> {
    let params = special.params();
    let why = match &special {
        PathPattern::PathGlob(ant)
            if !matches!(ant.as_str().split('/').next(), Some("" | "**")) =>
        {
            format!(
                "{} matches no path, because every path begins with a slash",
                quote(ant.as_str())
            )
        }
        PathPattern::Regex(_) if params.len() > PARAMS_MAX => {
            format!("an expression with more than {PARAMS_MAX} named groups")
        }
        _ => return Some(special),
    };
    reader.error(node.span, why);
    None
}

#[cfg(test)]
mod tests {
    use super::{PathPattern, Segment};
    use settings::{node, read};

    #[test]
    fn patterns_are_parsed() {
        let pattern: PathPattern = read(&node!("/a{{b}}/{id}/é/{*rest}")).unwrap();
        let PathPattern::Segments(segments) = &pattern else { panic!("not segments") };
        assert_eq!(
            segments.parts().collect::<Vec<_>>(),
            [
                Segment::Literal("a{b}".into()),
                Segment::Param("id"),
                Segment::Literal("é".into()),
                Segment::Rest("rest"),
            ]
        );
        assert_eq!(pattern.params(), ["id", "rest"]);
        assert_eq!(pattern.to_string(), "/a{{b}}/{id}/é/{*rest}");
        let pattern: PathPattern = read(&node!({ "regex": "^/x/(?P<n>[0-9]+)$" })).unwrap();
        assert_eq!(pattern.params(), ["n"]);
        for valid in ["/", "/a", "/a/", "/a%2Fb", "/a%25", "/.well-known", "/a*b"] {
            assert!(read::<PathPattern>(&node!(valid)).is_ok(), "{valid}");
        }
    }

    #[test]
    fn every_match_begins_with_the_prefix() {
        for (node, prefix) in [
            (node!("/a/b/{id}"), "/a/b"),
            (node!("/"), "/"),
            (node!({ "ant": "/a/*/b" }), "/a/"),
            (node!({ "ant": "/a/**" }), "/a"),
            (node!({ "regex": "^/x/[0-9]+$" }), "/x/"),
            (node!({ "regex": "^/x\\.y/ab?" }), "/x.y/a"),
            (node!({ "regex": "^/x{2}" }), "/"),
            (node!({ "regex": "^/xa+" }), "/x"),
            (node!({ "regex": "/x" }), ""),
            (node!({ "regex": "^/x|/y" }), ""),
            (node!({ "regex": "(?i)^/x" }), ""),
            (node!({ "regex": "^/\\w" }), "/"),
        ] {
            let pattern: PathPattern = read(&node).unwrap();
            assert_eq!(pattern.literal_prefix(), prefix, "{pattern}");
        }
    }

    #[test]
    fn patterns_without_a_match_are_rejected_with_a_reason() {
        let deep = "/a".repeat(65);
        let many: String = (0..17).map(|n| format!("/{{p{n}}}")).collect();
        for (text, why) in [
            ("", "begin with a slash"),
            ("a", "begin with a slash"),
            ("/a//b", "empty segment"),
            ("/{*rest}/a", "continues after {*…}"),
            ("/{*rest}/", "continues after {*…}"),
            ("/{id}/{id}", "two parameters called \"id\""),
            ("/a{id}", "a parameter is a whole segment"),
            ("/{id", "a parameter is a whole segment"),
            ("/{}", "names consist of"),
            ("/{*}", "names consist of"),
            ("/{a b}", "names consist of"),
            ("/a/*", "write {name} or {*rest}"),
            ("/a/**", "write {name} or {*rest}"),
            ("/a?b=c", "tested under `when`"),
            ("/a/../b", "dot segment"),
            ("/caf%C3%A9", "write \"café\" instead"),
            ("/a%20b", "write \"a b\" instead"),
            ("/%2f", "write \"%2F\" instead"),
            ("/100%", "percent sign itself is %25"),
            (&deep, "more than 64 segments"),
            (&many, "more than 16 parameters"),
        ] {
            let out = read::<PathPattern>(&node!(text)).unwrap_err();
            assert!(out.contains(why), "{text}: {out}");
        }
        for (node, why) in [
            (node!({ "ant": "a/b" }), "matches no path"),
            (node!({ "ant": "*.txt" }), "matches no path"),
            (node!({ "regexp": "a" }), "did you mean \"regex\"?"),
            (node!({ "regex": "(" }), "is not a regular expression"),
            (node!(["/a"]), "expected a path"),
        ] {
            let out = read::<PathPattern>(&node).unwrap_err();
            assert!(out.contains(why), "{out}\nwanted {why}");
        }
    }
}
