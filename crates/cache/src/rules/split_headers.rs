//! Which headers of a response are stored, and which are forwarded (RFC 9111 3.1).

use message::{Field, Headers};
use wire::{Known, token};

use super::{Policy, SetCookie};

/// The headers of a response, split.
pub(crate) struct SplitHeaders {
    /// To store and to send.
    pub(crate) shown: Headers,
    /// To store for a later merge and never to send: addressed to this cache.
    pub(crate) hidden: Headers,
    /// Never stored: for the client that caused the fetch alone (RFC 9111 5.2.2.4, 5.2.2.7).
    pub(crate) private: Headers,
}

/// Splits the headers of a response; `named` are the fields that qualified directives list.
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

/// True for fields that are addressed to this cache: they are never forwarded. A targeted field
/// that the policy does not read is forwarded (RFC 9213 2.2), and so is the one for all delivery
/// networks.
fn is_for_us(field: &Field<'_>, policy: &Policy) -> bool {
    match field.known {
        Some(Known::SurrogateKey | Known::CacheTag) => true,
        Some(Known::SurrogateControl) => policy.surrogate_control,
        Some(Known::CdnCacheControl) => false,
        _ => policy.targeted.iter().any(|name| name.as_bytes().eq_ignore_ascii_case(field.name)),
    }
}

/// Removes fields that are addressed to this cache from a response.
pub fn remove_cache_fields(headers: &mut Headers, policy: &Policy) {
    headers.retain(|field| !is_for_us(&field, policy));
}

/// True for fields of the connection, and of the proxy that it ends in (RFC 9111 3.1, RFC 9110
/// 7.6.1).
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

/// True for fields that are generated for each response: Age, and the length of the content.
/// Content-Range has no meaning in a stored response: that of a 206 is generated too, others are
/// ignored (RFC 9110 14.4). Cache-Status of caches nearer to the origin stays (RFC 9211 2).
fn is_generated_per_response(field: &Field<'_>) -> bool {
    matches!(field.known, Some(Known::Age | Known::ContentLength | Known::ContentRange))
}
