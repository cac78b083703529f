//! What the response to an unsafe request invalidates (RFC 9111 4.4, RFC 9875 3).

use message::Headers;
use wire::Known;

use super::tags;

/// What is invalidated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Targets {
    /// Targets in origin-form on the request's own origin, that of the request first.
    pub targets: Vec<Vec<u8>>,
    /// Hashes of cache groups.
    pub groups: Vec<u64>,
}

/// Returns what a response to an unsafe request for `target` (origin-form) on `origin`
/// (`scheme://authority`) invalidates; nothing if the response is an error.
pub fn targets(origin: &[u8], target: &[u8], status: u16, headers: &Headers) -> Targets {
    // RFC 9111 4.4: non-error responses are 2xx and 3xx.
    if !(200..=399).contains(&status) {
        return Targets::default();
    }
    let mut targets = vec![target.to_vec()];
    for known in [Known::Location, Known::ContentLocation] {
        for reference in headers.get_all(known) {
            let found = resolve(origin, target, reference);
            targets.extend(found.filter(|found| !targets.contains(found)));
        }
    }
    Targets { targets, groups: tags::invalidated(headers, origin) }
}

/// Resolves a reference to origin-form (RFC 3986 5.2); `None` if it is on another origin.
fn resolve(origin: &[u8], base: &[u8], reference: &[u8]) -> Option<Vec<u8>> {
    let reference = reference.split(|&byte| byte == b'#').next().unwrap_or_default();
    let scheme_end = origin.windows(3).position(|three| three == b"://")?;
    let (scheme, authority) = (&origin[..scheme_end], &origin[scheme_end + 3..]);
    if let Some(rest) = reference.strip_prefix(b"//") {
        return same_authority(scheme, authority, rest);
    }
    if let Some(at) = scheme_length(reference) {
        let rest = reference[at + 1..].strip_prefix(b"//")?;
        return match reference[..at].eq_ignore_ascii_case(scheme) {
            true => same_authority(scheme, authority, rest),
            false => None,
        };
    }
    let path_end = base.iter().position(|&byte| byte == b'?').unwrap_or(base.len());
    match reference.first() {
        None => Some(base.to_vec()),
        Some(b'/') => canonical(reference),
        Some(b'?') => Some([&base[..path_end], reference].concat()),
        Some(_) => {
            let directory = base[..path_end].iter().rposition(|&byte| byte == b'/')?;
            canonical(&[&base[..=directory], reference].concat())
        }
    }
}

/// The length of a scheme before its colon.
fn scheme_length(reference: &[u8]) -> Option<usize> {
    let at = reference.iter().position(|byte| matches!(byte, b':' | b'/' | b'?'))?;
    let scheme = &reference[..at];
    let fits = scheme.first().is_some_and(u8::is_ascii_alphabetic)
        && scheme.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'));
    (reference[at] == b':' && fits).then_some(at)
}

/// Resolves `authority[path][?query]`.
fn same_authority(scheme: &[u8], authority: &[u8], rest: &[u8]) -> Option<Vec<u8>> {
    let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(rest.len());
    let (named, target) = rest.split_at(end);
    if !without_port(scheme, named).eq_ignore_ascii_case(without_port(scheme, authority)) {
        return None;
    }
    match target.first() {
        Some(b'/') => canonical(target),
        _ => Some([b"/", target].concat()),
    }
}

/// The authority without its scheme's default port.
fn without_port<'a>(scheme: &[u8], authority: &'a [u8]) -> &'a [u8] {
    let default: &[u8] = match scheme.eq_ignore_ascii_case(b"https") {
        true => b":443",
        false => b":80",
    };
    let bare = authority.strip_suffix(default).unwrap_or(authority);
    bare.strip_suffix(b":").unwrap_or(bare)
}

/// The target with its path in canonical form; `None` for a path that no request can have.
fn canonical(target: &[u8]) -> Option<Vec<u8>> {
    let path_end = target.iter().position(|&byte| byte == b'?').unwrap_or(target.len());
    let path = wire::target::canonical(&target[..path_end]).ok()?;
    Some([&path, &target[path_end..]].concat())
}
