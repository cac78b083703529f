//! Requests that reach the same servers, with the same path and fields, as through nginx.

use super::{convert, filters, routes, words};

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
fn the_name_of_a_server_is_not_the_host_that_a_client_sends() {
    has(
        "server { listen 80 default_server; server_name .a.example b.example;\n\
         location /a { return 301 https://$server_name$request_uri; }\n\
         location /b { proxy_pass http://10.0.0.1; proxy_set_header Host $server_name; } }\n\
         server { listen 80; server_name c.example d.example;\n\
         if ($host = d.example) { return 301 https://$server_name$request_uri; } return 404; }",
        &[
            "redirect: { to: \"https://a.example{path}\", status: 301 }",
            "set: { \"host\": \"a.example\" }",
            "host: \"d.example\", path: \"/{*rest}\" } handler: \
             { redirect: { to: \"https://c.example{path}\", status: 301 } }",
        ],
    );
    for name in ["", "server_name _;", "server_name *.a.example;", "server_name ~^a;"] {
        let found =
            routes(&format!("{name} location /a {{ return 301 https://$server_name$uri; }}"));
        assert!(found.contains("$server_name$uri is not converted"), "{found}");
        assert!(!found.contains("redirect:"), "{found}");
    }
    // A limit of ours for all requests together has no key, and a rate always has one.
    let zones = "limit_req_zone $server_name zone=a:1m rate=1r/s;";
    let server =
        "server { listen 80; server_name a; location / { limit_req zone=a; return 200; } }";
    has(&format!("{zones}\n{server}"), &["line 2: limit_req zone=a is not converted"]);
}

#[test]
fn a_redirect_has_the_query_where_nginx_writes_it() {
    for (url, redirect) in [
        ("https://b.example/", "to: \"https://b.example/\", status: 301, keep_query: false }"),
        ("https://$host$uri", "to: \"https://{host}{path}\", status: 301, keep_query: false }"),
        ("https://$host$request_uri", "to: \"https://{host}{path}\", status: 301 }"),
        ("https://$host$uri$is_args$args", "to: \"https://{host}{path}\", status: 301 }"),
    ] {
        let found = routes(&format!("location / {{ return 301 {url}; }}"));
        assert!(found.contains(&format!("redirect: {{ {redirect}")), "{url}\n{found}");
    }
    for url in ["https://b.example/?from=$request_uri", "https://$host/a$request_uri/b"] {
        let found = routes(&format!("location / {{ return 301 {url}; }}"));
        assert!(found.contains(&format!("return 301 {url} is not converted")), "{found}");
    }
}

#[test]
fn only_files_that_are_tried_alike_are_served() {
    for (location, settings) in [
        ("/ { root /; try_files $uri $uri/ =404; }", "{ root: \"/\" }"),
        ("/ { root /; try_files $uri /index.html; }", "{ root: \"/\", spa: \"index.html\" }"),
        ("/e/ { alias /; try_files $uri $uri/ /e/i.html; }", "{ root: \"/\", spa: \"i.html\" }"),
        ("/e/ { root /; try_files $uri /e/i.html; }", "{ root: \"/\", spa: \"e/i.html\" }"),
    ] {
        let found = routes(&format!("location {location}"));
        assert!(found.contains(&format!("handler: {{ files: {settings} }}")), "{found}");
        assert!(!found.contains("note:"), "{found}");
    }
    for location in [
        "/ { root /; try_files $uri $uri.html $uri/ =404; }",
        "/ { root /; try_files $uri/ =404; }",
        "/ { root /; try_files $uri =403; }",
        "/ { root /; try_files $uri @other; }",
        "/e/ { alias /; try_files $uri /i.html; }",
        "/e/ { root /; try_files $uri /i.html; }",
    ] {
        let found = routes(&format!("location {location}"));
        assert!(found.contains("handler: { files: { root: \"/\" } }"), "{found}");
        assert!(found.contains("is not converted"), "{found}");
    }
}

#[test]
fn the_path_of_proxy_pass_replaces_the_prefix_unless_a_rewrite_has_changed_it() {
    let found = routes(
        "location /api { proxy_pass http://10.0.0.1/v1; }\n\
         location /all/ { proxy_pass http://10.0.0.1/; }\n\
         location /r/ { rewrite ^/r/(.*)$ /s/$1 break; proxy_pass http://10.0.0.1/zz/; }",
    );
    let regex = "- rewrite: { regex: { pattern: \"^/api\", replace: \"/v1\" } }";
    assert!(filters(&found, "/api/{*rest}").contains(regex), "{found}");
    let strip = "- rewrite: { strip_prefix: \"/all\" }";
    assert!(filters(&found, "/all/{*rest}").contains(strip), "{found}");
    let rewrites = filters(&found, "/r/{*rest}");
    assert_eq!(rewrites.matches("rewrite:").count(), 1, "{rewrites}");
    assert!(rewrites.contains("replace: \"/s/$1\""), "{rewrites}");
    assert!(found.contains("line 4: the path /zz/ of proxy_pass is not converted"), "{found}");
}

#[test]
fn an_empty_value_removes_a_field_and_the_client_s_address_is_sent_once() {
    let found = routes(
        "location / { proxy_pass http://10.0.0.1; proxy_set_header Accept-Encoding \"\";\n\
         proxy_set_header X-Forwarded-For $remote_addr; add_header X-None \"\"; }",
    );
    let wanted = "filters: - request_headers: { remove: [\"accept-encoding\"] } ";
    assert!(filters(&found, "/{*rest}").ends_with(wanted), "{found}");
    assert!(!found.contains("note:"), "{found}");
    let found = routes(
        "location / { proxy_pass http://10.0.0.1;\n\
         proxy_set_header X-Forwarded-For \"\"; proxy_set_header Host ''; }",
    );
    for name in ["X-Forwarded-For", "Host"] {
        let note = format!("line 3: proxy_set_header {name} is not converted");
        assert!(found.contains(&note), "{found}");
    }
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
