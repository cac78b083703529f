//! The request that the origin gets.
//!
//! It asks for the whole, in a coding of our choice, and for nothing that only this client wants:
//! what comes may be for everybody. What the client asked beyond that (preconditions, a part, HEAD)
//! is answered from what comes.

use bytes::Bytes;
use exchange::{Headers, Request};
use wire::{Known, Method};

use crate::rules::validate;
use crate::{FetchTerms, Key};

/// What a client asks of a representation it has, or of a part of it (RFC 9110 13, 14).
const OWN: [Known; 6] = [
    Known::IfMatch,
    Known::IfNoneMatch,
    Known::IfModifiedSince,
    Known::IfUnmodifiedSince,
    Known::IfRange,
    Known::Range,
];

/// The request for a fetch; `stored` are the fields of what is to be validated.
pub(super) fn asked(
    request: &Request,
    key: &Key,
    stored: Option<&Headers>,
    terms: &FetchTerms,
) -> Request {
    let mut asked = request.apart();
    asked.method = Method::Get;
    asked.headers.retain(|field| {
        let own = field.known.is_some_and(|known| OWN.contains(&known));
        let dropped = || {
            terms.drop.iter().any(|name| wire::alias::same(name.as_str().as_bytes(), field.name))
        };
        // The address of one client is not in the key, so an answer must not depend on it.
        let address = field
            .known
            .is_some_and(|known| known.is_client_address() && known != Known::XForwardedFor);
        let ours = matches!(field.known, Some(Known::AcceptEncoding | Known::Expect));
        !own && !ours && !address && !dropped()
    });
    // RFC 9110 12.5.3: no field at all would mean any coding.
    let codings = terms.accept_encoding.as_deref().unwrap_or("identity");
    asked.headers.append(Known::AcceptEncoding, codings);
    if let Some(stored) = stored {
        validate::add_conditions(stored, &mut asked.headers);
    }
    if terms.narrow_query {
        narrow(&mut asked, key);
    }
    asked
}

/// Where the key leaves out parameters of the query, the origin gets those that count: what it does
/// with another one would be in everybody's answer.
fn narrow(asked: &mut Request, key: &Key) {
    let url = key.url();
    let query = memchr::memchr(b'?', url).map(|at| &url[at + 1..]);
    if query == asked.target.query() {
        return;
    }
    let path = asked.target.raw_path();
    let raw = match query {
        Some(query) => [path, b"?", query].concat(),
        None => path.to_vec(),
    };
    // A path that was accepted with one query is with another.
    let _ = asked.target.replace(Bytes::from(raw));
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use exchange::Target;

    use super::*;

    fn request(target: &'static str, fields: &[(&str, &str)]) -> Request {
        let mut headers = Headers::new();
        for (name, value) in fields {
            headers.append(*name, *value);
        }
        let target = Target::new(Bytes::from_static(target.as_bytes())).unwrap();
        Request::made_up(Method::Head, target, headers)
    }

    fn terms() -> FetchTerms {
        FetchTerms {
            wait: Duration::ZERO,
            outlive: Duration::ZERO,
            outlive_bytes: 0,
            drop: Box::new(["x-host".parse().unwrap()]),
            accept_encoding: Some("gzip".into()),
            narrow_query: true,
        }
    }

    fn key(url: &str) -> Key {
        Key::new(url.as_bytes(), url.len())
    }

    #[test]
    fn what_one_client_wants_is_left_out() {
        let fields = [
            ("Host", "a"),
            ("Range", "bytes=0-1"),
            ("If-Range", "\"x\""),
            ("If-None-Match", "\"x\""),
            ("If-Modified-Since", "Thu, 01 Jan 1970 00:00:00 GMT"),
            ("Accept-Encoding", "br"),
            ("X-Host", "evil"),
            ("Accept-Language", "en"),
        ];
        let asked = asked(&request("/", &fields), &key("http://a/"), None, &terms());
        assert_eq!(asked.method, Method::Get);
        let names: Vec<_> = asked.headers.iter().map(|field| field.name).collect();
        assert_eq!(names, [&b"Host"[..], b"Accept-Language", b"Accept-Encoding"]);
        assert_eq!(asked.headers.get(Known::AcceptEncoding), Some(&b"gzip"[..]));
    }

    /// RFC 9111 4.3.1.
    #[test]
    fn a_validation_sends_the_stored_validators() {
        let mut stored = Headers::new();
        stored.append("ETag", "W/\"1\"");
        stored.append("Last-Modified", "Thu, 01 Jan 1970 00:00:01 GMT");
        let request = request("/", &[("If-None-Match", "\"the client's\"")]);
        let asked = asked(&request, &key("http://a/"), Some(&stored), &terms());
        assert_eq!(asked.headers.get_all("if-none-match").collect::<Vec<_>>(), [b"W/\"1\""]);
        let date = asked.headers.get("if-modified-since");
        assert_eq!(date, Some(&b"Thu, 01 Jan 1970 00:00:01 GMT"[..]));
    }

    #[test]
    fn the_origin_gets_the_parameters_that_count() {
        for (target, url, wanted) in [
            ("/a?b=1&c=2", "http://a/a?b=1&c=2", "/a?b=1&c=2"),
            ("/a?b=1&c=2", "http://a/a?c=2", "/a?c=2"),
            ("/%61?b=1", "http://a/a", "/a"),
            ("/a", "http://a/a", "/a"),
        ] {
            let asked = asked(&request(target, &[]), &key(url), None, &terms());
            assert_eq!(asked.target.raw(), wanted.as_bytes());
        }
    }
}
