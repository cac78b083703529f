//! Merging stored headers with those of a newer response (RFC 9111 3.2, 4.3.4).

use message::Headers;
use wire::Known;
use wire::conditional::EntityTag;
use wire::date::parse_http_date;

/// True if a 304 is about the stored response whose validators were sent (RFC 9111 4.3.4). If not,
/// the request is sent again without conditions.
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

/// True if a 304 is about stored parts. Their validator is strong, and only a strong one keeps them
/// together (RFC 9110 15.3.7.3).
pub fn confirms_parts(stored: &Headers, not_modified: &Headers) -> bool {
    let new = not_modified.get(Known::Etag).and_then(EntityTag::parse);
    new.is_none_or(|new| !new.weak) && confirms(stored, not_modified)
}

/// A 304 to the cache's conditions that has no other date can only mean the cache's validators.
fn same_date(stored: &Headers, not_modified: &Headers) -> bool {
    let Some(new) = not_modified.get(Known::LastModified) else { return true };
    let Some(old) = stored.get(Known::LastModified) else { return false };
    match (parse_http_date(new), parse_http_date(old)) {
        (Some(new), Some(old)) => new == old,
        _ => new == old,
    }
}

/// The stored headers updated by a 304: each of its fields replaces the stored ones of that name,
/// except those that describe the stored content. `stored` contains the headers that are sent and
/// the hidden ones. The result goes to [`super::store::evaluate`].
pub fn merged(stored: [&Headers; 2], newer: &Headers) -> Headers {
    let mut all = Headers::new();
    for field in stored.iter().flat_map(|headers| headers.iter()) {
        // A stored Date does not describe a response without one.
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

/// True for fields of the stored content, or of the message that brought it (RFC 9111 3.2).
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
