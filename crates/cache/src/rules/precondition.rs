//! If-Match in forwarded requests (RFC 9110 13.1.1).
//!
//! A client may have a transcoded response under the origin's tag with the cache's suffix, which
//! the origin does not know. It stands for the origin's own tag: the transcoded content changes
//! when the original does.

use message::Headers;
use wire::conditional::EntityTag;
use wire::{Known, token};

/// The suffixes of tags of transcoded responses.
const SUFFIXES: [&[u8]; 4] = [b"-gzip", b"-br", b"-zstd", b"-identity"];

/// Adds the origin's tags to those with a suffix of ours. These stay: the origin may have tags that
/// end so.
pub fn restore_tags(request: &mut Headers) {
    if !request.contains(Known::IfMatch) {
        return;
    }
    let mut restored = Vec::new();
    for member in request.get_all(Known::IfMatch).flat_map(token::list) {
        let Some(tag) = EntityTag::parse(member).filter(|tag| !tag.weak) else { continue };
        for origins in SUFFIXES.iter().filter_map(|suffix| tag.opaque.strip_suffix(*suffix)) {
            restored.extend_from_slice(if restored.is_empty() { b"\"" } else { b", \"" });
            restored.extend_from_slice(origins);
            restored.push(b'"');
        }
    }
    if !restored.is_empty() {
        // A further line is a further member (RFC 9110 5.3).
        request.append(Known::IfMatch, &restored);
    }
}
