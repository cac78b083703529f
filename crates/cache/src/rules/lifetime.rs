//! The lifetime of a response, and its age when it was received (RFC 9111 4.2.1 to 4.2.3).

use message::Headers;
use wire::cache_control::{SECONDS_MAX, seconds};
use wire::{Known, token};

use super::Policy;
use super::date::http_date;
use super::directives::Directives;

/// When the response was requested and when its head was received, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    pub requested_secs: u64,
    pub received_secs: u64,
}

/// A lifetime, and whether it is heuristic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lifetime {
    pub(crate) seconds: u32,
    pub(crate) guessed: bool,
}

/// Statuses that may be stored without explicit freshness (RFC 9110 15.1, RFC 7725 3), except 206.
pub(crate) fn is_heuristically_cacheable(status: u16) -> bool {
    matches!(status, 200 | 203 | 204 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 451 | 501)
}

/// The origin's Date; without a valid one, when the response was received (RFC 9110 6.6.1).
pub(crate) fn date_secs(headers: &Headers, times: Times) -> u64 {
    headers.get(Known::Date).and_then(http_date).unwrap_or(times.received_secs)
}

/// `corrected_initial_age` (RFC 9111 4.2.3).
pub(crate) fn initial_age_s(headers: &Headers, times: Times) -> u32 {
    let apparent_s = times.received_secs.saturating_sub(date_secs(headers, times));
    let delay_s = times.received_secs.saturating_sub(times.requested_secs);
    let corrected_s = u64::from(age_value_s(headers)).saturating_add(delay_s);
    apparent_s.max(corrected_s).min(u64::from(SECONDS_MAX)) as u32
}

/// `age_value`: the first member of Age, 0 if it is invalid (RFC 9111 5.1).
fn age_value_s(headers: &Headers) -> u32 {
    let value = headers.get(Known::Age).unwrap_or_default();
    let first = value.split(|&byte| byte == b',').next().unwrap_or_default();
    seconds(token::trim(first)).unwrap_or(0)
}

/// The explicit `freshness_lifetime` (RFC 9111 4.2.1). Expires counts unless a targeted field
/// replaces it (RFC 9213 2.2).
pub(crate) fn explicit_s(
    directives: &Directives,
    headers: &Headers,
    expires_counts: bool,
    times: Times,
) -> Option<u32> {
    if let Some(seconds) = directives.s_maxage_s.or(directives.max_age_s) {
        return Some(seconds);
    }
    let expires = headers.get(Known::Expires).filter(|_| expires_counts)?;
    // Invalid dates, "0" above all, are in the past (RFC 9111 5.3).
    let expires_secs = http_date(expires).unwrap_or(0);
    let seconds = expires_secs.saturating_sub(date_secs(headers, times));
    Some(seconds.min(u64::from(SECONDS_MAX)) as u32)
}

/// The lifetime by origin and policy; `None` if neither gives one.
pub(crate) fn lifetime(
    directives: &Directives,
    explicit_s: Option<u32>,
    status: u16,
    headers: &Headers,
    times: Times,
    policy: &Policy,
) -> Option<Lifetime> {
    let most_s = policy.ttl_max_s(status);
    if let Some(explicit_s) = explicit_s {
        // 0 is obeyed: the minimum only raises other lifetimes.
        let raised_s = if explicit_s > 0 { explicit_s.max(policy.ttl_min_s) } else { 0 };
        return Some(Lifetime { seconds: raised_s.min(most_s), guessed: false });
    }
    // RFC 9111 4.2.2: heuristic freshness needs such a status or `public`.
    if !is_heuristically_cacheable(status) && !directives.public {
        return None;
    }
    let guess_s = guess_s(headers, times, policy).unwrap_or(policy.default_ttl_s);
    (guess_s > 0).then(|| Lifetime { seconds: guess_s.min(most_s), guessed: true })
}

/// A fraction of the time since the last modification (RFC 9111 4.2.2).
fn guess_s(headers: &Headers, times: Times, policy: &Policy) -> Option<u32> {
    let heuristic = policy.heuristic?;
    let modified_secs = headers.get(Known::LastModified).and_then(http_date)?;
    let since_s = date_secs(headers, times).checked_sub(modified_secs)?;
    let part_s = since_s.saturating_mul(u64::from(heuristic.percent)) / 100;
    let guess_s = part_s.min(u64::from(heuristic.ttl_max_s)) as u32;
    (guess_s > 0).then_some(guess_s)
}
