//! Servers, locations, upstreams and headers, and the notes with their lines.

use super::convert;

const SITE: &str = r#"user www-data;
http {
    upstream app { least_conn; server 10.0.0.1:8000 weight=2; server 10.0.0.2:8000 backup; }
    gzip on;
    server { listen 80 default_server; server_name _; return 301 https://$host$request_uri; }
    server {
        listen 80;
        server_name shop.example.com .shop.example.org;
        client_max_body_size 10m;
        location /api/ {
            proxy_pass http://app/v1/;
            proxy_set_header Host $host;
            proxy_set_header X-Real-IP $remote_addr;
            proxy_read_timeout 5s;
        }
        location = /health { return 200 "ok"; }
        location ~ \.php$ { fastcgi_pass unix:/run/php.sock; }
        location /old { return 302 /new; add_header X-Old "$arg_x" always; }
        location /static/ { alias /nonexistent/static/; }
        location /other/ { proxy_pass http://127.0.0.1:9000; }
    }
}
"#;

fn words(text: &str) -> String {
    text.split_whitespace().filter(|word| *word != "#").collect::<Vec<_>>().join(" ")
}

#[test]
fn servers_and_locations_become_routes() {
    let text = convert(SITE, "nginx.conf").unwrap();
    let found = words(&text);
    let host = "host: [\"shop.example.com\", \"shop.example.org\", \"*.shop.example.org\"]";
    for wanted in [
        "web-80: { bind: \":80\" }",
        "app: { servers: [{ address: \"10.0.0.1:8000\", weight: 2 }, \
         { address: \"10.0.0.2:8000\", backup: true }], balance: least_requests }",
        "n127-0-0-1-9000: { servers: [\"http://127.0.0.1:9000\"] }",
        "match: { listener: [web-80], path: \"/{*rest}\" }",
        "redirect: { to: \"https://{host}{path}\", status: 301 }",
        "path: \"/api/{*rest}\" } filters: - compress: { codings: [gzip] } \
         - request_headers: { set: { \"x-real-ip\": \"{client_ip}\" } } \
         - rewrite: { strip_prefix: \"/api\", add_prefix: \"/v1\" } \
         limits: { body: 10MiB } handler: { upstream: app }",
        "path: \"/health\" }",
        "handler: { respond: { status: 200, body: \"ok\" } }",
        "response_headers: { set: { \"x-old\": \"{query.x}\" }, always: true }",
        host,
    ] {
        assert!(found.contains(wanted), "{wanted}\n{text}");
    }
}

#[test]
fn what_is_not_converted_is_named_with_its_line() {
    let text = convert(SITE, "nginx.conf").unwrap();
    let found = words(&text);
    for wanted in [
        "line 1: user www-data is not converted",
        "line 14: proxy_read_timeout 5s is not converted",
        "line 17: location ~ \\.php$ is not converted",
        "line 19: /nonexistent/static/ does not exist here",
    ] {
        assert!(found.contains(wanted), "{wanted}\n{text}");
    }
}

#[test]
fn what_is_no_configuration_of_nginx_is_rejected() {
    for (text, why) in [
        ("", "has no server"),
        ("a { b", "x:1: a text or directive does not end"),
        ("events {}", "has no server"),
    ] {
        let error = convert(text, "x").unwrap_err();
        assert!(error.contains(why), "{error}");
    }
}
