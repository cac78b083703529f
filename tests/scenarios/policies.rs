//! Policies for browsers, changes of requests and responses, and validation, through a whole
//! server: use, rejection, generated responses, metrics, and a reload.

use scenarios::{HttpResponse, Tidegate, Upstream};

/// Responds with JSON that contains the body of the request, or with the head of one without a
/// body, and two cookies.
fn echo() -> Upstream {
    Upstream::start(|peer| {
        while !peer.at_end() {
            let head = peer.read_head();
            let lower = head.to_lowercase();
            let length = lower.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length = length.map_or(0, |length| length.parse().expect("a number"));
            let body = String::from_utf8(peer.read_exactly(length)).expect("text");
            let (media_type, body) = match length {
                0 => ("text/plain", head),
                _ => ("application/json", format!("{{\"secret\":1,\"got\":{body}}}")),
            };
            peer.send(format!(
                "HTTP/1.1 200 OK\r\nset-cookie: session=1; Path=/\r\nset-cookie: old=1\r\n\
                 access-control-allow-origin: *\r\ncontent-type: {media_type}\r\n\
                 content-length: {}\r\n\r\n{body}",
                body.len()
            ));
        }
    })
}

fn config(upstream: &Upstream, origin: &str) -> String {
    format!(
        r#"
workers: 1
listeners: {{ web: {{ bind: "127.0.0.1:0" }} }}
admin: {{ bind: "127.0.0.1:0" }}
upstreams: {{ echo: {{ servers: ["{}"] }}, gone: {{ servers: ["127.0.0.1:1"] }} }}
chains: {{ cors: [{{ cors: {{ origins: ["{origin}"], credentials: true }} }}] }}
routes:
  - match: {{ path: /changed }}
    filters:
      - query: {{ remove: [debug], rename: {{ q: search }}, set: {{ host: "{{host}}" }} }}
      - cookies:
          remove: [_ga]
          set: {{ from: "{{header.x-from}}" }}
          response:
            - {{ name: old, remove: true }}
            - {{ name: session, secure: true, same_site: lax }}
    handler: {{ upstream: echo }}
  - match: {{ path: /cors }}
    filters: [{{ chain: cors }}]
    handler: {{ upstream: echo }}
  - match: {{ path: /gone }}
    filters: [{{ chain: cors }}, {{ security_headers: {{}} }}]
    handler: {{ upstream: gone }}
  - match: {{ path: /json }}
    filters:
      - validate: {{ body: {{ required: [a], properties: {{ a: {{ maximum: 9 }} }} }} }}
      - json_body:
          request: [{{ add: /b, value: "{{header.x-from}}" }}, {{ remove: /a }}]
          response: [{{ remove: /secret }}]
          max_size: 128B
    handler: {{ upstream: echo }}
  - match: {{ path: /soap }}
    filters:
      - template:
          request:
            body: '{{{{"user": {{form user}}, "from": "{{header.x-from}}"}}}}'
          response: {{ body: "<user>{{json /got/user}}</user>", content_type: text/xml }}
          max_size: 128B
    handler: {{ upstream: echo }}
  - match: {{ path: /guarded }}
    filters: [{{ waf: {{ exclude: [{{ rules: xss-script, parameters: [html] }}] }} }}]
    handler: {{ upstream: echo }}
  - match: {{ path: /observed }}
    filters: [{{ waf: {{ log_only: true }} }}]
    handler: {{ respond: {{ body: seen }} }}
  - match: {{ path: /form }}
    filters: [{{ security_headers: {{}} }}, {{ csrf: {{}} }}]
    handler: {{ respond: {{ body: done }} }}
"#,
        upstream.address(),
    )
}

fn send(server: &Tidegate, line: &str, fields: &str) -> HttpResponse {
    let request = format!("{line} HTTP/1.1\r\nhost: shop\r\ncontent-length: 0\r\n{fields}\r\n");
    server.exchange("web", request)
}

#[test]
fn queries_and_cookies_reach_the_upstream_changed() {
    let upstream = echo();
    let server = Tidegate::start(&config(&upstream, "https://a.example"));
    let fields = "cookie: _ga=1; a=2\r\nx-from: x;y\r\n";
    let response = send(&server, "GET /changed?debug=1&x=%7e&q=1+2", fields);
    let head = response.text();
    assert!(head.starts_with("GET /changed?x=%7e&search=1%202&host=shop HTTP/1.1\r\n"), "{head}");
    assert!(head.to_lowercase().contains("\r\ncookie: a=2; from=x%3by\r\n"), "{head}");
    assert_eq!(response.all("set-cookie"), ["session=1; Path=/; SameSite=Lax; Secure"]);
}

#[test]
fn cors_decides_for_preflights_responses_and_errors() {
    let upstream = echo();
    let server = Tidegate::start(&config(&upstream, "https://a.example"));
    let allowed =
        |response: &HttpResponse| response.header("access-control-allow-origin").map(str::to_owned);
    let origin = "origin: https://a.example\r\n";
    let preflight = format!("{origin}access-control-request-method: DELETE\r\n");
    let response = send(&server, "OPTIONS /cors", &preflight);
    assert_eq!((response.status, allowed(&response).as_deref()), (204, Some("https://a.example")));
    let other = preflight.replace("a.example", "b.example");
    let rejected = send(&server, "OPTIONS /cors", &other);
    assert_eq!((rejected.status, allowed(&rejected)), (403, None));
    let labels = [("filter", "cors"), ("reason", "origin")];
    assert_eq!(server.metrics().sum("tidegate_policy_rejections_total", &labels), 1.0);

    let response = send(&server, "GET /cors", origin);
    assert_eq!((response.status, allowed(&response).as_deref()), (200, Some("https://a.example")));
    assert_eq!(response.header("vary"), Some("Origin"));
    let response = send(&server, "GET /cors", "");
    assert_eq!((allowed(&response), response.header("vary")), (None, Some("Origin")));

    let failed = send(&server, "GET /gone", origin);
    assert_eq!((failed.status, allowed(&failed).as_deref()), (502, Some("https://a.example")));
    assert_eq!(failed.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(failed.header("strict-transport-security"), None);

    let before = server.metrics().sum("tidegate_config_reloads_total", &[]);
    server.rewrite_config(&config(&upstream, "https://b.example"));
    server.wait_for_metric("tidegate_config_reloads_total", &[], before + 1.0);
    assert_eq!(send(&server, "OPTIONS /cors", &other).status, 204);
    assert_eq!(send(&server, "OPTIONS /cors", &preflight).status, 403);
    let rejected = server.metrics().sum("tidegate_policy_rejections_total", &labels);
    assert_eq!(rejected, 2.0, "the counter survives the reload");
}

#[test]
fn csrf_rejects_what_other_origins_send() {
    let server = Tidegate::start(&config(&echo(), "https://a.example"));
    let cross = "sec-fetch-site: cross-site\r\n";
    assert_eq!(send(&server, "POST /form", cross).status, 403);
    assert_eq!(send(&server, "GET /form", cross).status, 200);
    assert_eq!(send(&server, "POST /form", "sec-fetch-site: same-origin\r\n").status, 200);
    assert_eq!(send(&server, "POST /form", "origin: http://shop\r\n").status, 200);
    let labels = [("filter", "csrf"), ("reason", "cross_origin")];
    assert_eq!(server.metrics().sum("tidegate_policy_rejections_total", &labels), 1.0);
}

#[test]
fn json_bodies_are_checked_and_edited() {
    let upstream = echo();
    let server = Tidegate::start(&config(&upstream, "https://a.example"));
    let post = |body: &str| {
        let request = format!(
            "POST /json HTTP/1.1\r\nhost: a\r\nx-from: x\"y\r\ncontent-type: application/json\r\n\
             transfer-encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n",
            body.len()
        );
        server.exchange("web", request)
    };
    let response = post(r#"{"a": 1, "id": 12345678901234567890}"#);
    assert_eq!(response.status, 200, "{response:?}");
    assert_eq!(response.text(), r#"{"got":{"id":12345678901234567890,"b":"x\"y"}}"#);
    let rejected = post(r#"{"a": 10}"#);
    assert_eq!(rejected.status, 400);
    assert_eq!(rejected.header("content-type"), Some("application/problem+json"));
    assert!(rejected.text().contains(r#""pointer":"/a""#), "{rejected:?}");
    assert_eq!(post(r#"{"a": 1"#).status, 400);
    let long = format!(r#"{{"a": 1, "b": "{}"}}"#, "b".repeat(200));
    assert_eq!(post(&long).status, 413);
    let metrics = server.metrics();
    let count = |filter, reason| {
        let labels = [("filter", filter), ("reason", reason)];
        metrics.sum("tidegate_policy_rejections_total", &labels)
    };
    assert_eq!((count("validate", "body"), count("validate", "invalid")), (1.0, 1.0));
    assert_eq!(count("json_body", "too_large"), 1.0);
}

#[test]
fn a_form_becomes_json_and_the_response_xml() {
    let upstream = echo();
    let server = Tidegate::start(&config(&upstream, "https://a.example"));
    let post = |media_type: &str, body: &str| {
        let request = format!(
            "POST /soap?page=2 HTTP/1.1\r\nhost: a\r\nx-from: x\"y\r\n\
             content-type: {media_type}\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        server.exchange("web", request)
    };
    let form = "application/x-www-form-urlencoded";
    let response = post(form, "user=A%22+%3Cb%3E&secret=1");
    assert_eq!(response.status, 200, "{response:?}");
    assert_eq!(response.text(), "<user>A&quot; &lt;b&gt;</user>");
    assert_eq!(response.header("content-type"), Some("text/xml"));
    assert_eq!(post("application/json", "{}").status, 415);
    assert_eq!(post(form, &"a".repeat(200)).status, 413);

    let before = server.metrics().sum("tidegate_config_reloads_total", &[]);
    let changed = config(&upstream, "https://b.example").replace("/got/user", "/got/from");
    server.rewrite_config(&changed);
    server.wait_for_metric("tidegate_config_reloads_total", &[], before + 1.0);
    assert_eq!(post(form, "user=a").text(), "<user>x&quot;y</user>");
    assert_eq!(post(form, "user=%ff").status, 400);
    let metrics = server.metrics();
    let count = |reason| {
        let labels = [("filter", "template"), ("reason", reason)];
        metrics.sum("tidegate_policy_rejections_total", &labels)
    };
    let counts = (count("content_type"), count("too_large"), count("invalid"));
    assert_eq!(counts, (1.0, 1.0, 1.0), "the counters survive the reload");
}

#[test]
fn attacks_are_rejected_or_only_logged() {
    let upstream = echo();
    let server = Tidegate::start(&config(&upstream, "https://a.example"));
    let script = "?q=%3Cscript%3E";
    let guarded = |query: &str, fields: &str| {
        let line = format!("POST /guarded{query} HTTP/1.1\r\nhost: a\r\n{fields}\r\n\r\n");
        server.exchange("web", format!("{line}{{\"a\":\"O'Brien; select\"}}"))
    };
    let json = "content-type: application/json\r\ncontent-length: 23";
    let response = guarded("?q=hello", json);
    assert_eq!(response.text(), "{\"secret\":1,\"got\":{\"a\":\"O'Brien; select\"}}");
    assert_eq!(guarded("?html=%3Cscript%3E", json).status, 200);
    assert_eq!(guarded(script, json).status, 403);
    let attack = "POST /guarded HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n\
                  content-length: 21\r\n\r\n{\"a\":\"1' or '1'='1\"} ";
    assert_eq!(server.exchange("web", attack).status, 403);
    assert_eq!(send(&server, &format!("GET /observed{script}"), "").status, 200);
    let line = server.wait_for_log("rules=xss-script score=5 action=\"forwarding it\"");
    assert!(!line.contains("<script>") && !line.contains("%3C"), "{line}");
    let metrics = server.metrics();
    let count = |reason| {
        let labels = [("filter", "waf"), ("reason", reason)];
        metrics.sum("tidegate_policy_rejections_total", &labels)
    };
    assert_eq!((count("xss"), count("sql"), count("logged")), (1.0, 1.0, 1.0));
}

#[test]
fn equal_requests_get_equal_responses_across_a_reload() {
    let upstream = echo();
    let server = Tidegate::start(&config(&upstream, "https://a.example"));
    let post = |path: &str, media_type: &str, body: &str| {
        let length = body.len();
        let fields = format!("content-type: {media_type}\r\ncontent-length: {length}");
        let head = format!("POST {path} HTTP/1.1\r\nhost: shop\r\nx-from: x\r\n{fields}");
        server.exchange("web", format!("{head}\r\n\r\n{body}"))
    };
    let (json, form) = ("application/json", "application/x-www-form-urlencoded");
    let exchanges = || {
        let responses = [
            send(&server, "GET /changed?debug=1&q=1+2", "cookie: _ga=1; a=2\r\n"),
            send(&server, "POST /form", "sec-fetch-site: same-origin\r\n"),
            send(&server, "POST /form", "sec-fetch-site: cross-site\r\n"),
            post("/json", json, r#"{"a":1}"#),
            post("/json", json, r#"{"a":10}"#),
            post("/soap", form, "user=ann"),
            post("/soap", json, "{}"),
            post("/guarded", json, r#"{"a":"b"}"#),
            post("/guarded?q=%3Cscript%3E", json, "{}"),
        ];
        responses.map(|response| {
            let fields = response.headers.iter().map(|(name, value)| format!("{name}: {value}"));
            let fields = fields.filter(|field| !field.to_lowercase().starts_with("date:"));
            let fields = fields.collect::<Vec<_>>().join("\n");
            format!("{} {fields}\n{}", response.status, response.text())
        })
    };
    let before = exchanges();
    // What each filter does, so that equal responses are those of the filters.
    for (response, parts) in before.iter().zip([
        &["200 ", "GET /changed?search=1%202&host=shop ", "\r\nCookie: a=2", "; Secure"][..],
        &["200 ", "nosniff", "\ndone"],
        &["403 ", "nosniff"],
        &["200 ", "{\"got\":{\"b\":\"x\"}}"],
        &["400 ", "\"pointer\":\"/a\""],
        &["200 ", "text/xml", "<user>ann</user>"],
        &["415 "],
        &["200 ", "{\"secret\":1,\"got\":{\"a\":\"b\"}}"],
        &["403 "],
    ]) {
        assert!(response.starts_with(parts[0]), "{response}");
        assert!(parts.iter().all(|part| response.contains(part)), "{parts:?} in {response}");
    }
    let reloads = server.metrics().sum("tidegate_config_reloads_total", &[]);
    server.rewrite_config(&config(&upstream, "https://a.example").replace(": seen", ": other"));
    server.wait_for_metric("tidegate_config_reloads_total", &[], reloads + 1.0);
    assert_eq!(send(&server, "GET /observed", "").text(), "other");
    assert_eq!(exchanges(), before);
    let metrics = server.metrics();
    for (filter, reason) in [
        ("csrf", "cross_origin"),
        ("validate", "body"),
        ("template", "content_type"),
        ("waf", "xss"),
    ] {
        let labels = [("filter", filter), ("reason", reason)];
        let rejections = metrics.sum("tidegate_policy_rejections_total", &labels);
        assert_eq!(rejections, 2.0, "{filter}: the counter survives the reload");
    }
}
