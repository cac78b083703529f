//! The written form of a condition, and its conversion into the evaluated form.
//!
//! Owns the keys and the rules between them: one subject each, operators only where they mean
//! something. Never evaluates.

use settings::{Cidr, Node, OneOrMany, Reader, Regex, Setting, Variable};

use super::time::{Clock, Offset, Times, Window, Zone};
use super::{Check, Condition, FieldSource, Test, combined};
use crate::{CountryCode, HeaderName, PathGlob};
use message::Scheme;

/// A condition on a request.
///
/// It has one subject: `header`, `query`, `cookie`, `variable`, `ip`, `country`, `scheme` or
/// `time`; or it combines others with `all`, `any` or `not`. A list of conditions means `all`. A
/// header, query parameter, cookie or variable is tested by the operators next to it; without one
/// it must be present.
/// Where a name has several values, one of them must pass every operator.
#[derive(Clone, Debug, PartialEq, Setting)]
pub(crate) struct Written {
    /// Holds when each of these holds.
    pub(crate) all: Option<Vec<Condition>>,
    /// Holds when one of these holds.
    pub(crate) any: Option<Vec<Condition>>,
    /// Holds when this does not.
    pub(crate) not: Option<Box<Condition>>,
    /// The name of a request header.
    #[setting(example = "x-env")]
    pub(crate) header: Option<HeaderName>,
    /// The name of a query parameter; its value is tested decoded.
    pub(crate) query: Option<String>,
    /// The name of a cookie.
    pub(crate) cookie: Option<String>,
    /// The name of a variable; an empty one counts as missing.
    #[setting(example = "tls.client_name")]
    pub(crate) variable: Option<Variable>,
    /// Names of authenticated consumers.
    #[setting(example = ["alice"])]
    pub(crate) consumer: Option<OneOrMany<String>>,
    /// Groups, one of which the authenticated consumer belongs to.
    #[setting(example = ["gold"])]
    pub(crate) group: Option<OneOrMany<String>>,
    /// Ranges of client addresses; the client's address is the one that trusted proxies report.
    #[setting(example = ["10.0.0.0/8", "::1"])]
    pub(crate) ip: Option<Ips>,
    /// Countries of the client's address, by `geo`: two letters (ISO 3166-1), or `unknown`.
    #[setting(example = ["DE", "AT"])]
    pub(crate) country: Option<OneOrMany<CountryCode>>,
    /// The scheme the client used.
    pub(crate) scheme: Option<SchemeWord>,
    /// Times of the week, or dates.
    #[setting(example = "Mon-Fri 08:00-18:00")]
    pub(crate) time: Option<TimesWritten>,
    /// The value is this text.
    pub(crate) equals: Option<String>,
    /// The value begins with this text.
    pub(crate) prefix: Option<String>,
    /// The value ends with this text.
    pub(crate) suffix: Option<String>,
    /// This text occurs in the value.
    pub(crate) contains: Option<String>,
    /// This expression occurs in the value; `^` and `$` bind it to the ends.
    #[setting(example = "^v[0-9]+$")]
    pub(crate) regex: Option<Regex>,
    /// The value matches this Ant pattern: `?` is one character, `*` any characters up to a slash,
    /// `**` any characters.
    #[setting(example = "/files/**/*.txt")]
    pub(crate) ant: Option<PathGlob>,
    /// The value is one of these texts.
    pub(crate) r#in: Option<OneOrMany<String>>,
    /// Whether the value must be present (`true`) or absent (`false`).
    pub(crate) present: Option<bool>,
    /// The value is missing, empty or only spaces (`true`), or is not (`false`).
    pub(crate) blank: Option<bool>,
}

/// Ranges of addresses.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(short = r#in)]
pub(crate) struct Ips {
    /// Addresses or ranges such as `10.0.0.0/8` and `2001:db8::/32`.
    #[setting(example = "10.0.0.0/8")]
    pub(crate) r#in: OneOrMany<Cidr>,
}

/// Times, with their offset or time zone.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(short = r#in)]
pub(crate) struct TimesWritten {
    /// `Mon-Fri 08:00-18:00`, `Sat,Sun`, `22:00-06:00` (past midnight), or dates:
    /// `2026-12-24..2026-12-26` (both days), `2026-12-01T08:00..`, `..2026-12-31`.
    #[setting(example = "Mon-Fri 08:00-18:00")]
    pub(crate) r#in: OneOrMany<Window>,
    /// The offset of local time from UTC, without daylight saving time.
    #[setting(default = "+00:00", example = "+01:00")]
    pub(crate) offset: Offset,
    /// The time zone of local time, by its IANA name, with daylight saving time; instead of
    /// `offset`.
    #[setting(example = "Europe/Berlin")]
    pub(crate) zone: Option<Zone>,
}

/// The scheme of a request.
#[derive(Clone, Debug, PartialEq, Setting)]
pub(crate) enum SchemeWord {
    /// In the clear.
    Http,
    /// Over TLS.
    Https,
}

/// The keys that name what is tested.
const SUBJECTS: &str = "all, any, not, header, query, cookie, variable, consumer, group, ip, \
     country, scheme, time";

/// The keys that say how.
const OPERATORS: &[&str] =
    &["equals", "prefix", "suffix", "contains", "regex", "ant", "in", "present", "blank"];

fn has_unknown(node: &Node) -> bool {
    node.map().unwrap_or_default().iter().any(|(key, _)| {
        !OPERATORS.contains(&&*key.name) && SUBJECTS.split(", ").all(|word| word != key.name)
    })
}

fn one_of(variable: Variable, names: Vec<String>) -> Check {
    Check::Field(FieldSource::Variable(variable), vec![Test::In(names)])
}

impl Written {
    pub(super) fn check(self, node: &Node, reader: &mut Reader<'_>) -> Option<Check> {
        let named = node.map().unwrap_or_default().iter().filter(|(key, value)| {
            !value.is_null() && SUBJECTS.split(", ").any(|word| word == key.name)
        });
        let subjects: Vec<_> = named.map(|(key, _)| key).collect();
        match subjects.as_slice() {
            [_] => self.subject(node, reader),
            // An unknown key is an error already, and probably a misspelt subject.
            [] if has_unknown(node) => None,
            [] => {
                reader
                    .error(node.span, "a condition without a subject")
                    .help(format!("name one of {SUBJECTS}"));
                None
            }
            [first, second, ..] => {
                let why = format!("a condition on both {} and {}", first.name, second.name);
                reader
                    .error(second.span, why)
                    .help("a condition has one subject: write a list of conditions");
                None
            }
        }
    }

    fn subject(mut self, node: &Node, reader: &mut Reader<'_>) -> Option<Check> {
        let place = if let Some(name) = self.header.take() {
            FieldSource::Header(name)
        } else if let Some(name) = self.query.take() {
            FieldSource::Query(name)
        } else if let Some(name) = self.cookie.take() {
            FieldSource::Cookie(name)
        } else if let Some(name) = self.variable.take() {
            FieldSource::Variable(name)
        } else {
            return self.without_operators(node, reader);
        };
        let mut tests = self.tests();
        if tests.is_empty() {
            tests.push(Test::Present(true));
        }
        tests.sort_by_key(Test::cost);
        Some(Check::Field(place, tests))
    }

    fn without_operators(self, node: &Node, reader: &mut Reader<'_>) -> Option<Check> {
        let keys = node.map().unwrap_or_default();
        if let Some((key, _)) = keys.iter().find(|(key, _)| OPERATORS.contains(&&*key.name)) {
            let why = format!("`{}` tests nothing here", key.name);
            let help = "it belongs next to header, query, cookie or variable";
            reader.error(key.span, why).help(help);
            return None;
        }
        let list = |key| node.get(key).unwrap_or(node);
        Some(match self {
            Written { all: Some(all), .. } => {
                return combined(list("all"), all, Check::All, reader);
            }
            Written { any: Some(any), .. } => {
                return combined(list("any"), any, Check::Any, reader);
            }
            Written { not: Some(not), .. } => Check::Not(Box::new(not.0)),
            Written { consumer: Some(names), .. } => one_of(Variable::Consumer, names.0),
            Written { group: Some(names), .. } => one_of(Variable::Groups, names.0),
            Written { country: Some(codes), .. } => {
                let codes = codes.0.into_iter().map(CountryCode::into_text);
                one_of(Variable::Country, codes.collect())
            }
            Written { ip: Some(ip), .. } => Check::Ip(ip.r#in.0),
            Written { scheme: Some(SchemeWord::Http), .. } => Check::Scheme(Scheme::Http),
            Written { scheme: Some(SchemeWord::Https), .. } => Check::Scheme(Scheme::Https),
            Written { time, .. } => {
                let time = time?;
                let clock = match time.zone {
                    Some(_) if time.offset != Offset::default() => {
                        reader.error(node.span, "`zone` and `offset` exclude each other");
                        return None;
                    }
                    Some(zone) => Clock::Zone(zone),
                    None => Clock::Offset(time.offset),
                };
                Check::Time(Times::new(time.r#in.0, clock))
            }
        })
    }

    fn tests(self) -> Vec<Test> {
        [
            self.present.map(Test::Present),
            self.blank.map(Test::Blank),
            self.equals.map(Test::Equals),
            self.r#in.map(|list| Test::In(list.0)),
            self.prefix.map(Test::Prefix),
            self.suffix.map(Test::Suffix),
            self.contains.map(Test::Contains),
            self.ant.map(Test::PathGlob),
            self.regex.map(Test::Regex),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}
