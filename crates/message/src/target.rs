//! The target of a request: its path in canonical form, and its query as it was received.
//!
//! The *raw path* is the canonical form of `wire::target`: it is forwarded, keyed and handed to
//! applications. The *path* is the normal form of the same text, decoded, which routes, filters and
//! files look at. Most paths are the same in both, and then there is only one. What the client
//! wrote is kept where it differs, for the log and `explain`.

use bytes::Bytes;
use wire::target::{PathFault, count_encoded_slashes, is_encoded_slash};

/// Longest raw target that is kept in place.
const SHORT_MAX: usize = 79;

/// Path and query of a request.
#[derive(Clone, Debug)]
pub struct Target {
    raw: Raw,
    /// Length of the raw path, before any `?`.
    path_length: u32,
    /// True if the listener takes `%2F` for a part of a name.
    keeps_encoded_slashes: bool,
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
    /// The normal form of a path that has escapes.
    path: Option<Box<str>>,
    /// The first path, where another one has replaced it: parameters of the route are parts of it.
    routed: Option<Box<str>>,
    /// The path as it was received, where it was not canonical or another one has replaced it.
    received: Option<Box<[u8]>>,
}

/// All there is to say of a target, for another process.
pub struct TargetParts<'a> {
    pub raw: &'a [u8],
    pub path_length: usize,
    pub path: Option<&'a str>,
    pub routed: Option<&'a str>,
    pub received: Option<&'a [u8]>,
}

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
    /// From an origin-form target in any spelling.
    pub fn new(raw: Bytes) -> Result<Target, PathFault> {
        let path_length = raw.iter().position(|byte| *byte == b'?').unwrap_or(raw.len());
        Target::split_at(&raw, path_length)
    }

    /// The target of `OPTIONS *` (RFC 9110 9.3.7).
    pub fn asterisk() -> Target {
        let mut text = [0; SHORT_MAX];
        text[0] = b'*';
        let raw = Raw::Short { length: 1, text };
        Target { raw, path_length: 1, keeps_encoded_slashes: false, other: None }
    }

    /// The target of `OPTIONS http://host`: routes see `/`, the server is sent `*` (RFC 9112
    /// 3.2.4).
    pub fn whole_server() -> Target {
        let path = Some("/".into());
        let other = Some(Box::new(Other { path, ..Other::default() }));
        Target { other, ..Target::asterisk() }
    }

    /// The target of CONNECT (RFC 9112 3.2.3), which names no resource.
    pub fn authority(authority: &[u8]) -> Target {
        let mut target = Target::asterisk();
        target.raw.assign(authority);
        target.path_length = authority.len() as u32;
        target
    }

    /// True if it names no resource of the server: that of `OPTIONS *`, and of CONNECT.
    #[inline]
    pub fn names_no_resource(&self) -> bool {
        self.other.is_none() && self.raw.get().first() != Some(&b'/')
    }

    /// Whether it is the target of `OPTIONS *`.
    pub fn is_asterisk(&self) -> bool {
        self.other.is_none() && self.raw.get() == b"*"
    }

    /// From a target whose path is known to end at `path_length`.
    pub fn split_at(raw: &[u8], path_length: usize) -> Result<Target, PathFault> {
        let mut target = Target::asterisk();
        target.assign(raw, path_length)?;
        Ok(target)
    }

    /// [`Target::split_at`] in place.
    #[inline]
    pub fn assign(&mut self, raw: &[u8], path_length: usize) -> Result<(), PathFault> {
        self.keeps_encoded_slashes = false;
        if !wire::target::is_plain(&raw[..path_length]) {
            return self.assign_unusual(raw, path_length);
        }
        self.other = None;
        self.raw.assign(raw);
        // A request line is far shorter than 4 GiB.
        self.path_length = path_length as u32;
        Ok(())
    }

    #[cold]
    fn assign_unusual(&mut self, raw: &[u8], path_length: usize) -> Result<(), PathFault> {
        let (received, query) = raw.split_at(path_length);
        let canonical = wire::target::canonical(received)?;
        let normal = wire::target::normal_form(&canonical)?;
        let path = canonical.contains(&b'%').then(|| Box::from(&*normal));
        let received = (*canonical != *received).then(|| received.into());
        let unusual = path.is_some() || received.is_some();
        self.other = unusual.then(|| Box::new(Other { path, received, routed: None }));
        self.path_length = canonical.len() as u32;
        self.raw.assign(&[&canonical, query].concat());
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
            // A canonical path is ASCII.
            None => std::str::from_utf8(self.raw_path()).unwrap_or("/"),
        }
    }

    /// The path that the route was chosen by, whatever has become of it since.
    pub fn routed_path(&self) -> &str {
        let routed = self.other.as_ref().and_then(|other| other.routed.as_deref());
        routed.unwrap_or_else(|| self.path())
    }

    /// The canonical path, which is forwarded: of what the client wrote, or of what a filter has
    /// put in its place.
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

    /// Path and query as they are forwarded.
    pub fn raw(&self) -> &[u8] {
        self.raw.get()
    }

    /// Replaces path and query by another target, in any spelling.
    pub fn replace(&mut self, raw: impl Into<Bytes>) -> Result<(), PathFault> {
        self.become_target(Target::new(raw.into())?);
        Ok(())
    }

    /// Replaces the path and keeps the query.
    pub fn replace_path(&mut self, raw_path: &[u8]) -> Result<(), PathFault> {
        let query = &self.raw()[self.path_length as usize..];
        let raw = [raw_path, query].concat();
        self.become_target(Target::split_at(&raw, raw_path.len())?);
        Ok(())
    }

    /// Returns the target without the originals that it replaced: that of a new request.
    pub fn without_originals(&self) -> Target {
        let mut target = self.clone();
        if let Some(other) = &mut target.other {
            (other.routed, other.received) = (None, None);
        }
        target
    }

    /// True if the path may have `%2F`, also where a filter writes it: see
    /// [`Target::keep_encoded_slashes`].
    pub fn keeps_encoded_slashes(&self) -> bool {
        self.keeps_encoded_slashes
    }

    /// Permits filters to put `%2F` into the path. Only the rule of the listener does so: to many
    /// servers an encoded slash is a slash.
    pub fn keep_encoded_slashes(&mut self) {
        self.keeps_encoded_slashes = true;
    }

    /// Whether the path was received with `%2F`, which RFC 3986 2.2 tells apart from a slash.
    #[inline]
    pub fn has_encoded_slash(&self) -> bool {
        self.other.is_some() && count_encoded_slashes(self.received_path()) > 0
    }

    /// Reads the received path as if every `%2F` had been written as a slash.
    pub fn decode_slashes(&mut self) -> Result<(), PathFault> {
        let received = self.received_path().to_vec();
        let mut raw = Vec::with_capacity(self.raw().len());
        let mut rest = &received[..];
        while let Some((&first, more)) = rest.split_first() {
            let slash = is_encoded_slash(rest);
            raw.push(if slash { b'/' } else { first });
            rest = if slash { &rest[3..] } else { more };
        }
        let path_length = raw.len();
        raw.extend_from_slice(&self.raw()[self.path_length as usize..]);
        self.assign(&raw, path_length)?;
        self.other.get_or_insert_default().received = Some(received.into());
        Ok(())
    }

    pub fn parts(&self) -> TargetParts<'_> {
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
    pub fn of_parts(parts: &TargetParts<'_>) -> Target {
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
        let keeps_encoded_slashes = self.keeps_encoded_slashes;
        *self = Target { keeps_encoded_slashes, ..new };
        let other = self.other.get_or_insert_default();
        (other.routed, other.received) = (Some(routed), Some(received));
    }
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
    fn routes_and_upstreams_see_one_path() {
        let mut target = Target::new(Bytes::from_static(b"/a%20b/../c%2e%20?q=/../%2e")).unwrap();
        assert_eq!(target.path(), "/c. ");
        assert_eq!(target.raw(), b"/c.%20?q=/../%2e");
        let received = &b"/a%20b/../c%2e%20"[..];
        assert_eq!(target.received_path(), received);
        target.replace_path(b"/new").unwrap();
        assert_eq!(target.raw(), b"/new?q=/../%2e");
        assert_eq!(target.path(), "/new");
        target.replace(Bytes::from_static(b"//x/../newer")).unwrap();
        assert_eq!((target.raw_path(), target.received_path()), (&b"/newer"[..], received));
        assert_eq!((target.path(), target.routed_path()), ("/newer", "/c. "));
        assert_eq!(target.replace_path(b"/a\\b"), Err(PathFault::Backslash));
    }

    #[test]
    fn a_target_in_use_is_assigned_whole() {
        let mut target = Target::new(Bytes::from_static(b"/%20//x?y")).unwrap();
        target.assign(b"/plain?q", 6).unwrap();
        assert!(target.other.is_none());
        assert_eq!((target.raw(), target.path()), (&b"/plain?q"[..], "/plain"));
        target.assign(b"//h/.well-known", 15).unwrap();
        assert_eq!((target.raw(), target.path()), (&b"/h/.well-known"[..], "/h/.well-known"));
        assert_eq!(target.received_path(), b"//h/.well-known");
        target.assign(b"/.well-known", 12).unwrap();
        assert!(target.other.is_none());
    }

    #[test]
    fn an_empty_query_is_not_no_query() {
        assert_eq!(Target::new(Bytes::from_static(b"/?")).unwrap().query(), Some(&b""[..]));
        assert_eq!(Target::new(Bytes::from_static(b"/")).unwrap().query(), None);
    }

    #[test]
    fn encoded_slashes_become_slashes_when_configured() {
        let raw = &b"/a%2fb%2F..%2Fc%252Fd?e%2Ff"[..];
        let mut target = Target::new(Bytes::from_static(raw)).unwrap();
        assert!(target.has_encoded_slash());
        target.decode_slashes().unwrap();
        assert_eq!(target.raw(), b"/a/c%252Fd?e%2Ff");
        assert_eq!((target.path(), target.routed_path()), ("/a/c%252Fd", "/a/c%252Fd"));
        assert_eq!(target.received_path(), &raw[..raw.len() - 6]);
        let mut target = Target::new(Bytes::from_static(b"/x/a%2Fb/../c")).unwrap();
        assert!(target.has_encoded_slash() && target.path() == "/x/c");
        target.decode_slashes().unwrap();
        assert_eq!(target.raw(), b"/x/a/c");
        for plain in ["/", "/a%20b%2", "/%252F", "/a?%2F"] {
            let target = Target::new(Bytes::from_static(plain.as_bytes()));
            assert!(target.is_err() || !target.unwrap().has_encoded_slash(), "{plain}");
        }
    }
}
