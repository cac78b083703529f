//! The static table (RFC 7541 appendix A) and what the names in it mean.

use super::Name;
use crate::Known;

use Known as K;
use Name::{Authority, Known as Field, Method, Path, Scheme, Status};

/// Number of entries; the dynamic table follows.
pub(super) const LEN: usize = 61;

/// An entry: its name, as text and by meaning, and its value.
pub(super) type Row = (&'static str, Name, &'static str);

/// The entries in the order of their index, which begins with 1.
pub(super) static ROWS: [Row; LEN] = [
    (":authority", Authority, ""),
    (":method", Method, "GET"),
    (":method", Method, "POST"),
    (":path", Path, "/"),
    (":path", Path, "/index.html"),
    (":scheme", Scheme, "http"),
    (":scheme", Scheme, "https"),
    (":status", Status, "200"),
    (":status", Status, "204"),
    (":status", Status, "206"),
    (":status", Status, "304"),
    (":status", Status, "400"),
    (":status", Status, "404"),
    (":status", Status, "500"),
    ("accept-charset", Field(K::AcceptCharset), ""),
    ("accept-encoding", Field(K::AcceptEncoding), "gzip, deflate"),
    ("accept-language", Field(K::AcceptLanguage), ""),
    ("accept-ranges", Field(K::AcceptRanges), ""),
    ("accept", Field(K::Accept), ""),
    ("access-control-allow-origin", Field(K::AccessControlAllowOrigin), ""),
    ("age", Field(K::Age), ""),
    ("allow", Field(K::Allow), ""),
    ("authorization", Field(K::Authorization), ""),
    ("cache-control", Field(K::CacheControl), ""),
    ("content-disposition", Field(K::ContentDisposition), ""),
    ("content-encoding", Field(K::ContentEncoding), ""),
    ("content-language", Field(K::ContentLanguage), ""),
    ("content-length", Field(K::ContentLength), ""),
    ("content-location", Field(K::ContentLocation), ""),
    ("content-range", Field(K::ContentRange), ""),
    ("content-type", Field(K::ContentType), ""),
    ("cookie", Field(K::Cookie), ""),
    ("date", Field(K::Date), ""),
    ("etag", Field(K::Etag), ""),
    ("expect", Field(K::Expect), ""),
    ("expires", Field(K::Expires), ""),
    ("from", Field(K::From), ""),
    ("host", Field(K::Host), ""),
    ("if-match", Field(K::IfMatch), ""),
    ("if-modified-since", Field(K::IfModifiedSince), ""),
    ("if-none-match", Field(K::IfNoneMatch), ""),
    ("if-range", Field(K::IfRange), ""),
    ("if-unmodified-since", Field(K::IfUnmodifiedSince), ""),
    ("last-modified", Field(K::LastModified), ""),
    ("link", Field(K::Link), ""),
    ("location", Field(K::Location), ""),
    ("max-forwards", Field(K::MaxForwards), ""),
    ("proxy-authenticate", Field(K::ProxyAuthenticate), ""),
    ("proxy-authorization", Field(K::ProxyAuthorization), ""),
    ("range", Field(K::Range), ""),
    ("referer", Field(K::Referer), ""),
    ("refresh", Field(K::Refresh), ""),
    ("retry-after", Field(K::RetryAfter), ""),
    ("server", Field(K::Server), ""),
    ("set-cookie", Field(K::SetCookie), ""),
    ("strict-transport-security", Field(K::StrictTransportSecurity), ""),
    ("transfer-encoding", Field(K::TransferEncoding), ""),
    ("user-agent", Field(K::UserAgent), ""),
    ("vary", Field(K::Vary), ""),
    ("via", Field(K::Via), ""),
    ("www-authenticate", Field(K::WwwAuthenticate), ""),
];

/// The index of a name in the table; zero for names that are not in it.
static NAME_INDEX: [u8; K::COUNT] = name_index();

const fn name_index() -> [u8; K::COUNT] {
    let mut index = [0; K::COUNT];
    let mut at = 0;
    while at < LEN {
        if let Field(known) = ROWS[at].1 {
            index[known as usize] = at as u8 + 1;
        }
        at += 1;
    }
    index
}

/// The index of the first entry with this name.
#[inline]
pub(super) fn name_of(known: Known) -> Option<usize> {
    let index = usize::from(NAME_INDEX[known.index()]);
    (index > 0).then_some(index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_mean_what_they_spell() {
        for (text, name, value) in ROWS {
            assert_eq!(Name::of(text.as_bytes()), name, "{text}");
            if let Field(known) = name {
                assert_eq!(name_of(known).map(|index| ROWS[index - 1].0), Some(text));
                assert!(value.is_empty() || known == K::AcceptEncoding, "{text}");
            }
        }
        assert_eq!(name_of(K::Connection), None);
    }
}
