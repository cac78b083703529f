//! Headers of a transcoded response: those of the canonical one, except those about its bytes.

use message::{Headers, SharedHeaders};
use wire::Known;

use super::{TargetCoding, token};

/// Digests of the encoded bytes (RFC 9530; RFC 1864, obsolete).
const DIGESTS: [&str; 4] = ["content-digest", "repr-digest", "digest", "content-md5"];

/// The headers of `canonical` in another coding.
pub(super) fn of(canonical: &Headers, target: TargetCoding) -> SharedHeaders {
    let mut headers = canonical.clone();
    headers.retain(|field| {
        !DIGESTS.iter().any(|name| field.name.eq_ignore_ascii_case(name.as_bytes()))
    });
    match target {
        Some(coding) => headers.set(Known::ContentEncoding, coding.token()),
        None => drop(headers.remove(Known::ContentEncoding)),
    }
    if let Some(tag) = headers.get(Known::Etag).and_then(|tag| suffixed(tag, token(target))) {
        headers.set(Known::Etag, tag);
    }
    if !headers.lists_token(Known::Vary, "accept-encoding") {
        headers.append(Known::Vary, "Accept-Encoding");
    }
    SharedHeaders::from(&headers)
}

/// The entity tag of a coding: other bytes need another tag (RFC 9110 8.8.3.3). A weak one stays
/// weak.
fn suffixed(tag: &[u8], token: &str) -> Option<Vec<u8>> {
    Some([tag.strip_suffix(b"\"")?, b"-", token.as_bytes(), b"\""].concat())
}
