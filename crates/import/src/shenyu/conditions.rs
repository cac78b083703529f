//! Conditions of selectors and rules as ours, and how two of them relate.
//!
//! A selector or rule becomes a list of [`Clause`]s that must all hold. Promises no false claim:
//! [`covers`] and [`disjoint`] are true only where that follows from the text of the conditions.

use plugin::PathGlob;
use serde_json::{Value, json};
use settings::Regex;

/// Alternatives, one of which has to hold.
pub(super) type Clause = Vec<Test>;

/// One test of a request.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Test {
    /// As it is written under `when`.
    pub(super) when: Value,
    /// The subject, if other tests of it can be compared with this one.
    subject: Subject,
}

#[derive(Clone, Debug, PartialEq)]
enum Subject {
    Path(Vec<Segment>),
    /// A name that has one value, and the value that it must have.
    Equals(&'static str, String),
    Other,
}

/// A segment of a path pattern.
#[derive(Clone, Debug, PartialEq)]
enum Segment {
    Literal(String),
    /// A text with this prefix, which may be empty.
    Prefix(String),
    /// Any text that is not empty.
    One,
    /// A part of an Ant pattern with wildcards in it.
    Glob(String),
    /// Any segments, also none; behind it nothing is compared.
    Rest,
}

/// The clauses of a selector or rule (`matchMode` 0 is all, 1 is any), or what has no counterpart.
pub(super) fn clauses(conditions: &[Value], is_any: bool) -> Result<Vec<Clause>, String> {
    let tests = conditions.iter().map(test).collect::<Result<Vec<Test>, String>>()?;
    Ok(match is_any {
        true if tests.is_empty() => Vec::new(),
        true => vec![tests],
        false => tests.into_iter().map(|test| vec![test]).collect(),
    })
}

fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value[field].as_str().unwrap_or_default().trim()
}

/// The longest value of a condition.
const VALUE_BYTES: usize = 1024;

fn test(condition: &Value) -> Result<Test, String> {
    let (kind, operator) = (text(condition, "paramType"), text(condition, "operator"));
    let (name, value) = (text(condition, "paramName"), text(condition, "paramValue"));
    if value.len() > VALUE_BYTES {
        return Err(format!("a value is longer than {VALUE_BYTES} bytes"));
    }
    if ["TimeBefore", "TimeAfter"].contains(&operator) && name.is_empty() {
        let minute = value.replace(' ', "T");
        let minute = minute.get(..16).ok_or_else(|| format!("{value:?} is not a time"))?;
        let after = json!({ "time": format!("{minute}..") });
        let when = if operator == "TimeAfter" { after } else { json!({ "not": after }) };
        return Ok(Test { when, subject: Subject::Other });
    }
    let subject = match kind {
        "uri" => json!({ "variable": "path" }),
        "host" | "domain" => json!({ "variable": "host" }),
        "req_method" => json!({ "variable": "method" }),
        "ip" => json!({ "variable": "client_ip" }),
        "header" => json!({ "header": name }),
        "query" => json!({ "query": name }),
        "cookie" => json!({ "cookie": name }),
        other => return Err(format!("the condition {other:?} has no counterpart")),
    };
    let is_path = kind == "uri";
    if name.is_empty() && ["header", "query", "cookie"].contains(&kind) {
        return Err(format!("a condition on {kind} has no name"));
    }
    let (key, wanted) = match operator {
        "match" | "pathPattern" | "exclude" if is_path => ("ant", ant(value)?),
        "match" | "contains" | "exclude" => ("contains", value.to_owned()),
        "=" => {
            ("equals", if kind == "req_method" { value.to_uppercase() } else { value.to_owned() })
        }
        "regex" => ("regex", format!("^(?:{value})$")),
        "startsWith" => ("prefix", value.to_owned()),
        "endsWith" => ("suffix", value.to_owned()),
        "isBlank" => ("blank", String::new()),
        other => return Err(format!("the operator {other:?} has no counterpart")),
    };
    if key == "regex" {
        wanted.parse::<Regex>().map_err(|error| format!("{value:?} {error}"))?;
    }
    let mut when = subject;
    when[key] = if key == "blank" { true.into() } else { wanted.clone().into() };
    if operator == "exclude" {
        return Ok(Test { when: json!({ "not": when }), subject: Subject::Other });
    }
    let subject = match (kind, key) {
        ("uri", "ant") => Subject::Path(segments(value)),
        ("uri", "equals") => Subject::Path(literal(value)),
        ("uri", "prefix") => Subject::Path(prefix(value)),
        ("host" | "domain", "equals") => Subject::Equals("host", wanted),
        ("req_method", "equals") => Subject::Equals("method", wanted),
        ("ip", "equals") => Subject::Equals("ip", wanted),
        _ => Subject::Other,
    };
    Ok(Test { when, subject })
}

/// An Ant pattern, or a path pattern of Spring as one.
fn ant(pattern: &str) -> Result<String, String> {
    let segments = pattern.split('/').map(|segment| {
        let name = segment.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
        match name {
            Some(name) if name.starts_with('*') => "**",
            Some(name) if !name.contains(':') => "*",
            _ => segment,
        }
    });
    let ant = segments.collect::<Vec<_>>().join("/");
    ant.parse::<PathGlob>().map_err(|error| format!("{pattern:?} {error}"))?;
    Ok(ant)
}

fn pieces(path: &str) -> impl Iterator<Item = &str> {
    path.strip_prefix('/').unwrap_or(path).split('/')
}

fn literal(path: &str) -> Vec<Segment> {
    pieces(path).map(|piece| Segment::Literal(piece.to_owned())).collect()
}

fn prefix(path: &str) -> Vec<Segment> {
    let mut segments = literal(path);
    if let Some(Segment::Literal(last)) = segments.pop() {
        segments.push(Segment::Prefix(last));
    }
    segments.push(Segment::Rest);
    segments
}

fn segments(pattern: &str) -> Vec<Segment> {
    pieces(pattern)
        .map(|piece| match piece {
            "**" => Segment::Rest,
            "*" => Segment::One,
            _ if piece.starts_with("{*") => Segment::Rest,
            _ if piece.starts_with('{') && !piece.contains(':') => Segment::One,
            _ if piece.contains(['*', '?', '{']) => Segment::Glob(piece.to_owned()),
            _ => Segment::Literal(piece.to_owned()),
        })
        .collect()
}

/// True if each request that meets all of `narrow` also meets all of `wide`.
pub(super) fn covers(wide: &[Clause], narrow: &[Clause]) -> bool {
    wide.iter().all(|clause| narrow.iter().any(|other| implies(other, clause)))
}

/// True if a request that meets one clause meets the other.
fn implies(narrow: &Clause, wide: &Clause) -> bool {
    narrow.iter().all(|test| wide.iter().any(|other| test_covers(other, test)))
}

/// True if no request meets all of both.
pub(super) fn disjoint(one: &[Clause], other: &[Clause]) -> bool {
    one.iter().any(|clause| {
        other.iter().any(|against| {
            clause.iter().all(|test| against.iter().all(|other| tests_disjoint(test, other)))
        })
    })
}

/// The clauses of both, without those that others imply.
pub(super) fn joined(one: &[Clause], other: &[Clause]) -> Vec<Clause> {
    let mut all: Vec<Clause> = one.to_vec();
    for clause in other {
        if !all.iter().any(|known| implies(known, clause)) {
            all.retain(|known| !implies(clause, known));
            all.push(clause.clone());
        }
    }
    all
}

fn test_covers(wide: &Test, narrow: &Test) -> bool {
    match (&wide.subject, &narrow.subject) {
        (Subject::Path(wide), Subject::Path(narrow)) => path_covers(wide, narrow),
        _ => wide == narrow,
    }
}

fn path_covers(wide: &[Segment], narrow: &[Segment]) -> bool {
    match (wide, narrow) {
        ([Segment::Rest], _) | ([], []) => true,
        ([], _) | (_, []) => false,
        ([first, wide @ ..], [other, narrow @ ..]) => {
            let is_covered = match (first, other) {
                (Segment::Rest, _) | (_, Segment::Rest) => return first == other && wide == narrow,
                (Segment::One, Segment::Literal(text)) => !text.is_empty(),
                (Segment::One, Segment::One) => true,
                (Segment::Prefix(prefix), Segment::Literal(text) | Segment::Prefix(text)) => {
                    text.starts_with(&**prefix)
                }
                _ => first == other,
            };
            is_covered && path_covers(wide, narrow)
        }
    }
}

fn tests_disjoint(one: &Test, other: &Test) -> bool {
    match (&one.subject, &other.subject) {
        (Subject::Path(one), Subject::Path(other)) => paths_disjoint(one, other),
        (Subject::Equals(name, value), Subject::Equals(other_name, other_value)) => {
            name == other_name && value != other_value
        }
        _ => false,
    }
}

fn paths_disjoint(one: &[Segment], other: &[Segment]) -> bool {
    match (one, other) {
        ([Segment::Rest, ..], _) | (_, [Segment::Rest, ..]) | ([], []) => false,
        ([], _) | (_, []) => true,
        ([first, one @ ..], [second, other @ ..]) => {
            let is_different = match (first, second) {
                (Segment::Literal(a), Segment::Literal(b)) => a != b,
                (Segment::Literal(text), Segment::Prefix(prefix))
                | (Segment::Prefix(prefix), Segment::Literal(text)) => !text.starts_with(&**prefix),
                (Segment::Prefix(a), Segment::Prefix(b)) => {
                    !a.starts_with(&**b) && !b.starts_with(&**a)
                }
                _ => false,
            };
            is_different || paths_disjoint(one, other)
        }
    }
}

/// `match` of a route: a path where the clauses have one, and the rest under `when`.
pub(super) fn route_match(clauses: &[Clause], priority: usize) -> Value {
    let path_of = |clause: &Clause| clause.iter().map(route_path).collect::<Option<Vec<Value>>>();
    let path = clauses.iter().position(|clause| path_of(clause).is_some());
    let mut rule = json!({});
    if let Some(paths) = path.and_then(|at| path_of(&clauses[at])) {
        rule["path"] = match <[Value; 1]>::try_from(paths) {
            Ok([one]) => one,
            Err(paths) => paths.into(),
        };
    }
    let rest = clauses.iter().enumerate().filter(|(at, _)| Some(*at) != path);
    let when: Vec<Value> = rest
        .map(|(_, clause)| match &**clause {
            [one] => one.when.clone(),
            any => json!({ "any": any.iter().map(|test| &test.when).collect::<Vec<_>>() }),
        })
        .collect();
    if !when.is_empty() {
        rule["when"] = when.into();
    }
    rule["priority"] = priority.into();
    rule
}

/// The path pattern of a route for a test, if it has one.
fn route_path(test: &Test) -> Option<Value> {
    let Subject::Path(segments) = &test.subject else { return None };
    // Another pattern matches no path.
    let is_absolute = |ant: &Value| ant.as_str().is_some_and(|ant| ant.starts_with('/'));
    if let Some(ant) = test.when.get("ant")
        && segments.iter().any(|segment| matches!(segment, Segment::Glob(_)))
    {
        return is_absolute(ant).then(|| json!({ "ant": ant }));
    }
    let mut path = String::new();
    for (at, segment) in segments.iter().enumerate() {
        path.push('/');
        match segment {
            Segment::Literal(text) if is_plain(text) => path.push_str(text),
            Segment::Literal(text) if text.is_empty() && at + 1 == segments.len() => {}
            Segment::One => path.push_str(&format!("{{p{at}}}")),
            Segment::Rest if at + 1 == segments.len() => path.push_str("{*rest}"),
            _ if is_absolute(&test.when["ant"]) => {
                return Some(json!({ "ant": test.when["ant"] }));
            }
            _ => return None,
        }
    }
    Some(path.into())
}

/// True if a segment is the same in every form of a path.
fn is_plain(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_~.".contains(&byte);
    !text.is_empty() && text.bytes().all(is_plain) && !text.bytes().all(|byte| byte == b'.')
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{clauses, covers, disjoint, joined, route_match};

    fn uri(operator: &str, value: &str) -> Value {
        json!({ "paramType": "uri", "operator": operator, "paramName": "/", "paramValue": value })
    }

    fn one(operator: &str, value: &str) -> Vec<super::Clause> {
        clauses(&[uri(operator, value)], false).unwrap()
    }

    #[test]
    fn patterns_relate_as_the_paths_that_they_match() {
        // wide, narrow, covers, disjoint
        for (wide, narrow, is_covered, is_apart) in [
            (one("match", "/a/**"), one("=", "/a/b/c"), true, false),
            (one("match", "/a/**"), one("=", "/a"), true, false),
            (one("match", "/a/**"), one("=", "/ab"), false, true),
            (one("match", "/a/*"), one("pathPattern", "/a/{id}"), true, false),
            (one("match", "/a/*"), one("match", "/a/**"), false, false),
            (one("match", "/a/*"), one("=", "/a/b/c"), false, true),
            (one("startsWith", "/a/b"), one("=", "/a/bc"), true, false),
            (one("startsWith", "/a/b"), one("match", "/a/c/**"), false, true),
            (one("match", "/**"), one("match", "/x?/y"), true, false),
            (one("regex", "/a.*"), one("=", "/b"), false, false),
            (one("match", "/**/z"), one("match", "/a/**"), false, false),
        ] {
            assert_eq!(covers(&wide, &narrow), is_covered, "{wide:?} {narrow:?}");
            assert_eq!(disjoint(&wide, &narrow), is_apart, "{wide:?} {narrow:?}");
        }
        let any = clauses(&[uri("=", "/a"), uri("=", "/b")], true).unwrap();
        assert!(covers(&any, &one("=", "/a")) && !covers(&one("=", "/a"), &any));
        assert!(disjoint(&any, &one("=", "/c")) && !disjoint(&any, &one("=", "/b")));
    }

    #[test]
    fn a_selector_and_its_rule_become_one_match() {
        let header = json!({ "paramType": "header", "operator": "=", "paramName": "x-env",
            "paramValue": "beta" });
        let rule = clauses(&[uri("match", "/a/b/**"), header], false).unwrap();
        let both = joined(&one("match", "/a/**"), &rule);
        let expected = json!({ "path": "/a/b/{*rest}", "priority": 3,
            "when": [{ "header": "x-env", "equals": "beta" }] });
        assert_eq!(route_match(&both, 3), expected);
        assert_eq!(route_match(&one("match", "/a?/*.do"), 1)["path"], json!({ "ant": "/a?/*.do" }));
        let encoded = route_match(&one("=", "/a b"), 1);
        assert_eq!(encoded["when"], json!([{ "variable": "path", "equals": "/a b" }]));
    }

    #[test]
    fn what_has_no_counterpart_is_named() {
        for (kind, operator, value, why) in [
            ("post", "=", "1", "\"post\""),
            ("uri", ">", "1", "\">\""),
            ("uri", "regex", "(?=x)", "look-around"),
            ("header", "=", "1", "no name"),
        ] {
            let condition = json!({ "paramType": kind, "operator": operator, "paramValue": value });
            let error = clauses(&[condition], false).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
        let time = json!({ "paramType": "query", "operator": "TimeBefore", "paramName": "",
            "paramValue": "2027-01-02 03:04:05" });
        let when = &clauses(&[time], false).unwrap()[0][0].when;
        assert_eq!(*when, json!({ "not": { "time": "2027-01-02T03:04.." } }));
    }
}
