//! Records: the content of segments.
//!
//! A record is a header of fixed length, the description of an object (its key first), and the
//! object's content. Header and description have one checksum, the content another, so that a scan
//! does not read contents. Long content begins a page of its file: with pages that are partly used
//! at both ends, the kernel needs two packets for a response that fits in one. Promises that a
//! decoded record equals the encoded one: a record that was cut off or changed is rejected. Numbers
//! are little-endian.

use std::io;

use bytes::Bytes;
use coding::Coding;
use message::{Headers, SharedHeaders};
use wire::token::{is_field_value, is_token};

use crate::limits::{DISK_HEAD_BYTES_MAX, DISK_PAGE_BYTES, MEMORY_FILE_BYTES_MIN};
use crate::rules::{Flags, Meta, SearchRule, Vary};
use crate::{Content, Hits, Key, Object, ObjectKind, StoredResponse};

/// Length of a header.
pub(super) const HEADER_BYTES: usize = 40;
/// The first bytes of a record; another number is another format.
const MAGIC: u32 = u32::from_le_bytes(*b"TGr1");
/// Length of the header's part that is in the checksum of header and description.
const CHECKED_BYTES: usize = 36;

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordKind {
    Response = 1,
    Varies = 2,
    Search = 3,
    /// A purge: older records that it covers are removed.
    Purge = 4,
}

impl RecordKind {
    fn of(byte: u8) -> Option<RecordKind> {
        let all = [RecordKind::Response, RecordKind::Varies, RecordKind::Search, RecordKind::Purge];
        all.into_iter().find(|form| *form as u8 == byte)
    }
}

/// The header of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecordHeader {
    pub(super) form: RecordKind,
    /// Length of the description.
    pub(super) head_len: u32,
    /// Bytes between the description and the content.
    gap_len: u32,
    pub(super) content_len: u64,
    /// The purge epoch of the fetch, or that of the purge itself.
    pub(super) time: u64,
    pub(super) content_crc: u32,
    head_crc: u32,
}

impl RecordHeader {
    /// Makes the header of a record with this description, without a gap.
    pub(super) fn new(
        form: RecordKind,
        time: u64,
        head: &[u8],
        content: (u64, u32),
    ) -> RecordHeader {
        let head_len = u32::try_from(head.len()).unwrap_or(u32::MAX);
        let (content_len, content_crc) = content;
        let mut header = RecordHeader {
            form,
            head_len,
            gap_len: 0,
            content_len,
            time,
            content_crc,
            head_crc: 0,
        };
        header.head_crc = header.checksum(head);
        header
    }

    /// The header of this record at an offset in a file.
    pub(super) fn placed(mut self, offset: u64, head: &[u8]) -> RecordHeader {
        self.gap_len = 0;
        if self.content_len >= MEMORY_FILE_BYTES_MIN {
            let begin = offset + self.content_at() as u64;
            self.gap_len = (begin.next_multiple_of(DISK_PAGE_BYTES) - begin) as u32;
        }
        self.head_crc = self.checksum(head);
        self
    }

    fn checksum(&self, head: &[u8]) -> u32 {
        let mut crc = crc32fast::Hasher::new();
        crc.update(&self.bytes()[..CHECKED_BYTES]);
        crc.update(head);
        crc.finalize()
    }

    pub(super) fn bytes(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[4] = self.form as u8;
        bytes[8..12].copy_from_slice(&self.head_len.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.gap_len.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.content_len.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.time.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.content_crc.to_le_bytes());
        bytes[36..].copy_from_slice(&self.head_crc.to_le_bytes());
        bytes
    }

    /// Parses a header; `None` if it is not one.
    pub(super) fn parse(bytes: &[u8; HEADER_BYTES]) -> Option<RecordHeader> {
        let mut input = RecordReader(bytes);
        if input.u32()? != MAGIC {
            return None;
        }
        let form = RecordKind::of(input.u8()?)?;
        input.take(3)?;
        let (head_len, gap_len) = (input.u32()?, input.u32()?);
        let (content_len, time) = (input.u64()?, input.u64()?);
        let (content_crc, head_crc) = (input.u32()?, input.u32()?);
        let header =
            RecordHeader { form, head_len, gap_len, content_len, time, content_crc, head_crc };
        let sane = head_len as usize <= DISK_HEAD_BYTES_MAX
            && u64::from(gap_len) < DISK_PAGE_BYTES
            && header.bytes() == *bytes;
        sane.then_some(header)
    }

    /// True if this is the description of the record.
    pub(super) fn fits(&self, head: &[u8]) -> bool {
        head.len() == self.head_len as usize && self.checksum(head) == self.head_crc
    }

    /// Where in the record the content begins.
    pub(super) fn content_at(&self) -> usize {
        HEADER_BYTES + self.head_len as usize + self.gap_len as usize
    }

    /// Length of the whole record.
    pub(super) fn record_len(&self) -> u64 {
        (self.content_at() as u64).saturating_add(self.content_len)
    }

    /// Length of the whole record with the longest gap.
    pub(super) fn record_len_max(&self) -> u64 {
        let is_long = self.content_len >= MEMORY_FILE_BYTES_MIN;
        self.record_len().saturating_add(if is_long { DISK_PAGE_BYTES } else { 0 })
    }
}

/// Encodes the description of an object; `None` for objects that are not stored on disk.
pub(super) fn encode(object: &Object) -> Option<(RecordKind, Vec<u8>)> {
    let mut out = Vec::with_capacity(512);
    put_bytes(&mut out, object.key.text());
    put_u32(&mut out, object.key.url().len());
    let form = match &object.kind {
        ObjectKind::Response(response) if !response.derived => {
            put_response(&mut out, response);
            RecordKind::Response
        }
        ObjectKind::Varies(vary) => {
            put_list(&mut out, &vary.fields);
            RecordKind::Varies
        }
        ObjectKind::NoVarySearch(rule) => {
            out.extend_from_slice(&[u8::from(rule.key_order), u8::from(rule.all)]);
            put_list(&mut out, &rule.params);
            RecordKind::Search
        }
        ObjectKind::Response(_) | ObjectKind::Parts(_) | ObjectKind::Uncacheable { .. } => {
            return None;
        }
    };
    (out.len() <= DISK_HEAD_BYTES_MAX).then_some((form, out))
}

/// Decodes a description and encodes it again.
pub(super) fn reencoded(form: u8, head: &[u8]) -> Option<Vec<u8>> {
    let object = decode(RecordKind::of(form)?, head, Content::Memory(Bytes::new()))?;
    Some(encode(&object)?.1)
}

/// Decodes the key of a description.
pub(super) fn key(head: &[u8]) -> Option<Key> {
    RecordReader(head).key()
}

/// Decodes an object with this content.
pub(super) fn decode(form: RecordKind, head: &[u8], content: Content) -> Option<Object> {
    let mut input = RecordReader(head);
    let key = input.key()?;
    let kind = match form {
        RecordKind::Response => ObjectKind::Response(input.response(content)?),
        RecordKind::Varies => ObjectKind::Varies(Vary { fields: input.list()? }),
        RecordKind::Search => {
            let (key_order, all) = (input.flag()?, input.flag()?);
            ObjectKind::NoVarySearch(SearchRule { key_order, all, params: input.list()? })
        }
        RecordKind::Purge => return None,
    };
    input.0.is_empty().then(|| Object { key, kind, state: Default::default() })
}

fn put_u32(out: &mut Vec<u8>, number: usize) {
    out.extend_from_slice(&u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes());
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_u32(out, bytes.len());
    out.extend_from_slice(bytes);
}

fn put_list(out: &mut Vec<u8>, list: &[Box<[u8]>]) {
    put_u32(out, list.len());
    list.iter().for_each(|bytes| put_bytes(out, bytes));
}

fn put_fields(out: &mut Vec<u8>, headers: &Headers) {
    put_u32(out, headers.len());
    for field in headers.iter() {
        put_bytes(out, field.name);
        put_bytes(out, field.value);
    }
}

fn put_response(out: &mut Vec<u8>, response: &StoredResponse) {
    let meta = &response.meta;
    out.extend_from_slice(&response.version.to_le_bytes());
    out.extend_from_slice(&meta.status.to_le_bytes());
    let coding = response.coding.map_or(0, |coding| coding as u8 + 1);
    out.extend_from_slice(&[meta.flags.bits(), coding]);
    out.extend_from_slice(&meta.received_secs.to_le_bytes());
    for span_s in [meta.initial_age_s, meta.lifetime_s, meta.while_revalidate_s, meta.if_error_s] {
        out.extend_from_slice(&span_s.to_le_bytes());
    }
    put_u32(out, response.tags.len());
    response.tags.iter().for_each(|tag| out.extend_from_slice(&tag.to_le_bytes()));
    put_fields(out, &response.head.headers());
    let hidden = response.hidden.as_ref().map(|hidden| hidden.headers()).unwrap_or_default();
    put_fields(out, &hidden);
}

/// The rest of a description; each method returns `None` if too little is left.
struct RecordReader<'a>(&'a [u8]);

impl<'a> RecordReader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    fn flag(&mut self) -> Option<bool> {
        match self.u8()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.u32()? as usize;
        self.take(length)
    }

    /// Reads a count of items of at least `each` bytes: no more memory is reserved than the rest
    /// can need.
    fn count(&mut self, each: usize) -> Option<usize> {
        let count = self.u32()? as usize;
        (count.checked_mul(each)? <= self.0.len()).then_some(count)
    }

    fn list(&mut self) -> Option<Box<[Box<[u8]>]>> {
        let count = self.count(4)?;
        (0..count).map(|_| self.bytes().map(Box::from)).collect()
    }

    fn key(&mut self) -> Option<Key> {
        let text = self.bytes()?;
        let url_len = self.u32()? as usize;
        (url_len <= text.len()).then(|| Key::new(text, url_len))
    }

    fn fields(&mut self) -> Option<Headers> {
        let mut headers = Headers::new();
        for _ in 0..self.count(8)? {
            let (name, value) = (self.bytes()?, self.bytes()?);
            // Invalid names and values are rejected, as in a message.
            if !is_token(name) || !is_field_value(value) {
                return None;
            }
            headers.append(name, value);
        }
        Some(headers)
    }

    fn response(&mut self, content: Content) -> Option<StoredResponse> {
        let version = self.u64()?;
        let (status, flags) = (self.u16()?, Flags::from_bits(self.u8()?));
        let coding = match self.u8()? {
            0 => None,
            number => Some(*Coding::ALL.get(usize::from(number) - 1)?),
        };
        let meta = Meta {
            status,
            flags,
            received_secs: self.u64()?,
            initial_age_s: self.u32()?,
            lifetime_s: self.u32()?,
            while_revalidate_s: self.u32()?,
            if_error_s: self.u32()?,
        };
        let count = self.count(8)?;
        let tags = (0..count).map(|_| self.u64()).collect::<Option<_>>()?;
        let head = SharedHeaders::from(&self.fields()?);
        let hidden = self.fields()?;
        let hidden = (!hidden.is_empty()).then(|| Box::new(SharedHeaders::from(&hidden)));
        let (derived, hits) = (false, Hits::default());
        Some(StoredResponse { version, meta, head, hidden, content, coding, derived, hits, tags })
    }
}

/// The checksum of content that is read in pieces.
pub(super) fn checksum(content: &Content) -> io::Result<u32> {
    let mut crc = crc32fast::Hasher::new();
    super::pieces(content, |piece| {
        crc.update(piece);
        Ok(())
    })?;
    Ok(crc.finalize())
}

#[cfg(test)]
mod tests;
