//! Tokens of the admin API with roles: what each may do, the log of changes, and sessions of the
//! console over a reload.

use scenarios::{HttpResponse, Tidegate, eventually};

const CONFIG: &str = r#"
listeners: { web: { bind: "127.0.0.1:0" } }
admin:
  bind: "127.0.0.1:0"
  console: true
  token: open-sesame
  tokens:
    - { name: grafana, role: read, token: only-looks }
    - { role: purge, token: only-purges }
caches: { pages: {} }
routes:
  - name: all
    match: { path: "/{*rest}" }
    filters: [{ cache: pages }]
    handler: { respond: { body: ok } }
"#;

fn send(server: &Tidegate, line: &str, fields: &str, body: &str) -> HttpResponse {
    let length = body.len();
    server.exchange(
        "admin",
        format!(
            "{line} HTTP/1.1\r\nhost: localhost\r\n{fields}content-length: {length}\r\n\
             connection: close\r\n\r\n{body}"
        ),
    )
}

fn with_token(server: &Tidegate, token: &str, line: &str, body: &str) -> u16 {
    send(server, line, &format!("authorization: Bearer {token}\r\n"), body).status
}

#[test]
fn changes_are_logged_with_the_name_of_the_token() {
    let server = Tidegate::start(CONFIG);
    let purge = "POST /v1/caches/pages/purge";
    let all = r#"{"all": true}"#;
    assert_eq!(with_token(&server, "only-purges", purge, all), 200);
    server.wait_for_log(
        "event=admin_change by=purge role=purge with=token client=127.0.0.1 \
         request=\"POST /v1/caches/pages/purge\" status=200",
    );
    assert_eq!(with_token(&server, "only-looks", purge, all), 403);
    server.wait_for_log("event=admin_role_refused by=grafana role=read");
    assert_eq!(with_token(&server, "only-looks", "GET /v1/summary", ""), 200);
    assert_eq!(with_token(&server, "only-purges", "GET /v1/summary", ""), 403);
    assert_eq!(with_token(&server, "open-sesame", "POST /v1/reload?wait", ""), 200);
    server.wait_for_log(
        "by=admin role=all with=token client=127.0.0.1 request=\"POST /v1/reload\" status=200",
    );
}

#[test]
fn a_configuration_is_checked_against_the_one_in_use() {
    let server = Tidegate::start(CONFIG);
    let fields = "authorization: Bearer open-sesame\r\ncontent-type: application/yaml\r\n";
    let check = |text: &str| send(&server, "POST /v1/config/check", fields, text);
    let changed = CONFIG.replace("name: all", "name: everything");
    let response = check(&changed);
    let text = response.text();
    assert!(response.status == 200 && text.contains(r#"route \"everything\" added"#), "{text}");
    let wrong = check(&CONFIG.replace("role: read", "role: reed"));
    let problem = wrong.text();
    assert!(wrong.status == 422 && problem.contains("did you mean \\\"read\\\"?"), "{problem}");
    assert_eq!(std::fs::read_to_string(server.path("tidegate.yaml")).expect("a file"), CONFIG);
}

/// A client that has logged in: the fields of its requests.
fn log_in(server: &Tidegate, token: &str) -> String {
    let body = format!("{{\"token\": \"{token}\"}}");
    let json = "content-type: application/json\r\n";
    let response = send(server, "POST /v1/session", json, &body);
    assert_eq!(response.status, 200, "{response:?}");
    let cookie = response.header("set-cookie").expect("a cookie");
    let cookie = cookie.split(';').next().expect("a value").to_owned();
    let session: serde_json::Value = serde_json::from_str(&response.text()).expect("JSON");
    let proof = session["proof"].as_str().expect("a proof");
    format!("cookie: {cookie}\r\ntidegate-session: {proof}\r\n")
}

#[test]
fn a_session_outlives_a_reload_that_keeps_its_token() {
    let server = Tidegate::start(CONFIG);
    let (reader, admin) = (log_in(&server, "only-looks"), log_in(&server, "open-sesame"));
    let status = |fields: &str, line: &str| send(&server, line, fields, "").status;
    assert_eq!(status(&reader, "GET /v1/routes"), 200);
    assert_eq!(status(&reader, "POST /v1/reload?wait"), 403);
    let cross = format!("{admin}sec-fetch-site: cross-site\r\n");
    assert_eq!(status(&cross, "POST /v1/reload?wait"), 403);
    let changed = CONFIG.replace("token: only-looks", "token: looks-again");
    server.rewrite_config(&changed);
    assert_eq!(status(&admin, "POST /v1/reload?wait"), 200);
    assert_eq!(status(&admin, "GET /v1/routes"), 200);
    // The listener of the API follows a reload on its own.
    eventually("the session ends with its token", || status(&reader, "GET /v1/routes") == 401);
    server.wait_for_log("by=admin role=all with=session client=127.0.0.1");
}
