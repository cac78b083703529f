//! `ai_proxy` with providers that are honest, silent, or fail, and with configurations in error.

mod anthropic;
mod fallback;
mod prompts;
mod streams;
mod tokens;

use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use scenarios::{Connection, HttpResponse, Launch, Tidegate, Upstream};

const KEY: &str = "sk-provider-0123456789";
const AZURE_KEY: &str = "azure-provider-9876543210";
const ADMIN_TOKEN: &str = "admin-token-0123456789";
const CLIENT_KEY: &str = "sk-client-5555555555";
/// An address at which no server listens.
const ABSENT: &str = "127.0.0.1:1";

fn config(openai: &str, azure: &str) -> String {
    format!(
        r#"
workers: 1
listeners: {{ web: {{ bind: "127.0.0.1:0" }} }}
admin: {{ bind: "127.0.0.1:0", token: "{ADMIN_TOKEN}" }}
log: {{ access: {{ format: json, path: a.log }} }}
routes:
  - match: {{}}
    handler:
      ai_proxy:
        providers:
          main: {{ url: "http://{openai}/v1", key: "{KEY}" }}
          cloud: {{ url: "http://{azure}", api: azure, key: "{AZURE_KEY}" }}
        models:
          gpt-4o: {{ provider: main }}
          small: {{ provider: main, model: llama3.2 }}
          deployed: {{ provider: cloud, model: team-gpt }}
        max_body: 1MiB
        response: 10s
"#
    )
}

fn with_main(provider: &Upstream) -> String {
    config(&provider.address().to_string(), ABSENT)
}

/// The head and the body of each request that a provider got.
type Requests = Arc<Mutex<Vec<(String, String)>>>;

fn read_request(peer: &mut Connection) -> (String, String) {
    let head = peer.read_head();
    let lower = head.to_ascii_lowercase();
    let length = lower.lines().find_map(|line| line.strip_prefix("content-length: "));
    let length = length.and_then(|text| text.parse().ok()).expect("a content-length");
    (head, String::from_utf8(peer.read_exactly(length)).expect("JSON is UTF-8"))
}

/// Sends these bytes as the response to each request, and closes.
fn provider(requests: &Requests, response: impl Into<String>) -> Upstream {
    let (requests, response) = (requests.clone(), response.into());
    Upstream::start(move |peer| {
        let request = read_request(peer);
        requests.lock().expect("no panic").push(request);
        peer.send(&response);
    })
}

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nset-cookie: a=b\r\n\
                  openai-organization: org-secret\r\ncontent-length: 2\r\n\
                  connection: close\r\n\r\n{}";

fn post(path: &str, body: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {CLIENT_KEY}\r\n\
         api-key: {CLIENT_KEY}\r\ncookie: session={CLIENT_KEY}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn chat(server: &Tidegate, body: &str) -> HttpResponse {
    server.exchange("web", post("/v1/chat/completions", body))
}

#[test]
fn a_request_goes_to_the_provider_of_its_model_with_its_key_only() {
    let (main, cloud) = (Requests::default(), Requests::default());
    let (openai, azure) = (provider(&main, OK), provider(&cloud, OK));
    let text = config(&openai.address().to_string(), &azure.address().to_string());
    let server = Tidegate::start(&text);
    let response = chat(&server, r#"{"model":"small","temperature":1.0}"#);
    assert_eq!((response.status, response.text().as_str()), (200, "{}"));
    assert_eq!(response.header("content-type"), Some("application/json"));
    assert_eq!(response.header("set-cookie"), None);
    assert_eq!(response.header("openai-organization"), None);
    let untouched = r#"{ "input":"é", "model" : "gpt-4o" }"#;
    for path in ["completions", "embeddings", "responses"] {
        let response = server.exchange("web", post(&format!("/v1/{path}"), untouched));
        assert_eq!(response.status, 200, "{path}");
    }
    let deployed = r#"{"model":"deployed"}"#;
    assert_eq!(chat(&server, deployed).status, 200);
    assert_eq!(server.exchange("web", post("/v1/responses", deployed)).status, 200);

    let (main, cloud) = (main.lock().unwrap(), cloud.lock().unwrap());
    assert_eq!(main[0].1, r#"{"model":"llama3.2","temperature":1.0}"#);
    let paths = ["chat/completions", "completions", "embeddings", "responses"];
    assert_eq!((main.len(), cloud.len()), (4, 2));
    for ((head, body), path) in main.iter().zip(paths) {
        assert!(head.starts_with(&format!("POST /v1/{path} HTTP/1.1\r\n")), "{head}");
        assert!(head.contains(&format!("Bearer {KEY}\r\n")), "{head}");
        assert!(path == "chat/completions" || body == untouched, "{body}");
    }
    let target = "POST /openai/deployments/team-gpt/chat/completions?api-version=2024-10-21 ";
    assert!(cloud[0].0.starts_with(target), "{}", cloud[0].0);
    assert!(cloud[1].0.starts_with("POST /openai/responses?api-version="), "{}", cloud[1].0);
    assert!(cloud[0].0.contains(&format!("api-key: {AZURE_KEY}\r\n")), "{}", cloud[0].0);
    for (head, _) in main.iter().chain(cloud.iter()) {
        assert!(!head.contains(CLIENT_KEY), "{head}");
    }
    let labels = [("provider", "main"), ("model", "gpt-4o"), ("result", "ok")];
    assert_eq!(server.metrics().sum("tidegate_ai_requests_total", &labels), 3.0);
}

const STREAM: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
                      transfer-encoding: chunked\r\n\r\na\r\ndata: {}\n\n\r\n";

#[test]
fn a_stream_passes_event_by_event() {
    let (next, gate) = channel();
    let gate = Mutex::new(gate);
    let openai = Upstream::start(move |peer| {
        read_request(peer);
        peer.send(STREAM);
        // The second event is sent once the client has the first one.
        let had = gate.lock().unwrap().recv_timeout(Duration::from_secs(30));
        had.expect("the client has received the first event");
        peer.send("e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n");
    });
    let server = Tidegate::start(&with_main(&openai));
    let mut client = server.connect("web");
    client.send(post("/v1/chat/completions", r#"{"model":"gpt-4o","stream":true}"#));
    let head = client.read_head().to_ascii_lowercase();
    assert!(head.contains("content-type: text/event-stream\r\n"), "{head}");
    client.expect("a\r\ndata: {}\n\n\r\n");
    next.send(()).unwrap();
    client.expect("e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n");
}

#[test]
fn a_stream_that_is_cut_closes_the_connection_of_the_client() {
    let openai = provider(&Requests::default(), STREAM);
    let server = Tidegate::start(&with_main(&openai));
    let mut client = server.connect("web");
    client.send(post("/v1/chat/completions", r#"{"model":"gpt-4o","stream":true}"#));
    client.read_head();
    let rest = String::from_utf8(client.read_until_gone()).unwrap();
    assert!(rest.contains("data: {}") && !rest.ends_with("0\r\n\r\n"), "{rest}");
}

/// The `code` of an error of OpenAI's API.
fn code(response: &HttpResponse) -> String {
    let error: serde_json::Value = serde_json::from_str(&response.text()).expect("JSON");
    assert!(error["error"]["message"].is_string() && error["error"]["type"].is_string());
    error["error"]["code"].as_str().expect("a code").to_owned()
}

#[test]
fn a_wrong_request_reaches_no_provider() {
    let openai = Upstream::start(|_| panic!("the provider gets no request"));
    let server = Tidegate::start(&with_main(&openai));
    let large = format!(r#"{{"model":"gpt-4o","x":"{}"}}"#, "x".repeat(1 << 20));
    let chat = "/v1/chat/completions";
    for (path, body, status, expected) in [
        (chat, r#"{"model":"gtp-4o"}"#, 404, "model_not_found"),
        (chat, r#"{"model":1}"#, 400, "invalid_model"),
        (chat, "{", 400, "invalid_json"),
        (chat, &large, 413, "too_large"),
        ("/v1/images/generations", "{}", 404, "unknown_url"),
        ("/v1/models", "{}", 405, "method_not_allowed"),
    ] {
        let response = server.exchange("web", post(path, body));
        assert_eq!((response.status, code(&response).as_str()), (status, expected), "{path}");
        let reason = [("reason", expected)];
        assert_eq!(server.metrics().sum("tidegate_ai_rejections_total", &reason), 1.0);
    }
    let near = server.exchange("web", post(chat, r#"{"model":"gtp-4o"}"#)).text();
    assert!(near.contains(r#"Did you mean \"gpt-4o\"?"#), "{near}");
    let list = server.exchange("web", "GET /v1/models HTTP/1.1\r\nhost: a\r\n\r\n");
    let list: serde_json::Value = serde_json::from_str(&list.text()).unwrap();
    assert_eq!(list["data"].as_array().map(Vec::len), Some(3));
    assert_eq!(list["data"][2]["id"], "deployed");
    let get = server.exchange("web", "GET /v1/completions HTTP/1.1\r\nhost: a\r\n\r\n");
    assert_eq!((get.status, get.header("allow")), (405, Some("POST")));
    assert_eq!(openai.accepted(), 0);
}

#[test]
fn a_provider_that_fails_gives_an_error_without_keys() {
    let repeats_key =
        format!("HTTP/1.1 401 Unauthorized\r\ncontent-length: {}\r\n\r\n{KEY}", KEY.len());
    let moved = "HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n";
    let limited = "HTTP/1.1 429 Too Many Requests\r\nretry-after: 7\r\ncontent-length: 2\r\n\r\n{}";
    for (sent, status, is_ours, result) in [
        (&*repeats_key, 502, true, "failed"),
        (moved, 502, true, "failed"),
        ("no HTTP\r\n\r\n", 502, true, "failed"),
        (limited, 429, false, "rejected"),
        ("HTTP/1.1 500 X\r\ncontent-length: 0\r\n\r\n", 500, false, "failed"),
    ] {
        let openai = provider(&Requests::default(), sent);
        let server = Tidegate::start(&with_main(&openai));
        let response = chat(&server, r#"{"model":"gpt-4o"}"#);
        assert_eq!(response.status, status, "{sent}");
        if is_ours {
            assert_eq!(code(&response), "provider_failed");
            server.wait_for_log("a request to an AI provider failed");
        }
        assert_eq!(response.header("retry-after"), (status == 429).then_some("7"));
        let labels = [("provider", "main"), ("model", "gpt-4o"), ("result", result)];
        assert_eq!(server.metrics().sum("tidegate_ai_requests_total", &labels), 1.0, "{sent}");
        assert_no_key(&server, &response);
    }
}

/// Neither the response, nor the logs, nor the admin API has a key of a provider.
fn assert_no_key(server: &Tidegate, response: &HttpResponse) {
    let get = format!(
        "GET /v1/config HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {ADMIN_TOKEN}\r\n\r\n"
    );
    let config = server.exchange("admin", get).text();
    assert!(config.contains("ai_proxy"), "{config}");
    let access = scenarios::eventually_some("the line of the access log", || {
        let log = std::fs::read_to_string(server.path("a.log")).unwrap_or_default();
        log.contains("/v1/chat/completions").then_some(log)
    });
    for text in [response.text(), server.log().join("\n"), config, access] {
        assert!(!text.contains(KEY) && !text.contains(AZURE_KEY), "{text}");
    }
}

#[test]
fn a_silent_provider_gives_504_and_an_absent_one_502() {
    let silent = Upstream::start(|peer| {
        peer.read_until_gone();
    });
    let text = with_main(&silent);
    let server = Tidegate::start(&text.replace("response: 10s", "response: 300ms"));
    let late = chat(&server, r#"{"model":"gpt-4o"}"#);
    assert_eq!((late.status, code(&late).as_str()), (504, "provider_timeout"));
    let server = Tidegate::start(&text);
    let absent = chat(&server, r#"{"model":"deployed"}"#);
    assert_eq!((absent.status, code(&absent).as_str()), (502, "provider_failed"));
}

#[test]
fn settings_in_error_name_what_is_wrong_and_no_key() {
    let valid = config(ABSENT, "127.0.0.1:2");
    for (from, to, message) in [
        ("provider: cloud", "provider: clod", "clod"),
        ("model: team-gpt", "model: a/b", "is not the name of an Azure deployment"),
        ("127.0.0.1:1/v1", "127.0.0.1:1/v1?a=b", "the `url` of a provider has no query"),
        (KEY, "sk provider", "the key has characters that a header cannot have"),
    ] {
        let text = valid.replace(from, to);
        assert_ne!(text, valid);
        let exit = Launch::new(&text).run(&["check", "tidegate.yaml"]);
        let shown = exit.stdout + &exit.stderr;
        assert!(exit.code != Some(0) && shown.contains(message), "{shown}");
        assert!(!shown.contains(KEY) && !shown.contains("sk provider"), "{shown}");
    }
}
