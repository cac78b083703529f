//! Whether a response is stored, and with which facts (RFC 9111 3).
//!
//! A response that a 304 has revalidated is evaluated again with its merged headers.

use message::Headers;
use wire::conditional::EntityTag;
use wire::date::format_http_date;
use wire::range::{ByteRange, read_content_range};
use wire::{Known, Method};

use super::date::http_date;
use super::directives::Directives;
use super::lifetime::{self, Lifetime, Times};
use super::{Flags, Meta, Policy, RequestDirectives, SearchRule, SetCookie, UncachedReason, Vary};
use super::{search, split_headers, tags, targeted, vary};

/// The request whose response is evaluated.
#[derive(Clone, Copy)]
pub struct FetchContext<'a> {
    pub method: &'a Method,
    /// The fields of the request.
    pub request: &'a Headers,
    pub directives: &'a RequestDirectives,
    /// `scheme://authority` of the URL: cache groups belong to an origin (RFC 9875 2.1).
    pub origin: &'a [u8],
    pub times: Times,
}

/// A response that may be stored.
#[derive(Debug)]
pub struct StorableResponse {
    pub meta: Meta,
    /// The headers to store and to send.
    pub head: Headers,
    /// Headers to store for the next merge and never to send.
    pub hidden: Headers,
    /// Headers that are not stored, for the client that caused the fetch alone.
    pub private: Headers,
    /// The fields it varies by, except those that the cache normalises.
    pub vary: Option<Vary>,
    pub tags: Box<[u64]>,
    pub search: Option<SearchRule>,
    /// Whether followers may get this response (RFC 9111 4): it is fresh, or may be served stale.
    /// Other responses are stored for revalidation, by each request for itself.
    pub share: bool,
}

/// Decides whether a response is stored.
pub fn evaluate(
    fetch: &FetchContext<'_>,
    status: u16,
    headers: &Headers,
    policy: &Policy,
) -> Result<StorableResponse, UncachedReason> {
    is_storable_kind(fetch.method, status)?;
    let chosen = targeted::choose(headers, policy);
    let directives = &chosen.directives;
    may_store(fetch, status, headers, directives, policy)?;
    let explicit_s = lifetime::explicit_s(directives, headers, !chosen.targeted, fetch.times);
    let found = lifetime::lifetime(directives, explicit_s, status, headers, fetch.times, policy);
    let meta = meta(status, headers, directives, found, fetch.times, policy);
    is_of_use(&meta, found, directives, status, policy)?;
    let vary = vary::of_response(headers)?;
    let tags = tags::of_response(headers, fetch.origin)?;
    let mut divided = split_headers::split(headers, &directives.fields, policy);
    // A response without a date gets that of its arrival (RFC 9110 6.6.1).
    let date_secs = lifetime::date_secs(headers, fetch.times);
    if divided.shown.get(Known::Date).and_then(http_date).is_none() {
        divided.shown.set(Known::Date, format_http_date(date_secs));
    }
    let served_s = meta.lifetime_s.saturating_add(meta.while_revalidate_s);
    Ok(StorableResponse {
        share: served_s > meta.initial_age_s && !meta.flags.has(Flags::NO_CACHE),
        meta,
        head: divided.shown,
        hidden: divided.hidden,
        private: divided.private,
        vary,
        tags,
        search: policy.no_vary_search.then(|| search::of_response(headers)).flatten(),
    })
}

/// Decides whether a part of a response that is too long to be stored whole is stored (RFC 9111
/// 3.3); returns its range and the length of the whole. It is as fresh as the whole would be.
pub fn evaluate_part(
    fetch: &FetchContext<'_>,
    headers: &Headers,
    policy: &Policy,
) -> Result<(StorableResponse, ByteRange, u64), UncachedReason> {
    // Only a strong validator proves that parts belong together (RFC 9110 15.3.7.3).
    let tag = headers.get(Known::Etag).and_then(EntityTag::parse);
    let strong = tag.is_some_and(|tag| !tag.weak) && headers.get_all(Known::Etag).count() == 1;
    let coded = headers.contains(Known::ContentEncoding);
    let place = headers.get(Known::ContentRange).and_then(read_content_range);
    let one = headers.get_all(Known::ContentRange).count() == 1;
    let (range, length) =
        place.filter(|_| strong && one && !coded).ok_or(UncachedReason::Partial)?;
    Ok((evaluate(fetch, 200, headers, policy)?, range, length))
}

/// Checks method and status (RFC 9111 3): final, complete and understood.
fn is_storable_kind(method: &Method, status: u16) -> Result<(), UncachedReason> {
    match method {
        Method::Get => {}
        Method::Head => return Err(UncachedReason::Head),
        _ => return Err(UncachedReason::Method),
    }
    match status {
        206 => Err(UncachedReason::Partial),
        200..=599 if !is_never_stored(status) => Ok(()),
        _ => Err(UncachedReason::Status),
    }
}

/// Statuses for one request alone: by its conditions (the cache sends only its own) or its client
/// (RFC 6585 3 to 6).
fn is_never_stored(status: u16) -> bool {
    matches!(status, 304 | 412 | 416 | 428 | 429 | 431 | 511)
}

/// Statuses that the cache understands (RFC 9110 15), for must-understand.
fn is_understood(status: u16) -> bool {
    lifetime::is_heuristically_cacheable(status)
        || matches!(status, 201 | 202 | 302 | 303 | 307 | 400..=403 | 406 | 409 | 415)
        || matches!(status, 500 | 502..=504)
}

/// Checks what forbids storing (RFC 9111 3, 3.5, 5.2.1.5, 5.2.2.3, 5.2.2.5, 5.2.2.7).
fn may_store(
    fetch: &FetchContext<'_>,
    status: u16,
    headers: &Headers,
    directives: &Directives,
    policy: &Policy,
) -> Result<(), UncachedReason> {
    if fetch.directives.no_store {
        return Err(UncachedReason::RequestNoStore);
    }
    if directives.must_understand && !is_understood(status) {
        return Err(UncachedReason::Status);
    }
    // If understood, must-understand replaces no-store.
    if directives.no_store && !directives.must_understand {
        return Err(UncachedReason::NoStore);
    }
    if directives.private {
        return Err(UncachedReason::Private);
    }
    let shared = directives.public || directives.must_revalidate || directives.s_maxage_s.is_some();
    if fetch.request.contains(Known::Authorization) && !shared {
        return Err(UncachedReason::Authorization);
    }
    let is_named = |name: &[u8]| directives.fields.iter().any(|named| **named == *name);
    // Without this field no other client could read the content.
    if is_named(b"content-encoding") && headers.contains(Known::ContentEncoding) {
        return Err(UncachedReason::Private);
    }
    let cookie = headers.contains(Known::SetCookie) && !is_named(b"set-cookie");
    if cookie && policy.set_cookie == SetCookie::Refuse {
        return Err(UncachedReason::SetCookie);
    }
    Ok(())
}

fn meta(
    status: u16,
    headers: &Headers,
    directives: &Directives,
    lifetime: Option<Lifetime>,
    times: Times,
    policy: &Policy,
) -> Meta {
    let strict = directives.must_revalidate
        || directives.proxy_revalidate
        || directives.s_maxage_s.is_some();
    let validator = headers.contains_any(&[Known::Etag, Known::LastModified]);
    let flags = [
        (strict, Flags::MUST_REVALIDATE),
        (directives.no_cache, Flags::NO_CACHE),
        (directives.no_transform, Flags::NO_TRANSFORM),
        (directives.immutable, Flags::IMMUTABLE),
        (lifetime.is_some_and(|lifetime| lifetime.guessed), Flags::HEURISTIC),
        (validator, Flags::VALIDATOR),
    ];
    let flags = flags
        .iter()
        .filter(|(set, _)| *set)
        .fold(Flags::default(), |flags, (_, flag)| flags.with(*flag));
    let forbidden = strict || directives.no_cache;
    let window = |said_s: Option<u32>, floor_s: u32| match forbidden {
        true => 0,
        false => said_s.unwrap_or(0).max(floor_s),
    };
    Meta {
        status,
        flags,
        received_secs: times.received_secs,
        initial_age_s: lifetime::initial_age_s(headers, times),
        lifetime_s: lifetime.map_or(0, |lifetime| lifetime.seconds),
        while_revalidate_s: window(directives.while_revalidate_s, policy.while_revalidate_s),
        if_error_s: window(directives.if_error_s, policy.if_error_s),
    }
}

/// Checks that the stored response could be used: it is fresh for a while, or can be revalidated.
fn is_of_use(
    meta: &Meta,
    lifetime: Option<Lifetime>,
    directives: &Directives,
    status: u16,
    policy: &Policy,
) -> Result<(), UncachedReason> {
    if policy.ttl_max_s(status) == 0 {
        return Err(UncachedReason::Ceiling);
    }
    // Without a lifetime, no-cache means revalidation before each use; the response may be stored
    // for that if its status or `public` allows it (RFC 9111 3).
    let allowed = lifetime::is_heuristically_cacheable(status) || directives.public;
    if lifetime.is_none() && !(directives.no_cache && allowed) {
        return Err(UncachedReason::NoLifetime);
    }
    let window_s = meta.while_revalidate_s.max(meta.if_error_s);
    let usable = !meta.flags.has(Flags::NO_CACHE)
        && meta.lifetime_s.saturating_add(window_s) > meta.initial_age_s;
    match usable || meta.flags.has(Flags::VALIDATOR) {
        true => Ok(()),
        false => Err(UncachedReason::Stale),
    }
}
