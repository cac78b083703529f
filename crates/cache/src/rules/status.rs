//! Cache-Status (RFC 9211): how the cache handled a request.
//!
//! Allocates nothing besides the given buffer. What cannot be written as a structured field is left
//! out.

use message::Headers;
use wire::Known;

use super::{Forward, UncachedReason};

/// How the cache handled a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status<'a> {
    pub outcome: CacheOutcome,
    /// Remaining freshness in seconds, negative if stale.
    pub ttl_s: Option<i64>,
    /// The key, if it may be shown.
    pub key: Option<&'a [u8]>,
    /// Details, such as why a response was not stored.
    pub detail: Option<&'a str>,
}

/// Where the response came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheOutcome {
    Hit,
    Forwarded {
        why: Forward,
        /// The status of the origin's response, if the client got another.
        status: Option<u16>,
        stored: bool,
        /// Whether the request shared another request's fetch.
        collapsed: bool,
    },
}

impl<'a> Status<'a> {
    pub fn hit(ttl_s: i64) -> Status<'a> {
        Status { outcome: CacheOutcome::Hit, ttl_s: Some(ttl_s), key: None, detail: None }
    }

    pub fn forwarded(why: Forward) -> Status<'a> {
        let outcome =
            CacheOutcome::Forwarded { why, status: None, stored: false, collapsed: false };
        Status { outcome, ttl_s: None, key: None, detail: None }
    }

    /// The status of a request that is forwarded without the cache.
    pub fn passed(reason: UncachedReason) -> Status<'a> {
        Status { detail: Some(reason.slug()), ..Status::forwarded(reason.forward()) }
    }

    /// The same with the reason why the response was not stored.
    pub fn refused(self, reason: UncachedReason) -> Status<'a> {
        Status { detail: Some(reason.slug()), ..self }
    }
}

/// Appends one member. `cache` names this cache, as a token if possible, else as a string.
pub fn write(cache: &str, status: &Status<'_>, out: &mut Vec<u8>) {
    match is_sf_token(cache.as_bytes()) {
        true => out.extend_from_slice(cache.as_bytes()),
        false => string(cache.as_bytes(), out),
    }
    match status.outcome {
        CacheOutcome::Hit => out.extend_from_slice(b"; hit"),
        CacheOutcome::Forwarded { why, status, stored, collapsed } => {
            out.extend_from_slice(b"; fwd=");
            out.extend_from_slice(why.token().as_bytes());
            if let Some(status) = status {
                out.extend_from_slice(b"; fwd-status=");
                out.extend_from_slice(itoa::Buffer::new().format(status).as_bytes());
            }
            for (set, text) in [(stored, &b"; stored"[..]), (collapsed, b"; collapsed")] {
                if set {
                    out.extend_from_slice(text);
                }
            }
        }
    }
    if let Some(ttl_s) = status.ttl_s {
        out.extend_from_slice(b"; ttl=");
        out.extend_from_slice(itoa::Buffer::new().format(ttl_s).as_bytes());
    }
    if let Some(key) = status.key {
        out.extend_from_slice(b"; key=");
        string(key, out);
    }
    if let Some(detail) = status.detail {
        out.extend_from_slice(b"; detail=");
        match is_sf_token(detail.as_bytes()) {
            true => out.extend_from_slice(detail.as_bytes()),
            false => string(detail.as_bytes(), out),
        }
    }
}

/// Appends a member, as a line of its own, to those of caches nearer to the origin (RFC 9211 2).
pub fn add(cache: &str, status: &Status<'_>, headers: &mut Headers) {
    let mut value = Vec::with_capacity(64);
    write(cache, status, &mut value);
    headers.append(Known::CacheStatus, &value);
}

/// Appends a string; bytes that no string may contain become `?`.
fn string(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for &byte in text {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            0x20..=0x7e => out.push(byte),
            _ => out.push(b'?'),
        }
    }
    out.push(b'"');
}

fn is_sf_token(text: &[u8]) -> bool {
    let first = text.first().is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'*');
    first && text.iter().all(|&byte| wire::token::is_tchar(byte) || matches!(byte, b':' | b'/'))
}

/// The value of `X-Status`.
pub fn word(status: &Status<'_>) -> &'static str {
    match status.outcome {
        CacheOutcome::Hit => "hit",
        CacheOutcome::Forwarded { stored: true, .. } => "fetching",
        CacheOutcome::Forwarded {
            why: Forward::Bypass | Forward::Method | Forward::Request,
            ..
        } => "passed",
        CacheOutcome::Forwarded { .. } => "hitForPass",
    }
}
