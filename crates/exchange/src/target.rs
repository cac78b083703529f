//! The target of a request: as it came, and as the house reads it.
//!
//! Two texts are kept: the *raw* path and query, which is what an upstream is sent, and the *path*,
//! in the normal form of `wire::target` (decoded, no dot segments), which is what routes, filters
//! and files look at. Most paths are the same in both, and then there is only one.

use bytes::Bytes;

/// Longest raw target that is kept in place.
const SHORT_MAX: usize = 79;

/// Path and query of a request.
#[derive(Clone, Debug)]
pub struct Target {
    raw: Raw,
    /// Length of the raw path, before any `?`.
    path_length: u32,
    /// What most targets have not.
    other: Option<Box<Other>>,
}

/// `/path?query` in origin-form, or `*`.
#[derive(Clone, Debug)]
enum Raw {
    Short { length: u8, text: [u8; SHORT_MAX] },
    Long(Box<[u8]>),
}

#[derive(Clone, Debug, Default)]
struct Other {
    /// The decoded, normalised path where it differs from the raw one.
    path: Option<Box<str>>,
    /// The first path, where another one has replaced it: parameters of the route are parts of it.
    routed: Option<Box<str>>,
    /// The first raw path, where another one has replaced it: what the log names.
    received: Option<Box<[u8]>>,
}

/// All there is to say of a target, for another process.
pub(crate) struct TargetParts<'a> {
    pub(crate) raw: &'a [u8],
    pub(crate) path_length: usize,
    pub(crate) path: Option<&'a str>,
    pub(crate) routed: Option<&'a str>,
    pub(crate) received: Option<&'a [u8]>,
}

/// The path cannot be read: an encoded NUL, or percent-encoding that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadPath;

impl Raw {
    #[inline]
    fn assign(&mut self, target: &[u8]) {
        if target.len() > SHORT_MAX {
            *self = Raw::Long(target.into());
            return;
        }
        if let Raw::Long(_) = self {
            *self = Raw::Short { length: 0, text: [0; SHORT_MAX] };
        }
        if let Raw::Short { length, text } = self {
            text[..target.len()].copy_from_slice(target);
            *length = target.len() as u8;
        }
    }

    #[inline]
    fn get(&self) -> &[u8] {
        match self {
            Raw::Short { length, text } => &text[..usize::from(*length)],
            Raw::Long(text) => text,
        }
    }
}

impl Target {
    /// From a raw origin-form target.
    pub fn new(raw: Bytes) -> Result<Target, BadPath> {
        let path_length = raw.iter().position(|byte| *byte == b'?').unwrap_or(raw.len());
        Target::split_at(&raw, path_length)
    }

    /// The target of `OPTIONS *` (RFC 9110 9.3.7).
    pub fn asterisk() -> Target {
        let mut text = [0; SHORT_MAX];
        text[0] = b'*';
        Target { raw: Raw::Short { length: 1, text }, path_length: 1, other: None }
    }

    /// The target of `OPTIONS http://host`: routes see `/`, the server is sent `*` (RFC 9112
    /// 3.2.4).
    pub(crate) fn whole_server() -> Target {
        let path = Some("/".into());
        let other = Some(Box::new(Other { path, ..Other::default() }));
        Target { other, ..Target::asterisk() }
    }

    /// Whether it is the target of `OPTIONS *`.
    pub fn is_asterisk(&self) -> bool {
        self.other.is_none() && self.raw.get() == b"*"
    }

    /// From a raw target whose path is known to end at `path_length`.
    pub fn split_at(raw: &[u8], path_length: usize) -> Result<Target, BadPath> {
        let mut target = Target::asterisk();
        target.assign(raw, path_length)?;
        Ok(target)
    }

    /// [`Target::split_at`] in place.
    pub(crate) fn assign(&mut self, raw: &[u8], path_length: usize) -> Result<(), BadPath> {
        let path = &raw[..path_length];
        self.other = match wire::target::is_plain(path) {
            true => None,
            // A path need not be UTF-8. Routes and files see U+FFFD for what is not; an upstream is
            // sent the raw path.
            false => match wire::target::normalize(path).map_err(|_| BadPath)? {
                same if *same == *path && same.is_ascii() => None,
                normal => {
                    let path = Some(String::from_utf8_lossy(&normal).into());
                    Some(Box::new(Other { path, ..Other::default() }))
                }
            },
        };
        self.raw.assign(raw);
        // A request line is far shorter than 4 GiB.
        self.path_length = path_length as u32;
        Ok(())
    }

    /// [`Target::path`] as bytes.
    pub fn path_bytes(&self) -> &[u8] {
        let path = self.other.as_ref().and_then(|other| other.path.as_ref());
        path.map_or_else(|| self.raw_path(), |path| path.as_bytes())
    }

    /// The path that routes and files see: decoded, without dot segments, beginning with `/`.
    pub fn path(&self) -> &str {
        match self.other.as_ref().and_then(|other| other.path.as_ref()) {
            Some(path) => path,
            // Checked when the target was made: a raw path that needs no normalising is ASCII.
            None => std::str::from_utf8(self.raw_path()).unwrap_or("/"),
        }
    }

    /// The path that the route was chosen by, whatever has become of it since.
    pub fn routed_path(&self) -> &str {
        let routed = self.other.as_ref().and_then(|other| other.routed.as_deref());
        routed.unwrap_or_else(|| self.path())
    }

    /// The path as it is sent on: as the client wrote it, unless a filter has replaced it.
    pub fn raw_path(&self) -> &[u8] {
        &self.raw.get()[..self.path_length as usize]
    }

    /// The path as the client wrote it, whatever has become of it since.
    pub fn received_path(&self) -> &[u8] {
        let received = self.other.as_ref().and_then(|other| other.received.as_deref());
        received.unwrap_or_else(|| self.raw_path())
    }

    /// The query without its `?`; `None` where there is no `?`.
    pub fn query(&self) -> Option<&[u8]> {
        self.raw.get().get(self.path_length as usize + 1..)
    }

    /// Path and query as they are sent on.
    pub fn raw(&self) -> &[u8] {
        self.raw.get()
    }

    /// Replaces path and query by another raw target.
    pub fn replace(&mut self, raw: impl Into<Bytes>) -> Result<(), BadPath> {
        self.become_target(Target::new(raw.into())?);
        Ok(())
    }

    /// Replaces the raw path and keeps the query.
    pub fn replace_path(&mut self, raw_path: &[u8]) -> Result<(), BadPath> {
        let rest = &self.raw()[self.path_length as usize..];
        let raw = [raw_path, rest].concat();
        self.become_target(Target::split_at(&raw, raw_path.len())?);
        Ok(())
    }

    /// The same target with no other before it: that of a new request.
    pub(crate) fn afresh(&self) -> Target {
        let mut target = self.clone();
        if let Some(other) = &mut target.other {
            (other.routed, other.received) = (None, None);
        }
        target
    }

    /// Whether the path holds a slash that is none: `%2F` (RFC 3986 2.2).
    pub fn has_encoded_slash(&self) -> bool {
        let mut escapes = memchr::memchr_iter(b'%', self.raw_path());
        escapes.any(|at| is_encoded_slash(&self.raw_path()[at..]))
    }

    /// Reads the path as if every `%2F` had been written as a slash. What was received is kept for
    /// the log.
    pub fn decode_slashes(&mut self) -> Result<(), BadPath> {
        let mut raw = Vec::with_capacity(self.raw().len());
        let mut rest = self.raw_path();
        while let Some((&first, more)) = rest.split_first() {
            let slash = is_encoded_slash(rest);
            raw.push(if slash { b'/' } else { first });
            rest = if slash { &rest[3..] } else { more };
        }
        let path_length = raw.len();
        raw.extend_from_slice(&self.raw()[self.path_length as usize..]);
        let read = Target::split_at(&raw, path_length)?;
        let received = self.other.take().and_then(|first| first.received);
        let received = received.unwrap_or_else(|| self.raw_path().into());
        *self = read;
        self.other.get_or_insert_default().received = Some(received);
        Ok(())
    }

    pub(crate) fn parts(&self) -> TargetParts<'_> {
        let other = self.other.as_deref();
        TargetParts {
            raw: self.raw.get(),
            path_length: self.path_length as usize,
            path: other.and_then(|other| other.path.as_deref()),
            routed: other.and_then(|other| other.routed.as_deref()),
            received: other.and_then(|other| other.received.as_deref()),
        }
    }

    /// The target that [`Target::parts`] said all of. Its path is not read again.
    pub(crate) fn of_parts(parts: &TargetParts<'_>) -> Target {
        let mut target = Target::asterisk();
        target.raw.assign(parts.raw);
        target.path_length = parts.path_length.min(parts.raw.len()) as u32;
        if parts.path.is_some() || parts.routed.is_some() || parts.received.is_some() {
            target.other = Some(Box::new(Other {
                path: parts.path.map(Box::from),
                routed: parts.routed.map(Box::from),
                received: parts.received.map(Box::from),
            }));
        }
        target
    }

    fn become_target(&mut self, new: Target) {
        let first = self.other.take().unwrap_or_default();
        let path = || std::str::from_utf8(self.raw_path()).unwrap_or("/").into();
        let routed = first.routed.or(first.path).unwrap_or_else(path);
        let received = first.received.unwrap_or_else(|| self.raw_path().into());
        *self = new;
        let other = self.other.get_or_insert_default();
        (other.routed, other.received) = (Some(routed), Some(received));
    }
}

fn is_encoded_slash(text: &[u8]) -> bool {
    text.get(..3).is_some_and(|escape| escape.eq_ignore_ascii_case(b"%2f"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_target_is_kept_once() {
        let target = Target::new(Bytes::from_static(b"/a/b?x=1")).unwrap();
        assert_eq!(target.path(), "/a/b");
        assert_eq!(target.query(), Some(&b"x=1"[..]));
        assert!(target.other.is_none());
        let long = format!("/{}", "a".repeat(2 * SHORT_MAX));
        let target = Target::new(Bytes::from(long.clone())).unwrap();
        assert_eq!((target.path(), target.raw()), (&*long, long.as_bytes()));
    }

    #[test]
    fn routes_see_the_decoded_path_and_upstreams_the_raw_one() {
        let mut target = Target::new(Bytes::from_static(b"/a%20b/../c%2e?q")).unwrap();
        assert_eq!(target.path(), "/c.");
        assert_eq!(target.raw(), b"/a%20b/../c%2e?q");
        let received = &b"/a%20b/../c%2e"[..];
        target.replace_path(b"/new").unwrap();
        assert_eq!(target.raw(), b"/new?q");
        assert_eq!(target.path(), "/new");
        target.replace(Bytes::from_static(b"/newer")).unwrap();
        assert_eq!((target.raw_path(), target.received_path()), (&b"/newer"[..], received));
        assert_eq!((target.path(), target.routed_path()), ("/newer", "/c."));
    }

    #[test]
    fn an_empty_query_is_not_no_query() {
        assert_eq!(Target::new(Bytes::from_static(b"/?")).unwrap().query(), Some(&b""[..]));
        assert_eq!(Target::new(Bytes::from_static(b"/")).unwrap().query(), None);
    }

    #[test]
    fn encoded_slashes_become_slashes_when_asked() {
        let raw = &b"/a%2fb%2F..%2Fc%252Fd?e%2Ff"[..];
        let mut target = Target::new(Bytes::from_static(raw)).unwrap();
        assert!(target.has_encoded_slash());
        target.decode_slashes().unwrap();
        assert_eq!(target.raw(), b"/a/b/../c%252Fd?e%2Ff");
        assert_eq!((target.path(), target.routed_path()), ("/a/c%252Fd", "/a/c%252Fd"));
        assert_eq!(target.received_path(), &raw[..raw.len() - 6]);
        assert!(!target.has_encoded_slash());
        for plain in ["/", "/a%20b%2", "/%252F", "/a?%2F"] {
            let target = Target::new(Bytes::from_static(plain.as_bytes()));
            assert!(target.is_err() || !target.unwrap().has_encoded_slash(), "{plain}");
        }
    }
}
