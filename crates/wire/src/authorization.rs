//! The Authorization field (RFC 9110 11.6.2) with a bearer token.

/// Returns the token of `Bearer TOKEN` (RFC 6750 2.1); the scheme is case-insensitive (RFC 9110
/// 11.1).
pub fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(7)?;
    let token = token.trim_ascii();
    (scheme.eq_ignore_ascii_case(b"bearer ") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::bearer;

    #[test]
    fn the_scheme_is_case_insensitive_and_needs_a_token() {
        assert_eq!(bearer(b"Bearer abc"), Some(&b"abc"[..]));
        assert_eq!(bearer(b"bEARER   abc "), Some(&b"abc"[..]));
        for other in ["Bearerabc", "Basic abc", "Bear", "Bearer", "Bearer ", "Bearer  ", ""] {
            assert_eq!(bearer(other.as_bytes()), None, "{other:?}");
        }
    }
}
