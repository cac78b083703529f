//! Whether a stored response may be used for a request (RFC 9111 4, 4.2; RFC 5861).
//!
//! Freshness and age are whole seconds and saturate. The key has already selected the response (RFC
//! 9111 4: target, method and Vary); here time and directives decide.

use super::{Flags, Forward, Meta, RequestDirectives};
use wire::cache_control::SECONDS_MAX;

/// How a stored response may be used for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// It is served.
    Use {
        /// The Age to send (RFC 9111 5.1).
        age_s: u32,
        /// Remaining freshness, negative if stale: the `ttl` of Cache-Status.
        left_s: i64,
        /// It is stale, and is revalidated in the background (RFC 5861 3).
        refresh: bool,
    },
    /// It is revalidated first.
    Validate {
        why: Forward,
        age_s: u32,
        left_s: i64,
        /// Whether it may be served if the origin fails *now*; once it has failed,
        /// [`may_serve_on_error`] decides.
        if_error: bool,
    },
    /// The client accepts only a stored response, and this one cannot be used: 504.
    OnlyIfCached,
}

/// `current_age` (RFC 9111 4.2.3).
pub fn age_s(meta: &Meta, now_secs: u64) -> u32 {
    let resident_s = now_secs.saturating_sub(meta.received_secs).min(u64::from(SECONDS_MAX));
    meta.initial_age_s.saturating_add(resident_s as u32).min(SECONDS_MAX)
}

/// Remaining freshness, negative if stale.
pub fn left_s(meta: &Meta, now_secs: u64) -> i64 {
    i64::from(meta.lifetime_s) - i64::from(age_s(meta, now_secs))
}

/// Decides whether a stored response may be used. `soft_stale` is true if it was purged softly.
pub fn evaluate(
    meta: &Meta,
    soft_stale: bool,
    request_directives: &RequestDirectives,
    now_secs: u64,
) -> Reuse {
    let age_s = age_s(meta, now_secs);
    let left_s = i64::from(meta.lifetime_s) - i64::from(age_s);
    // RFC 9111 4.2: a response is fresh until it reaches its lifetime.
    let fresh = left_s > 0 && !soft_stale && !meta.flags.has(Flags::NO_CACHE);
    let stale_s = (-left_s).max(0) as u64;
    let verdict = if fresh {
        is_refused(meta, request_directives, age_s, left_s).then_some(Forward::Request)
    } else {
        Some(Forward::Stale)
    };
    let Some(why) = verdict else {
        return Reuse::Use { age_s, left_s, refresh: false };
    };
    if why == Forward::Stale && may_be_stale(meta) && !request_directives.no_cache {
        // RFC 9111 5.2.1.2; max-age limits the age all the same.
        let accepted =
            request_directives.max_stale_s.is_some_and(|most| stale_s <= u64::from(most));
        let in_age = request_directives.max_age_s.is_none_or(|most| age_s <= most);
        if accepted && in_age && request_directives.min_fresh_s.is_none() && !soft_stale {
            return Reuse::Use { age_s, left_s, refresh: false };
        }
        // RFC 5861 3, unless the request limits the age.
        let behind = stale_s < u64::from(meta.while_revalidate_s);
        let limited = request_directives
            .max_age_s
            .or(request_directives.min_fresh_s)
            .or(request_directives.max_stale_s)
            .is_some();
        if behind && !limited {
            return Reuse::Use { age_s, left_s, refresh: true };
        }
    }
    if request_directives.only_if_cached {
        return Reuse::OnlyIfCached;
    }
    let if_error = may_serve_on_error(meta, request_directives, now_secs);
    Reuse::Validate { why, age_s, left_s, if_error }
}

/// True if the request does not accept this fresh response (RFC 9111 5.2.1).
fn is_refused(
    meta: &Meta,
    request_directives: &RequestDirectives,
    age_s: u32,
    left_s: i64,
) -> bool {
    // RFC 8246 2: an immutable response is not revalidated while it is fresh, unless the request
    // says no-cache.
    let too_old = request_directives.max_age_s.is_some_and(|most| age_s > most);
    request_directives.no_cache
        || too_old && !meta.flags.has(Flags::IMMUTABLE)
        || request_directives.min_fresh_s.is_some_and(|least| left_s < i64::from(least))
}

/// True unless the response forbids stale use (RFC 9111 4.2.4).
fn may_be_stale(meta: &Meta) -> bool {
    !meta.flags.has(Flags::NO_CACHE) && !meta.flags.has(Flags::MUST_REVALIDATE)
}

/// True if it may be served after the origin failed to validate it (RFC 5861 4; RFC 9111 4.2.4).
pub fn may_serve_on_error(
    meta: &Meta,
    request_directives: &RequestDirectives,
    now_secs: u64,
) -> bool {
    let most_s = meta.if_error_s.max(request_directives.if_error_s.unwrap_or(0));
    let stale_s = -left_s(meta, now_secs);
    may_be_stale(meta) && most_s > 0 && stale_s <= i64::from(most_s)
}
