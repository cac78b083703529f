//! The query of a key: as received, sorted by name, or reduced to significant parameters.
//!
//! Promises that a parameter is left out only where no server could read it as a significant one:
//! names are compared decoded, and a pair with a `;`, which some servers take for `&`, always
//! counts. Allocates nothing for queries without escapes.

use std::borrow::Cow;

use super::{KeyError, KeyQuery, SignificantParams};
use crate::limits::KEY_PARAMS_MAX;

/// Appends a query with its `?`; `None` if there is no query.
pub(super) fn write(
    query: Option<&[u8]>,
    rule: &KeyQuery,
    out: &mut Vec<u8>,
) -> Result<(), KeyError> {
    let Some(query) = query else { return Ok(()) };
    if query.iter().any(|byte| *byte < b' ') {
        return Err(KeyError::ControlCharacter);
    }
    if !rule.sorted && matches!(rule.significant, SignificantParams::All) {
        out.push(b'?');
        out.extend_from_slice(query);
        return Ok(());
    }
    let mut kept = [(0u32, 0u32); KEY_PARAMS_MAX];
    let mut count = 0;
    let mut at = 0;
    for pair in query.split(|byte| *byte == b'&') {
        let begin = at;
        at += pair.len() + 1;
        if pair.is_empty() || !rule.is_significant(pair) {
            continue;
        }
        let place = kept.get_mut(count).ok_or(KeyError::TooManyParameters)?;
        *place = (begin as u32, (begin + pair.len()) as u32);
        count += 1;
    }
    let kept = &mut kept[..count];
    let pair = |span: &(u32, u32)| &query[span.0 as usize..span.1 as usize];
    if rule.sorted {
        // Values of one name keep their order: the last or the first may be the one that counts.
        kept.sort_unstable_by(|a, b| name(pair(a)).cmp(name(pair(b))).then(a.0.cmp(&b.0)));
    }
    for (at, span) in kept.iter().enumerate() {
        out.push(if at == 0 { b'?' } else { b'&' });
        out.extend_from_slice(pair(span));
    }
    Ok(())
}

impl KeyQuery {
    fn is_significant(&self, pair: &[u8]) -> bool {
        if matches!(self.significant, SignificantParams::All) || pair.contains(&b';') {
            return true;
        }
        let name = decoded(name(pair));
        match &self.significant {
            SignificantParams::All => true,
            // Servers differ in whether case counts, and some change odd names until they fit.
            SignificantParams::Only(names) => {
                names.iter().any(|own| own.eq_ignore_ascii_case(&name)) || !is_plain(&name)
            }
            SignificantParams::Except(names) => !names.iter().any(|own| **own == *name),
        }
    }
}

fn name(pair: &[u8]) -> &[u8] {
    &pair[..memchr::memchr(b'=', pair).unwrap_or(pair.len())]
}

fn is_plain(name: &[u8]) -> bool {
    name.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

fn decoded(name: &[u8]) -> Cow<'_, [u8]> {
    wire::target::query_pairs(name).next().map_or(Cow::Borrowed(b""), |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(query: Option<&str>, sorted: bool, significant: SignificantParams) -> Option<String> {
        let mut out = Vec::new();
        write(query.map(str::as_bytes), &KeyQuery { sorted, significant }, &mut out).ok()?;
        Some(String::from_utf8(out).unwrap())
    }

    fn boxed_names(names: &[&str]) -> Box<[Box<[u8]>]> {
        names.iter().map(|name| name.as_bytes().into()).collect()
    }

    #[test]
    fn as_it_is_an_empty_query_is_not_no_query() {
        for (query, wanted) in [(None, ""), (Some(""), "?"), (Some("b&a=1&&"), "?b&a=1&&")] {
            assert_eq!(text(query, false, SignificantParams::All).as_deref(), Some(wanted));
        }
    }

    #[test]
    fn names_are_sorted_and_values_of_one_name_keep_their_order() {
        for (query, wanted) in [
            ("b=2&a=1", "?a=1&b=2"),
            ("a=2&b&a=1", "?a=2&a=1&b"),
            ("&&", ""),
            ("ab=1&a=2", "?a=2&ab=1"),
        ] {
            assert_eq!(
                text(Some(query), true, SignificantParams::All).as_deref(),
                Some(wanted),
                "{query}"
            );
        }
    }

    #[test]
    fn insignificant_parameters_are_left_out_unless_a_server_could_read_them_as_significant() {
        let only = || SignificantParams::Only(boxed_names(&["a", "q r"]));
        for (query, wanted) in [
            ("a=1&b=2&A=3&%61=4&ab=5", "?a=1&A=3&%61=4"),
            ("q+r=1&q%20r=2&q=3", "?q+r=1&q%20r=2"),
            ("b=1;a=2", "?b=1;a=2"),
            ("%20a=1&a%00x=2&a.b=3&a[=4", "?%20a=1&a%00x=2&a.b=3&a[=4"),
            ("b=1", ""),
        ] {
            assert_eq!(text(Some(query), false, only()).as_deref(), Some(wanted), "{query}");
        }
        let without = || SignificantParams::Except(boxed_names(&["utm_source"]));
        for (query, wanted) in [
            ("utm_source=x&a=1&utm%5Fsource=y", "?a=1"),
            ("UTM_SOURCE=x&utm_source[]=1", "?UTM_SOURCE=x&utm_source[]=1"),
            ("utm_source=x;a=evil", "?utm_source=x;a=evil"),
            ("utm_source", ""),
        ] {
            assert_eq!(text(Some(query), false, without()).as_deref(), Some(wanted), "{query}");
        }
    }

    #[test]
    fn more_parameters_than_can_be_sorted_are_refused() {
        let many = "a&".repeat(KEY_PARAMS_MAX + 1);
        assert_eq!(text(Some(&many), true, SignificantParams::All), None);
        assert!(text(Some(&many), false, SignificantParams::All).is_some());
        assert!(text(Some(&many[2..]), true, SignificantParams::All).is_some());
    }
}
