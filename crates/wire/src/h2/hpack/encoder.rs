//! Encoding of field sections (RFC 7541 6).
//!
//! A field whose value repeats on a connection, such as `Server` or `Content-Type`, is added to the
//! table, in the Huffman code, and costs one byte from then on. Every other field is a plain
//! literal: copying it is cheaper than the Huffman code, and it would only displace the others. A
//! field that may be a secret is marked as never to be indexed, by intermediaries too (RFC 7541
//! 7.1.3).

use std::collections::VecDeque;

use super::{ENTRY_OVERHEAD, TABLE_SIZE, huffman, static_table, write_integer};
use crate::Known;

/// The largest part of the table that one entry may take.
const ENTRY_PART: usize = 4;
/// Most entries: each field with a repeating value is compared with those of its name.
const ENTRIES_MAX: usize = 48;

#[derive(Debug)]
struct Entry {
    known: Known,
    value: Box<[u8]>,
}

impl Entry {
    fn size(&self) -> usize {
        entry_size(self.known, &self.value)
    }
}

fn entry_size(known: Known, value: &[u8]) -> usize {
    // Host is in the table as `:authority` only.
    let name = if known == Known::Host { ":authority" } else { known.as_str() };
    name.len() + value.len() + ENTRY_OVERHEAD
}

/// The encoder of one connection.
#[derive(Debug)]
pub struct Encoder {
    /// The newest first: the index of an entry follows from its place.
    entries: VecDeque<Entry>,
    size: usize,
    max: usize,
    /// The smallest size since the last block, if the peer has changed it.
    smallest: Option<usize>,
}

impl Default for Encoder {
    fn default() -> Encoder {
        Encoder { entries: VecDeque::new(), size: 0, max: TABLE_SIZE, smallest: None }
    }
}

impl Encoder {
    /// Applies SETTINGS_HEADER_TABLE_SIZE of the peer; the next block announces it.
    pub fn set_max(&mut self, max: usize) {
        let max = max.min(TABLE_SIZE);
        if max == self.max && self.smallest.is_none() {
            return;
        }
        self.smallest = Some(self.smallest.map_or(max, |smallest| smallest.min(max)));
        self.max = max;
        self.evict_to(max);
    }

    /// Begins a block: announces a changed size of the table (RFC 7541 4.2).
    #[inline]
    pub fn begin(&mut self, out: &mut Vec<u8>) {
        if let Some(smallest) = self.smallest.take() {
            if smallest < self.max {
                write_integer(out, 0x20, 5, smallest);
            }
            write_integer(out, 0x20, 5, self.max);
        }
    }

    /// Appends `:status`.
    #[inline]
    pub fn status(&mut self, out: &mut Vec<u8>, status: u16) {
        let index = match status {
            200 => 8,
            204 => 9,
            206 => 10,
            304 => 11,
            400 => 12,
            404 => 13,
            500 => 14,
            _ => {
                let digit = |place: u16| b'0' + (status / place % 10) as u8;
                out.extend_from_slice(&[0x08, 3, digit(100), digit(10), digit(1)]);
                return;
            }
        };
        out.push(0x80 | index);
    }

    /// Appends `:method`.
    pub fn method(&mut self, out: &mut Vec<u8>, method: &[u8]) {
        match method {
            b"GET" => out.push(0x82),
            b"POST" => out.push(0x83),
            other => literal(out, 2, other),
        }
    }

    /// Appends `:scheme`.
    pub fn scheme(&mut self, out: &mut Vec<u8>, secure: bool) {
        out.push(if secure { 0x87 } else { 0x86 });
    }

    /// Appends `:path`, which differs between requests and may have a secret in its query.
    pub fn path(&mut self, out: &mut Vec<u8>, path: &[u8]) {
        match path {
            b"/" => out.push(0x84),
            other => literal(out, 4, other),
        }
    }

    /// Appends `:authority`, which has an entry as `Host` would have.
    pub fn authority(&mut self, out: &mut Vec<u8>, authority: &[u8]) {
        self.repeating(out, Known::Host, Some(1), b":authority", authority);
    }

    /// Appends `:protocol` (RFC 8441 4).
    pub fn protocol(&mut self, out: &mut Vec<u8>, protocol: &[u8]) {
        out.push(0);
        plain_string(out, b":protocol");
        plain_string(out, protocol);
    }

    /// Appends a field; its name is written in lower case.
    #[inline]
    pub fn field(&mut self, out: &mut Vec<u8>, known: Option<Known>, name: &[u8], value: &[u8]) {
        let Some(known) = known else {
            out.push(0);
            lower_case_string(out, name);
            plain_string(out, value);
            return;
        };
        let index = static_table::name_of(known);
        match policy(known) {
            Policy::Repeats => self.repeating(out, known, index, known.as_str().as_bytes(), value),
            policy => {
                let flags = if policy == Policy::Secret { 0x10 } else { 0 };
                write_integer(out, flags, 4, index.unwrap_or(0));
                if index.is_none() {
                    lower_case_string(out, known.as_str().as_bytes());
                }
                plain_string(out, value);
            }
        }
    }

    fn repeating(
        &mut self,
        out: &mut Vec<u8>,
        known: Known,
        index: Option<usize>,
        name: &[u8],
        value: &[u8],
    ) {
        let is_same = |entry: &Entry| entry.known == known && *entry.value == *value;
        if let Some(at) = self.entries.iter().position(is_same) {
            write_integer(out, 0x80, 7, static_table::LEN + 1 + at);
            return;
        }
        let indexes = self.insert(known, value);
        let (flags, prefix) = if indexes { (0x40, 6) } else { (0, 4) };
        write_integer(out, flags, prefix, index.unwrap_or(0));
        if index.is_none() {
            lower_case_string(out, name);
        }
        let encoded = huffman::encoded_len(value);
        if indexes && encoded < value.len() {
            write_integer(out, 0x80, 7, encoded);
            huffman::encode(value, out);
        } else {
            plain_string(out, value);
        }
    }

    /// Adds an entry unless it is too large.
    fn insert(&mut self, known: Known, value: &[u8]) -> bool {
        let size = entry_size(known, value);
        if size * ENTRY_PART > self.max {
            return false;
        }
        self.evict_to(self.max - size);
        if self.entries.len() == ENTRIES_MAX {
            self.evict_last();
        }
        self.entries.push_front(Entry { known, value: value.into() });
        self.size += size;
        true
    }

    fn evict_to(&mut self, size: usize) {
        while self.size > size {
            self.evict_last();
        }
    }

    fn evict_last(&mut self) {
        let entry = self.entries.pop_back();
        self.size -= entry.map_or(self.size, |entry| entry.size());
    }
}

/// How a field is represented.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Policy {
    /// Its value is usually the one of the message before.
    Repeats,
    Plain,
    Secret,
}

fn policy(known: Known) -> Policy {
    POLICIES[known.index()]
}

static POLICIES: [Policy; Known::COUNT] = policies();

const fn policies() -> [Policy; Known::COUNT] {
    let mut policies = [Policy::Plain; Known::COUNT];
    let mut at = 0;
    while at < REPEATING.len() {
        policies[REPEATING[at] as usize] = Policy::Repeats;
        at += 1;
    }
    at = 0;
    while at < SECRET.len() {
        policies[SECRET[at] as usize] = Policy::Secret;
        at += 1;
    }
    policies
}

const REPEATING: &[Known] = &[
    Known::Accept,
    Known::AcceptCharset,
    Known::AcceptEncoding,
    Known::AcceptLanguage,
    Known::AcceptRanges,
    Known::AccessControlAllowCredentials,
    Known::AccessControlAllowHeaders,
    Known::AccessControlAllowMethods,
    Known::AccessControlAllowOrigin,
    Known::AccessControlExposeHeaders,
    Known::AccessControlMaxAge,
    Known::Allow,
    Known::AltSvc,
    Known::CacheControl,
    Known::ContentEncoding,
    Known::ContentLanguage,
    Known::ContentSecurityPolicy,
    Known::ContentType,
    Known::CrossOriginEmbedderPolicy,
    Known::CrossOriginOpenerPolicy,
    Known::CrossOriginResourcePolicy,
    Known::Date,
    Known::Nel,
    Known::Origin,
    Known::PermissionsPolicy,
    Known::Pragma,
    Known::Priority,
    Known::ReferrerPolicy,
    Known::ReportTo,
    Known::SecChUa,
    Known::SecChUaMobile,
    Known::SecChUaPlatform,
    Known::SecFetchDest,
    Known::SecFetchMode,
    Known::SecFetchSite,
    Known::Server,
    Known::StrictTransportSecurity,
    Known::Te,
    Known::Trailer,
    Known::UserAgent,
    Known::Vary,
    Known::Via,
    Known::XContentTypeOptions,
    Known::XForwardedHost,
    Known::XForwardedPort,
    Known::XForwardedProto,
    Known::XFrameOptions,
    Known::XPoweredBy,
    Known::XXssProtection,
];

const SECRET: &[Known] = &[
    Known::AuthenticationInfo,
    Known::Authorization,
    Known::ClientCert,
    Known::ClientCertChain,
    Known::Cookie,
    Known::ProxyAuthenticationInfo,
    Known::ProxyAuthorization,
    Known::SetCookie,
    Known::XApiKey,
];

/// Appends a literal without indexing whose name is an entry of the static table.
fn literal(out: &mut Vec<u8>, index: usize, value: &[u8]) {
    write_integer(out, 0, 4, index);
    plain_string(out, value);
}

#[inline]
fn plain_string(out: &mut Vec<u8>, text: &[u8]) {
    write_integer(out, 0, 7, text.len());
    out.extend_from_slice(text);
}

/// RFC 9113 8.2.1: names are in lower case.
fn lower_case_string(out: &mut Vec<u8>, text: &[u8]) {
    write_integer(out, 0, 7, text.len());
    out.extend(text.iter().map(u8::to_ascii_lowercase));
}
