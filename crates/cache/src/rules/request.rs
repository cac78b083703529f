//! Classification of requests, and their cache directives (RFC 9111 4, 5.2.1).

use message::Headers;
use wire::{Known, Method};

use super::directives::{SECONDS_MAX, directives};
use super::{Policy, UncachedReason};

/// What the cache does with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// The request is looked up.
    Lookup(RequestDirectives),
    /// The request is forwarded, and its response is not stored.
    Pass(UncachedReason),
    /// The request is forwarded, and its response invalidates stored ones (RFC 9111 4.4).
    Invalidate,
}

/// The cache directives of a request; the defaults if the policy ignores them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestDirectives {
    pub max_age_s: Option<u32>,
    /// [`SECONDS_MAX`] if max-stale has no argument.
    pub max_stale_s: Option<u32>,
    pub min_fresh_s: Option<u32>,
    /// The directive may stand in requests too (RFC 5861 4).
    pub if_error_s: Option<u32>,
    pub no_cache: bool,
    /// Nothing of the request or its response is stored, and no other request shares the response.
    pub no_store: bool,
    /// 504 instead of a request to the origin (RFC 9111 5.2.1.7).
    pub only_if_cached: bool,
    pub no_transform: bool,
}

/// Fields that change how the cache handles a request.
const SAYING: [Known; 4] =
    [Known::CacheControl, Known::Pragma, Known::IfMatch, Known::IfUnmodifiedSince];

/// Classifies a request; `content` is true if it has content.
pub fn classify(
    method: &Method,
    headers: &Headers,
    upgrade: bool,
    content: bool,
    policy: &Policy,
) -> Disposition {
    if upgrade {
        return Disposition::Pass(UncachedReason::Upgrade);
    }
    if !matches!(method, Method::Get | Method::Head) {
        return if is_safe(method) {
            Disposition::Pass(UncachedReason::Method)
        } else {
            Disposition::Invalidate
        };
    }
    if content {
        return Disposition::Pass(UncachedReason::Content);
    }
    // Most requests have none of these fields.
    if !headers.contains_any(&SAYING) {
        return Disposition::Lookup(RequestDirectives::default());
    }
    if headers.contains_any(&[Known::IfMatch, Known::IfUnmodifiedSince]) {
        return Disposition::Pass(UncachedReason::Precondition);
    }
    let asked = if policy.honour_request {
        RequestDirectives::of(headers)
    } else {
        RequestDirectives::default()
    };
    Disposition::Lookup(asked)
}

/// Methods registered as safe (RFC 9110 9.2.1 and the registry of methods). Unknown methods
/// invalidate (RFC 9111 4.4).
fn is_safe(method: &Method) -> bool {
    const OTHERS: [&[u8]; 4] = [b"PROPFIND", b"QUERY", b"REPORT", b"SEARCH"];
    method.is_safe() || OTHERS.contains(&method.as_bytes())
}

impl RequestDirectives {
    fn of(headers: &Headers) -> RequestDirectives {
        let mut asked = RequestDirectives::default();
        let mut any = false;
        for value in headers.get_all(Known::CacheControl) {
            any = true;
            for directive in directives(value) {
                if directive.is("max-age") {
                    asked.max_age_s = asked.max_age_s.or(directive.seconds());
                } else if directive.is("max-stale") {
                    let seconds = match directive.argument {
                        Some(_) => directive.seconds(),
                        None => Some(SECONDS_MAX),
                    };
                    asked.max_stale_s = asked.max_stale_s.or(seconds);
                } else if directive.is("min-fresh") {
                    asked.min_fresh_s = asked.min_fresh_s.or(directive.seconds());
                } else if directive.is("stale-if-error") {
                    asked.if_error_s = asked.if_error_s.or(directive.seconds());
                } else if directive.is("no-cache") {
                    asked.no_cache = true;
                } else if directive.is("no-store") {
                    asked.no_store = true;
                } else if directive.is("only-if-cached") {
                    asked.only_if_cached = true;
                } else if directive.is("no-transform") {
                    asked.no_transform = true;
                }
            }
        }
        // The equivalent in HTTP/1.0 (RFC 9111 5.4).
        asked.no_cache |= !any && headers.lists_token(Known::Pragma, "no-cache");
        asked
    }
}
