//! Consumers: found by their credentials, changed over the admin API and by reloads, and decided
//! about by `allow`; the upstream sees no credential.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use scenarios::{HttpResponse, Tidegate, Upstream};
use sha2::Sha256;

/// `sesame` for `bob`, by htpasswd.
pub(crate) const BCRYPT: &str = "$2y$04$ry.yb/gg5EeymKWaWk.7Suz.8R9PwrFdpwcl/XW24EGFRt/XODclK";
/// `bob:sesame` and `bob:wrong`.
pub(crate) const BOB: &str = "authorization: Basic Ym9iOnNlc2FtZQ==\r\n";
const NOT_BOB: &str = "authorization: Basic Ym9iOndyb25n\r\n";
const ALICE: &str = "x-api-key: key-of-alice\r\n";

fn config(upstream: &Upstream, alice: &str) -> String {
    let upstream = upstream.address();
    format!(
        r#"
workers: 2
listeners: {{ web: {{ bind: "127.0.0.1:0" }} }}
admin: {{ bind: "127.0.0.1:0", token: s3cret-token }}
upstreams: {{ api: {{ servers: ["{upstream}"] }} }}
consumers:
  - {{ name: alice, groups: [gold], labels: {{ team: shop }}, keys: [{{ key: {alice} }}] }}
  - {{ name: bob, password: "{BCRYPT}" }}
routes:
  - match: {{ path: /gold }}
    filters: [{{ key_auth: {{}} }}, {{ allow: {{ groups: [gold] }} }}]
    handler: {{ respond: {{ headers: {{ x-seen: "{{consumer}} {{groups}} {{label.team}}" }} }} }}
  - match: {{ path: /any }}
    filters: [{{ auth: {{ any: [{{ key_auth: {{}} }}, {{ basic_auth: {{}} }}] }} }}]
    handler: {{ upstream: api }}
"#
    )
}

fn upstream() -> Upstream {
    Upstream::start(|peer| {
        let head = peer.read_head();
        let leaked = ["authorization", "x-api-key"].iter().any(|name| head.contains(name));
        let body = if leaked { "leaked" } else { "clean!" };
        peer.send(format!("HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\n{body}"));
    })
}

fn get(server: &Tidegate, path: &str, fields: &str) -> HttpResponse {
    server.exchange("web", format!("GET {path} HTTP/1.1\r\nhost: a\r\n{fields}\r\n"))
}

fn admin(server: &Tidegate, line: &str, fields: &str, body: &str) -> HttpResponse {
    let length = body.len();
    let head = format!(
        "{line} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer s3cret-token\r\n\
         {fields}content-length: {length}\r\n\r\n"
    );
    server.exchange("admin", head + body)
}

#[test]
fn methods_are_tried_in_order_and_credentials_are_not_forwarded() {
    let upstream = upstream();
    let server = Tidegate::start(&config(&upstream, "key-of-alice"));
    assert_eq!(get(&server, "/gold", ALICE).header("x-seen"), Some("alice gold shop"));
    for fields in [ALICE, BOB] {
        let response = get(&server, "/any", fields);
        assert_eq!((response.status, response.text().as_str()), (200, "clean!"), "{fields}");
    }
    // A wrong credential of one method does not keep the next one from accepting the request.
    let both = get(&server, "/any", &format!("x-api-key: wrong\r\n{BOB}"));
    assert_eq!((both.status, both.text().as_str()), (200, "clean!"));
    let rejected = get(&server, "/any", NOT_BOB);
    let challenge = rejected.header("www-authenticate").unwrap_or_default();
    assert!(challenge.starts_with("ApiKey ") && challenge.contains("Basic "), "{challenge}");
    assert_eq!((rejected.status, get(&server, "/any", "").status), (401, 401));
    let metrics = server.metrics();
    let rejections = |filter, reason| {
        let labels = [("filter", filter), ("reason", reason)];
        metrics.sum("tidegate_auth_refusals_total", &labels)
    };
    assert_eq!(
        (rejections("key_auth", "missing"), rejections("basic_auth", "invalid")),
        (1.0, 1.0)
    );
}

#[test]
fn a_consumer_is_changed_without_a_reload() {
    let upstream = upstream();
    let server = Tidegate::start(&config(&upstream, "key-of-alice"));
    let entry = r#"{ "keys": [{ "key": "key-of-carol" }] }"#;
    let added = admin(&server, "PUT /v1/consumers/carol", "", entry);
    assert_eq!(added.status, 201);
    let carol = "x-api-key: key-of-carol\r\n";
    assert_eq!(get(&server, "/any", carol).status, 200);
    // Authenticated, and of no group.
    assert_eq!(get(&server, "/gold", carol).status, 403);
    let tag = format!("if-match: {}\r\n", added.header("etag").expect("an ETag"));
    let gold = r#"{ "groups": ["gold"], "keys": [{ "key": "key-of-carol" }] }"#;
    assert_eq!(admin(&server, "PUT /v1/consumers/carol", "", gold).status, 428);
    assert_eq!(admin(&server, "PUT /v1/consumers/carol", &tag, gold).status, 200);
    assert_eq!(get(&server, "/gold", carol).status, 200);
    // The key is taken, and the version that was read is an old one.
    assert_eq!(admin(&server, "PUT /v1/consumers/dave", "", gold).status, 409);
    assert_eq!(admin(&server, "DELETE /v1/consumers/carol", &tag, "").status, 412);
    let shown = admin(&server, "GET /v1/consumers/carol", "", "").text();
    assert!(shown.contains("gold") && !shown.contains("key-of-carol"), "{shown}");
    // A change outlives a reload that does not change the entry of that name.
    let before = server.metrics().sum("tidegate_config_reloads_total", &[]);
    server.rewrite_config(&config(&upstream, "another-key"));
    server.wait_for_metric("tidegate_config_reloads_total", &[], before + 1.0);
    assert_eq!(get(&server, "/gold", carol).status, 200);
    assert_eq!(get(&server, "/gold", ALICE).status, 401);
    assert_eq!(get(&server, "/gold", "x-api-key: another-key\r\n").status, 200);
    assert_eq!(admin(&server, "DELETE /v1/consumers/carol", "if-match: *\r\n", "").status, 204);
    assert_eq!(get(&server, "/gold", carol).status, 401);
    assert_eq!(
        server.metrics().sum("tidegate_policy_rejections_total", &[("filter", "allow")]),
        1.0
    );
}

/// The fields of a GET that a secret signs.
fn signed(secret: &str, path: &str, nonce: &str) -> String {
    let now_s = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now_s = now_s.expect("a time after 1970").as_secs();
    let components = "(\"@method\" \"@authority\" \"@path\" \"@query\")";
    let input = format!("{components};created={now_s};keyid=\"k-1\";nonce=\"{nonce}\"");
    let base = format!(
        "\"@method\": GET\n\"@authority\": a\n\"@path\": {path}\n\"@query\": ?\n\
         \"@signature-params\": {input}"
    );
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("a key");
    mac.update(base.as_bytes());
    let signature = STANDARD.encode(mac.finalize().into_bytes());
    format!("signature-input: s={input}\r\nsignature: s=:{signature}:\r\n")
}

#[test]
fn signed_requests_are_accepted_once_and_keys_change_without_a_reload() {
    let config = r#"
workers: 2
listeners: { web: { bind: "127.0.0.1:0" } }
admin: { bind: "127.0.0.1:0", token: s3cret-token }
routes:
  - match: {}
    filters: [{ hmac_auth: {} }]
    handler: { respond: { headers: { x-seen: "{consumer}" } } }
"#;
    let server = Tidegate::start(config);
    let (one, two) = ("secret-one-secret-one-secret-one", "secret-two-secret-two-secret-two");
    let entry = |secret: &str| {
        format!(
            "{{ \"signature_keys\": [{{ \"id\": \"k-1\", \"algorithm\": \"hmac-sha256\", \
             \"secret\": \"{secret}\" }}] }}"
        )
    };
    assert_eq!(get(&server, "/a", &signed(one, "/a", "n-0")).status, 401);
    let added = admin(&server, "PUT /v1/consumers/alice", "", &entry(one));
    assert_eq!(added.status, 201);
    let first = signed(one, "/a", "n-1");
    let response = get(&server, "/a", &first);
    assert_eq!((response.status, response.header("x-seen")), (200, Some("alice")));
    // The same nonce again, a signature of another path, and one with another secret.
    assert_eq!(get(&server, "/a", &first).status, 401);
    assert_eq!(get(&server, "/b", &signed(one, "/a", "n-2")).status, 401);
    assert_eq!(get(&server, "/a", &signed(two, "/a", "n-3")).status, 401);
    // Another secret is another version, although the API masks both.
    let shown = admin(&server, "GET /v1/consumers/alice", "", "");
    assert!(!shown.text().contains("secret-one") && shown.text().contains("***"));
    let tag = format!("if-match: {}\r\n", added.header("etag").expect("an ETag"));
    let changed = admin(&server, "PUT /v1/consumers/alice", &tag, &entry(two));
    assert_eq!(changed.status, 200);
    assert_ne!(changed.header("etag"), added.header("etag"));
    assert_eq!(get(&server, "/a", &signed(two, "/a", "n-4")).status, 200);
    // A nonce outlives a reload.
    let before = server.metrics().sum("tidegate_config_reloads_total", &[]);
    server.rewrite_config(&config.replace("hmac_auth: {}", "hmac_auth: { nonce: true }"));
    server.wait_for_metric("tidegate_config_reloads_total", &[], before + 1.0);
    assert_eq!(get(&server, "/a", &signed(two, "/a", "n-4")).status, 401);
    assert_eq!(get(&server, "/a", &signed(two, "/a", "n-5")).status, 200);
    let labels = [("filter", "hmac_auth"), ("reason", "invalid")];
    assert_eq!(server.metrics().sum("tidegate_auth_refusals_total", &labels), 5.0);
}

#[test]
fn changes_outlive_a_killed_server_and_end_with_the_entry_they_replace() {
    let upstream = upstream();
    let directory = tempfile::tempdir().expect("a directory");
    let changes = directory.path().join("state/consumers.changes");
    let config = |alice: &str| {
        let stored = format!("admin: {{ consumer_changes: {changes:?},");
        config(&upstream, alice).replace("admin: {", &stored)
    };
    let server = Tidegate::start(&config("key-of-alice"));
    let entry = format!("{{ \"password\": \"{BCRYPT}\", \"groups\": [\"gold\"] }}");
    let any = "if-match: *\r\n";
    assert_eq!(admin(&server, "PUT /v1/consumers/bob", any, &entry).status, 200);
    let key = r#"{ "groups": ["gold"], "keys": [{ "key": "key-of-carol" }] }"#;
    let carol = admin(&server, "PUT /v1/consumers/carol", "", key);
    assert_eq!(carol.status, 201);
    assert_eq!(admin(&server, "DELETE /v1/consumers/alice", any, "").status, 204);
    server.signal("KILL");
    server.wait();

    let server = Tidegate::start(&config("key-of-alice"));
    let shown = admin(&server, "GET /v1/consumers/carol", "", "");
    assert_eq!(shown.header("etag"), carol.header("etag"));
    assert_eq!(get(&server, "/gold", "x-api-key: key-of-carol\r\n").status, 200);
    assert_eq!(get(&server, "/any", BOB).status, 200);
    assert_eq!(get(&server, "/gold", ALICE).status, 401);
    // Another entry of the configuration ends the change, also when the former one returns.
    let before = server.metrics().sum("tidegate_config_reloads_total", &[]);
    server.rewrite_config(&config("another-key"));
    server.wait_for_metric("tidegate_config_reloads_total", &[], before + 1.0);
    assert_eq!(get(&server, "/gold", "x-api-key: another-key\r\n").status, 200);
    // What cannot be stored is not in force.
    let aside = directory.path().join("aside");
    std::fs::rename(&changes, &aside).expect("a file");
    assert_eq!(admin(&server, "DELETE /v1/consumers/carol", any, "").status, 500);
    server.wait_for_log("a change of a consumer cannot be stored");
    assert_eq!(get(&server, "/gold", "x-api-key: key-of-carol\r\n").status, 200);
    std::fs::rename(&aside, &changes).expect("a file");
    assert_eq!(admin(&server, "DELETE /v1/consumers/carol", any, "").status, 204);
    server.signal("KILL");
    server.wait();

    let server = Tidegate::start(&config("key-of-alice"));
    assert_eq!(get(&server, "/gold", ALICE).status, 200);
    assert_eq!(get(&server, "/gold", "x-api-key: key-of-carol\r\n").status, 401);
    server.signal("KILL");
    server.wait();
    // A line that is missing may be a deletion.
    let damaged = std::fs::read_to_string(&changes).expect("a file").replace('}', "");
    std::fs::write(&changes, damaged).expect("a file");
    let server = Tidegate::start(&config("key-of-alice"));
    server.wait_for_log("the file of consumers' changes, is not JSON");
    assert_eq!(server.wait().code, Some(1));
}
