//! Stored fields and those of a newer response (RFC 9111 3.2, 4.3.4).

use exchange::Headers;
use wire::Known;
use wire::conditional::EntityTag;
use wire::date::parse_http_date;

/// Whether a 304 is about the one stored response whose validators were sent (RFC 9111 4.3.4). If
/// not, the stored response is not to be updated and the request is made again without conditions.
pub fn confirms(stored: &Headers, not_modified: &Headers) -> bool {
    let new = not_modified.get(Known::Etag).and_then(EntityTag::parse);
    let old = stored.get(Known::Etag).and_then(EntityTag::parse);
    match (new, old) {
        (Some(new), Some(old)) if !new.weak => new.strong_eq(&old),
        (Some(new), Some(old)) => new.weak_eq(&old),
        (Some(_), None) => false,
        (None, _) => same_date(stored, not_modified),
    }
}

/// A 304 to our own conditions that names no other date can only mean what we asked about.
fn same_date(stored: &Headers, not_modified: &Headers) -> bool {
    let Some(new) = not_modified.get(Known::LastModified) else { return true };
    let Some(old) = stored.get(Known::LastModified) else { return false };
    match (parse_http_date(new), parse_http_date(old)) {
        (Some(new), Some(old)) => new == old,
        _ => new == old,
    }
}

/// The stored fields as a 304 updates them: every field of it takes the
/// place of the stored ones of its name, but for those that describe the content as it was stored.
/// `stored` has both what is sent and what is hidden. The result goes to [`super::store::evaluate`].
pub fn merged(stored: [&Headers; 2], newer: &Headers) -> Headers {
    let mut all = Headers::new();
    for field in stored.iter().flat_map(|headers| headers.iter()) {
        // A stored Date says nothing about a response without one.
        let replaced = !is_kept(field.known) && newer.contains(field.name)
            || matches!(field.known, Some(Known::Date | Known::Age));
        if !replaced {
            all.append(field.name, field.value);
        }
    }
    for field in newer.iter().filter(|field| !is_kept(field.known)) {
        all.append(field.name, field.value);
    }
    all
}

/// What belongs to the stored content or to the message that brought it (RFC 9111 3.2).
fn is_kept(known: Option<Known>) -> bool {
    matches!(
        known,
        Some(
            Known::ContentLength
                | Known::ContentEncoding
                | Known::ContentRange
                | Known::TransferEncoding
        )
    )
}
