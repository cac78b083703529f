//! The order of routes, row by row, and compared with a scan that shares no code.

use settings::{Node, node};

use crate::testing::{find, request, router};

fn get(matches: &[Node], table: &[(&str, &str)]) {
    let router = router(matches);
    for (url, wanted) in table {
        assert_eq!(find(&router, &request("GET", url, &[])), *wanted, "{url}");
    }
}

#[test]
fn paths_segment_by_segment() {
    get(
        &[
            node!({ "path": "/{*all}" }),
            node!({ "path": "/a/{*rest}" }),
            node!({ "path": "/a/{id}" }),
            node!({ "path": "/a/b" }),
            node!({ "path": "/a/{id}/c" }),
            node!({ "path": "/a/b/{x}" }),
            node!({ "path": "/{top}/b" }),
            node!({ "path": "/a/" }),
        ],
        &[
            ("x/a/b", "r3"),
            ("x/a/z", "r2 id=z"),
            ("x/a", "r1 rest="),
            ("x/a/", "r7"),
            ("x/a/b/", "r1 rest=b/"),
            ("x/a/z/", "r1 rest=z/"),
            // A literal at the first different segment wins, whatever follows it.
            ("x/a/b/c", "r5 x=c"),
            ("x/a/z/c", "r4 id=z"),
            ("x/a/z/d/e", "r1 rest=z/d/e"),
            ("x/z/b", "r6 top=z"),
            ("x/z", "r0 all=z"),
            ("x/", "r0 all="),
            ("x//a//b", "r3"),
            ("x/%61/%C3%A9", "r2 id=é"),
            ("x/a%2Fb", "r0 all=a%2Fb"),
        ],
    );
}

#[test]
fn hosts_from_exact_to_any() {
    get(
        &[
            node!({}),
            node!({ "host": "*.x" }),
            node!({ "host": "*.a.x" }),
            node!({ "host": ["b.a.x", "[::1]"] }),
            node!({ "host": "b.a.x", "path": "/only" }),
        ],
        &[
            ("b.a.x/", "r3"),
            ("B.A.X.:8080/", "r3"),
            ("[::1]:80/", "r3"),
            ("c.a.x/", "r2"),
            ("d.c.a.x/only", "r2"),
            ("a.x/", "r1"),
            ("x/", "r0"),
            ("/", "r0"),
            ("b.a.x/only", "r4"),
        ],
    );
}

#[test]
fn a_better_host_beats_a_better_path() {
    get(
        &[node!({ "path": "/a/b" }), node!({ "host": "h.x", "path": "/{*rest}" })],
        &[("h.x/a/b", "r1 rest=a/b"), ("x/a/b", "r0")],
    );
}

#[test]
fn priority_beats_everything() {
    get(
        &[
            node!({ "host": "h.x", "path": "/a/b" }),
            node!({ "path": "/a/{*rest}", "priority": 1, "when": { "header": "x-none" } }),
            node!({ "path": { "ant": "/**/b" }, "priority": 1, "methods": "GET" }),
            node!({ "path": "/a/b", "priority": "-1" }),
        ],
        &[("h.x/a/b", "r2"), ("x/a/b", "r2"), ("x/a", "404"), ("x/z/b", "r2")],
    );
}

#[test]
fn ant_and_regex_come_after_segments_in_the_order_of_the_file() {
    get(
        &[
            node!({ "path": { "regex": "^/a/(?P<n>[0-9]+)/(?P<m>x)?" } }),
            node!({ "path": { "ant": "/a/**" } }),
            node!({ "path": { "regex": "z$" } }),
            node!({ "path": "/a/{id}" }),
        ],
        &[
            ("x/a/7", "r3 id=7"),
            ("x/a/7/", "r0 n=7 m="),
            ("x/a/7/x", "r0 n=7 m=x"),
            ("x/a/b/z", "r1"),
            ("x/b/z", "r2"),
            ("x/b", "404"),
        ],
    );
}

#[test]
fn more_conditions_first_and_failing_ones_fall_through() {
    let router = router(&[
        node!({ "path": "/a" }),
        node!({ "path": "/a", "when": { "header": "x-env", "equals": "beta" } }),
        node!({ "path": "/a", "when": [{ "header": "x-env", "prefix": "be" }, { "query": "q" }] }),
        node!({ "path": "/{p}", "methods": ["GET", "PUT"] }),
    ]);
    for (url, env, wanted) in [
        ("x/a", "alpha", "r0"),
        ("x/a", "beta", "r1"),
        ("x/a?q", "beta", "r2"),
        ("x/a?q", "bella", "r2"),
        ("x/b", "beta", "r3 p=b"),
    ] {
        assert_eq!(find(&router, &request("GET", url, &[("x-env", env)])), wanted, "{url} {env}");
    }
}

#[test]
fn only_the_method_differs() {
    let router = router(&[
        node!({ "path": "/a", "methods": "GET" }),
        node!({ "path": "/{p}", "methods": ["PUT", "PURGE"] }),
        node!({ "path": "/a", "methods": "DELETE", "when": { "header": "x-admin" } }),
        node!({ "path": "/a/b" }),
        node!({ "path": { "ant": "/c/*" }, "methods": "POST" }),
    ]);
    for (method, url, wanted) in [
        ("GET", "x/a", "r0"),
        ("HEAD", "x/a", "r0"),
        ("PURGE", "x/a", "r1 p=a"),
        // The condition of r2 fails, so its method is not allowed.
        ("POST", "x/a", "405 GET, HEAD, PUT, PURGE"),
        ("BREW", "x/a", "405 GET, HEAD, PUT, PURGE"),
        ("get", "x/a", "405 GET, HEAD, PUT, PURGE"),
        ("GET", "x/z", "405 PUT, PURGE"),
        ("GET", "x/c/d", "405 POST"),
        ("BREW", "x/a/b", "r3"),
        ("GET", "x/a/c", "404"),
    ] {
        assert_eq!(find(&router, &request(method, url, &[])), wanted, "{method} {url}");
    }
    let admin = request("POST", "x/a", &[("x-admin", "1")]);
    assert_eq!(find(&router, &admin), "405 GET, HEAD, PUT, DELETE, PURGE");
}

#[test]
fn listeners() {
    let router = router(&[
        node!({ "path": "/a", "listener": ["web", "other"] }),
        node!({ "path": "/a" }),
        node!({ "path": "/b", "listener": "web", "methods": "PUT" }),
    ]);
    let ask_on = |listener: &str, url: &str| {
        let mut request = request("GET", url, &[]);
        let mut facts = (*request.facts).clone();
        facts.listener = listener.into();
        request.facts = facts.into();
        find(&router, &request)
    };
    assert_eq!(ask_on("web", "x/a"), "r0");
    assert_eq!(ask_on("other", "x/a"), "r0");
    assert_eq!(ask_on("admin", "x/a"), "r1");
    assert_eq!(ask_on("web", "x/b"), "405 PUT");
    assert_eq!(ask_on("admin", "x/b"), "404");
}

#[test]
fn an_asterisk_is_not_a_path() {
    let router = router(&[node!({})]);
    let mut asterisk = request("OPTIONS", "x/", &[]);
    assert_eq!(find(&router, &asterisk), "r0");
    asterisk.target = message::Target::asterisk();
    assert_eq!(find(&router, &asterisk), "404");
}

#[test]
fn no_table_is_too_small() {
    assert_eq!(find(&router(&[]), &request("GET", "x/a", &[])), "404");
}

#[test]
fn a_deep_path_is_walked_to_its_end() {
    let deep = "/a".repeat(64);
    let router = router(&[node!({ "path": (deep) }), node!({ "path": "/{a}/{b}/{*rest}" })]);
    assert_eq!(find(&router, &request("GET", &format!("x{deep}"), &[])), "r0");
    let deeper = format!("x{}", "/a".repeat(5000));
    assert!(find(&router, &request("GET", &deeper, &[])).starts_with("r1 a=a b=a rest=a/a/"));
}
