//! What is handed over, as bytes for another process: the head of an exchange, and header fields.
//!
//! Both ends are of one version, so a known field name is its number and nothing is optional but
//! what a tag says is. Promises that what was encoded comes back equal, and that a decoder given
//! any other bytes says so and neither panics nor allocates more than they are long.

mod tls;

use std::ffi::OsStr;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use net::{Bind, Peer};
use wire::{Known, Method, Version, token};

use crate::Head;
use message::TargetParts;
use message::{Headers, Name, Scheme, Target};

/// The bytes are not an encoding of what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreadable;

/// Reads from the front of an encoding.
pub struct Reader<'a>(&'a [u8]);

/// A length of this or more is written in five bytes and not in one.
const LONG: usize = 0xFF;

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader(bytes)
    }

    /// Returns true if all input has been read.
    pub fn is_at_end(&self) -> bool {
        self.0.is_empty()
    }

    /// Checks that no input is left.
    pub fn end(self) -> Result<(), Unreadable> {
        if self.0.is_empty() { Ok(()) } else { Err(Unreadable) }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Unreadable> {
        let (array, rest) = self.0.split_first_chunk().ok_or(Unreadable)?;
        self.0 = rest;
        Ok(*array)
    }

    pub fn u8(&mut self) -> Result<u8, Unreadable> {
        self.array().map(|[byte]| byte)
    }

    pub fn u16(&mut self) -> Result<u16, Unreadable> {
        self.array().map(u16::from_le_bytes)
    }

    pub fn u32(&mut self) -> Result<u32, Unreadable> {
        self.array().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Result<u64, Unreadable> {
        self.array().map(u64::from_le_bytes)
    }

    /// Reads a tag: whether a value follows.
    pub fn flag(&mut self) -> Result<bool, Unreadable> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Unreadable),
        }
    }

    pub fn length(&mut self) -> Result<usize, Unreadable> {
        match usize::from(self.u8()?) {
            LONG => match self.u32()? as usize {
                short if short < LONG => Err(Unreadable),
                long => Ok(long),
            },
            short => Ok(short),
        }
    }

    /// Bytes with their length before them.
    pub fn bytes(&mut self) -> Result<&'a [u8], Unreadable> {
        let length = self.length()?;
        let (bytes, rest) = self.0.split_at_checked(length).ok_or(Unreadable)?;
        self.0 = rest;
        Ok(bytes)
    }

    pub fn text(&mut self) -> Result<&'a str, Unreadable> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Unreadable)
    }

    pub fn optional_text(&mut self) -> Result<Option<&'a str>, Unreadable> {
        if self.flag()? { self.text().map(Some) } else { Ok(None) }
    }

    /// Header fields, as [`put_fields`] wrote them.
    pub fn fields(&mut self) -> Result<Headers, Unreadable> {
        let mut headers = Headers::new();
        for _ in 0..self.length()? {
            let name = match self.u8()? {
                0 => Name::Other(self.bytes().and_then(checked_name)?),
                number => {
                    let known = Known::ALL.get(usize::from(number) - 1).ok_or(Unreadable)?;
                    Name::Known(*known)
                }
            };
            headers.append(name, self.bytes()?);
        }
        Ok(headers)
    }
}

fn checked_name(name: &[u8]) -> Result<&[u8], Unreadable> {
    if token::is_token(name) { Ok(name) } else { Err(Unreadable) }
}

pub fn put_length(out: &mut Vec<u8>, length: usize) {
    if length < LONG {
        out.push(length as u8);
    } else {
        out.push(LONG as u8);
        // Frames are far shorter than 4 GiB; what is longer makes one that is refused.
        out.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes());
    }
}

pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_length(out, bytes.len());
    out.extend_from_slice(bytes);
}

pub fn put_optional(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    out.push(u8::from(bytes.is_some()));
    if let Some(bytes) = bytes {
        put_bytes(out, bytes);
    }
}

pub fn put_fields(out: &mut Vec<u8>, headers: &Headers) {
    put_length(out, headers.len());
    for field in headers.iter() {
        match field.known {
            // There are fewer known names than a byte has values, which a test checks.
            Some(known) => out.push(known as u8 + 1),
            None => {
                out.push(0);
                put_bytes(out, field.name);
            }
        }
        put_bytes(out, field.value);
    }
}

impl Head {
    /// Appends the head to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.version as u8);
        out.push(u8::from(self.scheme == Scheme::Https));
        put_bytes(out, self.method.as_bytes());
        put_target(out, &self.target);
        out.push(u8::from(self.body_length.is_some()));
        if let Some(length) = self.body_length {
            out.extend_from_slice(&length.to_le_bytes());
        }
        put_ip(out, self.client_ip);
        match &self.peer {
            Peer::Tcp(address) => put_address(out, address),
            Peer::Unix => out.push(0),
        }
        match &self.local {
            Bind::Tcp(address) => put_address(out, address),
            Bind::Unix(path) => {
                out.push(0);
                put_bytes(out, path.as_os_str().as_bytes());
            }
        }
        out.push(u8::from(self.tls.is_some()));
        if let Some(tls) = &self.tls {
            tls::put(out, tls);
        }
        put_fields(out, &self.headers);
    }

    /// Reads what [`Head::encode`] wrote, all of it.
    pub fn decode(bytes: &[u8]) -> Result<Head, Unreadable> {
        let mut from = Reader::new(bytes);
        let version = version(&mut from)?;
        let scheme = if from.flag()? { Scheme::Https } else { Scheme::Http };
        let method = Method::parse(from.bytes()?).ok_or(Unreadable)?;
        let target = target(&mut from)?;
        let body_length = if from.flag()? { Some(from.u64()?) } else { None };
        let client_ip = ip(&mut from)?;
        let peer = address(&mut from)?.map_or(Peer::Unix, Peer::Tcp);
        let local = match address(&mut from)? {
            Some(address) => Bind::Tcp(address),
            None => Bind::Unix(PathBuf::from(OsStr::from_bytes(from.bytes()?))),
        };
        let tls = if from.flag()? { Some(tls::read(&mut from)?) } else { None };
        let headers = from.fields()?;
        from.end()?;
        Ok(Head {
            method,
            version,
            target,
            headers,
            body_length,
            client_ip,
            scheme,
            peer,
            local,
            tls,
        })
    }
}

/// Bits of the tag of a target: which of what most targets have not it has.
const PATH: u8 = 1;
const ROUTED: u8 = 2;
const RECEIVED: u8 = 4;

fn put_target(out: &mut Vec<u8>, target: &Target) {
    let TargetParts { raw, path_length, path, routed, received } = target.parts();
    put_bytes(out, raw);
    put_length(out, path_length);
    let others = [(PATH, path.map(str::as_bytes)), (ROUTED, routed.map(str::as_bytes))];
    let others = others.into_iter().chain([(RECEIVED, received)]);
    let at = out.len();
    out.push(0);
    for (bit, other) in others {
        if let Some(bytes) = other {
            out[at] |= bit;
            put_bytes(out, bytes);
        }
    }
}

fn version(from: &mut Reader<'_>) -> Result<Version, Unreadable> {
    let versions = [Version::Http10, Version::Http11, Version::Http2];
    let number = from.u8()?;
    versions.into_iter().find(|version| *version as u8 == number).ok_or(Unreadable)
}

fn target(from: &mut Reader<'_>) -> Result<Target, Unreadable> {
    let raw = from.bytes()?;
    let path_length = from.length()?;
    let tag = from.u8()?;
    let has = |bit| tag & bit != 0;
    let path = if has(PATH) { Some(from.text()?) } else { None };
    let routed = if has(ROUTED) { Some(from.text()?) } else { None };
    let received = if has(RECEIVED) { Some(from.bytes()?) } else { None };
    if path_length > raw.len() || tag & !(PATH | ROUTED | RECEIVED) != 0 {
        return Err(Unreadable);
    }
    Ok(Target::of_parts(&TargetParts { raw, path_length, path, routed, received }))
}

fn put_ip(out: &mut Vec<u8>, ip: IpAddr) {
    match ip {
        IpAddr::V4(ip) => {
            out.push(4);
            out.extend_from_slice(&ip.octets());
        }
        IpAddr::V6(ip) => {
            out.push(6);
            out.extend_from_slice(&ip.octets());
        }
    }
}

fn ip(from: &mut Reader<'_>) -> Result<IpAddr, Unreadable> {
    match from.u8()? {
        4 => from.array::<4>().map(IpAddr::from),
        6 => from.array::<16>().map(IpAddr::from),
        _ => Err(Unreadable),
    }
}

fn put_address(out: &mut Vec<u8>, address: &SocketAddr) {
    put_ip(out, address.ip());
    out.extend_from_slice(&address.port().to_le_bytes());
    if let SocketAddr::V6(address) = address {
        out.extend_from_slice(&address.flowinfo().to_le_bytes());
        out.extend_from_slice(&address.scope_id().to_le_bytes());
    }
}

/// Reads an address; zero stands for `None`.
fn address(from: &mut Reader<'_>) -> Result<Option<SocketAddr>, Unreadable> {
    match from.u8()? {
        0 => Ok(None),
        4 => {
            let ip = IpAddr::from(from.array::<4>()?);
            Ok(Some(SocketAddr::new(ip, from.u16()?)))
        }
        6 => {
            let ip = Ipv6Addr::from(from.array::<16>()?);
            let (port, flow, scope) = (from.u16()?, from.u32()?, from.u32()?);
            Ok(Some(SocketAddrV6::new(ip, port, flow, scope).into()))
        }
        _ => Err(Unreadable),
    }
}

#[cfg(test)]
mod tests;
