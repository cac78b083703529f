//! Servers, locations, upstreams and headers, and the notes with their lines.

use super::Included;

mod requests;

/// Without files to include.
fn convert(text: &str, from: &str) -> Result<String, String> {
    super::convert(text, from, &|_| Err("no file".to_owned()))
}

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
         { address: \"10.0.0.2:8000\", backup: true }], balance: least_requests, \
         timeouts: { write: 1m, response: 5s, read: 5s } }",
        "n127-0-0-1-9000: { servers: [\"http://127.0.0.1:9000\"], \
         timeouts: { write: 1m, response: 1m, read: 1m } }",
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
        listen 443 ssl; server_name shop.example.com;
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
         - concurrency: { limit: 100, name: \"site-shop.example.com\", status: 429 } \
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

/// The routes of locations in a server, as text without line breaks.
fn routes(locations: &str) -> String {
    let server = format!("server {{ listen 80;\n{locations}\n}}");
    let text = convert(&server, "nginx.conf").unwrap();
    words(&text[text.find("routes:").unwrap()..])
}

/// The filters of the route with this path.
fn filters<'t>(routes: &'t str, path: &str) -> &'t str {
    let at = routes.find(&format!("path: {path:?} }}")).unwrap_or_else(|| panic!("{routes}"));
    let route = &routes[at..];
    &route[..route.find("handler:").unwrap()]
}

const PROXY: &str = "location / { proxy_pass http://127.0.0.1:9000; }";

#[test]
fn what_a_location_without_a_route_protects_is_closed_in_the_others() {
    for (location, pattern) in [
        ("location ~ ^/admin { auth_basic a; auth_basic_user_file f; }", "^/admin"),
        ("location ~^/admin { deny all; }", "^/admin"),
        ("location ~* \\.(ini|log)$ { return 404; }", "(?i)\\.(ini|log)$"),
        ("location ~ ^/a { if ($http_x) { return 403; } }", "^/a"),
        ("location ~ ^/a { limit_except GET { deny all; } }", "^/a"),
        ("location ~ ^/a { location ~ b { internal; } }", "^/a"),
        ("location /a*b { deny all; }", "^/a\\*b"),
        ("location = /a#b { deny all; }", "^/a\\#b$"),
        // A prefix is not only whole segments for nginx.
        ("location /admin { deny all; }", "^/admin[^/]"),
        ("location /a.b { auth_request off; auth_basic a; }", "^/a\\.b[^/]"),
    ] {
        let found = routes(&format!("{PROXY}\n{location}"));
        let wanted = format!("- deny: {{ when: [{{ variable: path, regex: {pattern:?} }}] }}");
        assert!(filters(&found, "/{*rest}").contains(&wanted), "{location}\n{found}");
    }
    for location in [
        "location ~ \\.png$ { expires 30d; }",
        "location ~ ^/a { auth_basic off; return 302 /b; }",
        "location /admin/ { deny all; }",
        "location = /admin { deny all; }",
        "location @admin { deny all; }",
        "location /open { auth_request off; allow 10.0.0.0/8; }",
        "location ~ \\.php$ { fastcgi_pass unix:/run/php.sock; }",
    ] {
        let found = routes(&format!("{PROXY}\n{location}"));
        assert_eq!(filters(&found, "/{*rest}"), "path: \"/{*rest}\" } ", "{location}");
    }
}

#[test]
fn an_expression_of_another_syntax_closes_what_it_may_match() {
    let found = routes(&format!(
        "{PROXY}\nlocation ~ ^/(?!open) {{ deny all; }}\nlocation = /b {{ return 200; }}\n\
         location ^~ /c/ {{ return 200; }}"
    ));
    assert!(filters(&found, "/{*rest}").contains("- deny: { ip: [\"0.0.0.0/0\", \"::/0\"] }"));
    assert!(found.contains("its expression is not supported"), "{found}");
    // nginx looks for expressions after these.
    assert!(
        !filters(&found, "/b").contains("deny") && !filters(&found, "/c/{*rest}").contains("deny")
    );
}

#[test]
fn what_a_location_inherits_is_closed_where_it_is_not_inherited() {
    let found = routes(
        "auth_basic a; auth_basic_user_file f;\nlocation / { auth_basic off; return 200; }\n\
         location ~ ^/a { expires 1d; }\nlocation ~ ^/b { auth_basic off; expires 1d; }\n\
         location /c/ { return 200; }",
    );
    let closed = "- deny: { when: [{ variable: path, regex: \"^/a\" }] }";
    assert!(filters(&found, "/{*rest}").contains(closed), "{found}");
    assert!(filters(&found, "/c/{*rest}").contains("basic_auth"), "{found}");
    assert!(!filters(&found, "/c/{*rest}").contains("deny"), "{found}");
}

#[test]
fn blocks_that_reject_requests_close_their_location() {
    let closed = "- deny: { ip: [\"0.0.0.0/0\", \"::/0\"] }";
    for block in [
        "limit_except GET { deny all; }",
        "if ($http_x) { return 444; }",
        "location /a/b { auth_basic a; }",
        "location ~ x { deny all; }",
        "auth_ldap a;",
    ] {
        let found = routes(&format!("{PROXY} location /a/ {{ {block} return 200; }}"));
        assert!(filters(&found, "/a/{*rest}").contains(closed), "{block}\n{found}");
        assert!(!filters(&found, "/{*rest}").contains("deny"), "{block}\n{found}");
    }
    let found = routes(&format!("if ($http_x) {{ return 403; }} {PROXY}"));
    assert!(filters(&found, "/{*rest}").contains(closed), "{found}");
    let found = routes(&format!("if ($http_x) {{ return 302 /a; }} {PROXY}"));
    assert!(!filters(&found, "/{*rest}").contains("deny"), "{found}");
}

#[test]
fn an_upstream_has_the_longest_time_outs_of_its_locations() {
    let found = convert(
        "upstream app { server 10.0.0.1:80; }\n\
         server { listen 80; proxy_connect_timeout 500ms; proxy_send_timeout 2d;\n\
         location / { proxy_pass http://app; }\n\
         location /live { proxy_pass http://app; proxy_read_timeout 1h30m; }\n\
         location /odd { proxy_pass http://10.0.0.2:80; proxy_read_timeout $time;\n\
         proxy_connect_timeout 0; proxy_send_timeout 10; } }",
        "nginx.conf",
    );
    let text = found.unwrap();
    let found = words(&text);
    for wanted in [
        "the upstream app: proxy_send_timeout 2d is longer than 1d",
        "the upstream app: proxy_read_timeout differs between locations: 1h30m for all of them",
        "timeouts: { connect: 500ms, write: 1d, response: 1h30m, read: 1h30m, idle: 1h30m } }",
        "proxy_read_timeout $time is not converted",
        "proxy_connect_timeout 0 is not converted",
        "servers: [\"http://10.0.0.2:80\"], timeouts: { write: 10s } }",
    ] {
        assert!(found.contains(wanted), "{wanted}\n{text}");
    }
}

#[test]
fn what_gzip_compresses_is_kept() {
    let found = routes(
        "gzip on; gzip_types text/css application/json; gzip_min_length 256; gzip_comp_level 6;\n\
         gzip_vary on; location / { return 200; }\n\
         location /all { gzip_types *; gzip_min_length x; return 200; }",
    );
    let compress = "compress: { codings: [gzip], types: [\"text/html\", \"text/css\", \
        \"application/json\"], min_size: 256B, levels: { gzip: 6 } }";
    assert!(filters(&found, "/{*rest}").contains(compress), "{found}");
    let all = "compress: { codings: [gzip], levels: { gzip: 6 } }";
    assert!(filters(&found, "/all/{*rest}").contains(all), "{found}");
    assert!(found.contains("line 4: gzip_types: * is not converted"), "{found}");
    assert!(!found.contains("gzip_vary"), "{found}");
}

#[test]
fn a_host_that_the_server_redirects_has_a_route_before_all_others() {
    let site = "server { listen 80; return 444; }\n\
        server {\n\
        if ($host = www.a.example) { return 301 https://a.example$request_uri; } # Certbot's\n\
        if ($host = b.example) { return 301 https://$host$request_uri; }\n\
        if ($host = a.example) { return 403; }\n\
        listen 80; server_name a.example www.a.example; location / { return 200; } }\n\
        server { if ($host = c.example) { return 301 https://$host$uri; }\n\
        listen 80; server_name c.example; return 404; }";
    let text = convert(site, "nginx.conf").unwrap();
    let found = words(&text);
    for wanted in [
        "- name: server-2-host-1 match: { listener: [web-80], host: \"www.a.example\", \
         path: \"/{*rest}\" } handler: { redirect: { to: \"https://a.example{path}\", \
         status: 301 }",
        "match: { listener: [web-80], host: [\"a.example\"], path: \"/{*rest}\" }",
        "line 4: if ($host = b.example) is not converted",
        "line 5: if ($host = a.example) is not converted",
        "host: \"c.example\", path: \"/{*rest}\" } handler: { redirect: \
         { to: \"https://{host}{path}\", status: 301, keep_query: false } }",
    ] {
        assert!(found.contains(wanted), "{wanted}\n{text}");
    }
    assert!(!found.contains("server-3-line"), "{text}");
    assert_eq!(found.matches("- name:").count(), 4, "{text}");
}

#[test]
fn a_prefix_with_and_one_without_a_slash_are_two_routes() {
    let found = routes(
        "location /admin { return 200; }\n\
         location /admin/ { auth_basic a; auth_basic_user_file f; return 200; }",
    );
    assert!(!filters(&found, "/admin").contains("basic_auth"), "{found}");
    assert!(filters(&found, "/admin/{*rest}").contains("basic_auth"), "{found}");
}

#[test]
fn files_of_programs_are_not_served() {
    let found = routes(
        "root /;\nlocation ~ \\.php$ { fastcgi_pass unix:/run/php.sock; }\n\
         location /app/ { uwsgi_pass unix:/run/app.sock; }",
    );
    let closed = "- deny: { when: [{ variable: path, regex: \"\\\\.php$\" }] }";
    assert!(filters(&found, "/{*rest}").contains(closed), "{found}");
    let app = &found[found.find("/app/{*rest}").unwrap()..];
    assert!(app.contains("handler: { respond: { status: 502 } }"), "{found}");
}

#[test]
fn what_is_not_converted_is_named_with_its_line() {
    let text = convert(SITE, "nginx.conf").unwrap();
    let found = words(&text);
    for wanted in [
        "line 1: user www-data is not converted",
        "line 17: location ~ \\.php$ is not converted",
        "line 19: /nonexistent/static/ does not exist here",
    ] {
        assert!(found.contains(wanted), "{wanted}\n{text}");
    }
}

#[test]
fn included_files_take_the_place_of_their_directive() {
    let read = |pattern: &str| {
        let file = |name: &str, text: &str| Included { name: name.into(), text: text.into() };
        match pattern {
            "sites/*" => Ok(vec![
                file("sites/a", "server { listen 80; include auth; location / { return 200; } }"),
                file("sites/b", "\nserver { listen 81; odd on; include none; return 204; }"),
            ]),
            "auth" => Ok(vec![file("auth", "auth_basic a;\nauth_basic_user_file users; odd;")]),
            "empty/*.conf" => Ok(Vec::new()),
            "broken" => Ok(vec![file("broken", "\n}")]),
            "itself" => Ok(vec![file("itself", "include itself; include itself;")]),
            _ => Err(format!("{pattern} does not exist")),
        }
    };
    let main = "http { include mime.types; include empty/*.conf; include sites/*; }";
    let text = super::convert(main, "nginx.conf", &read).unwrap();
    let found = words(&text);
    for wanted in [
        "web-80: { bind: \":80\" } web-81: { bind: \":81\" }",
        "basic_auth: { htpasswd: \"users\", realm: \"a\" } handler: { respond: { status: 200 } }",
        "auth line 2: odd is not converted",
        "sites/b line 2: odd on is not converted",
        "sites/b line 2: include none is not converted",
    ] {
        assert!(found.contains(wanted), "{wanted}\n{text}");
    }
    assert!(!found.contains("mime.types") && !found.contains("empty"), "{text}");
    for (text, why) in [
        ("include broken;", "broken line 2: unexpected }"),
        ("include itself;", "itself line 1: more than 1000 files, or too deep includes"),
    ] {
        let error = super::convert(text, "nginx.conf", &read).unwrap_err();
        assert_eq!(error, why);
    }
}

#[test]
fn what_changes_nothing_here_is_not_named() {
    let text = convert(
        "worker_processes auto;\n\
         http { include /etc/nginx/mime.types; default_type application/octet-stream;\n\
         sendfile on; tcp_nopush on; types_hash_max_size 2048; server_tokens off;\n\
         map $http_upgrade $connection_upgrade { default upgrade; '' close; }\n\
         server { listen 80; http2 on; proxy_buffering off; location / {\n\
         proxy_pass http://10.0.0.1; proxy_http_version 1.1; proxy_cache_bypass $http_upgrade;\n\
         proxy_set_header Upgrade $http_upgrade;\n\
         proxy_set_header Connection $connection_upgrade; } } }",
        "nginx.conf",
    );
    let text = text.unwrap();
    assert!(!text.contains("note: line") && !text.contains("filters:"), "{text}");
    let other = "worker_processes 3; server { listen 80; listen 81 quic; http2 off;\n\
        include auth_params; proxy_cache_bypass $http_upgrade $cookie_user; }";
    let text = words(&convert(other, "x").unwrap());
    for wanted in [
        "worker_processes 3",
        "http2 off",
        "listen 81 quic",
        "include auth_params",
        "proxy_cache_bypass $http_upgrade $cookie_user",
    ] {
        assert!(text.contains(&format!("{wanted} is not converted")), "{wanted}\n{text}");
    }
    assert!(!text.contains(":81"), "{text}");
}

#[test]
fn what_is_not_a_configuration_of_nginx_is_rejected() {
    for (text, why) in [
        ("", "has no server"),
        ("a { b", "x:1: a text or directive does not end"),
        ("events {}", "has no server"),
    ] {
        let error = convert(text, "x").unwrap_err();
        assert!(error.contains(why), "{error}");
    }
}
