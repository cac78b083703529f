//! The head of a request as it goes to a server (RFC 9112 3, RFC 9110 7.6).
//!
//! Hop-by-hop fields, and those that Connection names, stay behind; Host is written as configured;
//! the framing fields are ours; Via and X-Forwarded-* are added to. What an inbound X-Forwarded-*
//! of an unbelieved client said has been removed before (serving loop).

use std::net::IpAddr;
use std::time::Duration;

use wire::h1::HeadLimits;
use wire::{Known, Version, token};

use crate::facts::Protocol;
use crate::{Body, Request};

/// What Host says to the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostField {
    /// What the client said.
    Preserve,
    /// The same for every request.
    Fixed(Box<str>),
}

/// Behaviour towards one upstream.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// From the last byte of the request to the head of its answer.
    pub response: Duration,
    /// Longest pause within an answer.
    pub read: Duration,
    /// Longest pause while a request is taken.
    pub write: Duration,
    /// Longest time without a byte in either direction of a tunnel.
    pub tunnel_idle: Duration,
    /// Bounds of an answer's head.
    pub head: HeadLimits,
    /// Send Forwarded (RFC 7239) as well.
    pub forwarded: bool,
}

impl Default for ClientOptions {
    fn default() -> Self {
        ClientOptions {
            response: Duration::from_secs(30),
            read: Duration::from_secs(30),
            write: Duration::from_secs(30),
            tunnel_idle: Duration::from_secs(60),
            head: HeadLimits::default(),
            forwarded: false,
        }
    }
}

/// What one request needs besides itself.
pub struct Call<'a> {
    pub options: &'a std::rc::Rc<ClientOptions>,
    pub host: &'a HostField,
    /// What Host says when the client said nothing: the server's address.
    pub server: &'a str,
}

/// How the body of a request is delimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestFraming {
    None,
    Length(u64),
    Chunked,
}

impl RequestFraming {
    pub(super) fn of(request: &Request, body: &Body) -> RequestFraming {
        match body.length() {
            // RFC 9110 8.6: no length where the method anticipates no content.
            Some(0) if !anticipates_content(request) => RequestFraming::None,
            Some(length) => RequestFraming::Length(length),
            None => RequestFraming::Chunked,
        }
    }
}

fn anticipates_content(request: &Request) -> bool {
    use wire::Method::{Patch, Post, Put};
    matches!(request.method, Post | Put | Patch) || request.headers.contains(Known::ContentLength)
}

/// Appends the whole head.
pub(super) fn write_head(
    out: &mut Vec<u8>,
    request: &Request,
    framing: RequestFraming,
    call: &Call<'_>,
) {
    out.extend_from_slice(request.method.as_bytes());
    out.push(b' ');
    out.extend_from_slice(request.target.raw());
    out.extend_from_slice(b" HTTP/1.1\r\nHost: ");
    out.extend_from_slice(match call.host {
        HostField::Fixed(text) => text.as_bytes(),
        HostField::Preserve if request.authority().is_empty() => call.server.as_bytes(),
        HostField::Preserve => request.authority(),
    });
    out.extend_from_slice(b"\r\n");
    let seen = copy_fields(out, request);
    write_connection(out, request);
    match framing {
        RequestFraming::None => {}
        RequestFraming::Length(length) => {
            out.extend_from_slice(b"Content-Length: ");
            out.extend_from_slice(itoa::Buffer::new().format(length).as_bytes());
            out.extend_from_slice(b"\r\n");
        }
        RequestFraming::Chunked => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
    }
    // RFC 9110 7.6.3: the protocol version is the one the message was received with.
    out.extend_from_slice(match request.version {
        Version::Http10 => b"Via: 1.0 tidegate\r\n",
        Version::Http11 => b"Via: 1.1 tidegate\r\n",
    });
    if request.facts.protocol != Protocol::Internal {
        write_forwarded(out, request, &seen, call.options.forwarded);
    }
    out.extend_from_slice(b"\r\n");
}

/// Forwarding fields that were there already.
#[derive(Default)]
struct Seen {
    forwarded_for: bool,
    proto: bool,
    host: bool,
}

fn copy_fields(out: &mut Vec<u8>, request: &Request) -> Seen {
    let mut seen = Seen::default();
    let names = connection_names_fields(request);
    request.headers.write_lines(out, |field| {
        match field.known {
            // Ours to write. Expect is ours to answer: the body is asked for when the server is
            // ready for it.
            Some(Known::Host | Known::ContentLength | Known::Expect) => return false,
            Some(Known::XForwardedFor) => {
                seen.forwarded_for = true;
                return false;
            }
            // Connection may not strip what says who the client is.
            Some(Known::XForwardedProto) => seen.proto = true,
            Some(Known::XForwardedHost) => seen.host = true,
            Some(Known::Forwarded) => {}
            Some(known) if known.is_hop_by_hop() => return false,
            None if is_forwarding_in_disguise(field.name) => return false,
            _ if names => return !is_named_by_connection(request, field.name),
            _ => {}
        }
        true
    });
    seen
}

/// `X_Forwarded_For` and the like: applications behind CGI and WSGI cannot tell them from the
/// fields we write (RFC 3875 4.1.18), so a client could claim there what it may not claim here.
fn is_forwarding_in_disguise(name: &[u8]) -> bool {
    let same = |real: &str| {
        let unify = |byte: &u8| if *byte == b'_' { b'-' } else { byte.to_ascii_lowercase() };
        name.iter().map(unify).eq(real.bytes())
    };
    name.contains(&b'_')
        && ["x-forwarded-for", "x-forwarded-host", "x-forwarded-port", "x-forwarded-proto"]
            .into_iter()
            .any(same)
}

fn write_field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// Whether Connection names anything but its own options (RFC 9110 7.6.1).
fn connection_names_fields(request: &Request) -> bool {
    request.headers.get_all(Known::Connection).flat_map(token::list).any(|option| {
        ![&b"keep-alive"[..], b"close", b"upgrade", b"te"]
            .iter()
            .any(|known| option.eq_ignore_ascii_case(known))
    })
}

fn is_named_by_connection(request: &Request, name: &[u8]) -> bool {
    request
        .headers
        .get_all(Known::Connection)
        .flat_map(token::list)
        .any(|option| option.eq_ignore_ascii_case(name))
}

/// Upgrade (RFC 9110 7.8) and TE (10.1.4) concern our own connection: they are written anew.
fn write_connection(out: &mut Vec<u8>, request: &Request) {
    let trailers = request.headers.lists_token(Known::Te, "trailers");
    if trailers {
        out.extend_from_slice(b"TE: trailers\r\n");
    }
    if request.upgrade {
        for protocols in request.headers.get_all(Known::Upgrade) {
            write_field(out, b"Upgrade", protocols);
        }
    }
    out.extend_from_slice(match (trailers, request.upgrade) {
        (false, false) => b"",
        (true, false) => b"Connection: TE\r\n",
        (false, true) => b"Connection: Upgrade\r\n",
        (true, true) => b"Connection: TE, Upgrade\r\n",
    });
}

fn write_forwarded(out: &mut Vec<u8>, request: &Request, seen: &Seen, forwarded: bool) {
    let peer = request.facts.peer_ip();
    out.extend_from_slice(b"X-Forwarded-For: ");
    if seen.forwarded_for {
        for chain in request.headers.get_all(Known::XForwardedFor) {
            out.extend_from_slice(chain);
            out.extend_from_slice(b", ");
        }
    }
    write_ip(out, peer);
    out.extend_from_slice(b"\r\n");
    if !seen.proto {
        write_field(out, b"X-Forwarded-Proto", request.scheme.as_str().as_bytes());
    }
    if !seen.host && !request.authority().is_empty() {
        write_field(out, b"X-Forwarded-Host", request.authority());
    }
    if forwarded {
        out.extend_from_slice(b"Forwarded: for=");
        match peer {
            IpAddr::V4(_) => write_ip(out, peer),
            // RFC 7239 6: an IPv6 address is bracketed and quoted.
            IpAddr::V6(_) => {
                out.extend_from_slice(b"\"[");
                write_ip(out, peer);
                out.extend_from_slice(b"]\"");
            }
        }
        out.extend_from_slice(b";host=\"");
        out.extend_from_slice(request.authority());
        out.extend_from_slice(b"\";proto=");
        out.extend_from_slice(request.scheme.as_str().as_bytes());
        out.extend_from_slice(b"\r\n");
    }
}

fn write_ip(out: &mut Vec<u8>, ip: IpAddr) {
    match ip {
        IpAddr::V4(ip) => {
            let mut digits = itoa::Buffer::new();
            for (at, octet) in ip.octets().into_iter().enumerate() {
                if at > 0 {
                    out.push(b'.');
                }
                out.extend_from_slice(digits.format(octet).as_bytes());
            }
        }
        IpAddr::V6(ip) => {
            use std::io::Write;
            // Writing into memory cannot fail.
            let _ = write!(out, "{ip}");
        }
    }
}
