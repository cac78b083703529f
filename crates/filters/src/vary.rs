//! The field Vary (RFC 9110 12.5.5).

use message::Headers;
use wire::Known;

/// Tells caches that the response depends on a request header.
pub(crate) fn vary_on(headers: &mut Headers, name: &str) {
    // Most responses have none.
    let is_listed = headers.contains(Known::Vary)
        && (headers.lists_token(Known::Vary, "*") || headers.lists_token(Known::Vary, name));
    if !is_listed {
        headers.append(Known::Vary, name);
    }
}
