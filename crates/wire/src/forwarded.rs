//! The proxies of a request: Forwarded (RFC 7239) and X-Forwarded-For.
//!
//! Owns parsing and writing of nodes. Trust is not decided here: the crate that knows the trusted
//! proxies walks the list from its end.

use std::net::{IpAddr, Ipv6Addr};

use crate::token;

/// The most elements of one field value that are parsed; a longer chain is not credible.
pub const MAX_ELEMENTS: usize = 64;

/// A party of the chain (RFC 7239 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Node {
    Ip {
        ip: IpAddr,
        port: Option<u16>,
    },
    /// `unknown`
    Unknown,
    /// `_name`, an obfuscated identifier.
    Obfuscated,
}

impl Node {
    /// Returns the address, if the node is one.
    pub fn ip(&self) -> Option<IpAddr> {
        match self {
            Node::Ip { ip, .. } => Some(*ip),
            Node::Unknown | Node::Obfuscated => None,
        }
    }

    /// Parses `192.0.2.1`, `192.0.2.1:80`, `[2001:db8::1]:80`, and a bare IPv6 address as in
    /// X-Forwarded-For.
    pub fn parse(text: &[u8]) -> Option<Node> {
        if text.eq_ignore_ascii_case(b"unknown") {
            return Some(Node::Unknown);
        }
        if text.first() == Some(&b'_') {
            let fits = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-' | b':');
            return text.iter().all(fits).then_some(Node::Obfuscated);
        }
        let text = std::str::from_utf8(text).ok()?;
        if let Ok(ip) = text.parse::<IpAddr>() {
            return Some(Node::Ip { ip, port: None });
        }
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) if !host.is_empty() && !text.ends_with(']') => (host, Some(port)),
            _ => (text, None),
        };
        let ip = match host.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')) {
            Some(inner) => IpAddr::V6(inner.parse::<Ipv6Addr>().ok()?),
            None => IpAddr::V4(host.parse().ok()?),
        };
        // An obfuscated port is dropped, the address stays.
        let port = match port {
            Some(port) if port.starts_with('_') => None,
            Some(port) if port.bytes().all(|b| b.is_ascii_digit()) => Some(port.parse().ok()?),
            Some(_) => return None,
            None => None,
        };
        Some(Node::Ip { ip, port })
    }
}

/// One element of Forwarded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Element {
    pub for_node: Option<Node>,
    pub by_node: Option<Node>,
    pub host: Option<Vec<u8>>,
    pub proto: Option<Vec<u8>>,
}

/// Parses a Forwarded value, the nearest proxy last. `None` if any part is malformed or there are
/// more than `MAX_ELEMENTS`: a chain with a gap proves nothing.
pub fn parse_forwarded(value: &[u8]) -> Option<Vec<Element>> {
    let mut elements = Vec::new();
    for text in token::list(value) {
        if elements.len() == MAX_ELEMENTS {
            return None;
        }
        elements.push(element(text)?);
    }
    Some(elements)
}

fn element(text: &[u8]) -> Option<Element> {
    let mut element = Element::default();
    for pair in token::split(text, b';') {
        if pair.is_empty() {
            continue;
        }
        let equals = pair.iter().position(|&b| b == b'=')?;
        let (name, value) = (&pair[..equals], unquote(&pair[equals + 1..])?);
        if !token::is_token(name) {
            return None;
        }
        // RFC 7239 4: each parameter at most once.
        let is_first = if name.eq_ignore_ascii_case(b"for") {
            element.for_node.replace(Node::parse(&value)?).is_none()
        } else if name.eq_ignore_ascii_case(b"by") {
            element.by_node.replace(Node::parse(&value)?).is_none()
        } else if name.eq_ignore_ascii_case(b"host") {
            crate::authority::is_valid(&value).then_some(())?;
            element.host.replace(value).is_none()
        } else if name.eq_ignore_ascii_case(b"proto") {
            token::is_token(&value).then_some(())?;
            element.proto.replace(value).is_none()
        } else {
            true
        };
        is_first.then_some(())?;
    }
    Some(element)
}

/// Returns a token, or the content of a quoted string (RFC 9110 5.6.4).
fn unquote(text: &[u8]) -> Option<Vec<u8>> {
    let Some(inner) = text.strip_prefix(b"\"") else {
        return token::is_token(text).then(|| text.to_vec());
    };
    let inner = inner.strip_suffix(b"\"")?;
    let mut out = Vec::with_capacity(inner.len());
    let mut bytes = inner.iter();
    while let Some(&byte) = bytes.next() {
        match byte {
            b'\\' => out.push(*bytes.next()?),
            b'"' => return None,
            _ => out.push(byte),
        }
    }
    Some(out)
}

/// Returns the addresses of an X-Forwarded-For value from the nearest to the farthest; `None` for a
/// member that is not an address. Ends after `MAX_ELEMENTS`.
pub fn x_forwarded_for(value: &[u8]) -> impl Iterator<Item = Option<IpAddr>> {
    value
        .rsplit(|&b| b == b',')
        .take(MAX_ELEMENTS)
        .map(|member| Node::parse(token::trim(member)).and_then(|node| node.ip()))
}

/// Appends a `for=` element with host and protocol if given. `host` must be a valid authority and
/// `proto` a token.
pub fn write_element(ip: IpAddr, host: Option<&[u8]>, proto: Option<&[u8]>, out: &mut Vec<u8>) {
    match ip {
        IpAddr::V4(ip) => {
            out.extend_from_slice(b"for=");
            out.extend_from_slice(ip.to_string().as_bytes());
        }
        // RFC 7239 6: brackets, and quotes because of them.
        IpAddr::V6(ip) => {
            out.extend_from_slice(b"for=\"[");
            out.extend_from_slice(ip.to_string().as_bytes());
            out.extend_from_slice(b"]\"");
        }
    }
    if let Some(host) = host {
        out.extend_from_slice(b";host=");
        if token::is_token(host) {
            out.extend_from_slice(host);
        } else {
            out.push(b'"');
            out.extend_from_slice(host);
            out.push(b'"');
        }
    }
    if let Some(proto) = proto {
        out.extend_from_slice(b";proto=");
        out.extend_from_slice(proto);
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_ELEMENTS, Node, parse_forwarded, write_element, x_forwarded_for};
    use std::net::IpAddr;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn the_examples_of_the_rfc() {
        let value =
            b"for=192.0.2.43, For=\"[2001:db8:cafe::17]:4711\";proto=http;by=_hidden, for=unknown;";
        let elements = parse_forwarded(value).unwrap();
        assert_eq!(elements[0].for_node, Some(Node::Ip { ip: ip("192.0.2.43"), port: None }));
        let v6 = Node::Ip { ip: ip("2001:db8:cafe::17"), port: Some(4711) };
        assert_eq!(elements[1].for_node, Some(v6));
        assert_eq!(elements[1].by_node, Some(Node::Obfuscated));
        assert_eq!(elements[1].proto.as_deref(), Some(&b"http"[..]));
        assert_eq!(elements[2].for_node, Some(Node::Unknown));
    }

    #[test]
    fn a_malformed_part_invalidates_the_chain() {
        for bad in [
            "for=1.2.3",
            "for=[::1]",
            "for=\"1.2.3.4",
            "for",
            "for=\"[::1\"",
            "for=1.2.3.4;for=5.6.7.8",
            "for=\"1.2.3.4:99999\"",
            "host=\"a b\"",
            "f or=1.2.3.4",
            "for=1.2.3.4, x",
            "for=\"a\"b\"",
        ] {
            assert_eq!(parse_forwarded(bad.as_bytes()), None, "{bad}");
        }
        let long = vec!["for=1.2.3.4"; MAX_ELEMENTS + 1].join(",");
        assert_eq!(parse_forwarded(long.as_bytes()), None);
    }

    #[test]
    fn written_elements_are_parsed() {
        for (address, host, text) in [
            ("192.0.2.1", &b"example.com"[..], "for=192.0.2.1;host=example.com;proto=https"),
            ("2001:db8::1", b"a:81", "for=\"[2001:db8::1]\";host=\"a:81\";proto=https"),
        ] {
            let mut out = Vec::new();
            write_element(ip(address), Some(host), Some(b"https"), &mut out);
            assert_eq!(out, text.as_bytes());
            let read = parse_forwarded(&out).unwrap();
            assert_eq!(read[0].for_node.unwrap().ip(), Some(ip(address)));
            assert_eq!(read[0].host.as_deref(), Some(host));
        }
    }

    #[test]
    fn x_forwarded_for_comes_nearest_first() {
        let value = b"evil, 10.0.0.1:99 ,2001:db8::1,[::2]:80,unknown,";
        let found: Vec<_> = x_forwarded_for(value).collect();
        let expected =
            [None, None, Some(ip("::2")), Some(ip("2001:db8::1")), Some(ip("10.0.0.1")), None];
        assert_eq!(found, expected);
    }
}
