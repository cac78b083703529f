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
