//! Origins of web pages (RFC 6454) in settings, for `cors` and `csrf`.
//!
//! Promises that a pattern matches whole origins only: the comparison is anchored at both ends, and
//! the part that `*.` stands for consists of the characters of a host name.

use std::fmt;
use std::str::FromStr;

use settings::{Node, Reader, Schema, SchemaBuilder, Setting};

/// One allowed origin: `https://shop.example.com`, or `https://*.example.com` for every subdomain.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OriginPattern {
    text: String,
    /// The length of the scheme with `://`, if `*.` follows.
    wildcard_at: Option<usize>,
}

impl OriginPattern {
    pub(crate) fn matches(&self, origin: &[u8]) -> bool {
        let Some(at) = self.wildcard_at else { return origin == self.text.as_bytes() };
        let (scheme, suffix) = (&self.text.as_bytes()[..at], &self.text.as_bytes()[at + 1..]);
        let label = origin.strip_prefix(scheme).and_then(|rest| rest.strip_suffix(suffix));
        label.is_some_and(|label| !label.is_empty() && label.iter().all(is_host_byte))
    }
}

/// Browsers send host names in lower case (WHATWG URL, host serialising).
fn is_host_byte(byte: &u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-._".contains(byte)
}

impl FromStr for OriginPattern {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const FORM: &str = "is not an origin: write https://shop.example.com, \
                            https://shop.example.com:8443 or https://*.example.com";
        let (scheme, authority) = text.split_once("://").ok_or(FORM)?;
        let is_scheme = scheme.starts_with(|c: char| c.is_ascii_lowercase())
            && scheme.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
            _ => (authority, None),
        };
        let wildcard = host.strip_prefix("*.");
        let name = wildcard.unwrap_or(host);
        let is_address = name.starts_with('[')
            && name.ends_with(']')
            && name[1..name.len() - 1].bytes().all(|b| b.is_ascii_hexdigit() || b":.".contains(&b));
        let is_host = !name.is_empty() && name.bytes().all(|byte| is_host_byte(&byte));
        if !is_scheme || !(is_host || is_address && wildcard.is_none()) {
            return Err(FORM);
        }
        match (scheme, port) {
            ("https", Some("443")) | ("http", Some("80")) => {
                return Err("has the default port, which browsers leave out");
            }
            (_, Some(port)) if port.parse::<u16>().is_err() => return Err(FORM),
            _ => {}
        }
        let wildcard_at = wildcard.is_some().then_some(scheme.len() + 3);
        Ok(OriginPattern { text: text.to_owned(), wildcard_at })
    }
}

impl fmt::Display for OriginPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Setting for OriginPattern {
    fn schema(_: &mut SchemaBuilder) -> Schema {
        Schema::pattern("origin", r"^[a-z][a-z0-9-]*://(\*\.)?[^/*?#@]+$")
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        reader.parse(node, "an origin such as https://shop.example.com")
    }
}

#[cfg(test)]
mod tests {
    use super::OriginPattern;

    #[test]
    fn patterns_match_whole_origins() {
        let pattern = |text: &str| text.parse::<OriginPattern>().unwrap();
        let exact = pattern("https://shop.example.com");
        assert!(exact.matches(b"https://shop.example.com"));
        let suffix = pattern("https://*.example.com:8443");
        assert!(suffix.matches(b"https://a.b.example.com:8443"));
        for other in [
            "https://example.com:8443",
            "https://.example.com:8443.evil.org",
            "https://evil.org/.example.com:8443",
            "https://a@x.example.com:8443/",
            "https://evil.org:1@a.example.com:8443",
            "http://a.example.com:8443",
            "https://a.example.com",
            "https://notexample.com:8443",
            "null",
            "",
        ] {
            assert!(
                !suffix.matches(other.as_bytes()) && !exact.matches(other.as_bytes()),
                "{other}"
            );
        }
        assert!(pattern("http://[::1]:3000").matches(b"http://[::1]:3000"));
    }

    #[test]
    fn what_no_browser_sends_is_an_error() {
        for odd in [
            "example.com",
            "https://",
            "https://*",
            "https://*.",
            "https://a.*.com",
            "https://a.com/",
            "https://a.com:443",
            "http://a.com:80",
            "https://a.com:x",
            "https://A.com",
            "HTTPS://a.com",
            "https://*.[::1]",
            "null",
            "*",
        ] {
            assert!(odd.parse::<OriginPattern>().is_err(), "{odd}");
        }
    }
}
