//! Paths of request targets.

use crate::{FuzzTarget, owned};
use wire::target;

pub(crate) const TARGET: FuzzTarget = FuzzTarget {
    check: path,
    seeds: || owned(&["/a/%2e%2E//b/./%2F%25%41/../.c/d..", "a%C3%BC/b;c=1/"]),
    dictionary: &[
        "/", "%2e", "%2F", "%5c", "%00", "%25", "..", ".", "//", "\\", ";", "?", "#", "ü",
    ],
    cases: 5000,
};

/// Any bytes as a path. Its canonical form is stable and stays below the root, and decoding it once
/// gives its normal form, which adds no separator, dot segment or control character.
fn path(data: &[u8]) {
    let rooted = [b"/", data].concat();
    let Ok(raw) = target::canonical(&rooted) else {
        assert!(!target::is_plain(&rooted));
        return;
    };
    assert_eq!(raw[0], b'/');
    assert_eq!(target::canonical(&raw).as_deref(), Ok(&*raw), "canonical forms are stable");
    assert!(raw.iter().all(|b| b.is_ascii_graphic() && !b"?#\\\"<>^`{|}[]".contains(b)));
    let normal = target::normal_form(&raw).expect("canonical escapes are escapes");
    let normal = normal.into_owned().into_bytes();
    assert_eq!(target::normalize(&normal).as_deref(), Ok(&*normal), "normal forms are normal");
    let mut again = Vec::new();
    target::encode_path(&normal, &mut again);
    let again = target::canonical(&again).expect("what was canonical is");
    assert_eq!(self::decoded(&again), self::decoded(&raw), "a normal form says all of the path");
    for text in [&raw[..], &normal[..]] {
        let mut segments = text.split(|&b| b == b'/');
        assert!(segments.all(|segment| segment != b"." && segment != b".."));
        assert!(!text.windows(2).any(|pair| pair == b"//"));
        assert!(!text.iter().any(|&b| b == b'\\' || b.is_ascii_control()));
    }
    let decoded = decoded(&raw);
    assert_eq!(decoded, self::decoded(&normal), "decoded once more it is the same");
    assert!(!decoded.iter().any(|&b| b == b'\\' || b.is_ascii_control()));
    let slashes = |text: &[u8]| text.iter().filter(|&&b| b == b'/').count();
    match target::decode_for_files(&normal) {
        Ok(names) => {
            assert_eq!(names, decoded);
            assert_eq!(slashes(&names), slashes(&raw), "an escape became a separator");
        }
        Err(_) => assert!(slashes(&decoded) > slashes(&raw)),
    }
}

/// Percent-decoding as by any receiver.
fn decoded(text: &[u8]) -> Vec<u8> {
    let mut parts = text.split(|&b| b == b'%');
    let mut out = parts.next().unwrap_or_default().to_vec();
    for part in parts {
        let digits = std::str::from_utf8(&part[..2]).expect("two digits");
        out.push(u8::from_str_radix(digits, 16).expect("two digits"));
        out.extend_from_slice(&part[2..]);
    }
    out
}
