//! Conditions on a request: the settings under `when:`.
//!
//! Owns how they are written and when they hold. A condition has one subject (a header, a query
//! parameter, a cookie, the client's address, the scheme, the time) or combines others with `all`,
//! `any` and `not`; a list means `all`. Promises: evaluating takes time linear in the condition and
//! the request and allocates only where a query has to be decoded; cheap tests come first, so the
//! order written does not matter.
//!
//! ```yaml
//! when:
//!   - { header: x-env, equals: beta }
//!   - { not: { ip: [10.0.0.0/8] } }
//!   - { any: [{ cookie: beta }, { query: beta, in: ["1", "yes"] }] }
//!   - { time: "Mon-Fri 08:00-18:00" }
//! ```

mod expression;
mod time;
mod written;

use std::fmt;

use settings::{
    Cidr, Node, Reader, Regex, Schema, SchemaBuilder, Setting, TlsField, Value, Variable,
};

use crate::{HeaderName, PathGlob, variables};
use message::{Request, Scheme};
use time::Times;
use written::Written;

/// The maximum nesting of conditions.
pub const CONDITION_DEPTH: usize = 16;
/// The maximum number of tests in a condition.
pub const CONDITION_TESTS: usize = 256;

/// A condition on a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition(Check);

#[derive(Clone, Debug, PartialEq)]
enum Check {
    All(Vec<Check>),
    Any(Vec<Check>),
    Not(Box<Check>),
    Field(FieldSource, Vec<Test>),
    Ip(Vec<Cidr>),
    Scheme(Scheme),
    Time(Times),
}

/// The part of a request in which a name has values.
#[derive(Clone, Debug, PartialEq)]
enum FieldSource {
    Header(HeaderName),
    Query(String),
    Cookie(String),
    Variable(Variable),
}

/// The tests of a value; all tests of a condition must hold for the same value.
#[derive(Clone, Debug, PartialEq)]
enum Test {
    Present(bool),
    Blank(bool),
    Equals(String),
    In(Vec<String>),
    Prefix(String),
    Suffix(String),
    Contains(String),
    PathGlob(PathGlob),
    Regex(Regex),
}

impl Condition {
    /// True if it holds for this request, now.
    pub fn holds(&self, request: &Request) -> bool {
        self.holds_at(request, None)
    }

    /// The same at another time, in seconds since 1970.
    pub fn holds_at(&self, request: &Request, unix_secs: Option<u64>) -> bool {
        self.0.holds(request, unix_secs)
    }

    /// The part of it that does not hold, for people.
    pub fn why_not(&self, request: &Request, unix_secs: Option<u64>) -> Option<String> {
        self.0.failing(request, unix_secs).map(Check::to_string)
    }

    /// True if it can only hold behind a filter that authenticates.
    pub fn needs_authentication(&self) -> bool {
        self.0.needs_authentication()
    }

    /// The number of its tests: more tests make it more specific.
    pub fn tests(&self) -> usize {
        self.0.tests()
    }
}

impl Check {
    fn holds(&self, request: &Request, at: Option<u64>) -> bool {
        match self {
            Check::All(checks) => checks.iter().all(|check| check.holds(request, at)),
            Check::Any(checks) => checks.iter().any(|check| check.holds(request, at)),
            Check::Not(check) => !check.holds(request, at),
            Check::Field(place, tests) => field_holds(place, tests, request),
            Check::Ip(ranges) => settings::any_contains(ranges, request.client_ip),
            Check::Scheme(scheme) => request.scheme == *scheme,
            Check::Time(times) => times.contain(at.unwrap_or_else(net::clock::wall_secs)),
        }
    }

    fn failing(&self, request: &Request, at: Option<u64>) -> Option<&Check> {
        match self {
            Check::All(checks) => checks.iter().find_map(|check| check.failing(request, at)),
            check => (!check.holds(request, at)).then_some(check),
        }
    }

    fn tests(&self) -> usize {
        match self {
            Check::All(checks) | Check::Any(checks) => checks.iter().map(Check::tests).sum(),
            Check::Not(check) => check.tests(),
            Check::Field(_, tests) => tests.len(),
            Check::Ip(_) | Check::Scheme(_) | Check::Time(_) => 1,
        }
    }

    fn needs_authentication(&self) -> bool {
        match self {
            Check::All(checks) | Check::Any(checks) => {
                checks.iter().any(Check::needs_authentication)
            }
            Check::Not(check) => check.needs_authentication(),
            Check::Field(FieldSource::Variable(name), _) => name.needs_authentication(),
            _ => false,
        }
    }

    fn depth(&self) -> usize {
        match self {
            Check::All(checks) | Check::Any(checks) => {
                1 + checks.iter().map(Check::depth).max().unwrap_or(0)
            }
            Check::Not(check) => 1 + check.depth(),
            _ => 0,
        }
    }

    /// Roughly what evaluating costs, to put the cheap ones first.
    fn cost(&self) -> u32 {
        match self {
            Check::Scheme(_) => 1,
            Check::Time(_) => 2,
            Check::Ip(ranges) => 2 + ranges.len() as u32,
            Check::Field(place, tests) => {
                let searched = if matches!(place, FieldSource::Header(_)) { 4 } else { 12 };
                searched + tests.iter().map(Test::cost).sum::<u32>()
            }
            Check::All(checks) | Check::Any(checks) => checks.iter().map(Check::cost).sum(),
            Check::Not(check) => check.cost(),
        }
    }
}

impl Test {
    fn cost(&self) -> u32 {
        match self {
            Test::PathGlob(_) | Test::Regex(_) => 40,
            Test::Contains(_) => 4,
            Test::In(list) => 1 + list.len() as u32,
            _ => 1,
        }
    }

    fn holds(&self, value: &[u8]) -> bool {
        // A byte that is not UTF-8 must not hide the rest of a value.
        let text = || String::from_utf8_lossy(value);
        match self {
            Test::Present(present) => *present,
            Test::Blank(blank) => value.trim_ascii().is_empty() == *blank,
            Test::Equals(wanted) => value == wanted.as_bytes(),
            Test::In(list) => list.iter().any(|wanted| value == wanted.as_bytes()),
            Test::Prefix(prefix) => value.starts_with(prefix.as_bytes()),
            Test::Suffix(suffix) => value.ends_with(suffix.as_bytes()),
            Test::Contains(part) => memchr::memmem::find(value, part.as_bytes()).is_some(),
            Test::PathGlob(ant) => ant.is_match(&text()),
            Test::Regex(regex) => regex.is_match(&text()),
        }
    }

    /// Does it hold where there is no value at all?
    fn holds_missing(&self) -> bool {
        matches!(self, Test::Present(false) | Test::Blank(true))
    }
}

/// A name may have several values: one of them must pass every test. Where there is none, the tests
/// must say so (`present: false`, `blank: true`).
fn field_holds(place: &FieldSource, tests: &[Test], request: &Request) -> bool {
    let mut missing = true;
    let mut passes = |value: &[u8]| {
        missing = false;
        tests.iter().all(|test| test.holds(value))
    };
    let passed = match place {
        // Recipients may take `X_User` for the `X-User` that the condition is about.
        FieldSource::Header(name) => {
            request.headers.get_all(name).any(&mut passes)
                || request.headers.aliases(name).any(|field| passes(field.value))
        }
        FieldSource::Cookie(name) => variables::cookies(request, name).any(&mut passes),
        FieldSource::Query(name) => variables::query(request, name).any(|value| passes(&value)),
        FieldSource::Variable(Variable::Tls(TlsField::ClientName)) => {
            variables::client_names(request).any(|name| passes(name.as_bytes()))
        }
        FieldSource::Variable(Variable::Groups) => {
            variables::groups(request).any(|group| passes(group.as_bytes()))
        }
        FieldSource::Variable(Variable::Claim(name)) => {
            variables::claims(request, name).any(|value| passes(value.as_bytes()))
        }
        FieldSource::Variable(name) => {
            let value = variables::value(name, request);
            !value.is_empty() && passes(&value)
        }
    };
    passed || (missing && tests.iter().all(Test::holds_missing))
}

impl Setting for Condition {
    fn schema(defs: &mut SchemaBuilder) -> Schema {
        let one = Written::schema(defs);
        Schema::OneOf(vec![one.clone(), Schema::List(Box::new(one))])
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let check = match &node.value {
            Value::List(_) => combined(node, Vec::read(node, reader)?, Check::All, reader),
            _ => Written::read(node, reader)?.check(node, reader),
        }?;
        if check.depth() > CONDITION_DEPTH {
            let why = format!("conditions stand more than {CONDITION_DEPTH} deep in one another");
            reader.error(node.span, why);
            return None;
        }
        if check.tests() > CONDITION_TESTS {
            let why = format!("a condition of more than {CONDITION_TESTS} tests");
            reader.error(node.span, why);
            return None;
        }
        Some(Condition(check))
    }
}

/// Several conditions as one, the cheap ones first. `list` is where they are written.
fn combined(
    list: &Node,
    conditions: Vec<Condition>,
    how: fn(Vec<Check>) -> Check,
    reader: &mut Reader<'_>,
) -> Option<Check> {
    let mut checks: Vec<Check> = conditions.into_iter().map(|condition| condition.0).collect();
    checks.sort_by_key(Check::cost);
    match checks.len() {
        0 => {
            // A condition that cannot be read was reported as an error already.
            if matches!(&list.value, Value::List(written) if written.is_empty()) {
                reader.error(list.span, "an empty list of conditions").help("leave it out");
            }
            None
        }
        1 => checks.pop(),
        _ => Some(how(checks)),
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Check::All(checks) => listed(f, "all", checks),
            Check::Any(checks) => listed(f, "any", checks),
            Check::Not(check) => write!(f, "not ({check})"),
            Check::Field(place, tests) => {
                match place {
                    FieldSource::Header(name) => write!(f, "header {name}")?,
                    FieldSource::Query(name) => write!(f, "query {name}")?,
                    FieldSource::Cookie(name) => write!(f, "cookie {name}")?,
                    FieldSource::Variable(name) => write!(f, "variable {name}")?,
                }
                for (at, test) in tests.iter().enumerate() {
                    f.write_str(if at == 0 { " " } else { " and " })?;
                    write!(f, "{test}")?;
                }
                Ok(())
            }
            Check::Ip(ranges) => {
                f.write_str("ip in ")?;
                joined(f, ranges.iter())
            }
            Check::Scheme(scheme) => write!(f, "scheme {}", scheme.as_str()),
            Check::Time(times) => write!(f, "time in {times}"),
        }
    }
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Test::Present(true) => f.write_str("present"),
            Test::Present(false) => f.write_str("not present"),
            Test::Blank(true) => f.write_str("blank"),
            Test::Blank(false) => f.write_str("not blank"),
            Test::Equals(text) => write!(f, "equals {text:?}"),
            Test::In(list) => {
                f.write_str("in ")?;
                joined(f, list.iter().map(|text| format!("{text:?}")))
            }
            Test::Prefix(text) => write!(f, "prefix {text:?}"),
            Test::Suffix(text) => write!(f, "suffix {text:?}"),
            Test::Contains(text) => write!(f, "contains {text:?}"),
            Test::PathGlob(ant) => write!(f, "ant {ant}"),
            Test::Regex(regex) => write!(f, "regex {regex}"),
        }
    }
}

fn listed(f: &mut fmt::Formatter<'_>, word: &str, checks: &[Check]) -> fmt::Result {
    write!(f, "{word} of (")?;
    for (at, check) in checks.iter().enumerate() {
        f.write_str(if at == 0 { "" } else { "; " })?;
        write!(f, "{check}")?;
    }
    f.write_str(")")
}

fn joined(
    f: &mut fmt::Formatter<'_>,
    items: impl Iterator<Item = impl fmt::Display>,
) -> fmt::Result {
    f.write_str("[")?;
    for (at, item) in items.enumerate() {
        f.write_str(if at == 0 { "" } else { ", " })?;
        write!(f, "{item}")?;
    }
    f.write_str("]")
}

#[cfg(test)]
mod tests;
