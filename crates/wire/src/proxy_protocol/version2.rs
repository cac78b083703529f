//! Version 2: a signature, command and family, a length, addresses, and additional values.

use std::net::{IpAddr, SocketAddr};

use super::{Endpoints, HEADER_BYTES_MAX, Header, Malformed, values};

pub(super) const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// Bytes before the addresses.
const FIXED: usize = 16;

const LOCAL: u8 = 0x20;
const PROXY: u8 = 0x21;
const TCP_OVER_IPV4: u8 = 0x11;
const TCP_OVER_IPV6: u8 = 0x21;

/// Parses a header that begins like one of this version.
pub(super) fn parse(received: &[u8]) -> Result<Option<Header>, Malformed> {
    if let Some(command) = received.get(12)
        && ![LOCAL, PROXY].contains(command)
    {
        return Err(Malformed::Command);
    }
    let Some(fixed) = received.get(..FIXED) else { return Ok(None) };
    let length = FIXED + usize::from(u16::from_be_bytes([fixed[14], fixed[15]]));
    if length > HEADER_BYTES_MAX {
        return Err(Malformed::TooLong);
    }
    let Some(header) = received.get(..length) else { return Ok(None) };
    if fixed[12] == LOCAL {
        // The specification has the receiver discard the rest, whatever it is.
        return Ok(Some(Header { endpoints: None, length }));
    }
    let body = &header[FIXED..];
    let (endpoints, addresses) = match fixed[13] {
        TCP_OVER_IPV4 => (Some(pair::<4>(body).ok_or(Malformed::Family)?), 12),
        TCP_OVER_IPV6 => (Some(pair::<16>(body).ok_or(Malformed::Family)?), 36),
        // Unspecified: the length of its addresses is not defined, so nothing after it is.
        0x00 => return Ok(Some(Header { endpoints: None, length })),
        // UDP, and Unix sockets: not the clients of a TCP connection.
        0x10 | 0x12 => (None, 12),
        0x20 | 0x22 => (None, 36),
        0x30..=0x32 => (None, 216),
        _ => return Err(Malformed::Family),
    };
    values::check(header, FIXED + addresses)?;
    Ok(Some(Header { endpoints, length }))
}

/// Two addresses of `N` bytes, then their ports.
fn pair<const N: usize>(body: &[u8]) -> Option<Endpoints>
where
    IpAddr: From<[u8; N]>,
{
    let address = |at: usize| -> Option<SocketAddr> {
        let ip: [u8; N] = body.get(at * N..(at + 1) * N)?.try_into().ok()?;
        let port = body.get(2 * N + 2 * at..2 * N + 2 * at + 2)?.try_into().ok()?;
        Some(SocketAddr::new(IpAddr::from(ip), u16::from_be_bytes(port)))
    };
    Some(Endpoints { source: address(0)?, destination: address(1)? })
}

pub(super) fn write(endpoints: Option<Endpoints>, out: &mut Vec<u8>) {
    out.extend_from_slice(SIGNATURE);
    let Some(Endpoints { source, destination }) = endpoints else {
        return out.extend_from_slice(&[LOCAL, 0, 0, 0]);
    };
    let (family, length) = if source.is_ipv4() { (TCP_OVER_IPV4, 12) } else { (TCP_OVER_IPV6, 36) };
    out.extend_from_slice(&[PROXY, family, 0, length]);
    for address in [source, destination] {
        match address.ip() {
            IpAddr::V4(ip) => out.extend_from_slice(&ip.octets()),
            IpAddr::V6(ip) => out.extend_from_slice(&ip.octets()),
        }
    }
    out.extend_from_slice(&source.port().to_be_bytes());
    out.extend_from_slice(&destination.port().to_be_bytes());
}
