//! Which requests have one key, and which have none.

use std::collections::HashMap;

use bytes::Bytes;
use message::{Headers, Request, Scheme, Target};
use wire::Method;

use super::*;

fn request(target: &str, fields: &[(&str, &str)]) -> Request {
    let mut headers = Headers::new();
    for (name, value) in fields {
        headers.append(*name, value);
    }
    let target = Target::new(Bytes::copy_from_slice(target.as_bytes())).unwrap();
    Request::made_up(Method::Get, target, headers)
}

fn rules(keys: &[&str]) -> KeyRules {
    let keys: Vec<settings::Key> = keys.iter().map(|key| key.parse().unwrap()).collect();
    KeyRules::new("shop", KeyPath::Normal, KeyQuery::default(), &keys)
}

fn text(rules: &KeyRules, request: &Request) -> Result<String, KeyError> {
    with_key_buffer(|buffer| {
        rules.write(request, buffer)?;
        Ok(String::from_utf8(buffer.text().to_vec()).unwrap())
    })
}

#[test]
fn the_url_comes_first_and_then_the_route() {
    let host = [("Host", "Shop.Example:80")];
    for (target, wanted) in [
        ("/", "http://shop.example/\0shop"),
        ("/a?b=C", "http://shop.example/a?b=C\0shop"),
        ("/a?", "http://shop.example/a?\0shop"),
    ] {
        assert_eq!(text(&rules(&[]), &request(target, &host)).as_deref(), Ok(wanted));
    }
    let mut secure = request("/", &[("Host", "A:443")]);
    secure.scheme = Scheme::Https;
    assert_eq!(text(&rules(&[]), &secure).as_deref(), Ok("https://a/\0shop"));
    for (authority, kept) in [("a:", "a"), ("a:443", "a:443"), ("[::80]", "[::80]"), ("", "")] {
        let found = text(&rules(&[]), &request("/", &[("Host", authority)]));
        assert_eq!(found, Ok(format!("http://{kept}/\0shop")));
    }
    with_key_buffer(|buffer| {
        rules(&["client_ip"]).write(&request("/a", &host), buffer).unwrap();
        assert_eq!(
            (buffer.url(), buffer.key().url()),
            (&b"http://shop.example/a"[..], buffer.url())
        );
    });
}

/// Objects on disk are found by these texts after an update, so a failure of this test means that a
/// release would fetch all of them again.
#[test]
fn the_hash_of_key_rules_stays_the_same() {
    let names = |names: &[&str]| names.iter().map(|name| name.as_bytes().into()).collect();
    let except = SignificantParams::Except(names(&["utm_source", "ref"]));
    let only = SignificantParams::Only(names(&["page"]));
    let sorted = |significant| KeyQuery { sorted: true, significant };
    for (rules, hash) in [
        (rules(&["header.x-a", "{consumer}"]), "589a7875"),
        (KeyRules::new("shop", KeyPath::Raw, sorted(except), []), "5052a187"),
        (KeyRules::new("shop", KeyPath::Normal, sorted(only), []), "73bde57e"),
    ] {
        let text = text(&rules, &request("/", &[("Host", "a")])).unwrap();
        assert_eq!(text.split('\0').nth(1), Some(&*format!("shop\u{1}{hash}")));
    }
}

#[test]
fn a_part_that_is_missing_is_not_an_empty_one_and_every_value_counts() {
    let rules = rules(&["header.x-a", "cookie.sid", "{query.q}-{consumer}"]);
    let tail = |fields: &[(&str, &str)], query: &str| {
        let found = text(&rules, &request(&format!("/{query}"), fields)).unwrap();
        found.split('\0').skip(2).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(tail(&[], ""), ["", "", "", ""]);
    assert_eq!(tail(&[("x-a", ""), ("cookie", "sid=")], "?q"), ["=", "=", "=", ""]);
    let twice = [("x-a", "1"), ("X-A", "2"), ("cookie", "sid=s; sid=t"), ("cookie", "sid=u")];
    assert_eq!(tail(&twice, "?q=1&q=2"), ["=1, 2", "=s;t;u", "=1\u{1}2", ""]);
}

#[test]
fn requests_that_cannot_be_distinguished_safely_have_no_key() {
    let refused = |rules: &KeyRules, target: &str| text(rules, &request(target, &[])).unwrap_err();
    assert_eq!(refused(&rules(&[]), "/a%2Fb"), KeyError::AmbiguousPath);
    assert_eq!(refused(&rules(&[]), &"/x".repeat(KEY_BYTES_MAX)), KeyError::TooLong);
    let within = format!("/{}", "x".repeat(KEY_BYTES_MAX - 1));
    assert_eq!(refused(&rules(&[]), &within), KeyError::TooLong);
    for query in ["?q=%00", "?q=a%01b", "?q=%0A"] {
        assert_eq!(refused(&rules(&["query.q"]), &format!("/{query}")), KeyError::ControlCharacter);
        assert!(text(&rules(&[]), &request(&format!("/{query}"), &[])).is_ok());
    }
}

/// The serving loop lets none in; a filter may have written one.
#[test]
fn a_control_character_in_a_target_is_refused() {
    assert!(Target::new(Bytes::from_static(b"/a\0b")).is_err());
    let found = text(&rules(&[]), &request("/a?b\0shop", &[]));
    assert_eq!(found.unwrap_err(), KeyError::ControlCharacter);
}

#[test]
fn a_declared_key_stays_apart_from_every_other_declaration() {
    let plain = text(&rules(&[]), &request("/", &[])).unwrap();
    let mut seen = vec![plain];
    for keys in [&["header.a"][..], &["header.b"], &["cookie.a"], &["header.a", "header.b"]] {
        let found = text(&rules(keys), &request("/", &[])).unwrap();
        assert!(!seen.contains(&found), "{keys:?}: {found:?}");
        seen.push(found);
    }
    let other = KeyRules::new("shop2", KeyPath::Normal, KeyQuery::default(), []);
    assert!(!seen.contains(&text(&other, &request("/", &[])).unwrap()));
}

#[test]
fn variants_and_codings_stand_behind_the_primary_key() {
    with_key_buffer(|buffer| {
        rules(&[]).write(&request("/", &[]), buffer).unwrap();
        let primary = buffer.key();
        let variant = buffer.variant(|out| out.extend_from_slice(b"en")).unwrap().key();
        assert!(variant.text().ends_with(b"\0v:en") && variant.url() == primary.url());
        let coded = buffer.coding("gzip").key();
        assert!(coded.text().ends_with(b"\0v:en\0c:gzip"));
        assert_eq!(buffer.primary().key(), primary);
        let refused = buffer.variant(|out| out.push(0)).map(|_| ()).unwrap_err();
        assert_eq!(refused, KeyError::ControlCharacter);
        let long = |out: &mut Vec<u8>| out.resize(KEY_BYTES_MAX + 1, b'x');
        assert_eq!(buffer.primary().variant(long).map(|_| ()).unwrap_err(), KeyError::TooLong);
    });
}

#[test]
fn a_nested_use_of_the_key_buffer_gets_another_buffer() {
    with_key_buffer(|outer| {
        rules(&[]).write(&request("/outer", &[]), outer).unwrap();
        with_key_buffer(|inner| rules(&[]).write(&request("/inner", &[]), inner).unwrap());
        assert!(outer.url().ends_with(b"/outer"));
    });
}

/// Every combination of nasty pieces: two requests share a text only if they are the same request
/// except for spellings of the same value.
#[test]
fn no_two_requests_share_a_key() {
    let hosts = ["a", "b", "a:81", "a.b", "aa"];
    let paths = ["/", "/a", "/a%2fb", "/a%3Fq", "/a%3fq", "/a/", "/%61", "//a", "/a;b", "/a%00"];
    let queries = [None, Some(""), Some("q"), Some("q="), Some("q=1&q=2"), Some("q=1%26q=2")];
    let headers = [None, Some(""), Some("="), Some("1, 2"), Some("1"), Some("\t")];
    let cookies = [None, Some("c=1"), Some("c=1; c=2"), Some("c=\"1\""), Some("c==1")];
    let rules = rules(&["header.x", "cookie.c", "query.q"]);
    let mut seen: HashMap<String, (String, String)> = HashMap::new();
    let mut refused = 0;
    for host in hosts {
        for path in paths {
            for query in queries {
                for (header, cookie) in
                    headers.iter().flat_map(|header| cookies.iter().map(move |c| (header, c)))
                {
                    let target =
                        path.to_owned() + &query.map_or(String::new(), |q| format!("?{q}"));
                    let mut fields = vec![("host", host)];
                    fields.extend(header.map(|value| ("x", value)));
                    fields.extend(cookie.map(|value| ("cookie", value)));
                    let Ok(target) = Target::new(Bytes::from(target.clone().into_bytes())) else {
                        continue;
                    };
                    let request = Request::made_up(Method::Get, target, {
                        let mut headers = Headers::new();
                        fields.iter().for_each(|(name, value)| headers.append(*name, value));
                        headers
                    });
                    let Ok(key) = text(&rules, &request) else {
                        refused += 1;
                        continue;
                    };
                    // The spellings of one path that there are among these.
                    let same = path.replace("%61", "a").replace("%3f", "%3F").replace("//", "/");
                    let cookie = cookie.map(|value| value.replace('"', ""));
                    let who =
                        (format!("{host} {same} {query:?}"), format!("{header:?} {cookie:?}"));
                    if let Some(other) = seen.insert(key.clone(), who.clone()) {
                        assert_eq!(other, who, "{key:?}");
                    }
                }
            }
        }
    }
    assert!(refused > 0 && seen.len() > 1000, "{} {refused}", seen.len());
}

#[test]
fn what_the_key_does_not_hold_is_not_part_of_it() {
    let plain = text(&rules(&[]), &request("/", &[("host", "a")])).unwrap();
    for unkeyed in ["x-forwarded-for", "x-real-ip", "x-host", "user-agent"] {
        let fields = [("host", "a"), (unkeyed, "evil.example")];
        assert_eq!(text(&rules(&[]), &request("/", &fields)).as_ref(), Ok(&plain), "{unkeyed}");
        let keyed = rules(&[&format!("header.{unkeyed}")]);
        assert_ne!(text(&keyed, &request("/", &fields)), text(&keyed, &request("/", &fields[..1])));
    }
}

#[test]
fn what_a_trusted_proxy_states_is_part_of_it() {
    let of = |fields: &[(&str, &str)]| text(&rules(&[]), &request("/", fields)).unwrap();
    let plain = of(&[("host", "a")]);
    for name in ["x-forwarded-host", "X-Forwarded-Prefix", "x-original-url"] {
        let (one, two) = (of(&[("host", "a"), (name, "1")]), of(&[("host", "a"), (name, "2")]));
        assert!(one != plain && one != two, "{name}");
    }
    let both = [("host", "a"), ("x-forwarded-prefix", "1"), ("x-forwarded-host", "2")];
    let swapped = [("host", "a"), ("x-forwarded-prefix", "2"), ("x-forwarded-host", "1")];
    assert_ne!(of(&both), of(&swapped));
}

#[test]
fn a_url_from_elsewhere_is_read_as_requests_are() {
    let normalised_url = |url: &str| rules(&[]).normalised_url(url.as_bytes());
    for (url, wanted) in [
        ("HTTP://Shop.Example:80/a?b#c", "http://shop.example/a?b"),
        ("https://a:443?q", "https://a/?q"),
        ("http://a", "http://a/"),
        ("http://a/caf%c3%a9", "http://a/caf%C3%A9"),
        ("http://a/x/../b//c/%2e%2E/%64?/../%64", "http://a/b/d?/../%64"),
    ] {
        assert_eq!(normalised_url(url).as_deref(), Some(wanted.as_bytes()), "{url}");
    }
    for bad in [
        "",
        "/a",
        "ftp://a/",
        "http://",
        "http://u@a/",
        "http://a/b\\c",
        "http://a/b%2Fc",
        "http:a",
    ] {
        assert_eq!(normalised_url(bad), None, "{bad}");
    }
}
