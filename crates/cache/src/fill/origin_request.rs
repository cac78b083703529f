//! Builds the request to the origin.
//!
//! It requests the whole representation under the URL of the key, in content codings that the cache
//! chooses, without the fields that concern this client alone: the response may be for all clients.
//! Conditions, ranges and HEAD are answered from that response.

use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use message::{Headers, Request};
use wire::{Known, Method, token};

use crate::rules::validate;
use crate::{FetchConfig, Key};

/// Conditions and ranges of a client (RFC 9110 13, 14).
const CONDITIONS_AND_RANGE: [Known; 6] = [
    Known::IfMatch,
    Known::IfNoneMatch,
    Known::IfModifiedSince,
    Known::IfUnmodifiedSince,
    Known::IfRange,
    Known::Range,
];

/// Builds the request of a fetch; `stored` are the headers of the response to revalidate.
pub(super) fn origin_request(
    request: &Request,
    key: &Key,
    stored: Option<&Headers>,
    config: &FetchConfig,
) -> Request {
    let mut sent = request.for_background();
    sent.method = Method::Get;
    sent.headers.retain(|field| {
        let own = field.known.is_some_and(|known| CONDITIONS_AND_RANGE.contains(&known));
        let dropped = || {
            let mut names = config.drop.iter().chain(&config.drop_content);
            names.any(|name| wire::alias::same(name.as_str().as_bytes(), field.name))
        };
        // The address of one client is not in the key, so the response must not depend on it.
        let address = field
            .known
            .is_some_and(|known| known.is_client_address() && known != Known::XForwardedFor);
        let ours = matches!(field.known, Some(Known::AcceptEncoding | Known::Expect));
        // The origin may read `If_None_Match` as the field that the cache has evaluated or removed.
        let alias = || field.known.is_none() && wire::alias::alias_of(field.name).is_some();
        !own && !ours && !address && !alias() && !dropped()
    });
    // RFC 9110 12.5.3: without the field any coding would be acceptable.
    let codings = config.accept_encoding.as_deref().unwrap_or("identity");
    sent.headers.append(Known::AcceptEncoding, codings);
    if let Some(stored) = stored {
        validate::add_conditions(stored, &mut sent.headers);
    }
    normalise(&mut sent, key);
    trim_forwarded_for(&mut sent);
    sent
}

/// Builds the request for a range, without any content coding: coded parts are not stored. `stored`
/// are the headers of the parts to revalidate.
pub(crate) fn range_origin_request(
    request: &Request,
    key: &Key,
    stored: Option<&Headers>,
    config: &FetchConfig,
) -> Request {
    let mut part = origin_request(request, key, stored, config);
    part.headers.set(Known::AcceptEncoding, "identity");
    for name in [Known::Range, Known::IfRange] {
        for value in request.headers.get_all(name) {
            part.headers.append(name, value);
        }
    }
    part
}

/// Replaces the URL by that of the key: the spelling of one client, and parameters that do not
/// count, must not decide what other clients get.
fn normalise(sent: &mut Request, key: &Key) {
    let url = key.url();
    let authority = memchr::memmem::find(url, b"://").map_or(0, |at| at + 3);
    let path = memchr::memchr(b'/', &url[authority..]).map_or(url.len(), |at| authority + at);
    let (authority, target) = (&url[authority..path], &url[path..]);
    if authority != sent.authority() {
        sent.headers.set(Known::Host, authority);
    }
    if target != sent.target.raw() {
        // A URL that is in a key can be requested.
        let _ = sent.target.replace(Bytes::copy_from_slice(target));
    }
}

/// Removes what precedes the client's address in X-Forwarded-For: the client wrote it, and it is
/// not in the key. The address itself tells the origin which client caused the fetch.
fn trim_forwarded_for(sent: &mut Request) {
    if !sent.headers.contains(Known::XForwardedFor) {
        return;
    }
    let chain: Vec<&[u8]> =
        sent.headers.get_all(Known::XForwardedFor).flat_map(token::list).collect();
    let from = chain.iter().rposition(|node| is_address(node, sent.client_ip));
    let chain = from.map(|from| chain[from..].join(&b", "[..]));
    match chain {
        Some(chain) => sent.headers.set(Known::XForwardedFor, chain),
        None => drop(sent.headers.remove(Known::XForwardedFor)),
    }
}

/// True if a member of X-Forwarded-For is this address, with or without a port.
fn is_address(node: &[u8], ip: IpAddr) -> bool {
    let Ok(node) = std::str::from_utf8(node) else { return false };
    let alone = node.trim_matches(['[', ']']).parse::<IpAddr>();
    let found = alone.or_else(|_| node.parse::<SocketAddr>().map(|address| address.ip()));
    found.is_ok_and(|found| found.to_canonical() == ip)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use message::Target;

    use super::*;

    fn request(target: &'static str, fields: &[(&str, &str)]) -> Request {
        let mut headers = Headers::new();
        for (name, value) in fields {
            headers.append(*name, *value);
        }
        let target = Target::new(Bytes::from_static(target.as_bytes())).unwrap();
        Request::made_up(Method::Head, target, headers)
    }

    fn config() -> FetchConfig {
        FetchConfig {
            wait: Duration::ZERO,
            outlive: Duration::ZERO,
            outlive_bytes: 0,
            drop: Box::new(["x-host".parse().unwrap()]),
            drop_content: Box::new(["content-type".parse().unwrap(), "te".parse().unwrap()]),
            accept_encoding: Some("gzip".into()),
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
            ("Content-Type", "text/plain"),
            ("Content_Type", "text/plain"),
            ("TE", "trailers"),
            ("If_None_Match", "*"),
            ("Range_", "bytes=0-1"),
            ("Accept--Language", "de"),
            ("Accept-Language", "en"),
        ];
        let sent = origin_request(&request("/", &fields), &key("http://a/"), None, &config());
        assert_eq!(sent.method, Method::Get);
        let names: Vec<_> = sent.headers.iter().map(|field| field.name).collect();
        assert_eq!(names, [&b"Host"[..], b"Accept-Language", b"Accept-Encoding"]);
        assert_eq!(sent.headers.get(Known::AcceptEncoding), Some(&b"gzip"[..]));
    }

    /// RFC 9111 4.3.1.
    #[test]
    fn a_validation_sends_the_stored_validators() {
        let mut stored = Headers::new();
        stored.append("ETag", "W/\"1\"");
        stored.append("Last-Modified", "Thu, 01 Jan 1970 00:00:01 GMT");
        let request = request("/", &[("If-None-Match", "\"the client's\"")]);
        let sent = origin_request(&request, &key("http://a/"), Some(&stored), &config());
        assert_eq!(sent.headers.get_all("if-none-match").collect::<Vec<_>>(), [b"W/\"1\""]);
        let date = sent.headers.get("if-modified-since");
        assert_eq!(date, Some(&b"Thu, 01 Jan 1970 00:00:01 GMT"[..]));
    }

    #[test]
    fn the_origin_gets_the_url_as_the_key_has_it() {
        for (target, url, expected) in [
            ("/a?b=1&c=2", "http://a/a?b=1&c=2", "/a?b=1&c=2"),
            ("/a?b=1&c=2", "http://a/a?c=2", "/a?c=2"),
            ("/%61?b=1", "http://a/a", "/a"),
            ("/a", "http://a/a", "/a"),
        ] {
            let sent =
                origin_request(&request(target, &[("Host", "A:80")]), &key(url), None, &config());
            assert_eq!(sent.target.raw(), expected.as_bytes());
            assert_eq!(sent.authority(), b"a");
        }
    }

    /// The part of X-Forwarded-For that the client wrote is not in the key.
    #[test]
    fn the_chain_of_forwarders_begins_at_the_client() {
        for (chain, client, expected) in [
            ("evil, 192.0.2.1, 10.0.0.1", "192.0.2.1", Some("192.0.2.1, 10.0.0.1")),
            ("192.0.2.1:99", "192.0.2.1", Some("192.0.2.1:99")),
            ("[2001:db8::1]:99, 10.0.0.1", "2001:db8::1", Some("[2001:db8::1]:99, 10.0.0.1")),
            ("2001:DB8::1", "2001:db8::1", Some("2001:DB8::1")),
            ("evil", "10.0.0.1", None),
        ] {
            let mut request = request("/", &[("X-Forwarded-For", chain)]);
            request.client_ip = client.parse().unwrap();
            let sent = origin_request(&request, &key("http://a/"), None, &config());
            let sent = sent.headers.get_str(Known::XForwardedFor);
            assert_eq!(sent, expected, "{chain}");
        }
    }
}
