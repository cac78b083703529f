//! What the admin API over TCP shows: no secret of the configuration, and nothing to a page whose
//! name was resolved to the server (DNS rebinding).

use scenarios::{HttpResponse, Tidegate, eventually_some};
use std::os::unix::fs::PermissionsExt;

const CONFIG: &str = r#"
listeners: { web: { bind: "127.0.0.1:0" } }
admin:
  bind: "127.0.0.1:0"
  token: open-sesame   # of 2026
routes:
  - name: all
    match: { path: "/{*rest}" }
    filters:
      - key_auth: { keys: [{ consumer: ann, key: "k-e-y-of-ann" }] }
    handler: { respond: { body: ok } }
"#;

fn ask(server: &Tidegate, path: &str) -> HttpResponse {
    let request = format!(
        "GET {path} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer open-sesame\r\n\
         connection: close\r\n\r\n"
    );
    server.exchange("admin", request)
}

fn put(server: &Tidegate, media_type: &str, body: &str) -> HttpResponse {
    let request = format!(
        "PUT /v1/config HTTP/1.1\r\nhost: a\r\nauthorization: Bearer open-sesame\r\nif-match: *\r\n\
         content-type: {media_type}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    server.exchange("admin", request)
}

#[test]
fn secrets_of_the_configuration_are_masked() {
    let server = Tidegate::start(CONFIG);
    let response = ask(&server, "/v1/config");
    assert_eq!(response.status, 200, "{response:?}");
    let masked = response.text();
    let expected = CONFIG.replace("open-sesame", "\"***\"").replace("\"k-e-y-of-ann\"", "\"***\"");
    assert_eq!(masked, expected);
    assert_eq!(ask(&server, "/v1/config?secrets").status, 403);

    // What was masked cannot be put into use by accident.
    let refused = put(&server, "application/yaml", &masked);
    assert_eq!(refused.status, 422, "{refused:?}");
    assert!(refused.text().contains("masked secret"), "{}", refused.text());

    // A client that may see secrets requests them, and the version is that of the document either
    // way.
    let seen = CONFIG.replace("admin:\n", "admin:\n  config_secrets: true\n");
    assert_eq!(put(&server, "application/yaml", &seen).status, 200);
    // The listener of the API follows the change on its own.
    let shown = eventually_some("the secrets are shown", || {
        let response = ask(&server, "/v1/config?secrets");
        (response.status == 200).then_some(response)
    });
    let masked = ask(&server, "/v1/config");
    assert_eq!(shown.text(), seen);
    assert_eq!(masked.header("etag"), shown.header("etag"));
    assert!(!masked.text().contains("open-sesame"));
}

/// The history is for going back: its files hold the secrets, for the server's user alone, and the
/// API shows them as little as those in use.
#[test]
fn secrets_of_earlier_configurations_are_masked() {
    let server = Tidegate::start(CONFIG);
    let next = CONFIG.replace("k-e-y-of-ann", "another-key");
    assert_eq!(put(&server, "application/yaml", &next).status, 200);
    let history = ask(&server, "/v1/config/history").text();
    assert!(!history.contains("k-e-y-of-ann") && !history.contains("another-key"), "{history}");

    let versions: serde_json::Value = serde_json::from_str(&history).expect("JSON");
    let before = versions["versions"][1]["version"].as_str().expect("an earlier version");
    let body = format!("{{\"version\": \"{before}\"}}");
    let rollback = format!(
        "POST /v1/config/rollback HTTP/1.1\r\nhost: a\r\nauthorization: Bearer open-sesame\r\n\
         content-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    let response = server.exchange("admin", rollback);
    assert_eq!(response.status, 200, "{response:?}");
    assert!(!response.text().contains("k-e-y-of-ann"), "{response:?}");
    let shown = ask(&server, "/v1/config").text();
    assert!(!shown.contains("k-e-y-of-ann") && shown.contains("\"***\""), "{shown}");
    // The key itself is in use again.
    let with = |key: &str| {
        server.exchange("web", format!("GET / HTTP/1.1\r\nhost: a\r\nx-api-key: {key}\r\n\r\n"))
    };
    assert_eq!((with("k-e-y-of-ann").status, with("another-key").status), (200, 401));
    let directory = server.path("tidegate.yaml.history");
    for file in std::fs::read_dir(&directory).expect("a history").flatten() {
        let mode = file.metadata().expect("a file").permissions().mode();
        assert_eq!(mode & 0o077, 0, "{:?} is for the server's user alone", file.path());
    }
}

#[test]
fn a_foreign_name_does_not_read_the_metrics() {
    let server = Tidegate::start(CONFIG);
    let status = |host: &str| {
        let request = format!("GET /metrics HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
        server.exchange("admin", request).status
    };
    assert_eq!(status("rebound.example"), 421);
    assert_eq!(status(&server.address("admin").to_string()), 200);
}

#[test]
fn a_faulty_json_document_is_reported_as_json() {
    let server = Tidegate::start(CONFIG);
    let response = put(&server, "application/json", "{\n  \"workers\": 1,\n}\n");
    assert_eq!(response.status, 422, "{response:?}");
    let text = response.text();
    assert!(text.contains("not JSON") && text.contains("\"line\": 3"), "{text}");
}
