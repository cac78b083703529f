//! The Authorization field (RFC 9110 11.6.2): what a bearer brings.

/// The token of `Bearer TOKEN` (RFC 6750 2.1); the scheme has no case (RFC 9110 11.1).
pub fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(7)?;
    let token = token.trim_ascii();
    (scheme.eq_ignore_ascii_case(b"bearer ") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::bearer;

    #[test]
    fn the_scheme_has_no_case_and_needs_a_space_and_a_token() {
        assert_eq!(bearer(b"Bearer abc"), Some(&b"abc"[..]));
        assert_eq!(bearer(b"bEARER   abc "), Some(&b"abc"[..]));
        for other in ["Bearerabc", "Basic abc", "Bear", "Bearer", "Bearer ", "Bearer  ", ""] {
            assert_eq!(bearer(other.as_bytes()), None, "{other:?}");
        }
    }
}
