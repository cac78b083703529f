//! What an attacker writes around a value does not hide it from the filters that decide by it.

use scenarios::Tidegate;

const CONFIG: &str = r#"
workers: 1
listeners: { web: { bind: "127.0.0.1:0" } }
admin: { bind: "127.0.0.1:0" }
routes:
  - match: { path: /query }
    filters: [{ deny: { when: { query: debug } } }]
    handler: { respond: {} }
  - match: { path: /page }
    filters: [{ validate: { query: { properties: { page: { type: integer } } } } }]
    handler: { respond: {} }
  - match: { path: /cookie }
    filters: [{ deny: { when: { cookie: debug } } }]
    handler: { respond: {} }
  - match: { path: /agent }
    filters: [{ deny: { when: { header: user-agent, regex: "(?i)sqlmap" } } }]
    handler: { respond: {} }
  - match: { path: /socket }
    filters: [{ csrf: {} }]
    handler: { respond: {} }
  - match: { path: /guarded }
    filters: [{ waf: {} }]
    handler: { respond: {} }
"#;

#[test]
fn neither_numbers_nor_odd_bytes_hide_a_value() {
    let server = Tidegate::start(CONFIG);
    let status = |request: Vec<u8>| server.exchange("web", request).status;
    let get = |target: &str, fields: &[u8]| {
        let head = format!("GET {target} HTTP/1.1\r\nhost: shop\r\n");
        status([head.as_bytes(), fields, b"\r\n"].concat())
    };
    let many = |pair: &str| pair.repeat(2000);
    assert_eq!(get(&format!("/query?{}", many("a&")), b""), 200);
    assert_eq!(get(&format!("/query?{}debug", many("a&")), b""), 403);
    assert_eq!(get(&format!("/page?{}page=x", many("a&")), b""), 400);
    let cookies = |last: &str| format!("cookie: {}{last}\r\n", many("a=1;")).into_bytes();
    assert_eq!(get("/cookie", &cookies("b=1")), 200);
    assert_eq!(get("/cookie", &cookies("debug=1")), 403);
    assert_eq!(get("/agent", b"user-agent: SQLmap\r\n"), 403);
    assert_eq!(get("/agent", b"user-agent: \xffSQLmap\xff\r\n"), 403);
    assert_eq!(get("/agent", b"user-agent: \xff\r\n"), 200);
    let form = many("a=b+c&") + "q=%3Cscript%3E";
    let head = "POST /guarded HTTP/1.1\r\nhost: shop\r\n\
                content-type: application/x-www-form-urlencoded\r\n";
    let length = format!("content-length: {}\r\n\r\n", form.len());
    assert_eq!(status([head, &length, &form].concat().into_bytes()), 403);
}

#[test]
fn a_page_of_another_origin_opens_no_websocket() {
    let server = Tidegate::start(CONFIG);
    let open = |origin: &str| {
        let fields = format!(
            "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
             sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n{origin}"
        );
        let request = format!("GET /socket HTTP/1.1\r\nhost: shop\r\n{fields}\r\n");
        server.exchange("web", request).status
    };
    assert_eq!(open("origin: https://evil.example\r\n"), 403);
    assert_eq!(open("origin: https://evil.example\r\nsec-fetch-site: cross-site\r\n"), 403);
    // This route ends it in another way: the filter has allowed it.
    assert_eq!(open("origin: https://shop\r\n"), 200);
    assert_eq!(open(""), 200, "no browser");
    let labels = [("filter", "csrf"), ("reason", "cross_origin")];
    assert_eq!(server.metrics().sum("tidegate_policy_rejections_total", &labels), 2.0);
}
