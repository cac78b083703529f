//! The directives of Cache-Control (RFC 9111 5.2), whose meaning is that of their users.

use crate::token;

/// The greatest number of seconds (RFC 9111 1.2.2).
pub const SECONDS_MAX: u32 = 1 << 31;

/// Reads `delta-seconds` (RFC 9111 1.2.2): digits only; greater numbers count as the greatest.
pub fn seconds(text: &[u8]) -> Option<u32> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value = text.iter().fold(0u32, |value, digit| {
        value.saturating_mul(10).saturating_add(u32::from(digit - b'0'))
    });
    Some(value.min(SECONDS_MAX))
}

/// One directive: its name as received, and its argument without quotes.
pub struct Directive<'a> {
    pub name: &'a [u8],
    pub argument: Option<&'a [u8]>,
    /// Whether white space surrounds the `=`, which the grammar forbids.
    spaced: bool,
}

impl Directive<'_> {
    pub fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name.as_bytes())
    }

    /// The argument as a number of seconds.
    pub fn seconds(&self) -> Option<u32> {
        self.argument.filter(|_| !self.spaced).and_then(seconds)
    }
}

/// The directives of one field line.
pub fn directives(value: &[u8]) -> impl Iterator<Item = Directive<'_>> {
    // A quoted string that never ends must not hide the directives behind it.
    let balanced = is_balanced(value);
    let plain = value.split(|&byte| byte == b',').map(token::trim).filter(|part| !part.is_empty());
    let quoted = token::list(value).filter(move |_| balanced);
    quoted.chain(plain.filter(move |_| !balanced)).map(directive)
}

fn is_balanced(value: &[u8]) -> bool {
    let (mut quoted, mut escaped) = (false, false);
    for &byte in value {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ => {}
        }
    }
    !quoted
}

fn directive(member: &[u8]) -> Directive<'_> {
    let Some(at) = member.iter().position(|&byte| byte == b'=') else {
        return Directive { name: member, argument: None, spaced: false };
    };
    let (name, argument) = (&member[..at], &member[at + 1..]);
    let (trimmed, text) = (token::trim(name), token::trim(argument));
    let spaced = trimmed.len() < name.len() || text.len() < argument.len();
    let inner = text.strip_prefix(b"\"").and_then(|text| text.strip_suffix(b"\""));
    Directive { name: trimmed, argument: Some(inner.unwrap_or(text)), spaced }
}

#[cfg(test)]
mod tests {
    use super::{SECONDS_MAX, directives};

    #[test]
    fn directives_have_names_in_any_case_and_numbers() {
        let of = |text: &'static str| -> Vec<_> {
            directives(text.as_bytes()).map(|one| (one.is("max-age"), one.seconds())).collect()
        };
        assert_eq!(of("public, Max-Age=60"), [(false, None), (true, Some(60))]);
        assert_eq!(of("max-age=\"5\""), [(true, Some(5))]);
        assert_eq!(of("max-age = 5, max-age=-1"), [(true, None), (true, None)]);
        assert_eq!(of("max-age=99999999999"), [(true, Some(SECONDS_MAX))]);
        assert_eq!(of("a=\"b, max-age=7"), [(false, None), (true, Some(7))]);
    }
}
