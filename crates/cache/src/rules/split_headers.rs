//! Which fields of a response are kept, and which are sent on (RFC 9111 3.1).

use exchange::{Field, Headers};
use wire::{Known, token};

use super::{Policy, SetCookie};

/// The fields of a response, divided.
pub(crate) struct SplitHeaders {
    /// To keep and to send.
    pub(crate) shown: Headers,
    /// To keep for a later merge, never to send: what the origin says to us alone.
    pub(crate) hidden: Headers,
    /// Never stored: only the client that caused the fetch gets them (RFC 9111 5.2.2.4, 5.2.2.7).
    pub(crate) private: Headers,
}

/// Divides a response's fields; `named` are those that qualified directives name.
pub(crate) fn split(headers: &Headers, named: &[Box<[u8]>], policy: &Policy) -> SplitHeaders {
    let mut divided =
        SplitHeaders { shown: Headers::new(), hidden: Headers::new(), private: Headers::new() };
    for field in headers.iter() {
        if is_hop_by_hop_field(&field, headers) || is_generated_per_response(&field) {
            continue;
        }
        let cookie = field.known == Some(Known::SetCookie) && policy.set_cookie != SetCookie::Store;
        let named = || named.iter().any(|name| name.eq_ignore_ascii_case(field.name));
        let part = match is_for_us(&field, policy) {
            false if cookie || named() => &mut divided.private,
            false => &mut divided.shown,
            true if named() => continue,
            true => &mut divided.hidden,
        };
        part.append(field.name, field.value);
    }
    divided
}

/// Fields that say something to a cache like ours alone: nobody behind us sees them, whether the
/// response is stored or not. A targeted field that the policy does not read is passed on (RFC 9213
/// 2.2), and so is the one for all delivery networks.
fn is_for_us(field: &Field<'_>, policy: &Policy) -> bool {
    match field.known {
        Some(Known::SurrogateKey | Known::CacheTag) => true,
        Some(Known::SurrogateControl) => policy.surrogate_control,
        Some(Known::CdnCacheControl) => false,
        _ => policy.targeted.iter().any(|name| name.as_bytes().eq_ignore_ascii_case(field.name)),
    }
}

/// Removes what is for us alone from a response on its way to a client.
pub fn remove_cache_fields(headers: &mut Headers, policy: &Policy) {
    headers.retain(|field| !is_for_us(&field, policy));
}

/// Fields of the connection, and of the proxy that it ends in (RFC 9111 3.1, RFC 9110 7.6.1).
fn is_hop_by_hop_field(field: &Field<'_>, headers: &Headers) -> bool {
    match field.known {
        Some(
            Known::ProxyAuthenticate | Known::ProxyAuthenticationInfo | Known::ProxyAuthorization,
        ) => true,
        Some(known) if known.is_hop_by_hop() => true,
        _ => headers
            .get_all(Known::Connection)
            .flat_map(token::list)
            .any(|name| name.eq_ignore_ascii_case(field.name)),
    }
}

/// Fields that are written for each response: Age grows, and the length is known from the content.
/// Content-Range has no meaning in a stored response: the one of a 206 is written for each response
/// too, and in others it is ignored (RFC 9110 14.4). What caches nearer to the origin wrote into
/// Cache-Status stays (RFC 9211 2).
fn is_generated_per_response(field: &Field<'_>) -> bool {
    matches!(field.known, Some(Known::Age | Known::ContentLength | Known::ContentRange))
}
