//! The PROXY protocol, versions 1 and 2: the header with which a proxy names the client of a
//! connection, before anything else is sent.
//!
//! [`parse`] reads a header from the front of a connection, [`write()`] appends one. Everything is
//! bounded: a header of version 1 by the specification, one of version 2 by [`HEADER_BYTES_MAX`].
//! Additional values of version 2 (TLV) are skipped; those whose form the specification defines are
//! checked. Does not decide which peers may send a header.

mod values;
mod version1;
mod version2;

use std::fmt;
use std::net::SocketAddr;

/// The longest header of either version, with all its additional values.
pub const HEADER_BYTES_MAX: usize = 4096;

/// A version of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Version {
    /// A line of text.
    V1,
    /// Binary, with additional values.
    V2,
}

/// The client's connection, as the proxy has seen it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoints {
    /// The client's address.
    pub source: SocketAddr,
    /// The address that the client has connected to.
    pub destination: SocketAddr,
}

/// A complete header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// `None` if the proxy speaks for itself (`LOCAL`, such as a health check) or does not name a
    /// TCP client (`UNKNOWN`, Unix sockets): the addresses of the connection apply.
    pub endpoints: Option<Endpoints>,
    /// Bytes of the header.
    pub length: usize,
}

/// Why a header is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// The connection does not begin with a header.
    Missing,
    /// The line of version 1 does not follow the grammar.
    Line,
    /// The version or the command is unknown.
    Command,
    /// The address family or the transport is unknown, or its addresses are incomplete.
    Family,
    /// An additional value is longer than the header, or its form is wrong.
    Value,
    /// The checksum does not match the header.
    Checksum,
    /// The header is longer than [`HEADER_BYTES_MAX`].
    TooLong,
}

impl Malformed {
    pub fn as_str(self) -> &'static str {
        match self {
            Malformed::Missing => "the connection does not begin with a PROXY header",
            Malformed::Line => "the line of version 1 is malformed",
            Malformed::Command => "the version or the command is unknown",
            Malformed::Family => "the address family is unknown or its addresses are incomplete",
            Malformed::Value => "an additional value is malformed",
            Malformed::Checksum => "the checksum does not match",
            Malformed::TooLong => "the header is too long",
        }
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Parses the header at the front of `received`. Returns `None` while it is incomplete; then every
/// byte received belongs to it.
pub fn parse(received: &[u8]) -> Result<Option<Header>, Malformed> {
    let begins = |with: &[u8]| {
        let compared = received.len().min(with.len());
        received[..compared] == with[..compared]
    };
    if begins(version2::SIGNATURE) {
        version2::parse(received)
    } else if begins(version1::BEGIN) {
        version1::parse(received)
    } else {
        Err(Malformed::Missing)
    }
}

/// Appends a header that names these endpoints; without them, one with which a proxy speaks for
/// itself.
pub fn write(version: Version, endpoints: Option<Endpoints>, out: &mut Vec<u8>) {
    let endpoints = endpoints.map(Endpoints::of_one_family);
    match version {
        Version::V1 => version1::write(endpoints, out),
        Version::V2 => version2::write(endpoints, out),
    }
}

impl Endpoints {
    /// The same addresses in one family, which a header needs: IPv4 if both are.
    fn of_one_family(self) -> Endpoints {
        let canonical =
            |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
        let (source, destination) = (canonical(self.source), canonical(self.destination));
        if source.is_ipv4() == destination.is_ipv4() {
            return Endpoints { source, destination };
        }
        let mapped = |address: SocketAddr| match address {
            SocketAddr::V4(v4) => SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port()),
            SocketAddr::V6(_) => address,
        };
        Endpoints { source: mapped(source), destination: mapped(destination) }
    }
}

#[cfg(test)]
mod tests;
