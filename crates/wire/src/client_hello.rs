//! The first message of a TLS client (RFC 8446 4.1.2), read only for the name and the protocols
//! that it asks for.
//!
//! [`HelloReader`] takes the first bytes of a connection, in pieces of any size, and the records of
//! any size that the message may be split into. Reads no further than the message, keeps only it,
//! and rejects more than [`HELLO_BYTES_MAX`]. It does not validate what only an endpoint of TLS
//! can: versions, cipher suites and other extensions are skipped.

use std::fmt;

/// Most bytes of a connection, headers of records included, up to the end of the message. With
/// post-quantum keys it has less than 2 KiB.
pub const HELLO_BYTES_MAX: usize = 32 * 1024;

const RECORD_HEAD: usize = 5;
const RECORD_BYTES_MAX: usize = 1 << 14;
const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const SERVER_NAME: u16 = 0;
const PROTOCOLS: u16 = 16;
const HOST_NAME: u8 = 0;
/// Longest name of a host.
const NAME_BYTES_MAX: usize = 253;

/// What a client asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientHello {
    /// The name of the server (SNI), in lower case; `None` if the client sends none.
    pub server_name: Option<Box<str>>,
    /// The protocols of ALPN (RFC 7301), the client's preferred one first.
    pub protocols: Vec<Box<[u8]>>,
}

/// Why the first bytes of a connection are rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// The connection does not begin with a handshake of TLS.
    NotTls,
    /// The message does not follow the grammar.
    Message,
    /// The name is not the name of a host.
    Name,
    /// The message does not end within [`HELLO_BYTES_MAX`].
    TooLong,
}

impl Malformed {
    pub fn as_str(self) -> &'static str {
        match self {
            Malformed::NotTls => "the connection does not begin with a TLS handshake",
            Malformed::Message => "the ClientHello is malformed",
            Malformed::Name => "the server name is not a host name",
            Malformed::TooLong => "the ClientHello is too long",
        }
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Reads the message from the records of a connection.
#[derive(Debug, Default)]
pub struct HelloReader {
    /// The header of the record that is being read.
    record: [u8; RECORD_HEAD],
    record_length: usize,
    /// Bytes of the record that are still to come.
    remaining: usize,
    message: Vec<u8>,
    received: usize,
}

impl HelloReader {
    /// Takes the next bytes of the connection; returns the message once it is complete.
    pub fn feed(&mut self, mut bytes: &[u8]) -> Result<Option<ClientHello>, Malformed> {
        while !bytes.is_empty() {
            let before = bytes.len();
            if self.remaining == 0 {
                let wanted = RECORD_HEAD - self.record_length;
                let (head, rest) = bytes.split_at(wanted.min(bytes.len()));
                self.record[self.record_length..][..head.len()].copy_from_slice(head);
                self.record_length += head.len();
                bytes = rest;
                self.begin_record()?;
            } else {
                let (part, rest) = bytes.split_at(self.remaining.min(bytes.len()));
                self.message.extend_from_slice(part);
                self.remaining -= part.len();
                bytes = rest;
            }
            self.received += before - bytes.len();
            if let Some(message) = self.message()? {
                return parse(message).map(Some);
            }
            if self.received >= HELLO_BYTES_MAX {
                return Err(Malformed::TooLong);
            }
        }
        Ok(None)
    }

    /// Checks the header of a record as far as it has arrived.
    fn begin_record(&mut self) -> Result<(), Malformed> {
        let head = &self.record[..self.record_length];
        let is_handshake = head.first().is_none_or(|kind| *kind == HANDSHAKE);
        let is_tls = head.get(1).is_none_or(|major| *major == 3);
        if !is_handshake || !is_tls {
            let is_first = self.message.is_empty();
            return Err(if is_first { Malformed::NotTls } else { Malformed::Message });
        }
        if self.record_length == RECORD_HEAD {
            self.remaining = usize::from(u16::from_be_bytes([head[3], head[4]]));
            self.record_length = 0;
            // A record of a handshake is never empty (RFC 8446 5.1).
            if self.remaining == 0 || self.remaining > RECORD_BYTES_MAX {
                return Err(Malformed::Message);
            }
        }
        Ok(())
    }

    /// The content of the message, once it is complete.
    fn message(&self) -> Result<Option<&[u8]>, Malformed> {
        if self.message.first().is_some_and(|kind| *kind != CLIENT_HELLO) {
            return Err(Malformed::NotTls);
        }
        let Some(head) = self.message.get(..4) else { return Ok(None) };
        let length = u32::from_be_bytes([0, head[1], head[2], head[3]]) as usize;
        if length > HELLO_BYTES_MAX {
            return Err(Malformed::TooLong);
        }
        Ok(self.message.get(4..4 + length))
    }
}

/// A cursor over the fields of a message.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Malformed::Message)?;
        self.0 = rest;
        Ok(taken)
    }

    fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.take(1)?[0])
    }

    fn u16(&mut self) -> Result<u16, Malformed> {
        let bytes = self.take(2)?;
        Ok(u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    /// A vector whose length is written in two bytes.
    fn vector(&mut self) -> Result<Fields<'a>, Malformed> {
        let length = self.u16()?;
        self.take(usize::from(length)).map(Fields)
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn parse(message: &[u8]) -> Result<ClientHello, Malformed> {
    let mut fields = Fields(message);
    fields.take(2 + 32)?; // version, random
    let session = usize::from(fields.u8()?);
    fields.take(session)?;
    fields.vector()?; // cipher suites
    let compressions = usize::from(fields.u8()?);
    fields.take(compressions)?;
    let mut hello = ClientHello::default();
    if fields.is_empty() {
        return Ok(hello); // TLS 1.2 without extensions
    }
    let mut extensions = fields.vector()?;
    if !fields.is_empty() {
        return Err(Malformed::Message);
    }
    while !extensions.is_empty() {
        let kind = extensions.u16()?;
        let content = extensions.vector()?;
        let is_repeated = match kind {
            SERVER_NAME => hello.server_name.replace(server_name(content)?).is_some(),
            PROTOCOLS => {
                let protocols = protocols(content)?;
                !std::mem::replace(&mut hello.protocols, protocols).is_empty()
            }
            _ => false,
        };
        if is_repeated {
            return Err(Malformed::Message);
        }
    }
    Ok(hello)
}

/// The only name of the list (RFC 6066 3): it must not hold two of one type, and no other type is
/// defined.
fn server_name(mut extension: Fields<'_>) -> Result<Box<str>, Malformed> {
    let mut list = extension.vector()?;
    if list.u8()? != HOST_NAME {
        return Err(Malformed::Message);
    }
    let name = list.vector()?.0;
    if !list.is_empty() || !extension.is_empty() {
        return Err(Malformed::Message);
    }
    let of_host = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._".contains(byte);
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.iter().all(of_host) {
        return Err(Malformed::Name);
    }
    let name = std::str::from_utf8(name).map_err(|_| Malformed::Name)?;
    Ok(name.to_ascii_lowercase().into_boxed_str())
}

/// The list of protocols, none of which is empty (RFC 7301 3.1).
fn protocols(mut extension: Fields<'_>) -> Result<Vec<Box<[u8]>>, Malformed> {
    let mut list = extension.vector()?;
    if list.is_empty() || !extension.is_empty() {
        return Err(Malformed::Message);
    }
    let mut protocols = Vec::new();
    while !list.is_empty() {
        let length = usize::from(list.u8()?);
        match list.take(length)? {
            [] => return Err(Malformed::Message),
            protocol => protocols.push(protocol.into()),
        }
    }
    Ok(protocols)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn length_prefixed(length: usize) -> [u8; 2] {
        u16::try_from(length).unwrap().to_be_bytes()
    }

    fn vector(content: &[u8]) -> Vec<u8> {
        [&length_prefixed(content.len())[..], content].concat()
    }

    fn extension(kind: u16, content: &[u8]) -> Vec<u8> {
        [&kind.to_be_bytes()[..], &vector(content)].concat()
    }

    fn name_extension(name: &[u8]) -> Vec<u8> {
        let entry = [&[0][..], &vector(name)].concat();
        extension(0, &vector(&entry))
    }

    fn protocols_extension(protocols: &[&[u8]]) -> Vec<u8> {
        let one = |name: &&[u8]| [&[u8::try_from(name.len()).unwrap()], *name].concat();
        extension(16, &vector(&protocols.iter().flat_map(one).collect::<Vec<_>>()))
    }

    #[test]
    fn the_protocols_are_in_the_order_of_the_client() {
        let extensions = protocols_extension(&[b"h2", b"\xff", b"http/1.1"]);
        let hello = read(&records(&message(Some(&extensions)), 1000)).unwrap().unwrap();
        let expected: Vec<Box<[u8]>> =
            vec![b"h2"[..].into(), b"\xff"[..].into(), b"http/1.1"[..].into()];
        assert_eq!(hello, ClientHello { server_name: None, protocols: expected });
    }

    /// A message with these extensions; `None` has none.
    fn message(extensions: Option<&[u8]>) -> Vec<u8> {
        let mut content = vec![3, 3];
        content.extend_from_slice(&[7; 32]);
        content.extend_from_slice(&[2, 1, 1]); // session
        content.extend_from_slice(&vector(&[0x13, 1, 0x1a, 0x1a])); // with GREASE (RFC 8701)
        content.extend_from_slice(&[1, 0]);
        content.extend(extensions.map(vector).unwrap_or_default());
        let length = u32::try_from(content.len()).unwrap().to_be_bytes();
        [&[1][..], &length[1..], &content].concat()
    }

    fn records(message: &[u8], size: usize) -> Vec<u8> {
        let record = |part: &[u8]| [&[22, 3, 1][..], &length_prefixed(part.len()), part].concat();
        message.chunks(size).flat_map(record).collect()
    }

    fn read(bytes: &[u8]) -> Result<Option<ClientHello>, Malformed> {
        HelloReader::default().feed(bytes)
    }

    fn named(name: &str) -> ClientHello {
        ClientHello { server_name: Some(name.into()), protocols: vec![b"h2"[..].into()] }
    }

    fn with_name() -> Vec<u8> {
        let grease = [extension(0x0a0a, b""), extension(0xdada, &[0])].concat();
        message(Some(
            &[grease, name_extension(b"A.Example.com"), protocols_extension(&[b"h2"])].concat(),
        ))
    }

    #[test]
    fn the_name_is_found_however_the_message_is_split() {
        let message = with_name();
        for record in [1, 2, 3, 4, 5, 100, message.len()] {
            let bytes = records(&message, record);
            assert_eq!(read(&bytes), Ok(Some(named("a.example.com"))), "records of {record}");
            for piece in [1, 7, 64] {
                let mut reader = HelloReader::default();
                let last = bytes.len().div_ceil(piece) - 1;
                for (at, part) in bytes.chunks(piece).enumerate() {
                    let found = reader.feed(part);
                    assert_eq!(found.unwrap().is_some(), at == last, "{record} {piece} {at}");
                }
            }
        }
    }

    #[test]
    fn a_message_without_a_name() {
        for message in [message(None), message(Some(&[])), message(Some(&extension(0x2a2a, b"")))] {
            assert_eq!(read(&records(&message, 1000)), Ok(Some(ClientHello::default())));
        }
    }

    #[test]
    fn malformed_messages_are_rejected() {
        let two = [name_extension(b"a"), name_extension(b"b")].concat();
        let listed =
            extension(0, &vector(&[&[0][..], &vector(b"a"), &[0], &vector(b"b")].concat()));
        let other_type = extension(0, &vector(&[&[1][..], &vector(b"a")].concat()));
        let longer =
            extension(0, &[&vector(&[&[0][..], &vector(b"a")].concat())[..], b"x"].concat());
        for (extensions, expected) in [
            (two, Malformed::Message),
            (listed, Malformed::Message),
            (other_type, Malformed::Message),
            (longer, Malformed::Message),
            (
                [protocols_extension(&[b"h2"]), protocols_extension(&[b"h2"])].concat(),
                Malformed::Message,
            ),
            (protocols_extension(&[]), Malformed::Message),
            (protocols_extension(&[b""]), Malformed::Message),
            (extension(16, b"\0\x03\x03h2"), Malformed::Message),
            (extension(16, b"\0\x03\x02h2x"), Malformed::Message),
            (extension(0, b""), Malformed::Message),
            (vec![0, 0, 0, 9], Malformed::Message),
            (vec![0], Malformed::Message),
            (name_extension(b""), Malformed::Name),
            (name_extension(b"a b"), Malformed::Name),
            (name_extension(&[b'a'; 254]), Malformed::Name),
            (name_extension(b"\xff"), Malformed::Name),
        ] {
            let bytes = records(&message(Some(&extensions)), 1000);
            assert_eq!(read(&bytes), Err(expected), "{extensions:?}");
        }
        let mut trailing = message(Some(&[]));
        trailing.push(0);
        trailing[3] += 1;
        assert_eq!(read(&records(&trailing, 1000)), Err(Malformed::Message));
    }

    #[test]
    fn what_is_not_tls_is_rejected_at_its_first_byte() {
        for bytes in [&b"G"[..], b"\x16\x02", b"\x80\x2e\x01", b"\x15\x03\x01\x00\x02"] {
            assert_eq!(read(bytes), Err(Malformed::NotTls), "{bytes:?}");
        }
        let server_hello = records(&[2, 0, 0, 0], 4);
        assert_eq!(read(&server_hello), Err(Malformed::NotTls));
        // Within the message.
        for head in [&[23, 3, 1, 0, 1][..], &[22, 3, 1, 0, 0], &[22, 3, 1, 0x40, 1]] {
            let bytes = [&records(&with_name()[..10], 10), head].concat();
            assert_eq!(read(&bytes), Err(Malformed::Message), "{head:?}");
        }
    }

    #[test]
    fn an_endless_message_is_rejected() {
        let long = [&[1, 0, 0x80, 1][..], &[0; 64]].concat();
        assert_eq!(read(&records(&long, 68)), Err(Malformed::TooLong));
        // Its length is allowed, but the headers of its records are not.
        let mut reader = HelloReader::default();
        let mut fed = 0;
        let split = [&[1, 0, 0x80, 0][..], &[0; HELLO_BYTES_MAX]].concat();
        let ended = records(&split, 1).iter().find_map(|byte| {
            fed += 1;
            reader.feed(&[*byte]).err()
        });
        assert_eq!((ended, fed), (Some(Malformed::TooLong), HELLO_BYTES_MAX));
    }
}
