//! Request methods and protocol versions (RFC 9110 9, RFC 9112 2.3).
//!
//! Owns the properties of methods: safe, idempotent. Method names are case-sensitive: `get` is
//! another method than `GET`. Does not decide whether a method is allowed.

use bytes::Bytes;

/// Registered methods other than those of [`Method`] (RFC 9110 16.1.1, the IANA registry), and
/// PURGE, which caches accept.
const OTHER_REGISTERED: &[&str] = &[
    "ACL",
    "BASELINE-CONTROL",
    "BIND",
    "CHECKIN",
    "CHECKOUT",
    "COPY",
    "LABEL",
    "LINK",
    "LOCK",
    "MERGE",
    "MKACTIVITY",
    "MKCALENDAR",
    "MKCOL",
    "MKREDIRECTREF",
    "MKWORKSPACE",
    "MOVE",
    "ORDERPATCH",
    "PRI",
    "PROPFIND",
    "PROPPATCH",
    "PURGE",
    "QUERY",
    "REBIND",
    "REPORT",
    "SEARCH",
    "UNBIND",
    "UNCHECKOUT",
    "UNLINK",
    "UNLOCK",
    "UPDATE",
    "UPDATEREDIRECTREF",
    "VERSION-CONTROL",
];

/// A request method.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    Get,
    Head,
    Post,
    Put,
    Delete,
    Options,
    Trace,
    Patch,
    Connect,
    /// Any other token.
    Other(Bytes),
}

impl Method {
    /// Returns the method with this name. The name is not checked to be a token: the parser has
    /// done that, and configuration uses `parse`.
    #[inline]
    pub fn from_bytes(name: &[u8]) -> Method {
        match name {
            b"GET" => Method::Get,
            b"HEAD" => Method::Head,
            b"POST" => Method::Post,
            b"PUT" => Method::Put,
            b"DELETE" => Method::Delete,
            b"OPTIONS" => Method::Options,
            b"TRACE" => Method::Trace,
            b"PATCH" => Method::Patch,
            b"CONNECT" => Method::Connect,
            other => Method::Other(Bytes::copy_from_slice(other)),
        }
    }

    /// Like `from_bytes` for arbitrary text: `None` unless it is a token.
    pub fn parse(name: &[u8]) -> Option<Method> {
        crate::token::is_token(name).then(|| Method::from_bytes(name))
    }

    /// True for a registered method in another letter case, such as `get`: a rule for `GET` does
    /// not match it, and some recipients treat it as `GET`.
    pub(crate) fn is_case_variant(&self) -> bool {
        let Method::Other(name) = self else { return false };
        if !name.iter().any(u8::is_ascii_lowercase) {
            return false;
        }
        let upper = name.to_ascii_uppercase();
        !matches!(Method::from_bytes(&upper), Method::Other(_))
            || OTHER_REGISTERED.iter().any(|registered| registered.as_bytes() == upper)
    }

    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Method::Other(name) => name,
            known => known.name_or("").as_bytes(),
        }
    }

    /// Returns the name, or `other` for a method that has no variant of its own.
    #[inline]
    pub fn name_or(&self, other: &'static str) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Head => "HEAD",
            Method::Post => "POST",
            Method::Put => "PUT",
            Method::Delete => "DELETE",
            Method::Options => "OPTIONS",
            Method::Trace => "TRACE",
            Method::Patch => "PATCH",
            Method::Connect => "CONNECT",
            Method::Other(_) => other,
        }
    }

    #[inline]
    pub fn as_str(&self) -> &str {
        // A method is a token, hence ASCII; one made of other bytes becomes empty.
        std::str::from_utf8(self.as_bytes()).unwrap_or("")
    }

    /// True if the request does not change state (RFC 9110 9.2.1).
    #[inline]
    pub fn is_safe(&self) -> bool {
        matches!(self, Method::Get | Method::Head | Method::Options | Method::Trace)
    }

    /// True if repeating the request has the same effect as sending it once (RFC 9110 9.2.2).
    #[inline]
    pub fn is_idempotent(&self) -> bool {
        self.is_safe() || matches!(self, Method::Put | Method::Delete)
    }
}

/// The protocol version of a message. A higher minor version of HTTP/1 is treated as 1.1, the
/// highest that both sides understand (RFC 9110 2.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Version {
    Http10,
    Http11,
    Http2,
}

impl Version {
    pub fn as_str(self) -> &'static str {
        match self {
            Version::Http10 => "HTTP/1.0",
            Version::Http11 => "HTTP/1.1",
            Version::Http2 => "HTTP/2.0",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Method;

    #[test]
    fn names_round_trip_and_case_matters() {
        let all = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "CONNECT"];
        for name in all {
            let method = Method::from_bytes(name.as_bytes());
            assert!(!matches!(method, Method::Other(_)), "{name}");
            assert_eq!(method.as_str(), name);
            let lower = Method::from_bytes(name.to_ascii_lowercase().as_bytes());
            assert!(matches!(lower, Method::Other(_)), "{name}");
        }
        let other = Method::parse(b"PROPFIND").unwrap();
        assert_eq!((other.as_str(), other.name_or("HTTP")), ("PROPFIND", "HTTP"));
        assert_eq!(Method::parse(b"GET "), None);
        assert_eq!(Method::parse(b""), None);
    }

    #[test]
    fn case_variants_of_registered_methods_are_recognised() {
        for name in ["get", "Get", "gET", "connect", "propfind", "Purge", "version-control"] {
            assert!(Method::from_bytes(name.as_bytes()).is_case_variant(), "{name}");
        }
        for name in ["GET", "PROPFIND", "FROB", "frob", "gets", "M-SEARCH"] {
            assert!(!Method::from_bytes(name.as_bytes()).is_case_variant(), "{name}");
        }
    }

    #[test]
    fn methods_are_safe_or_idempotent_as_registered() {
        assert!(Method::Get.is_safe() && Method::Get.is_idempotent());
        assert!(!Method::Put.is_safe() && Method::Put.is_idempotent());
        assert!(!Method::Post.is_idempotent() && !Method::Patch.is_idempotent());
        assert!(!Method::from_bytes(b"get").is_idempotent());
    }
}
