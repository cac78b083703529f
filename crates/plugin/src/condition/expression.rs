//! The short form of a condition, for command lines: `header.x-user == "7"`.
//!
//! Owns its grammar only. What a test means, and which tests a condition may have, is defined by
//! the form of configurations, which an expression becomes.

use settings::{MapKey, Node, Span, Value, Variable};

use super::Condition;

/// The operators of expressions, their keys in the form of configurations, and whether they are
/// negated.
const OPERATORS: [(&str, &str, bool); 7] = [
    ("==", "equals", false),
    ("!=", "equals", true),
    ("=~", "regex", false),
    ("!~", "regex", true),
    ("^=", "prefix", false),
    ("$=", "suffix", false),
    ("*=", "contains", false),
];

/// The keys of configurations under which a name may have several values.
const FAMILIES: [&str; 3] = ["header", "query", "cookie"];

impl Condition {
    /// Reads `VARIABLE`, which must be present, or `VARIABLE OPERATOR VALUE`, where the operator is
    /// `==`, `!=`, `=~`, `!~`, `^=`, `$=` or `*=` and the value is a word or a text in double
    /// quotes. The error is a sentence that names what was typed.
    pub fn parse_expression(text: &str) -> Result<Condition, String> {
        let found = operator_at(text);
        let name = found.map_or(text, |(at, _)| &text[..at]).trim();
        if let Err(why) = Variable::parse(name) {
            let hint = match name.contains(['=', ' ']) {
                true => ": an operator is one of ==, !=, =~, !~, ^=, $=, *=",
                false => "",
            };
            return Err(format!("{why}{hint}"));
        }
        let mut entries = match name.split_once('.') {
            Some((family, part)) if FAMILIES.contains(&family) => vec![entry(family, part)],
            _ => vec![entry("variable", name)],
        };
        let mut is_negated = false;
        if let Some((at, (symbol, key, negated))) = found {
            let value = value(text[at + symbol.len()..].trim(), symbol)?;
            entries.push(entry(key, &value));
            is_negated = negated;
        }
        let mut node = Node::made(Value::Map(entries));
        if is_negated {
            node = Node::made(Value::Map(vec![(key("not"), node)]));
        }
        settings::read(&node).map_err(|why| why.trim_end().trim_start_matches("error: ").to_owned())
    }
}

/// The first operator, and where it is. A quotation mark ends the search: an operator within a
/// value is none.
fn operator_at(text: &str) -> Option<(usize, (&'static str, &'static str, bool))> {
    let unquoted = text.split('"').next().unwrap_or_default();
    let found =
        OPERATORS.iter().filter_map(|operator| Some((unquoted.find(operator.0)?, *operator)));
    found.min_by_key(|(at, _)| *at)
}

fn value(text: &str, symbol: &str) -> Result<String, String> {
    let Some(mut rest) = text.strip_prefix('"') else {
        return match text {
            "" => Err(format!("the value after {symbol} is missing")),
            word if word.contains(char::is_whitespace) || word.contains('"') => {
                Err(format!("the value {word:?} needs quotes: \"…\""))
            }
            word => Ok(word.to_owned()),
        };
    };
    let mut value = String::new();
    while let Some(at) = rest.find(['"', '\\']) {
        value.push_str(&rest[..at]);
        let mut after = rest[at..].chars();
        match (after.next(), after.next()) {
            (Some('\\'), Some(escaped @ ('"' | '\\'))) => value.push(escaped),
            // As in regular expressions, where a backslash is frequent.
            (Some('\\'), Some(other)) => value.extend(['\\', other]),
            (Some('"'), None) => return Ok(value),
            (Some('"'), Some(_)) => {
                return Err(format!("the text {:?} behind the value", &rest[at + 1..]));
            }
            _ => break,
        }
        rest = after.as_str();
    }
    Err(format!("the value {text} lacks its closing quotation mark"))
}

fn key(name: &str) -> MapKey {
    MapKey { name: name.to_owned(), span: Span::NOWHERE }
}

fn entry(name: &str, value: &str) -> (MapKey, Node) {
    (key(name), Node::quoted(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use message::{Headers, Request, Target};

    fn request() -> Request {
        let mut headers = Headers::new();
        headers.append("x-user", "7");
        headers.append("x-user", r#"a "b" \d"#);
        let target = Target::new("/a?q=x%20y".into()).unwrap();
        Request::made_up(wire::Method::Get, target, headers)
    }

    #[test]
    fn expressions() {
        for (text, holds) in [
            (r#"header.x-user == "7""#, true),
            ("header.x-user==7", true),
            ("header.X-User == 8", false),
            ("header.x-user != 8", true),
            ("header.x-user != 7", false),
            ("header.x-none != 7", true),
            ("header.x-user", true),
            ("header.x-none", false),
            (r#"header.x-user =~ "^[0-9]$""#, true),
            (r#"header.x-user =~ "\d$""#, true),
            ("header.x-user !~ ^[0-9]$", false),
            (r#"header.x-user == "a \"b\" \\d""#, true),
            (r#"query.q == "x y""#, true),
            ("query.q ^= x", true),
            ("query.q $= y", true),
            ("query.q *= z", false),
            (r#"method == "GET""#, true),
            ("path ^= /a", true),
            (r#"path == "/b == c""#, false),
        ] {
            let condition = Condition::parse_expression(text);
            let condition = condition.unwrap_or_else(|why| panic!("{text}: {why}"));
            assert_eq!(condition.holds(&request()), holds, "{text}");
        }
    }

    #[test]
    fn errors_name_what_was_typed() {
        for (text, part) in [
            ("", "unknown variable"),
            ("haeder.x == 1", r#"did you mean "header.x"?"#),
            ("metod == GET", r#"did you mean "method"?"#),
            ("path = /a", "an operator is one of =="),
            ("path ==", "the value after == is missing"),
            ("path == a b", "needs quotes"),
            (r#"path == "a" b"#, r#"the text " b" behind the value"#),
            (r#"path == "a"#, "lacks its closing quotation mark"),
            (r#"path =~ "(""#, "("),
        ] {
            let why = Condition::parse_expression(text).unwrap_err();
            assert!(why.contains(part) && !why.starts_with("error"), "{text}: {why}");
        }
    }
}
