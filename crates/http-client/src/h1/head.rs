//! The head of a request as it goes to a server (RFC 9112 3, RFC 9110 7.6).
//!
//! Hop-by-hop fields, and those that Connection names, stay behind; Host is written as configured;
//! the framing fields are ours; Via and X-Forwarded-* are added to. What an inbound X-Forwarded-*
//! of an unbelieved client said has been removed before (serving loop).

use std::net::IpAddr;
use std::time::Duration;

use wire::h1::HeadLimits;
use wire::{IpText, Known, Version, alias, token};

use message::{Body, Request};
use message::{Protocol, Scheme};

/// The Host header for the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostField {
    /// The client's.
    Preserve,
    /// The same for every request.
    Fixed(Box<str>),
}

/// Behaviour towards one upstream.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// From the last byte of the request to the response headers.
    pub response: Duration,
    /// Longest pause within a response.
    pub read: Duration,
    /// Longest pause while a request is taken.
    pub write: Duration,
    /// Longest time without a byte in either direction of a tunnel.
    pub tunnel_idle: Duration,
    /// Bounds of a response's head.
    pub head: HeadLimits,
    /// Send Forwarded (RFC 7239) as well.
    pub forwarded: bool,
    /// Send Via: this is an intermediary of the request (RFC 9110 7.6.3).
    pub via: bool,
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
            via: true,
        }
    }
}

/// The parameters of one request.
pub struct Call<'a> {
    pub options: &'a std::rc::Rc<ClientOptions>,
    pub host: &'a HostField,
    /// The Host header if the client sent none: the server's address.
    pub server: &'a str,
}

/// How the body of a request is delimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestFraming {
    None,
    Length(u64),
    Chunked,
}

impl RequestFraming {
    pub(crate) fn of(request: &Request, body: &Body) -> RequestFraming {
        use wire::Method::{Patch, Post, Put};
        match body.length() {
            // RFC 9110 8.6: no length where the method anticipates no content.
            Some(0) if !matches!(request.method, Post | Put | Patch) => RequestFraming::None,
            Some(length) => RequestFraming::Length(length),
            None => RequestFraming::Chunked,
        }
    }
}

/// Appends the whole head.
pub(crate) fn write_head(
    out: &mut Vec<u8>,
    request: &Request,
    framing: RequestFraming,
    call: &Call<'_>,
) {
    let authority = request.authority();
    out.extend_from_slice(request.method.as_bytes());
    out.push(b' ');
    out.extend_from_slice(request.target.raw());
    out.extend_from_slice(b" HTTP/1.1\r\nHost: ");
    out.extend_from_slice(match call.host {
        HostField::Fixed(text) => text.as_bytes(),
        HostField::Preserve if authority.is_empty() => call.server.as_bytes(),
        HostField::Preserve => authority,
    });
    out.extend_from_slice(b"\r\n");
    let seen = copy_fields(out, request, framing);
    if seen.te || request.upgrade {
        write_connection(out, request);
    }
    match framing {
        // The client found it worth saying.
        RequestFraming::None if seen.length => out.extend_from_slice(b"Content-Length: 0\r\n"),
        RequestFraming::None => {}
        RequestFraming::Length(length) => {
            out.extend_from_slice(b"Content-Length: ");
            out.extend_from_slice(itoa::Buffer::new().format(length).as_bytes());
            out.extend_from_slice(b"\r\n");
        }
        RequestFraming::Chunked => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
    }
    if call.options.via {
        // RFC 9110 7.6.3: the protocol version is the one the message was received with.
        out.extend_from_slice(match request.version {
            Version::Http10 => b"Via: 1.0 tidegate\r\n",
            Version::Http11 => b"Via: 1.1 tidegate\r\n",
            Version::Http2 => b"Via: 2.0 tidegate\r\n",
        });
    }
    if request.facts.protocol != Protocol::Internal {
        write_forwarded(out, request, authority, &seen, call.options.forwarded);
    }
    out.extend_from_slice(b"\r\n");
}

/// Fields that decide about others.
#[derive(Default)]
struct Seen {
    te: bool,
    length: bool,
    /// Forwarding fields that were there already.
    forwarded_for: bool,
    proto: bool,
    host: bool,
}

fn copy_fields(out: &mut Vec<u8>, request: &Request, framing: RequestFraming) -> Seen {
    let mut seen = Seen::default();
    // Asked when the first field is met that Connection could name.
    let mut names = None;
    request.headers.write_lines(out, |field| {
        match field.known {
            // Written by this module. Expect is handled by this client: the body is polled when the
            // server is ready for it.
            Some(Known::Host | Known::Expect) => return false,
            Some(Known::ContentLength) => {
                seen.length = true;
                return false;
            }
            Some(Known::XForwardedFor) => {
                seen.forwarded_for = true;
                return false;
            }
            Some(Known::Te) => {
                seen.te = true;
                return false;
            }
            // Connection may not strip the fields that identify the client.
            Some(Known::XForwardedProto) => seen.proto = true,
            Some(Known::XForwardedHost) => seen.host = true,
            Some(Known::Forwarded) => {}
            // Announces trailers (RFC 9110 6.6.2), which only content of unknown length has.
            Some(Known::Trailer) if framing == RequestFraming::Chunked => {}
            Some(known) if known.is_hop_by_hop() => return false,
            _ if *names.get_or_insert_with(|| connection_names_fields(request)) => {
                return !is_named_by_connection(request, field.name);
            }
            _ => {}
        }
        true
    });
    seen
}

#[inline]
fn write_field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// Returns true if Connection names anything except its own options (RFC 9110 7.6.1).
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
        .any(|option| alias::same(option, name))
}

/// Upgrade (RFC 9110 7.8) and TE (10.1.4) concern our own connection: they are written again.
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

fn write_forwarded(
    out: &mut Vec<u8>,
    request: &Request,
    authority: &[u8],
    seen: &Seen,
    forwarded: bool,
) {
    let peer = request.facts.peer_ip();
    let peer_text = IpText::new(peer);
    out.extend_from_slice(b"X-Forwarded-For: ");
    if seen.forwarded_for {
        for chain in request.headers.get_all(Known::XForwardedFor) {
            out.extend_from_slice(chain);
            out.extend_from_slice(b", ");
        }
    }
    out.extend_from_slice(peer_text.as_bytes());
    // Constant lines are copied as one block of a known length.
    match request.scheme {
        _ if seen.proto => out.extend_from_slice(b"\r\n"),
        Scheme::Http => out.extend_from_slice(b"\r\nX-Forwarded-Proto: http\r\n"),
        Scheme::Https => out.extend_from_slice(b"\r\nX-Forwarded-Proto: https\r\n"),
    }
    if !seen.host && !authority.is_empty() {
        write_field(out, b"X-Forwarded-Host", authority);
    }
    if forwarded {
        out.extend_from_slice(b"Forwarded: for=");
        match peer {
            IpAddr::V4(_) => out.extend_from_slice(peer_text.as_bytes()),
            // RFC 7239 6: an IPv6 address is bracketed and quoted.
            IpAddr::V6(_) => {
                out.extend_from_slice(b"\"[");
                out.extend_from_slice(peer_text.as_bytes());
                out.extend_from_slice(b"]\"");
            }
        }
        out.extend_from_slice(b";host=\"");
        out.extend_from_slice(authority);
        out.extend_from_slice(b"\";proto=");
        out.extend_from_slice(request.scheme.as_str().as_bytes());
        out.extend_from_slice(b"\r\n");
    }
}
