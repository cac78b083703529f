//! Authorities: `host[:port]` of `Host`, of absolute-form targets and of configuration (RFC 9110
//! 4.2, 7.2; RFC 3986 3.2).
//!
//! Owns the definition of a valid host: a registered name, an IPv4 address, or an IPv6 address in
//! brackets; never user information, never empty, and without escapes: no DNS name has any, and
//! parsers that decode them (WHATWG URL) would read another host than the routes. Comparison
//! ignores case. Never resolves a name.

use std::net::Ipv6Addr;

use crate::token::is_host_byte;

/// A validated authority, borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Authority<'a> {
    /// The host as written; IPv6 with its brackets.
    pub host: &'a [u8],
    /// The port, unless absent or empty (`host:` means the default port).
    pub port: Option<u16>,
}

impl<'a> Authority<'a> {
    /// Splits `host[:port]`; `None` unless it is valid.
    pub fn parse(text: &'a [u8]) -> Option<Authority<'a>> {
        let end = host_end(text)?;
        let host = &text[..end];
        let port = match &text[end..] {
            [] | [b':'] => None,
            [b':', digits @ ..] => Some(port(digits)?),
            _ => return None,
        };
        Some(Authority { host, port })
    }

    /// True if the host is this one, ignoring case.
    pub fn is_host(&self, host: &[u8]) -> bool {
        self.host.eq_ignore_ascii_case(host)
    }

    /// The host without the brackets of IPv6.
    pub fn bare_host(&self) -> &'a [u8] {
        match self.host {
            [b'[', inner @ .., b']'] => inner,
            host => host,
        }
    }
}

/// True if the text is a valid authority with a port, as the target of CONNECT is (RFC 9110 9.3.6).
pub fn is_valid_with_port(text: &[u8]) -> bool {
    let has_port = match text.iter().rposition(|&byte| byte == b':') {
        Some(colon) => text.len() > colon + 1 && text[colon + 1..].iter().all(u8::is_ascii_digit),
        None => false,
    };
    has_port && is_valid(text)
}

/// True if the text is a valid `host[:port]`.
#[inline]
pub fn is_valid(text: &[u8]) -> bool {
    // The common case first: a plain name or IPv4 address, perhaps with a port.
    let plain = text.iter().position(|&b| !is_host_byte(b)).unwrap_or(text.len());
    match &text[plain..] {
        _ if plain == 0 => Authority::parse(text).is_some(),
        [] => true,
        [b':', digits @ ..] if !digits.is_empty() => port(digits).is_some(),
        _ => Authority::parse(text).is_some(),
    }
}

fn host_end(text: &[u8]) -> Option<usize> {
    if text.first() == Some(&b'[') {
        let close = text.iter().position(|&b| b == b']')?;
        let inner = std::str::from_utf8(&text[1..close]).ok()?;
        // IPvFuture and zone identifiers are not allowed on the wire (RFC 9110 gives them no
        // meaning).
        inner.parse::<Ipv6Addr>().ok()?;
        return Some(close + 1);
    }
    let end = text.iter().position(|&byte| !is_reg_name(byte)).unwrap_or(text.len());
    (end > 0 && matches!(text.get(end), None | Some(b':'))).then_some(end)
}

/// unreserved / sub-delims (RFC 3986 2.2, 2.3).
fn is_reg_name(byte: u8) -> bool {
    is_host_byte(byte)
        || matches!(byte, b'_' | b'~' | b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+')
        || matches!(byte, b',' | b';' | b'=')
}

fn port(digits: &[u8]) -> Option<u16> {
    // Leading zeros are legal but suspicious; five digits hold every port.
    if digits.len() > 5 {
        return None;
    }
    u16::try_from(crate::token::decimal(digits)?).ok()
}

#[cfg(test)]
mod tests {
    use super::{Authority, is_valid};

    #[test]
    fn valid_authorities_are_split() {
        let cases: [(&str, &str, Option<u16>); 8] = [
            ("example.com", "example.com", None),
            ("example.com:8080", "example.com", Some(8080)),
            ("example.com:", "example.com", None),
            ("127.0.0.1:80", "127.0.0.1", Some(80)),
            ("[::1]", "[::1]", None),
            ("[2001:db8::1]:65535", "[2001:db8::1]", Some(65535)),
            ("a_b~c", "a_b~c", None),
            ("x:0", "x", Some(0)),
        ];
        for (text, host, port) in cases {
            let found = Authority::parse(text.as_bytes()).unwrap();
            assert_eq!((found.host, found.port), (host.as_bytes(), port), "{text}");
            assert!(is_valid(text.as_bytes()));
        }
    }

    #[test]
    fn invalid_authorities_are_rejected() {
        let cases = [
            "",
            ":80",
            "a:b",
            "a:65536",
            "a:-1",
            "a:+1",
            "a: 1",
            "a b",
            "u@h",
            "a/b",
            "[::1",
            "[::g]",
            "[]",
            "[::1]x",
            "::1",
            "a,b/",
            "a%2",
            "a%zz",
            "a%2eb",
            "a%20",
            "é",
            "a#b",
            "a?b",
            "a\\b",
            "a:000080",
            "[fe80::1%25e]",
        ];
        for text in cases {
            assert_eq!(Authority::parse(text.as_bytes()), None, "{text}");
            assert!(!is_valid(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn comparison_ignores_case() {
        let authority = Authority::parse(b"EXAMPLE.com:1").unwrap();
        assert!(authority.is_host(b"example.COM") && !authority.is_host(b"example.co"));
        assert_eq!(Authority::parse(b"[::1]:1").unwrap().bare_host(), b"::1");
    }
}
