//! What the admin API over TCP shows: no secret of the configuration, and nothing to a page whose
//! name was resolved to the server (DNS rebinding).

use scenarios::{Answer, Tidegate};

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

fn ask(server: &Tidegate, path: &str) -> Answer {
    let request = format!(
        "GET {path} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer open-sesame\r\n\
         connection: close\r\n\r\n"
    );
    server.exchange("admin", request)
}

fn put(server: &Tidegate, media_type: &str, body: &str) -> Answer {
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
    let answer = ask(&server, "/v1/config");
    assert_eq!(answer.status, 200, "{answer:?}");
    let masked = answer.text();
    let expected = CONFIG.replace("open-sesame", "\"***\"").replace("\"k-e-y-of-ann\"", "\"***\"");
    assert_eq!(masked, expected);
    assert_eq!(ask(&server, "/v1/config?secrets").status, 403);

    // What was masked cannot be put into use by accident.
    let refused = put(&server, "application/yaml", &masked);
    assert_eq!(refused.status, 422, "{refused:?}");
    assert!(refused.text().contains("masked secret"), "{}", refused.text());

    // Whoever may see secrets says so, and the version is that of the document either way.
    let seen = CONFIG.replace("admin:\n", "admin:\n  config_secrets: true\n");
    assert_eq!(put(&server, "application/yaml", &seen).status, 200);
    let (masked, shown) = (ask(&server, "/v1/config"), ask(&server, "/v1/config?secrets"));
    assert_eq!(shown.text(), seen);
    assert_eq!(masked.header("etag"), shown.header("etag"));
    assert!(!masked.text().contains("open-sesame"));
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
    let answer = put(&server, "application/json", "{\n  \"workers\": 1,\n}\n");
    assert_eq!(answer.status, 422, "{answer:?}");
    let text = answer.text();
    assert!(text.contains("no JSON") && text.contains("\"line\": 3"), "{text}");
}
