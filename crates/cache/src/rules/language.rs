//! Accept-Language, reduced to one of the languages of a route (RFC 9110 12.5.4, RFC 4647 3.4).

use message::Headers;
use wire::{Known, token};

/// The configured language that the client prefers; the first if none matches.
pub(crate) fn choose<'p>(request: &Headers, languages: &'p [Box<str>]) -> &'p str {
    let mut best: Option<(u16, usize)> = None;
    for value in request.get_all(Known::AcceptLanguage) {
        for (range, weight) in token::list(value).filter_map(wire::negotiate::weighted) {
            let Some(at) = languages.iter().position(|language| fits(range, language)) else {
                continue;
            };
            // The first of equal weight.
            if weight > best.map_or(0, |(weight, _)| weight) {
                best = Some((weight, at));
            }
        }
    }
    languages.get(best.map_or(0, |(_, at)| at)).map_or("", |language| language)
}

/// True if a range names the language, a more specific one (lookup: `de-AT` finds `de`), or any
/// (`*`); `de` also finds `de-de`.
fn fits(range: &[u8], language: &str) -> bool {
    let language = language.as_bytes();
    if range == b"*" || range.eq_ignore_ascii_case(language) {
        return true;
    }
    let (long, short) =
        if range.len() > language.len() { (range, language) } else { (language, range) };
    long.get(short.len()) == Some(&b'-') && long[..short.len()].eq_ignore_ascii_case(short)
}
