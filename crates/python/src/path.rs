//! Percent-decoded request paths for applications.
//!
//! Promises that an application never sees a dot segment: routes and filters matched the path
//! without it (RFC 3986 5.2.4).

use std::borrow::Cow;

use message::Target;

/// The decoded path as text, with U+FFFD for invalid UTF-8.
pub(crate) fn decoded(target: &Target) -> Cow<'_, str> {
    match decoded_bytes(target) {
        Cow::Borrowed(path) => String::from_utf8_lossy(path),
        Cow::Owned(path) => String::from_utf8_lossy(&path).into_owned().into(),
    }
}

/// The decoded path.
pub(crate) fn decoded_bytes(target: &Target) -> Cow<'_, [u8]> {
    let raw = target.raw_path();
    let path: Cow<'_, [u8]> = if raw.contains(&b'%') { unescaped(raw).into() } else { raw.into() };
    if path.split(|byte| *byte == b'/').any(|segment| matches!(segment, b"." | b"..")) {
        return target.path_bytes().into();
    }
    path
}

/// Percent-decodes (RFC 3986 2.1); an invalid escape stays as it is.
fn unescaped(raw: &[u8]) -> Vec<u8> {
    let digit = |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16));
    let mut path = Vec::with_capacity(raw.len());
    let mut at = 0;
    while let Some(&byte) = raw.get(at) {
        match (byte, digit(raw.get(at + 1)), digit(raw.get(at + 2))) {
            (b'%', Some(high), Some(low)) => {
                path.push((high * 16 + low) as u8);
                at += 3;
            }
            _ => {
                path.push(byte);
                at += 1;
            }
        }
    }
    path
}
