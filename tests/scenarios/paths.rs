//! One path for every receiver: routes, upstreams, files, Lua and the log see the canonical form of
//! a path, and a path that receivers read differently is rejected.

use crate::setup::behind;
use scenarios::{HttpResponse, Launch, Tidegate, Upstream};

/// Answers with the target of each request in `x-target`.
fn recording() -> Upstream {
    Upstream::start(|peer| {
        while !peer.at_end() {
            let head = peer.read_head();
            let target = head.split(' ').nth(1).unwrap_or_default().to_owned();
            peer.send(format!("HTTP/1.1 204 No Content\r\nx-target: {target}\r\n\r\n"));
        }
    })
}

fn ask(server: &Tidegate, method: &str, target: &str) -> HttpResponse {
    server.exchange("web", format!("{method} {target} HTTP/1.1\r\nhost: a\r\n\r\n"))
}

/// A guarded prefix next to an open route to the same handler.
const GUARDED: &str = r#"
workers: 1
listeners: { web: { bind: "127.0.0.1:0" } }
admin: { bind: "127.0.0.1:0" }
log: { access: { format: json, path: stderr } }
routes:
  - name: guarded
    match: { path: "/private/{*rest}" }
    filters: [{ key_auth: { keys: [{ consumer: me, key: a-key-of-good-length }] } }]
    handler: { HANDLER }
  - name: open
    match: { path: "/{*rest}" }
    handler: { HANDLER }
"#;

/// Targets that were routed past the filter of `/private` and read by an upstream as beneath it, or
/// the other way round, and what becomes of each: a status of ours, or the target that is
/// forwarded.
const SPELLINGS: [(&str, Result<&str, u16>); 31] = [
    ("/private//../x", Err(401)),
    ("/private//%2e%2e/x", Err(401)),
    ("/private/.//../x", Err(401)),
    ("/private/./%2E//.%2e/x", Err(401)),
    ("/x//../private/x", Ok("/x/private/x")),
    ("/x/..//private", Err(401)),
    ("/%70rivate/x", Err(401)),
    ("/private/x/../..", Ok("/")),
    ("/private/x/../../open", Ok("/open")),
    ("/private/../open?q=/../%61", Ok("/open?q=/../%61")),
    ("//h/private/x", Ok("/h/private/x")),
    ("///private/x", Err(401)),
    ("http://a//h/private/x", Ok("/h/private/x")),
    ("http://a/private//../x", Err(401)),
    ("http://a/private\\x", Err(400)),
    ("/private\\x", Err(400)),
    ("/private%5cx", Err(400)),
    ("/x/..\\private", Err(400)),
    ("/private%00", Err(400)),
    ("/x%0a", Err(400)),
    ("/x%7F", Err(400)),
    ("/%c0%afprivate", Err(400)),
    ("/%e0%80%afprivate", Err(400)),
    ("/%f0%80%80%afprivate", Err(400)),
    ("/x%", Err(400)),
    ("/x?y=\\%5c%00%c0%af", Ok("/x?y=\\%5c%00%c0%af")),
    ("/a\"<>^`{|}[]", Ok("/a%22%3C%3E%5E%60%7B%7C%7D%5B%5D")),
    ("/%61%2b+%2C,%e9%7e", Ok("/a%2B+%2C,%E9~")),
    ("/.well-known/...", Ok("/.well-known/...")),
    ("/%252e%252e/x", Ok("/%252e%252e/x")),
    ("/private%252fx", Ok("/private%252fx")),
];

#[test]
fn an_upstream_gets_the_path_that_was_routed() {
    let upstream = recording();
    let upstreams = format!("upstreams: {{ app: {{ servers: [\"{}\"] }} }}\n", upstream.address());
    let server = Tidegate::start(&(upstreams + &GUARDED.replace("HANDLER", "upstream: app")));
    for (target, expected) in SPELLINGS {
        let response = ask(&server, "GET", target);
        let found = match response.status {
            204 => Ok(response.header("x-target").unwrap_or_default()),
            status => Err(status),
        };
        assert_eq!(found, expected, "{target}");
    }
    // The log names what the client wrote, and why a target was rejected.
    server.wait_for_log("\"/private//%2e%2e/x\"");
    server.wait_for_log("the path has a backslash");
    server.wait_for_log("the path has overlong UTF-8");
}

/// A script that is mounted on a prefix decides by the path it is given.
#[test]
fn a_lua_handler_gets_the_path_that_was_routed() {
    let script = "return function(request, response)
      response.headers['x-path'] = request.path
      response.headers['x-target'] = request.target
      response.status = 204
    end";
    let config = GUARDED.replace("HANDLER", "lua: x.lua");
    let server = Launch::new(&config).file("x.lua", script).start();
    for (target, expected) in SPELLINGS {
        let response = ask(&server, "POST", target);
        let found = match response.status {
            204 => Ok(response.header("x-target").unwrap_or_default()),
            status => Err(status),
        };
        assert_eq!(found, expected, "{target}");
    }
    let response = ask(&server, "POST", "/private/x/../..");
    assert_eq!((response.header("x-path"), response.header("x-target")), (Some("/"), Some("/")));
}

#[test]
fn files_are_those_of_the_path_that_was_routed() {
    let config = GUARDED.replace("HANDLER", "files: root");
    let launch = Launch::new(&config);
    let server = launch.file("root/private/x", "secret").file("root/x", "open").start();
    for target in ["/private//../x", "/private/.//../x", "/private//%2e%2e/x"] {
        assert_eq!(ask(&server, "GET", target).status, 401, "{target}");
    }
    assert_eq!(ask(&server, "GET", "/x/../x").text(), "open");
    assert_eq!(ask(&server, "GET", "//h/private/x").status, 404);
    assert_eq!(ask(&server, "GET", "/private\\x").status, 400);
    assert_eq!(ask(&server, "GET", "/x\\..\\..\\private\\x").status, 400);
}

#[test]
fn rewrites_and_redirects_lead_to_canonical_paths() {
    let upstream = recording();
    let config = behind(&upstream, "").replace(
        "routes: [",
        r#"routes: [
  { name: old, match: { path: "/old/{*rest}" }, handler: { redirect: { to: "/new{path}" } } },
  { name: api, match: { path: "/api/{*rest}" }, handler: { upstream: app },
    filters: [{ rewrite: { strip_prefix: "/api" } }] },
  { name: user, match: { path: "/user/{name}" }, handler: { upstream: app },
    filters: [{ rewrite: { template: "/users/{path.name}/{query.tab}" } }] },
  { name: public, match: { path: "/p/{*rest}" }, handler: { upstream: app },
    filters: [{ rewrite: { regex: { pattern: "^/p/(.*)$", replace: "/public/$1" } } }] },
  "#,
    );
    let server = Tidegate::start(&config);
    for (target, sent) in [
        ("/api/%61%2B+%2c/%E9", "/a%2B+%2C/%E9"),
        ("/%61pi//x//../y?z", "/x/y?z"),
        ("/user/%61%2b?tab=x", "/users/a+/x?tab=x"),
        // What is not UTF-8 neither escapes an expression nor becomes something else.
        ("/p/private/%e9%ff/%C3%A9%25", "/public/private/%E9%FF/%C3%A9%25"),
        ("/user/%e9", "/users/%E9/"),
    ] {
        let response = ask(&server, "GET", target);
        assert_eq!((response.status, response.header("x-target")), (204, Some(sent)), "{target}");
    }
    // Outside its place in the path a variable changes nothing.
    for target in ["/user/a?tab=%5C", "/user/a?tab=..", "/user/a?tab=..%2fx"] {
        assert_eq!(ask(&server, "GET", target).status, 400, "{target}");
    }
    let redirect = ask(&server, "GET", "/old/%e9");
    assert_eq!(redirect.header("location"), Some("/new/old/%E9"));
    let redirect = ask(&server, "GET", "/%6Fld//%2b/../a%2Bb%2c?q=//");
    assert_eq!(redirect.header("location"), Some("/new/old/a%2Bb%2C?q=//"));
}

/// What a client wrote is a part of the path of a redirect, never of its host.
#[test]
fn a_redirect_leads_to_the_host_that_is_configured() {
    let server = Tidegate::start(
        r#"
workers: 1
listeners: { web: { bind: "127.0.0.1:0" } }
routes:
  - name: top
    match: { path: { regex: "^/top(?P<rest>.*)$" } }
    handler: { redirect: { to: "/{path.rest}" } }
  - name: host
    match: { path: { regex: "^/host(?P<rest>.*)$" } }
    handler: { redirect: { to: "https://example.com{path.rest}" } }
  - name: tenant
    match: { path: "/tenant/{name}/{*rest}" }
    handler: { redirect: { to: "https://{path.name}.example.com/{path.rest}" } }
  - name: cdn
    match: { path: "/cdn/{*rest}" }
    handler: { redirect: { to: "//cdn.example/{path.rest}" } }
"#,
    );
    for (target, wanted) in [
        ("/top/evil.example/x?q=//", "/evil.example/x?q=//"),
        ("/top//evil.example", "/evil.example"),
        ("/topx", "/x"),
        ("/top", "/"),
        ("/host/a/b:c@d", "https://example.com/a/b:c@d"),
        ("/host", "https://example.com"),
        ("/host.evil.example/", "https://example.com/.evil.example/"),
        ("/host:80@evil.example/", "https://example.com/:80@evil.example/"),
        ("/host@evil.example", "https://example.com/@evil.example"),
        ("/tenant/a:1@b/x", "https://a%3A1%40b.example.com/x"),
        ("/tenant/shop-1/x/y", "https://shop-1.example.com/x/y"),
        ("/cdn/x/y", "//cdn.example/x/y"),
    ] {
        let response = ask(&server, "GET", target);
        assert_eq!((response.status, response.header("location")), (308, Some(wanted)), "{target}");
    }
}
