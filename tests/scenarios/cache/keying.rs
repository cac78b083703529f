//! What makes two requests ask for the same, and what an origin is not told.

use super::{Origin, cache, get, is_hit, origin_response};

const KEPT: &str = "cache-control: max-age=60\r\n";

#[test]
fn parameters_that_do_not_count_neither_split_the_cache_nor_reach_the_origin() {
    let origin = Origin::counting(KEPT);
    let server = cache(&origin, "key: { query: { deny: [utm_source] } }");
    get(&server, "/a?utm_source=evil&q=1", "");
    assert!(origin.last().starts_with("get /a?q=1 "), "{}", origin.last());
    assert!(is_hit(&get(&server, "/a?q=1&utm_source=other", "")));
    assert!(!is_hit(&get(&server, "/a?q=2", "")));
}

#[test]
fn headers_and_cookies_count_where_it_says_so() {
    for (entry, one, other) in [
        ("key: { headers: [x-tenant] }", "x-tenant: a\r\n", "x-tenant: b\r\n"),
        ("key: { cookies: [plan] }", "cookie: plan=a; x=1\r\n", "cookie: plan=b; x=1\r\n"),
        ("key: { by: [header.x-y] }", "x-y: a\r\n", "x-y: b\r\n"),
    ] {
        let origin = Origin::counting(KEPT);
        let server = cache(&origin, entry);
        get(&server, "/", one);
        assert!(is_hit(&get(&server, "/", one)), "{entry}");
        assert!(!is_hit(&get(&server, "/", other)), "{entry}");
        assert!(!is_hit(&get(&server, "/", "")), "{entry}");
    }
}

/// Poisoning: what is not in the key and changes answers must not come through.
#[test]
fn fields_that_origins_reflect_are_not_sent_on() {
    let origin = Origin::counting(KEPT);
    let server = cache(&origin, "");
    let evil = "x-original-url: /admin\r\nx-host: evil.example\r\nx-forwarded-scheme: evil\r\n\
                x-http-method-override: POST\r\nx-kept: yes\r\nx-backend-host: evil\r\n\
                base-url: evil\r\nx-accel-redirect: /private\r\ncontent-type: a/b\r\n\
                content-encoding: evil\r\nte: trailers\r\ntrailer: x\r\n";
    get(&server, "/", evil);
    let head = origin.last();
    let dropped = [
        "x-original-url",
        "x-host",
        "x-forwarded-scheme",
        "x-http-method",
        "x-backend-host",
        "base-url",
        "x-accel-redirect",
        "content-",
        "te:",
        "trailer",
    ];
    for name in dropped {
        assert!(!head.contains(name), "{name}: {head}");
    }
    assert!(head.contains("x-kept: yes"), "{head}");
    let server = cache(&origin, "key: { headers: [x-host] }, fetch: { drop_headers: [x-kept] }");
    get(&server, "/", evil);
    let head = origin.last();
    assert!(head.contains("x-host: evil.example"), "{head}");
    assert!(head.contains("x-http-method-override"), "{head}");
    assert!(!head.contains("x-kept"), "{head}");
}

/// Origins that take `X_Own` for `X-Own` (WSGI, CGI, PHP) answer by it: what one client gets that
/// way is not for others.
#[test]
fn another_spelling_of_a_field_poisons_nothing() {
    for entry in ["", "key: { headers: [x-own] }"] {
        let vary = if entry.is_empty() { "vary: X-Own\r\n" } else { "" };
        let origin = Origin::start(move |head, _| {
            let head = head.to_ascii_lowercase().replace('_', "-");
            let own = head.lines().find_map(|line| line.strip_prefix("x-own: ")).unwrap_or("none");
            origin_response(200, &format!("{KEPT}{vary}"), own.as_bytes())
        });
        let server = cache(&origin, entry);
        // Values that would be one key if they were only put one behind the other.
        let fetches =
            ["X_Own: a\r\n", "", "X-Own: a\r\n", "X_Own: a\r\nX_Own: b\r\n", "x--own: a\r\n"];
        for fields in fetches.iter().chain(["X-Own: b\r\nX_Own: a\r\n", "X_Own: a:b\r\n"].iter()) {
            let first = get(&server, "/", fields);
            assert!(!is_hit(&first), "{entry} {fields:?}");
            let again = get(&server, "/", fields);
            assert!(is_hit(&again) && again.body == first.body, "{entry} {fields:?}");
        }
        assert_eq!(get(&server, "/", "").text(), "none");
    }
}

/// Servers decode names of cookies, ignore their case, or split them at commas: a response to such
/// a spelling is not for other clients.
#[test]
fn another_spelling_of_a_cookie_poisons_nothing() {
    let origin = Origin::start(|head, _| {
        let cookie = head.lines().find_map(|line| line.strip_prefix("cookie: "));
        origin_response(200, KEPT, cookie.unwrap_or("none").as_bytes())
    });
    let server = cache(&origin, "key: { cookies: [plan] }");
    for cookie in
        ["plan=a", "pl%61n=b", "PLAN=c", "x=1, plan=d", "plan=\"a\"", "plan", "plan[0]=a", "x=1"]
    {
        let field = format!("cookie: {cookie}\r\n");
        let first = get(&server, "/", &field);
        assert!(!is_hit(&first) && first.text() == cookie, "{cookie}");
        let again = get(&server, "/", &field);
        assert!(is_hit(&again) && again.text() == cookie, "{cookie}");
    }
    assert_eq!(get(&server, "/", "").text(), "x=1", "a cookie that does not count");
    // It counts however many pairs stand before it.
    let many = format!("cookie: {}plan=evil\r\n", "a=1;".repeat(2000));
    assert!(!is_hit(&get(&server, "/", &many)) && is_hit(&get(&server, "/", &many)));
    assert_eq!(get(&server, "/", "cookie: plan=a\r\n").text(), "plan=a");
    assert_eq!(get(&server, "/", "").text(), "x=1");
}

#[test]
fn no_spelling_of_what_one_client_wants_reaches_the_origin() {
    let origin = Origin::counting(KEPT);
    let server = cache(&origin, "");
    let fields = "If_None_Match: *\r\nRange_: bytes=0-1\r\nAccept_Encoding: br\r\n\
                  If--Modified-Since: x\r\nCache_Control: no-store\r\nx_kept: yes\r\n";
    get(&server, "/", fields);
    let head = origin.last().to_ascii_lowercase().replace("--", "-").replace('_', "-");
    for name in ["if-none-match", "range", "if-modified-since", "cache-control"] {
        assert!(!head.contains(name), "{name}: {head}");
    }
    assert_eq!(head.matches("accept-encoding").count(), 1, "{head}");
    assert!(head.contains("x-kept: yes"), "{head}");
}

/// What a trusted proxy says of the request counts in the key; the address of one client is neither
/// in the key nor sent to the origin.
#[test]
fn what_a_trusted_proxy_says_is_keyed_or_not_sent() {
    let origin = Origin::counting(KEPT);
    let config = super::config(&origin, "", "64MiB");
    let server = scenarios::Tidegate::start(&format!("trusted_proxies: [127.0.0.0/8]\n{config}"));
    for name in ["x-forwarded-host", "x-forwarded-prefix", "x-original-url", "front-end-https"] {
        let field = |value: &str| format!("{name}: {value}\r\n");
        get(&server, "/", &field("one"));
        assert!(origin.last().contains(&field("one")), "{name}: {}", origin.last());
        assert!(is_hit(&get(&server, "/", &field("one"))), "{name}");
        assert!(!is_hit(&get(&server, "/", &field("two"))), "{name}");
    }
    let addresses = ["x-real-ip", "true-client-ip", "cf-connecting-ip", "forwarded"];
    for name in addresses {
        let path = format!("/{name}");
        get(&server, &path, &format!("{name}: for=203.0.113.9\r\n"));
        assert!(!origin.last().contains("for=203.0.113.9"), "{name}: {}", origin.last());
        assert!(is_hit(&get(&server, &path, "")), "{name}");
    }
}

#[test]
fn a_get_with_a_body_bypasses_the_cache() {
    let origin = Origin::counting(KEPT);
    let server = cache(&origin, "");
    get(&server, "/", "");
    let mut client = server.connect("web");
    client.send("GET / HTTP/1.1\r\nhost: shop.example\r\ncontent-length: 3\r\n\r\nfat");
    let fat = client.read_response();
    assert!(!is_hit(&fat), "{fat:?}");
    assert_eq!(fat.text(), "answer 1");
    assert_eq!(get(&server, "/", "").text(), "answer 0", "what it brought was not stored");
}

#[test]
fn hosts_have_separate_keys() {
    let origin = Origin::counting(KEPT);
    let server = cache(&origin, "");
    let host =
        |host: &str| server.exchange("web", format!("GET / HTTP/1.1\r\nhost: {host}\r\n\r\n"));
    host("a.example");
    assert!(is_hit(&host("A.example:80")));
    assert!(!is_hit(&host("b.example")));
}

/// What the gateway and an origin may read differently is let by and not stored, for fear that one
/// address has another one's answer. Other spellings of a path are one path before the cache.
#[test]
fn ambiguous_paths_are_not_stored() {
    let origin = Origin::counting(KEPT);
    let keeping = |entry: &str| {
        let config = super::config(&origin, entry, "64MiB");
        let bind = "bind: \"127.0.0.1:0\"";
        let kept = config.replacen(bind, &format!("{bind}, encoded_slashes: keep"), 1);
        scenarios::Tidegate::start(&kept)
    };
    let server = keeping("");
    for path in ["/static/..%2fadmin", "/a%2Fb", "/a/..;/b", "/a/.;x"] {
        let before = origin.fetches();
        for _ in 0..2 {
            let by = get(&server, path, "");
            assert!(!is_hit(&by) && by.status == 200, "{path}: {by:?}");
        }
        assert_eq!(origin.fetches(), before + 2, "{path}");
    }
    get(&server, "/b", "");
    let before = origin.fetches();
    for path in ["/a/../b", "/a/%2e%2E/b", "/%62", "//b", "/./b"] {
        assert!(is_hit(&get(&server, path, "")), "{path}");
    }
    assert_eq!(get(&server, "/a\\b", "").status, 400);
    assert_eq!(origin.fetches(), before);
    let server = keeping("key: { path: raw }");
    get(&server, "/a%2Fb", "");
    assert!(is_hit(&get(&server, "/a%2fb", "")) && is_hit(&get(&server, "/x/../a%2Fb", "")));
    assert!(!is_hit(&get(&server, "/a/b", "")) && !is_hit(&get(&server, "/a%252Fb", "")));
    for path in ["/a%2F../b", "/a%2F..;x"] {
        get(&server, path, "");
        assert!(!is_hit(&get(&server, path, "")), "{path}");
    }
    // Without encoded slashes there are none to be ambiguous.
    assert_eq!(get(&cache(&origin, ""), "/a%2Fb", "").status, 400);
}

#[test]
fn forwarding_fields_of_a_client_reach_no_origin() {
    let origin = Origin::counting(KEPT);
    let server = cache(&origin, "");
    let evil = "x-forwarded-host: evil.example\r\nforwarded: host=evil.example\r\n\
                x-forwarded-proto: gopher\r\nx-forwarded-port: 666\r\n";
    get(&server, "/", evil);
    let head = origin.last();
    assert!(!head.contains("evil") && !head.contains("gopher") && !head.contains("666"), "{head}");
}

#[test]
fn a_request_with_too_long_a_key_bypasses_the_cache() {
    let origin = Origin::counting(KEPT);
    let server = cache(&origin, "key: { headers: [x-long] }");
    let long = format!("x-long: {}\r\n", "x".repeat(9000));
    for _ in 0..2 {
        assert!(!is_hit(&get(&server, "/", &long)));
    }
    assert_eq!(origin.fetches(), 2);
}

/// The origin reflects what it was asked: one client's spelling must not be in all responses.
#[test]
fn the_origin_gets_the_url_as_the_key_has_it() {
    for (entry, line, host, sent) in [
        ("", "/%61bc?x=%7e", "HH.test:80", "get /abc?x=%7e "),
        ("", "/caf%c3%a9", "hh.TEST.", "get /caf%c3%a9 "),
        ("key: { query: sorted }", "/abc?b=2&a=1&&", "hh.test.:80", "get /abc?a=1&b=2 "),
        ("key: { query: none }", "/abc?evil", "hh.test:", "get /abc "),
    ] {
        let origin = Origin::counting(KEPT);
        let server = cache(&origin, entry);
        let request = format!("GET {line} HTTP/1.1\r\nhost: {host}\r\n\r\n");
        server.exchange("web", request);
        let head = origin.last();
        assert!(head.starts_with(sent), "{line}: {head}");
        assert!(head.contains("\r\nhost: hh.test\r\n"), "{host}: {head}");
        assert!(head.contains("\r\nx-forwarded-host: hh.test\r\n"), "{host}: {head}");
        let target = sent.trim_start_matches("get ").trim_end();
        let normal = format!("GET {target} HTTP/1.1\r\nhost: hh.test\r\n\r\n");
        let again = server.exchange("web", normal.replace("%c3%a9", "%C3%A9"));
        assert!(is_hit(&again), "{line}: {again:?}");
    }
}
