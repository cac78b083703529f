//! Version 1: `PROXY TCP4 192.0.2.1 192.0.2.2 56324 443` and CRLF.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::{Endpoints, Header, Malformed};

pub(super) const BEGIN: &[u8] = b"PROXY ";
/// The longest line, CRLF included.
const LINE_BYTES_MAX: usize = 107;

/// Parses a header that begins like one of this version.
pub(super) fn parse(received: &[u8]) -> Result<Option<Header>, Malformed> {
    let window = &received[..received.len().min(LINE_BYTES_MAX)];
    let Some(end) = memchr::memchr(b'\n', window) else {
        return if window.len() == LINE_BYTES_MAX { Err(Malformed::Line) } else { Ok(None) };
    };
    let line = window[..end].strip_suffix(b"\r").ok_or(Malformed::Line)?;
    let line = std::str::from_utf8(line).map_err(|_| Malformed::Line)?;
    let endpoints = endpoints(line).ok_or(Malformed::Line)?;
    Ok(Some(Header { endpoints, length: end + 1 }))
}

/// `Some(None)` is a line that names no client.
fn endpoints(line: &str) -> Option<Option<Endpoints>> {
    let mut parts = line.split(' ');
    parts.next();
    let family = parts.next()?;
    if family == "UNKNOWN" {
        // The specification has the receiver ignore what follows.
        return Some(None);
    }
    let address = |text: &str| -> Option<IpAddr> {
        match family {
            "TCP4" => text.parse::<Ipv4Addr>().ok().map(IpAddr::from),
            "TCP6" => text.parse::<Ipv6Addr>().ok().map(IpAddr::from),
            _ => None,
        }
    };
    let (source, destination) = (address(parts.next()?)?, address(parts.next()?)?);
    let (from, to) = (port(parts.next()?)?, port(parts.next()?)?);
    parts.next().is_none().then(|| {
        let source = SocketAddr::new(source, from);
        Some(Endpoints { source, destination: SocketAddr::new(destination, to) })
    })
}

/// A decimal number without a sign and without leading zeros.
fn port(text: &str) -> Option<u16> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    let is_padded = text.len() > 1 && text.starts_with('0');
    text.parse().ok().filter(|_| is_plain && !is_padded)
}

pub(super) fn write(endpoints: Option<Endpoints>, out: &mut Vec<u8>) {
    let Some(Endpoints { source, destination }) = endpoints else {
        return out.extend_from_slice(b"PROXY UNKNOWN\r\n");
    };
    let family = if source.is_ipv4() { "TCP4" } else { "TCP6" };
    let (from, to) = (source.ip(), destination.ip());
    let (from_port, to_port) = (source.port(), destination.port());
    // Writing to a vector cannot fail.
    let _ = write!(out, "PROXY {family} {from} {to} {from_port} {to_port}\r\n");
}
