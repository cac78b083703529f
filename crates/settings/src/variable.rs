//! The names that a template or a key may mention: one list for headers, redirects, keys, hashes
//! and logs.

use std::fmt;

use crate::nearest::nearest;

/// Something of the exchange that has a text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Variable {
    ClientIp,
    Host,
    Method,
    Scheme,
    /// The path of the request.
    Path,
    /// A parameter of the route's path: `{path.id}`.
    PathParam(String),
    /// The first query parameter of this name.
    Query(String),
    /// A request header; the name is in lower case.
    Header(String),
    Cookie(String),
    /// The name of the route.
    Route,
    RequestId,
    /// Who the request was authenticated as.
    Consumer,
    /// Only in the log: the status answered.
    Status,
    /// Only in the log.
    DurationMs,
    /// Only in the log: bytes of the answer's body.
    BytesSent,
}

/// Which variables a place allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allow {
    /// What is known when the request has been read.
    Request,
    /// That and what is known when the answer has been sent.
    Log,
}

const PLAIN: &[(&str, Variable)] = &[
    ("client_ip", Variable::ClientIp),
    ("host", Variable::Host),
    ("method", Variable::Method),
    ("scheme", Variable::Scheme),
    ("path", Variable::Path),
    ("route", Variable::Route),
    ("request_id", Variable::RequestId),
    ("consumer", Variable::Consumer),
];
const LOG: &[(&str, Variable)] = &[
    ("status", Variable::Status),
    ("duration_ms", Variable::DurationMs),
    ("bytes_sent", Variable::BytesSent),
];
const FAMILIES: &[&str] = &["path", "query", "header", "cookie"];

impl Variable {
    /// The variable of this name, or why there is none.
    pub fn parse(name: &str, allow: Allow) -> Result<Self, String> {
        if let Some((_, variable)) = PLAIN.iter().find(|(plain, _)| *plain == name) {
            return Ok(variable.clone());
        }
        if let Some((_, variable)) = LOG.iter().find(|(plain, _)| *plain == name) {
            return match allow {
                Allow::Log => Ok(variable.clone()),
                Allow::Request => Err(format!("the variable {{{name}}} exists only in the log")),
            };
        }
        if let Some((family, part)) = name.split_once('.')
            && FAMILIES.contains(&family)
        {
            return member(family, part);
        }
        Err(unknown(name, allow))
    }
}

fn member(family: &str, part: &str) -> Result<Variable, String> {
    if part.is_empty() {
        return Err(format!("{{{family}.}} lacks the name after the dot"));
    }
    if part.chars().any(|c| c.is_control() || c == '{' || c == '}' || c.is_whitespace()) {
        return Err(format!("{{{family}.…}} has a name with characters that cannot stand in one"));
    }
    Ok(match family {
        "path" => Variable::PathParam(part.to_owned()),
        "query" => Variable::Query(part.to_owned()),
        "cookie" => Variable::Cookie(part.to_owned()),
        _ => {
            // RFC 9110 5.1: a field name is a token and its case does not count.
            let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
            if !part.bytes().all(token) {
                return Err(format!("{{header.{part}}} is no header name"));
            }
            Variable::Header(part.to_ascii_lowercase())
        }
    })
}

fn unknown(name: &str, allow: Allow) -> String {
    let log = if allow == Allow::Log { LOG } else { &[] };
    let words = PLAIN.iter().chain(log).map(|(word, _)| *word);
    let (head, part) = name.split_once('.').unwrap_or((name, ""));
    let near = match part.is_empty() {
        true => nearest(head, words).map(str::to_owned).or_else(|| {
            nearest(head, FAMILIES.iter().copied()).map(|family| format!("{family}.NAME"))
        }),
        false => nearest(head, FAMILIES.iter().copied()).map(|family| format!("{family}.{part}")),
    };
    let shown = crate::node::quote(name);
    match near {
        Some(near) => format!("unknown variable {shown}, did you mean \"{near}\"?"),
        None => format!("unknown variable {shown}"),
    }
}

/// The names that exist, for help texts.
pub(crate) const NAMES: &str = "client_ip, host, method, scheme, path, path.NAME, query.NAME, \
     header.NAME, cookie.NAME, route, request_id, consumer";

impl fmt::Display for Variable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Variable::PathParam(name) => write!(f, "path.{name}"),
            Variable::Query(name) => write!(f, "query.{name}"),
            Variable::Header(name) => write!(f, "header.{name}"),
            Variable::Cookie(name) => write!(f, "cookie.{name}"),
            plain => {
                let mut all = PLAIN.iter().chain(LOG);
                f.write_str(
                    all.find(|(_, variable)| variable == plain).map_or("", |(name, _)| name),
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Allow, Variable};

    #[test]
    fn names_round_trip() {
        for name in [
            "client_ip",
            "host",
            "method",
            "scheme",
            "path",
            "path.id",
            "query.q",
            "header.x-user",
            "cookie.sid",
            "route",
            "request_id",
            "consumer",
            "status",
            "duration_ms",
            "bytes_sent",
        ] {
            assert_eq!(Variable::parse(name, Allow::Log).unwrap().to_string(), name);
        }
        let header = Variable::parse("header.X-User", Allow::Request);
        assert_eq!(header, Ok(Variable::Header("x-user".to_owned())));
    }

    #[test]
    fn strangers_are_named() {
        for (name, why) in [
            ("clientip", "did you mean \"client_ip\"?"),
            ("headers.x", "did you mean \"header.x\"?"),
            ("header", "did you mean \"header.NAME\"?"),
            ("quux", "unknown variable \"quux\""),
            ("status", "only in the log"),
            ("header.", "lacks the name"),
            ("header.a b", "characters"),
            ("header.a:b", "no header name"),
            ("", "unknown variable"),
        ] {
            let out = Variable::parse(name, Allow::Request).unwrap_err();
            assert!(out.contains(why), "{name}: {out}");
        }
    }
}
