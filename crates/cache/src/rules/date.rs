//! Dates for freshness, read in any letter case (RFC 9111 4.2).

use wire::date::parse_http_date;

/// The length of the longest date, `Wednesday, 06-Nov-94 08:49:37 GMT`.
const DATE_BYTES_MAX: usize = 33;

/// Seconds since 1970; `None` for a date in another zone than GMT or in an unknown form.
pub(crate) fn http_date(text: &[u8]) -> Option<u64> {
    parse_http_date(text).or_else(|| {
        let mut copy = [0; DATE_BYTES_MAX];
        let copy = copy.get_mut(..text.len())?;
        copy.copy_from_slice(text);
        capitalise(copy);
        parse_http_date(copy)
    })
}

/// Makes words begin with a capital and the zone upper case.
fn capitalise(text: &mut [u8]) {
    let mut inside = false;
    for byte in text.iter_mut() {
        match inside {
            true => byte.make_ascii_lowercase(),
            false => byte.make_ascii_uppercase(),
        }
        inside = byte.is_ascii_alphabetic();
    }
    if text.ends_with(b"Gmt") {
        let zone = text.len() - 3;
        text[zone..].make_ascii_uppercase();
    }
}
