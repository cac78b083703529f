//! The rules of the cache, for any fields of a request and its response.

use crate::{FuzzTarget, owned};
use cache::rules::{
    Disposition, FetchContext, Policy, RequestDirectives, Reuse, SECONDS_MAX, Status,
    StorableResponse, Times, invalidate, request, reuse, search, status, store,
};
use message::Headers;
use wire::Method;

pub(crate) const TARGET: FuzzTarget = FuzzTarget {
    check: cache_rules,
    seeds: || owned(SEEDS),
    dictionary: &[
        ",",
        " ",
        "=",
        ";",
        "\"",
        "\\",
        ":",
        "\n",
        "\0",
        "a",
        "0",
        "-1",
        "max-age=",
        "no-store",
        "private",
        "no-cache",
        "Cache-Control: ",
        "Vary: ",
        "//",
        "..",
        "/",
        "?",
        "%",
        "&",
        "\u{e9}",
        "4294967296",
        "Location: ",
        "Age: ",
        "Tidegate-Cache-Control: ",
        "immutable",
    ],
    cases: 1500,
};

const SEEDS: &[&str] = &[
    "Cache-Control: max-stale=5\nAuthorization: a\0Cache-Control: public, max-age=60, \
         private=\"Set-Cookie\"\nSet-Cookie: a\nVary: Accept, x\nAge: 5\nETag: \"a\"",
    "Cache-Control: max-age=0\0CDN-Cache-Control: max-age=60, no-cache=\"x, y\"\nX: 1",
    "params, except=(\"a\")\0a=1&b=2&%61=%zz&a+b",
    "\0Location: ../x?y#z\nContent-Location: http://example.com:80/./a/..\nCache-Tag: a b",
    "\0Expires: Sun, 06 Nov 2033 08:49:37 GMT\nDate: Fri, 15 Jan 2027 08:00:00 GMT",
    "\0Cache-Control: s-maxage=\"9\", stale-if-error=3, must-understand, no-store, x=\"y",
    "\0Last-Modified: Fri, 15 Jan 2027 08:00:00 GMT\nConnection: x, close\nX: 1",
];

const NOW: u64 = 1_800_000_000;

/// Any lines are the fields of a request, an empty line, and those of a response to it.
fn cache_rules(data: &[u8]) {
    let mut parts = data.splitn(2, |&byte| byte == 0);
    let request = fields(parts.next().unwrap_or_default());
    let response = fields(parts.next().unwrap_or_default());
    let policy = Policy { default_ttl_s: 5, surrogate_control: true, ..Policy::default() };
    let Disposition::Lookup(requested) =
        request::classify(&Method::Get, &request, false, false, &policy)
    else {
        return;
    };
    if let Some(storing) = judged(&request, &requested, &response, &policy) {
        check_stored(&storing, &requested);
    }
    is_obeyed(&request, &requested, &response, &policy);
    check_targets(&response);
    check_query(data);
    check_status(data);
}

fn fields(text: &[u8]) -> Headers {
    let mut headers = Headers::new();
    for line in text.split(|&byte| byte == b'\n') {
        let mut halves = line.splitn(2, |&byte| byte == b':');
        let (name, value) = (halves.next().unwrap_or_default(), halves.next());
        if let (true, Some(value)) = (wire::token::is_token(name), value) {
            headers.append(name, wire::token::trim(value));
        }
    }
    headers
}

fn judged(
    request: &Headers,
    requested: &RequestDirectives,
    response: &Headers,
    policy: &Policy,
) -> Option<StorableResponse> {
    let times = Times { requested_secs: NOW - 1, received_secs: NOW };
    let origin = b"http://example.com";
    let fetch =
        FetchContext { method: &Method::Get, request, directives: requested, origin, times };
    store::evaluate(&fetch, 200, response, policy).ok()
}

fn check_stored(storing: &StorableResponse, requested: &RequestDirectives) {
    let meta = &storing.meta;
    assert!(meta.lifetime_s <= SECONDS_MAX && meta.initial_age_s <= SECONDS_MAX);
    for kept in [&storing.head, &storing.hidden] {
        for gone in ["Connection", "Transfer-Encoding", "Proxy-Authenticate", "Age", "Set-Cookie"] {
            assert!(!kept.contains(gone), "{gone}");
        }
    }
    for gone in ["Surrogate-Key", "Cache-Tag", "Surrogate-Control", "Tidegate-Cache-Control"] {
        assert!(!storing.head.contains(gone), "{gone}");
    }
    let mut last_age_s = 0;
    for later_s in [0, 1, 59, 60, 61, 86_400, u64::from(SECONDS_MAX), u64::MAX - NOW] {
        let (age, left) = match reuse::evaluate(meta, false, requested, NOW + later_s) {
            Reuse::Use { age_s, left_s, .. } | Reuse::Validate { age_s, left_s, .. } => {
                (age_s, left_s)
            }
            Reuse::OnlyIfCached => continue,
        };
        assert!(age >= last_age_s && age <= SECONDS_MAX);
        assert_eq!(i64::from(meta.lifetime_s) - i64::from(age), left);
        last_age_s = age;
    }
}

/// Restrictions are obeyed, whatever else is present.
fn is_obeyed(
    request: &Headers,
    requested: &RequestDirectives,
    response: &Headers,
    policy: &Policy,
) {
    let with = |name: &str, value: &str| {
        let mut longer = response.clone();
        for targeted in ["Tidegate-Cache-Control", "CDN-Cache-Control", "Surrogate-Control"] {
            longer.remove(targeted);
        }
        longer.append(name, value);
        judged(request, requested, &longer, policy)
    };
    assert!(with("Cache-Control", "private").is_none());
    assert!(with("Vary", "*").is_none());
    // RFC 9110 14.4: it means nothing in a 200, and is not stored.
    if let Some(storing) = with("Content-Range", "bytes 0-1/2") {
        assert!(!storing.head.contains("Content-Range"));
    }
    for never in ["no-cache", "max-age=1, NO-CACHE"] {
        if let Some(storing) = with("Cache-Control", never) {
            let verdict = reuse::evaluate(&storing.meta, false, &RequestDirectives::default(), NOW);
            assert!(!matches!(verdict, Reuse::Use { .. }) && !storing.share);
        }
    }
}

/// Only the request's own origin is invalidated, in origin-form.
fn check_targets(response: &Headers) {
    let found = invalidate::targets(b"http://example.com", b"/a/b?c", 200, response);
    assert_eq!(found.targets[0], b"/a/b?c");
    for target in &found.targets {
        let path = target.split(|&byte| byte == b'?').next().unwrap_or_default();
        assert!(path.starts_with(b"/") && !target.contains(&b'#'));
        assert!(!path.split(|&byte| byte == b'/').any(|part| matches!(part, b"." | b"..")));
    }
}

/// A canonical query is its own canonical query.
fn check_query(data: &[u8]) {
    let mut parts = data.splitn(2, |&byte| byte == 0);
    let (value, query) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    for rule in [search::parse(value), search::parse(b"key-order")].into_iter().flatten() {
        let (mut once, mut twice) = (Vec::new(), Vec::new());
        search::canonical(query, &rule, &mut once);
        search::canonical(&once, &rule, &mut twice);
        assert_eq!(once, twice);
    }
}

/// Whatever the key is, Cache-Status can be read.
fn check_status(data: &[u8]) {
    let hit_status = Status { key: Some(data), ..Status::hit(-1) };
    let mut out = Vec::new();
    status::write("tidegate", &hit_status, &mut out);
    assert!(sfv::Parser::new(&out).parse::<sfv::List>().is_ok_and(|list| list.len() == 1));
}
