//! Keys of an identity provider: fetched, kept over a reload, and missing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use scenarios::{Authority, HttpResponse, Launch, Tidegate, TlsUpstream, Upstream, eventually};

/// Of EdDSA until the year 2100, with the key `k1`, for the audience `shop`.
pub(crate) const TOKEN: &str = "\
    eyJhbGciOiJFZERTQSIsImtpZCI6ImsxIn0.eyJzdWIiOiJhLTE3IiwiaXNzIjoiaHR0cHM6\
    Ly9pZC50ZXN0IiwiYXVkIjoic2hvcCIsInNjb3BlIjoicmVhZCB3cml0ZSIsImV4cCI6NDEw\
    MjQ0NDgwMH0.lXvKdqvj70TiGHys0DGRzMA4sfqJnBhtSKceX2nTH7i2805bN1GBo_C5hV5f\
    jVrI-818sFa-nuRHVSmW-isPAQ";
pub(crate) const KEYS: &str = r#"{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"k1",
    "x":"rVvZBdglRNE0EcqyCEOn_pV2FX8pQxzd1N2i7dk38NU"}]}"#;

fn config(provider: &str, reply: &str) -> String {
    format!(
        r#"
workers: 2
listeners: {{ web: {{ bind: "127.0.0.1:0" }} }}
admin: {{ bind: "127.0.0.1:0" }}
identity:
  main: {{ {provider}, issuer: "https://id.test", audience: shop }}
routes:
  - match: {{}}
    filters: [{{ jwt: {{ identity: main }} }}]
    handler: {{ respond: {{ headers: {{ x-seen: "{reply} {{consumer}}" }} }} }}
"#
    )
}

fn get(server: &Tidegate, token: &str) -> HttpResponse {
    let field = format!("authorization: Bearer {token}\r\n");
    server.exchange("web", format!("GET / HTTP/1.1\r\nhost: a\r\n{field}\r\n"))
}

fn ready(server: &Tidegate) -> String {
    server.exchange("admin", "GET /readyz HTTP/1.1\r\nhost: localhost\r\n\r\n").text()
}

#[test]
fn keys_are_fetched_once_and_kept_over_a_reload() {
    let fetches = Arc::new(AtomicUsize::new(0));
    let count = fetches.clone();
    let provider = Upstream::start(move |peer| {
        let head = peer.read_head();
        assert!(head.starts_with("GET /keys?a=b HTTP/1.1\r\n"), "{head}");
        count.fetch_add(1, Ordering::Relaxed);
        peer.send(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{KEYS}", KEYS.len()));
    });
    let jwks = format!("jwks: \"http://{}/keys?a=b\"", provider.address());
    let server = Tidegate::start(&config(&jwks, "one"));
    let response = get(&server, TOKEN);
    assert_eq!((response.status, response.header("x-seen")), (200, Some("one a-17")));
    assert_eq!(get(&server, &TOKEN[..TOKEN.len() - 4]).status, 401);
    assert_eq!(ready(&server), "ready\n");
    let before = server.metrics().sum("tidegate_config_reloads_total", &[]);
    server.rewrite_config(&config(&jwks, "two"));
    server.wait_for_metric("tidegate_config_reloads_total", &[], before + 1.0);
    assert_eq!(get(&server, TOKEN).header("x-seen"), Some("two a-17"));
    assert_eq!(get(&server, &TOKEN[..TOKEN.len() - 4]).status, 401);
    assert_eq!(server.exchange("web", "GET / HTTP/1.1\r\nhost: a\r\n\r\n").status, 401);
    assert_eq!(fetches.load(Ordering::Relaxed), 1);
    let metrics = server.metrics();
    let rejected = |reason| {
        let labels = [("filter", "jwt"), ("reason", reason)];
        metrics.sum("tidegate_auth_refusals_total", &labels)
    };
    assert_eq!((rejected("invalid"), rejected("missing")), (2.0, 1.0));
    let fetched = [("identity", "main"), ("result", "fetched")];
    assert_eq!(metrics.sum("tidegate_identity_fetches_total", &fetched), 1.0);
    assert_eq!(metrics.sum("tidegate_identity_keys", &[("identity", "main")]), 1.0);
    let at = metrics.sum("tidegate_identity_keys_fetched_timestamp_seconds", &[]);
    assert!(at > 1.7e9, "{at}");
    // Without the provider there are no metrics of it, and its name is an error.
    server.rewrite_config(&config(&jwks, "three").replace("identity: main", "identity: mian"));
    server.wait_for_log("did you mean \\\"main\\\"");
}

#[test]
fn the_certificate_of_a_provider_is_verified() {
    let authority = Authority::new();
    let provider = TlsUpstream::start(&authority.issue(&["id.test", "127.0.0.1"]));
    // What this server responds is not a key set.
    for (tls, expected) in [
        ("tls: { ca: ca.pem }", "the key set is not a JSON object"),
        ("tls: { ca: ca.pem, server_name: id.test }", "the key set is not a JSON object"),
        ("tls: { ca: ca.pem, server_name: b.test }", "not valid for name"),
        ("refresh: 5m", "UnknownIssuer"),
    ] {
        let jwks = format!("jwks: \"{}/keys\", {tls}", provider.url());
        let launch = Launch::new(&config(&jwks, "one")).file("ca.pem", authority.pem());
        let server = launch.start();
        let rejected = get(&server, TOKEN);
        assert_eq!((rejected.status, rejected.header("retry-after")), (503, Some("5")), "{tls}");
        eventually("the trouble is shown", || ready(&server).contains(expected));
        assert!(ready(&server).starts_with("ready\n"));
        server.wait_for_log("identity_fetch_failed");
    }
}
