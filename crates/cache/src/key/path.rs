//! Canonical paths (`wire::target`) that have no key: origins may read them as another path, and
//! private pages would be stored under the name of public ones.

use super::KeyPath;

/// True if origins may read a canonical path as another one: with slashes where it has encoded
/// ones, or with dot segments once such slashes are decoded or path parameters are removed.
pub(super) fn is_ambiguous(canonical: &[u8], form: KeyPath) -> bool {
    // Few paths have either, and most are shorter than what a search costs to begin.
    if !canonical.iter().any(|byte| matches!(byte, b'%' | b';')) {
        return false;
    }
    let mut encoded = memchr::memmem::find_iter(canonical, b"%2F").peekable();
    if form == KeyPath::Normal && encoded.peek().is_some() {
        return true;
    }
    // Where segments begin once slashes are decoded.
    let slashes = memchr::memchr_iter(b'/', canonical).map(|at| at + 1);
    slashes.chain(encoded.map(|at| at + 3)).any(|begin| is_dot_name(&canonical[begin..]))
}

/// True if this begins with a segment that is `.` or `..` without its path parameters.
fn is_dot_name(text: &[u8]) -> bool {
    let rest = text.strip_prefix(b"..").or(text.strip_prefix(b"."));
    rest.is_some_and(|rest| {
        rest.is_empty()
            || rest.starts_with(b"/")
            || rest.starts_with(b";")
            || rest.starts_with(b"%2F")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_can_be_read_in_two_ways_are_ambiguous() {
        for (path, normal, raw) in [
            ("/", false, false),
            ("/a.b/..c/.d/e../...", false, false),
            ("/caf%C3%A9/a%3Bb;c%3Fd/%252F", false, false),
            ("/a;..;b/x", false, false),
            ("/a%2Fb", true, false),
            ("/%2F", true, false),
            ("/a%2F..b", true, false),
            ("/..%2Fb", true, true),
            ("/a%2F../b", true, true),
            ("/a%2F.", true, true),
            ("/a%2F..;", true, true),
            ("/a/..;x/b", true, true),
            ("/.;", true, true),
        ] {
            assert_eq!(is_ambiguous(path.as_bytes(), KeyPath::Normal), normal, "{path}");
            assert_eq!(is_ambiguous(path.as_bytes(), KeyPath::Raw), raw, "{path}");
        }
    }
}
