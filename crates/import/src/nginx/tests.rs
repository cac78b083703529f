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

const POLICIES: &str = r#"http {
    limit_req_zone $binary_remote_addr zone=each:10m rate=10r/s;
    limit_conn_zone $server_name zone=site:10m;
    proxy_cache_path /var/cache/nginx keys_zone=pages:10m;
    map $http_x $y { default 1; }
    server {
        listen 443 ssl;
        ssl_certificate /nonexistent/a.pem;
        ssl_certificate_key /nonexistent/a.key;
        location /limited/ {
            limit_req zone=each burst=20 nodelay;
            limit_conn site 100;
            limit_conn_status 429;
            proxy_cache pages;
            proxy_cache_valid 200 10m;
            proxy_cache_valid 404 1m;
            rewrite ^/limited/(.*)$ /$1 break;
            proxy_pass http://127.0.0.1:9000;
        }
        location /inside/ { allow 10.0.0.0/8; allow ::1; deny all; return 200; }
        location /outside/ { deny 192.0.2.1; return 200; }
        location /mixed/ { deny 10.0.0.1; allow 10.0.0.0/8; deny all; return 200; }
        location /users/ { auth_basic "a"; auth_basic_user_file users.htpasswd; return 200; }
        location /asked/ { auth_request /auth; return 200; }
        location /checked/ {
            auth_request /verify;
            auth_request_set $user $upstream_http_x_user;
            proxy_set_header X-User $user;
            proxy_set_header X-Role $role;
            proxy_pass http://127.0.0.1:9000;
        }
        location = /verify {
            internal;
            proxy_pass http://127.0.0.1:9001/check;
            proxy_pass_request_body off;
            proxy_set_header X-Original-URI $request_uri;
        }
    }
}
"#;

#[test]
fn access_limits_and_caches_become_filters() {
    let text = convert(POLICIES, "nginx.conf").unwrap();
    let found = words(&text);
    for wanted in [
        "tls: { certificates: [{ cert: \"/nonexistent/a.pem\", key: \"/nonexistent/a.key\" }] }",
        "caches: \"pages\": {}",
        "rate_limit: { rate: 10/s, burst: 21, key: client_ip, name: \"each\", status: 503 } \
         - concurrency: { limit: 100, key: \"{host}\", name: \"site\", status: 429 } \
         - cache: { store: \"pages\", ttl: { default: 10m } } \
         - rewrite: { regex: { pattern: \"^/limited/(.*)$\", replace: \"/$1\" } }",
        "allow: { ip: [\"10.0.0.0/8\", \"::1\"] }",
        "deny: { ip: [\"192.0.2.1\"] }",
        "basic_auth: { htpasswd: \"users.htpasswd\", realm: \"a\" }",
        "line 5: map $http_x $y is not converted",
        "line 16: proxy_cache_valid 404 1m is not converted",
        "line 24: auth_request /auth is not converted",
        "line 26: auth_request: its server finds the URI in X-Forwarded-Uri",
        "path: \"/checked/{*rest}\" } filters: \
         - forward_auth: { to: { upstream: n127-0-0-1-9001 }, path: \"/check\", \
         copy: [\"x-user\"] } \
         - request_headers: { remove: [\"x-role\"] } \
         handler: { upstream: n127-0-0-1-9000 }",
        "line 29: proxy_set_header X-Role $role is not converted",
        "line 36: proxy_set_header X-Original-URI $request_uri is not converted",
        "path: \"/verify\" } handler: { respond: { status: 404 } }",
    ] {
        assert!(found.contains(wanted), "{wanted}\n{text}");
    }
    // Of /mixed/ and /asked/.
    assert_eq!(text.matches("deny: { ip: [\"0.0.0.0/0\", \"::/0\"] }").count(), 2, "{text}");
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
