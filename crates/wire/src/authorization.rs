//! The Authorization field (RFC 9110 11.6.2) with a bearer token or with name and password.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Returns the token of `Bearer TOKEN` (RFC 6750 2.1); the scheme is case-insensitive (RFC 9110
/// 11.1).
pub fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(7)?;
    let token = token.trim_ascii();
    (scheme.eq_ignore_ascii_case(b"bearer ") && !token.is_empty()).then_some(token)
}

/// The longest name and password together.
const BASIC_BYTES_MAX: usize = 1024;

/// Returns the name and the password of `Basic BASE64` (RFC 7617 2); neither has control
/// characters.
pub fn basic(value: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let (scheme, encoded) = value.split_at_checked(6)?;
    let encoded = encoded.trim_ascii();
    if !scheme.eq_ignore_ascii_case(b"basic ") || encoded.len() > BASIC_BYTES_MAX * 4 / 3 {
        return None;
    }
    let mut name = STANDARD.decode(encoded).ok()?;
    let colon = name.iter().position(|byte| *byte == b':')?;
    let password = name.split_off(colon + 1);
    name.pop();
    let is_clean = !name.iter().chain(&password).any(u8::is_ascii_control);
    is_clean.then_some((name, password))
}

#[cfg(test)]
mod tests {
    use super::{basic, bearer};

    #[test]
    fn the_scheme_is_case_insensitive_and_needs_a_token() {
        assert_eq!(bearer(b"Bearer abc"), Some(&b"abc"[..]));
        assert_eq!(bearer(b"bEARER   abc "), Some(&b"abc"[..]));
        for other in ["Bearerabc", "Basic abc", "Bear", "Bearer", "Bearer ", "Bearer  ", ""] {
            assert_eq!(bearer(other.as_bytes()), None, "{other:?}");
        }
    }

    #[test]
    fn name_and_password_are_separated_by_the_first_colon() {
        let split = |value: &str| {
            basic(value.as_bytes()).map(|(name, password)| {
                (String::from_utf8(name).unwrap(), String::from_utf8(password).unwrap())
            })
        };
        let both = |name: &str, password: &str| Some((name.to_owned(), password.to_owned()));
        // The examples of RFC 7617 2 and 2.1.
        assert_eq!(split("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="), both("Aladdin", "open sesame"));
        assert_eq!(split("bASIC dGVzdDoxMjPCow=="), both("test", "123£"));
        assert_eq!(split("Basic YTpiOmM="), both("a", "b:c"));
        assert_eq!(split("Basic Og=="), both("", ""));
        for other in [
            "Basic",
            "Basic ",
            "Bearer YTpi",
            "Basic YTpi====",
            "Basic YTpiO!==",
            "Basic YQ==",
            "Basic YTpiOmM",
            "Basic YTpiCg==",
            "BasicYTpi",
        ] {
            assert_eq!(split(other), None, "{other}");
        }
        assert_eq!(split(&format!("Basic {}", "YTpi".repeat(1000))), None);
    }
}
