//! The login: the server's greeting, the client's reply, and the server's response to it.

use super::Fault;
use super::cursor::{Cursor, put_text};
use super::response::ErrPacket;

/// Features that both sides must have to use them.
pub mod capabilities {
    /// `affected_rows` counts rows that were found, changed or not.
    const FOUND_ROWS: u32 = 1 << 1;
    pub const WITH_DATABASE: u32 = 1 << 3;
    const IGNORE_SPACE: u32 = 1 << 8;
    const PROTOCOL_41: u32 = 1 << 9;
    pub const TLS: u32 = 1 << 11;
    const TRANSACTIONS: u32 = 1 << 13;
    const AUTH_41: u32 = 1 << 15;
    const MULTI_RESULTS: u32 = 1 << 17;
    const STATEMENT_MULTI_RESULTS: u32 = 1 << 18;
    const PLUGIN_AUTH: u32 = 1 << 19;
    const PLUGIN_AUTH_LENGTH: u32 = 1 << 21;
    /// A result set ends with an OK packet, and its columns end with nothing.
    pub const NO_EOF: u32 = 1 << 24;
    const LONG_COLUMN_FLAGS: u32 = 1 << 2;

    /// What every server must have.
    pub(super) const REQUIRED: u32 = PROTOCOL_41 | AUTH_41 | PLUGIN_AUTH;
    /// What is used where the server has it.
    pub(super) const WANTED: u32 = REQUIRED
        | FOUND_ROWS
        | LONG_COLUMN_FLAGS
        | IGNORE_SPACE
        | TRANSACTIONS
        | MULTI_RESULTS
        | STATEMENT_MULTI_RESULTS
        | PLUGIN_AUTH_LENGTH
        | NO_EOF;
    pub(super) const HAS_AUTH_LENGTH: u32 = PLUGIN_AUTH_LENGTH;
}

/// The first packet of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Greeting {
    pub version: Vec<u8>,
    pub thread: u32,
    pub capabilities: u32,
    pub plugin: Vec<u8>,
    /// The server's random bytes, which the password is hashed with.
    pub scramble: Vec<u8>,
}

impl Greeting {
    /// Parses the packet; a server that is full or blocks this host sends an error instead.
    pub fn parse(packet: &[u8]) -> Result<Result<Greeting, ErrPacket<'_>>, Fault> {
        let mut cursor = Cursor(packet);
        match cursor.u8()? {
            10 => {}
            0xFF => return ErrPacket::parse(packet).map(Err),
            _ => return Err(Fault::Version),
        }
        let version = cursor.until_zero().to_vec();
        let thread = cursor.u32()?;
        let mut scramble = cursor.take(8)?.to_vec();
        cursor.take(1)?;
        let low = cursor.u16()?;
        cursor.take(3)?;
        let capabilities = u32::from(cursor.u16()?) << 16 | u32::from(low);
        if capabilities & capabilities::REQUIRED != capabilities::REQUIRED {
            return Err(Fault::Version);
        }
        let length = usize::from(cursor.u8()?).saturating_sub(8).max(13);
        cursor.take(10)?;
        scramble.extend_from_slice(cursor.take(length)?);
        if scramble.last() == Some(&0) {
            scramble.pop();
        }
        let plugin = cursor.until_zero().to_vec();
        Ok(Ok(Greeting { version, thread, capabilities, plugin, scramble }))
    }
}

/// The account and the options that a client sends.
#[derive(Clone, Debug)]
pub struct Login<'a> {
    pub tls: bool,
    pub charset: u8,
    pub max_packet: u32,
    pub user: &'a [u8],
    pub database: &'a [u8],
    pub plugin: &'a [u8],
    /// The proof that the plugin has computed from the password.
    pub proof: &'a [u8],
}

impl Login<'_> {
    /// The features that are used with this server.
    pub fn capabilities(&self, greeting: &Greeting) -> u32 {
        let mut used = capabilities::WANTED & greeting.capabilities;
        if !self.database.is_empty() {
            used |= capabilities::WITH_DATABASE;
        }
        if self.tls {
            used |= capabilities::TLS;
        }
        used
    }

    /// The packet after which the client begins TLS, and the first part of the reply.
    pub fn tls_request(&self, greeting: &Greeting) -> Vec<u8> {
        let mut out = self.capabilities(greeting).to_le_bytes().to_vec();
        out.extend_from_slice(&self.max_packet.to_le_bytes());
        out.push(self.charset);
        out.resize(out.len() + 23, 0);
        out
    }

    /// The reply to the greeting.
    pub fn reply(&self, greeting: &Greeting) -> Vec<u8> {
        let mut out = self.tls_request(greeting);
        out.extend_from_slice(self.user);
        out.push(0);
        if greeting.capabilities & capabilities::HAS_AUTH_LENGTH != 0 {
            put_text(self.proof, &mut out);
        } else {
            // A proof of the plugins that are used has less than 256 bytes.
            out.push(self.proof.len() as u8);
            out.extend_from_slice(self.proof);
        }
        if !self.database.is_empty() {
            out.extend_from_slice(self.database);
            out.push(0);
        }
        out.extend_from_slice(self.plugin);
        out.push(0);
        out
    }
}

/// A packet of the server during the login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoginReply<'a> {
    Accepted,
    Rejected(ErrPacket<'a>),
    /// Another plugin is to be used, with these random bytes.
    Switch {
        plugin: &'a [u8],
        scramble: &'a [u8],
    },
    /// The plugin's own data.
    More(&'a [u8]),
}

impl LoginReply<'_> {
    pub fn parse(packet: &[u8]) -> Result<LoginReply<'_>, Fault> {
        match packet {
            [0, ..] => Ok(LoginReply::Accepted),
            [0xFF, ..] => ErrPacket::parse(packet).map(LoginReply::Rejected),
            [0xFE] => Ok(LoginReply::Switch { plugin: b"mysql_old_password", scramble: b"" }),
            [0xFE, rest @ ..] => {
                let mut cursor = Cursor(rest);
                let plugin = cursor.until_zero();
                let scramble = cursor.0.strip_suffix(&[0]).unwrap_or(cursor.0);
                Ok(LoginReply::Switch { plugin, scramble })
            }
            [1, rest @ ..] => Ok(LoginReply::More(rest)),
            _ => Err(Fault::Malformed),
        }
    }
}
