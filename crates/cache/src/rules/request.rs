//! Classification of requests, and their cache directives (RFC 9111 4, 5.2.1).

use message::Headers;
use wire::cache_control::{SECONDS_MAX, directives};
use wire::{Known, Method};

use super::{Policy, UncachedReason};

/// How the cache handles a request.
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
    let request_directives = if policy.honour_request {
        RequestDirectives::of(headers)
    } else {
        RequestDirectives::default()
    };
    Disposition::Lookup(request_directives)
}

/// Methods registered as safe (RFC 9110 9.2.1 and the registry of methods). Unknown methods
/// invalidate (RFC 9111 4.4).
fn is_safe(method: &Method) -> bool {
    const OTHERS: [&[u8]; 4] = [b"PROPFIND", b"QUERY", b"REPORT", b"SEARCH"];
    method.is_safe() || OTHERS.contains(&method.as_bytes())
}

impl RequestDirectives {
    fn of(headers: &Headers) -> RequestDirectives {
        let mut request_directives = RequestDirectives::default();
        let mut any = false;
        for value in headers.get_all(Known::CacheControl) {
            any = true;
            for directive in directives(value) {
                if directive.is("max-age") {
                    request_directives.max_age_s =
                        request_directives.max_age_s.or(directive.seconds());
                } else if directive.is("max-stale") {
                    let seconds = match directive.argument {
                        Some(_) => directive.seconds(),
                        None => Some(SECONDS_MAX),
                    };
                    request_directives.max_stale_s = request_directives.max_stale_s.or(seconds);
                } else if directive.is("min-fresh") {
                    request_directives.min_fresh_s =
                        request_directives.min_fresh_s.or(directive.seconds());
                } else if directive.is("stale-if-error") {
                    request_directives.if_error_s =
                        request_directives.if_error_s.or(directive.seconds());
                } else if directive.is("no-cache") {
                    request_directives.no_cache = true;
                } else if directive.is("no-store") {
                    request_directives.no_store = true;
                } else if directive.is("only-if-cached") {
                    request_directives.only_if_cached = true;
                } else if directive.is("no-transform") {
                    request_directives.no_transform = true;
                }
            }
        }
        // The equivalent in HTTP/1.0 (RFC 9111 5.4).
        request_directives.no_cache |= !any && headers.lists_token(Known::Pragma, "no-cache");
        request_directives
    }
}
