//! Spellings of a field name that some recipients treat as another name.
//!
//! CGI (RFC 3875 4.1.18), WSGI, Rack and PHP pass fields to an application as variables, in which
//! `X_Real_IP` and `X-Real-IP` are the same; other recipients replace every punctuation mark or
//! drop the marks that they do not expect. So names are compared here by their words: runs of
//! letters and digits, case-insensitive, whatever separates or surrounds them. Nothing allocates.

use crate::Known;

/// The longest joined words that can spell a known name.
const JOINED_MAX: usize = 40;

/// True if two names consist of the same words.
#[inline]
pub fn same(one: &[u8], other: &[u8]) -> bool {
    let common = one.iter().zip(other).take_while(|(a, b)| a.eq_ignore_ascii_case(b)).count();
    let is_mark = |name: &[u8]| name.get(common).is_some_and(|byte| !byte.is_ascii_alphanumeric());
    // Nearly always they first differ in a letter, or in one that only one of them has.
    one.len() == other.len() && common == one.len()
        || (is_mark(one) || is_mark(other)) && same_words(one, other)
}

fn same_words(one: &[u8], other: &[u8]) -> bool {
    let (mut one, mut other) = (words(one), words(other));
    loop {
        match (one.next(), other.next()) {
            (None, None) => return true,
            (Some(one), Some(other)) if one.eq_ignore_ascii_case(other) => {}
            _ => return false,
        }
    }
}

/// True if a name consists of words with one hyphen between them: then it is not an alias of a
/// known name.
pub fn is_plain(name: &[u8]) -> bool {
    let mut in_word = false;
    let plain = name.iter().all(|byte| match byte {
        b'-' => std::mem::replace(&mut in_word, false),
        byte => {
            in_word = byte.is_ascii_alphanumeric();
            in_word
        }
    });
    plain && in_word
}

/// Returns the known name of which this is an unusual spelling; `None` for every plain name.
pub fn alias_of(name: &[u8]) -> Option<Known> {
    if is_plain(name) {
        return None;
    }
    let mut joined = [0; JOINED_MAX];
    let mut len = 0;
    for word in words(name) {
        if len > 0 {
            *joined.get_mut(len)? = b'-';
            len += 1;
        }
        joined.get_mut(len..len + word.len())?.copy_from_slice(word);
        len += word.len();
    }
    Known::from_bytes(&joined[..len])
}

/// True if an unknown name states something about the client or its request that only a trusted
/// proxy may state: any `X-Forwarded-` name, or an alias of a name with [`Known::is_forwarding`].
pub fn is_forwarding(name: &[u8]) -> bool {
    alias_of(name).is_some_and(Known::is_forwarding) || is_x_forwarded(name)
}

/// True if a name begins with the words of `X-Forwarded`. The set of such names is open.
pub(crate) fn is_x_forwarded(name: &[u8]) -> bool {
    let mut words = words(name);
    let mut next = |word: &[u8]| words.next().is_some_and(|found| found.eq_ignore_ascii_case(word));
    next(b"x") && next(b"forwarded")
}

/// True if a trailer section may have the field, judged by the name it stands for (RFC 9110 6.5.1).
pub fn may_be_trailer(known: Option<Known>, name: &[u8]) -> bool {
    match known.or_else(|| alias_of(name)) {
        Some(known) => !known.is_forbidden_in_trailers(),
        None => !is_x_forwarded(name),
    }
}

fn words(name: &[u8]) -> impl Iterator<Item = &[u8]> {
    name.split(|byte| !byte.is_ascii_alphanumeric()).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same name with other marks between its words.
    fn spellings(name: &str) -> Vec<String> {
        let mut spellings = vec![format!("-{name}"), format!("{name}_"), format!("__{name}--")];
        if name.contains('-') {
            spellings.extend(["_", "--", "__", "-_", ".", "~"].map(|mark| name.replace('-', mark)));
        }
        spellings
    }

    #[test]
    fn every_spelling_of_every_known_name_is_recognised() {
        for known in Known::ALL {
            let name = known.as_str();
            assert!(is_plain(name.as_bytes()) && name.len() <= JOINED_MAX, "{name}");
            assert_eq!(alias_of(name.as_bytes()), None, "{name}");
            for spelling in spellings(name) {
                for spelling in [spelling.to_ascii_lowercase(), spelling.to_ascii_uppercase()] {
                    let spelling = spelling.as_bytes();
                    assert_eq!(Known::from_bytes(spelling), None);
                    assert_eq!(alias_of(spelling), Some(*known), "{}", spelling.escape_ascii());
                    assert!(same(spelling, name.as_bytes()) && same(name.as_bytes(), spelling));
                    assert_eq!(is_forwarding(spelling), known.is_forwarding());
                }
            }
        }
    }

    #[test]
    fn other_names_are_not_aliases() {
        for name in ["X-Own", "X_Own", "XRealIP", "X-Real-IP-X", "Hos-t", "_", "--", "a"] {
            assert_eq!(alias_of(name.as_bytes()), None, "{name}");
            assert!(!is_forwarding(name.as_bytes()), "{name}");
        }
        assert_eq!(alias_of(&[b'_'; 70_000]), None);
        assert_eq!(alias_of(&b"a_".repeat(70_000)), None);
        for (one, other) in
            [("X-Own", "X-Other"), ("X-Own", "X-Own-2"), ("X-Own", "X-Owner"), ("a", "")]
        {
            assert!(!same(one.as_bytes(), other.as_bytes()), "{one} {other}");
            assert!(!same(other.as_bytes(), one.as_bytes()), "{one} {other}");
        }
    }

    #[test]
    fn every_x_forwarded_name_is_a_forwarding_field() {
        for name in ["X-Forwarded-Prefix", "x_forwarded_ssl", "X-Forwarded", "x--forwarded-user"] {
            assert!(is_forwarding(name.as_bytes()), "{name}");
        }
        assert!(!is_forwarding(b"X-ForwardedFor") && !is_forwarding(b"Forwarded-By"));
    }
}
