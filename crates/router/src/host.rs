//! Hosts: patterns of the configuration and hosts of requests, in one normal form.
//!
//! Promises: case, port and one final dot are ignored (RFC 9110 4.2.3). `*.example.com` matches
//! every name that ends so, at any depth, and not `example.com` itself. Never resolves a name.

use std::fmt;
use std::str::FromStr;

use settings::{Node, Reader, Schema, SchemaBuilder, Setting, quote};
use wire::authority::Authority;

use crate::limits::HOST_BYTES;

/// A host pattern of a route, in lower case.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HostPattern {
    Exact(Box<str>),
    /// Names below this one: `example.com` of `*.example.com`.
    Below(Box<str>),
}

impl HostPattern {
    /// True if the pattern matches this host (see [`normal`]).
    pub(crate) fn matches(&self, host: &[u8]) -> bool {
        match self {
            HostPattern::Exact(name) => name.as_bytes() == host,
            HostPattern::Below(name) => host
                .strip_suffix(name.as_bytes())
                .is_some_and(|rest| rest.len() > 1 && rest.ends_with(b".")),
        }
    }
}

/// The host of an authority in its normal form: without port and final dot, in lower case. `None`
/// if no pattern can match it.
pub(crate) fn normal<'a>(
    authority: &'a [u8],
    buffer: &'a mut [u8; HOST_BYTES],
) -> Option<&'a [u8]> {
    trimmed(authority).map(|host| if is_lower(host) { host } else { lower(host, buffer) })
}

/// [`normal`] except for its case; at most [`HOST_BYTES`].
#[inline]
pub(crate) fn trimmed(authority: &[u8]) -> Option<&[u8]> {
    let end = match authority.first() {
        Some(b'[') => authority.iter().position(|byte| *byte == b']').map(|at| at + 1),
        _ => memchr::memchr(b':', authority),
    };
    let host = &authority[..end.unwrap_or(authority.len())];
    let host = host.strip_suffix(b".").unwrap_or(host);
    (host.len() <= HOST_BYTES).then_some(host)
}

#[inline]
pub(crate) fn is_lower(host: &[u8]) -> bool {
    // Without an early end this is a few vector instructions.
    !host.iter().fold(false, |upper, byte| upper | byte.is_ascii_uppercase())
}

/// A [`trimmed`] host in lower case.
pub(crate) fn lower<'a>(host: &[u8], buffer: &'a mut [u8; HOST_BYTES]) -> &'a [u8] {
    let lower = &mut buffer[..host.len().min(HOST_BYTES)];
    for (place, byte) in lower.iter_mut().zip(host) {
        *place = byte.to_ascii_lowercase();
    }
    lower
}

impl FromStr for HostPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (below, name) = match text.strip_prefix("*.") {
            Some(name) => (true, name),
            None => (false, text),
        };
        if text == "*" {
            return Err("is every host: leave `host` out".to_owned());
        }
        if name.contains('*') {
            return Err("has a * that is not its first label: write *.example.com".to_owned());
        }
        if name.contains("://") || name.contains('/') {
            return Err("is a URL: a host is only a name".to_owned());
        }
        let Some(authority) = Authority::parse(name.as_bytes()) else {
            return Err("is not a host name or address (IPv6 has brackets)".to_owned());
        };
        if authority.host.len() != name.len() {
            return Err(
                "has a port, and ports do not count here: a route names its listener".into()
            );
        }
        let name = name.strip_suffix('.').unwrap_or(name);
        if name.is_empty() || name.starts_with('.') || name.contains("..") {
            return Err("has an empty label".to_owned());
        }
        if name.len() + 2 > HOST_BYTES {
            return Err("is longer than a host name may be".to_owned());
        }
        let name = name.to_ascii_lowercase().into_boxed_str();
        Ok(if below { HostPattern::Below(name) } else { HostPattern::Exact(name) })
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostPattern::Exact(name) => f.write_str(name),
            HostPattern::Below(name) => write!(f, "*.{name}"),
        }
    }
}

impl Setting for HostPattern {
    fn schema(_: &mut SchemaBuilder) -> Schema {
        Schema::pattern("host", r"^(\*\.)?[^*/]+$")
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let what = format!("a host such as {} or {}", quote("example.com"), quote("*.example.com"));
        reader.parse(node, &what)
    }
}

#[cfg(test)]
mod tests {
    use super::{HostPattern, normal};
    use crate::limits::HOST_BYTES;

    #[test]
    fn spelling_does_not_count() {
        let mut buffer = [0; HOST_BYTES];
        for (authority, host) in [
            ("example.com", Some("example.com")),
            ("EXAMPLE.com:8080", Some("example.com")),
            ("Example.COM.", Some("example.com")),
            ("example.com.:80", Some("example.com")),
            ("[::1]:80", Some("[::1]")),
            ("[2001:DB8::1]", Some("[2001:db8::1]")),
            ("", Some("")),
        ] {
            let found = normal(authority.as_bytes(), &mut buffer);
            assert_eq!(found, host.map(str::as_bytes), "{authority}");
        }
        assert_eq!(normal(&[b'a'; 300], &mut buffer), None);
    }

    #[test]
    fn patterns_match() {
        for (pattern, host, matches) in [
            ("Example.com.", "example.com", true),
            ("example.com", "www.example.com", false),
            ("*.example.com", "www.example.com", true),
            ("*.example.com", "a.b.example.com", true),
            ("*.example.com", "example.com", false),
            ("*.example.com", ".example.com", false),
            ("*.example.com", "badexample.com", false),
            ("[::1]", "[::1]", true),
        ] {
            let parsed: HostPattern = pattern.parse().unwrap();
            assert_eq!(parsed.matches(host.as_bytes()), matches, "{pattern} {host}");
            assert_eq!(parsed.to_string().parse(), Ok(parsed));
        }
    }

    #[test]
    fn what_is_not_a_host_is_refused_with_a_reason() {
        for (text, why) in [
            ("", "not a host name"),
            ("*", "every host"),
            ("*.", "not a host name"),
            ("a.*.com", "not its first label"),
            ("*a.com", "not its first label"),
            ("*.*.com", "not its first label"),
            ("example.com:80", "ports do not count"),
            ("[::1]:80", "ports do not count"),
            ("http://example.com", "is a URL"),
            ("example.com/a", "is a URL"),
            ("a..b", "empty label"),
            (".a", "empty label"),
            ("a b", "not a host name"),
            ("::1", "not a host name"),
        ] {
            let error = text.parse::<HostPattern>().unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
