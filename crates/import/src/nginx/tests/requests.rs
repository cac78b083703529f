//! Requests that reach the same servers, with the same path and fields, as through nginx.

use super::{convert, words};

/// Asserts that the converted file has these parts.
#[track_caller]
fn has(text: &str, parts: &[&str]) {
    let text = convert(text, "nginx.conf").unwrap();
    let found = words(&text);
    for part in parts {
        assert!(found.contains(part), "{part}\n{text}");
    }
}

#[test]
fn each_address_and_scheme_is_an_upstream_of_its_own() {
    has(
        "upstream app { server 10.0.0.1:80; }\n\
         server { listen 80;\n\
         location /a/ { proxy_pass http://api.example.com; }\n\
         location /b/ { proxy_pass https://api.example.com; }\n\
         location /c/ { proxy_pass http://api-example.com; }\n\
         location /d/ { proxy_pass https://api.example.com; }\n\
         location /e/ { proxy_pass http://app; }\n\
         location /f/ { proxy_pass https://app; } }",
        &[
            "api-example-com: { servers: [\"http://api.example.com\"]",
            "api-example-com-tls: { servers: [\"https://api.example.com\"]",
            "api-example-com-2: { servers: [\"http://api-example.com\"]",
            "app: { servers: [{ address: \"10.0.0.1:80\" }]",
            "app-tls: { servers: [{ address: \"https://10.0.0.1:80\" }]",
            "path: \"/a/{*rest}\" } handler: { upstream: api-example-com }",
            "path: \"/b/{*rest}\" } handler: { upstream: api-example-com-tls }",
            "path: \"/c/{*rest}\" } handler: { upstream: api-example-com-2 }",
            "path: \"/d/{*rest}\" } handler: { upstream: api-example-com-tls }",
            "path: \"/e/{*rest}\" } handler: { upstream: app }",
            "path: \"/f/{*rest}\" } handler: { upstream: app-tls }",
        ],
    );
}

#[test]
fn a_listener_with_tls_has_the_certificate_of_http_or_none_and_never_serves_in_the_clear() {
    let tls = "tls: { certificates: [{ cert: \"a.pem\", key: \"a.key\" }] } }";
    let files = "ssl_certificate a.pem; ssl_certificate_key a.key;";
    for text in [
        format!("http {{ {files} server {{ listen 443 ssl; return 200; }} }}"),
        format!("http {{ server {{ listen 443; ssl on; {files} return 200; }} }}"),
        format!("http {{ ssl on; {files} server {{ listen 443; return 200; }} }}"),
    ] {
        has(&text, &[&format!("web-443: {{ bind: \":443\", {tls}")]);
        assert!(!convert(&text, "x").unwrap().contains("note: line"), "{text}");
    }
    let none = "web-443: { bind: \":443\", tls: { certificates: [] } }";
    has("server { listen 443 ssl; return 200; }", &[none]);
    has("server { listen 443; ssl off; return 200; }", &["web-443: { bind: \":443\" }"]);
}

#[test]
fn an_address_with_the_port_of_all_addresses_has_no_listener_of_its_own() {
    let text = "server { listen 80; listen 0.0.0.0:80; listen [::]:80; listen 127.0.0.1:80;\n\
        return 200; }\n\
        server { listen 127.0.0.1:80; server_name b.example; return 200; }\n\
        server { listen 127.0.0.1:81; listen 127.0.0.2:81; return 200; }";
    has(
        text,
        &[
            "web-80: { bind: \":80\" }",
            "line 1: listen 127.0.0.1:80 is not converted: :80 has this port",
            "line 3: listen 127.0.0.1:80 is not converted: :80 has this port",
            "line 3: the server has no listen or name of its own",
            "{ bind: \"127.0.0.1:81\" }",
            "{ bind: \"127.0.0.2:81\" }",
        ],
    );
    assert_eq!(convert(text, "x").unwrap().matches(":80\" }").count(), 1);
}
