//! Tokens: what responses report, the log, metrics and variables, and limits on them.

use super::*;

fn config(provider: &Upstream, directory: &std::path::Path, limits: &str) -> String {
    let (address, directory) = (provider.address(), directory.display());
    let limits = limits.replace("DIRECTORY", &format!("directory: \"{directory}\""));
    format!(
        r#"
workers: 2
listeners: {{ web: {{ bind: "127.0.0.1:0" }} }}
admin: {{ bind: "127.0.0.1:0", token: "{ADMIN_TOKEN}", metrics: open }}
log: {{ access: {{ format: json, path: a.log }} }}
consumers:
  - name: ann
    groups: [gold, staff]
    keys: [{{ key: key-of-ann }}]
    limits: {{ quotas: {{ day: 1000 }} }}
  - {{ name: bob, keys: [{{ key: key-of-bob }}] }}
routes:
  - name: chat
    match: {{}}
    filters:
      - key_auth: {{}}
      - response_headers: {{ set: {{ x-model: "{{ai.model}}@{{ai.provider}}" }} }}
    handler:
      ai_proxy:
        providers: {{ main: {{ url: "http://{address}/v1", key: "{KEY}" }} }}
        models: {{ fast: {{ provider: main, model: llama3.2 }} }}
        token_limits: [{limits}]
"#
    )
}

const LIMITS: &str = "{ name: minute, limit: 500, period: 60m, key: consumer, DIRECTORY }, \
     { name: day, limit: 30, consumer_limits: true, DIRECTORY }";

fn ask_at(server: &Tidegate, path: &str, consumer: &str, body: &str) -> HttpResponse {
    let head = format!("{path} HTTP/1.1\r\nhost: a\r\nx-api-key: key-of-{consumer}\r\n");
    let length = body.len();
    server.exchange("web", format!("POST {head}content-length: {length}\r\n\r\n{body}"))
}

fn ask(server: &Tidegate, consumer: &str, body: &str) -> HttpResponse {
    ask_at(server, "/v1/chat/completions", consumer, body)
}

fn json(body: &str) -> String {
    let length = body.len();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n";
    format!("{head}content-length: {length}\r\n\r\n{body}")
}

/// A stream of these events, each in a chunk of its own.
fn events(events: &[&str]) -> String {
    let chunk = |data: &&str| {
        let event = format!("data: {data}\n\n");
        format!("{:x}\r\n{event}\r\n", event.len())
    };
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n\
                transfer-encoding: chunked\r\nconnection: close\r\n\r\n";
    format!("{head}{}0\r\n\r\n", events.iter().map(chunk).collect::<String>())
}

const ANSWER: &str = r#"{"choices":[{}],"usage":{"prompt_tokens":19,"completion_tokens":10}}"#;
const DELTA: &str = r#"{"choices":[{"delta":{"content":"ok"}}],"usage":null}"#;
const USAGE: &str = r#"{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2}}"#;

fn tokens(server: &Tidegate, group: &str, direction: &str) -> f64 {
    let labels = [
        ("route", "chat"),
        ("provider", "main"),
        ("model", "fast"),
        ("group", group),
        ("direction", direction),
    ];
    server.metrics().sum("tidegate_ai_tokens_total", &labels)
}

fn logged(server: &Tidegate, text: &str) {
    scenarios::eventually(&format!("{text} in the access log"), || {
        std::fs::read_to_string(server.path("a.log")).unwrap_or_default().contains(text)
    });
}

#[test]
fn tokens_are_counted_for_consumers_and_in_the_log() {
    let directory = tempfile::tempdir().unwrap();
    let main = provider(&Requests::default(), json(ANSWER));
    let server = Tidegate::start(&config(&main, directory.path(), LIMITS));
    let first = ask(&server, "ann", r#"{"model":"fast"}"#);
    assert_eq!((first.status, first.text().as_str()), (200, ANSWER));
    assert_eq!(first.header("x-model"), Some("fast@main"));
    assert_eq!(first.header("x-ratelimit-limit-tokens"), Some("500"));
    assert_eq!(first.header("x-ratelimit-remaining-tokens"), Some("500"));
    assert!(first.header("x-ratelimit-reset-tokens").unwrap().ends_with('s'));
    let second = ask(&server, "ann", r#"{"model":"fast"}"#);
    assert_eq!(second.header("x-ratelimit-remaining-tokens"), Some("471"));
    ask(&server, "bob", r#"{"model":"fast"}"#);
    assert_eq!((tokens(&server, "gold", "input"), tokens(&server, "gold", "output")), (38.0, 20.0));
    assert_eq!(tokens(&server, "", "input"), 19.0);
    logged(&server, r#""ai_model":"fast","ai_provider":"main","ai_input_tokens":19,"#);
    logged(&server, r#""ai_output_tokens":10,"ai_tokens_from":"provider""#);
    let estimated = server.metrics().sum("tidegate_ai_estimated_responses_total", &[]);
    assert_eq!(estimated, 0.0);
}

#[test]
fn a_reached_limit_rejects_until_its_period_ends_also_in_a_new_process() {
    let directory = tempfile::tempdir().unwrap();
    let requests = Requests::default();
    let main = provider(&requests, json(ANSWER));
    let config = config(&main, directory.path(), LIMITS);
    let server = Tidegate::start(&config);
    let body = r#"{"model":"fast"}"#;
    assert_eq!(ask(&server, "bob", body).status, 200);
    assert_eq!(ask(&server, "bob", body).header("x-ratelimit-remaining-tokens"), Some("1"));
    let rejected = ask(&server, "bob", body);
    assert_eq!((rejected.status, code(&rejected).as_str()), (429, "rate_limit_exceeded"));
    assert!(rejected.text().contains(r#""type":"tokens""#), "{}", rejected.text());
    let wait: u32 = rejected.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=86_400).contains(&wait), "{wait}");
    assert_eq!(rejected.header("x-ratelimit-remaining-tokens"), Some("0"));
    // A limit of one's own.
    for _ in 0..3 {
        assert_eq!(ask(&server, "ann", body).status, 200);
    }
    let metrics = server.metrics();
    assert_eq!(metrics.sum("tidegate_ai_token_limited_total", &[("limit", "day")]), 1.0);
    let admin = |method: &str, path: &str| {
        let authorization = format!("authorization: Bearer {ADMIN_TOKEN}");
        let head = format!("{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n{authorization}");
        server.exchange("admin", format!("{head}\r\ncontent-length: 0\r\n\r\n"))
    };
    let used = admin("GET", "/v1/quotas/day?key=bob").text();
    assert!(used.contains(r#""used": 58"#), "{used}");
    server.signal("KILL");
    server.wait();
    let server = Tidegate::start(&config);
    assert_eq!(ask(&server, "bob", body).status, 429);
    assert_eq!(requests.lock().unwrap().len(), 5);
}

#[test]
fn a_stream_is_asked_for_its_usage_whose_event_only_its_askers_get() {
    let directory = tempfile::tempdir().unwrap();
    let requests = Requests::default();
    let main = provider(&requests, events(&[DELTA, DELTA, USAGE, "[DONE]"]));
    let server = Tidegate::start(&config(&main, directory.path(), LIMITS));
    let without = format!("data: {DELTA}\n\ndata: {DELTA}\n\ndata: [DONE]\n\n");
    let with = format!("data: {DELTA}\n\ndata: {DELTA}\n\ndata: {USAGE}\n\ndata: [DONE]\n\n");
    let plain = ask(&server, "bob", r#"{"model":"fast","stream":true}"#);
    assert_eq!(plain.text(), without);
    let asks = r#"{"model":"fast","stream":true,"stream_options":{"include_usage":true}}"#;
    assert_eq!(ask(&server, "bob", asks).text(), with);
    assert_eq!((tokens(&server, "", "input"), tokens(&server, "", "output")), (14.0, 4.0));
    logged(&server, r#""ai_input_tokens":7,"ai_output_tokens":2,"ai_tokens_from":"provider""#);
    let sent = requests.lock().unwrap();
    let options = r#""stream_options":{"include_usage":true}"#;
    assert_eq!(sent[0].1, format!(r#"{{"model":"llama3.2",{options},"stream":true}}"#));
    assert_eq!(sent[1].1, asks.replace("fast", "llama3.2"));
}

#[test]
fn the_last_event_of_the_responses_api_has_the_usage() {
    let completed = r#"{"response":{"usage":{"input_tokens":5,"output_tokens":6}}}"#;
    let directory = tempfile::tempdir().unwrap();
    let requests = Requests::default();
    let main = provider(&requests, events(&[r#"{"type":"response.created"}"#, completed]));
    let server = Tidegate::start(&config(&main, directory.path(), LIMITS));
    let body = r#"{"model":"fast","stream":true}"#;
    let response = ask_at(&server, "/v1/responses", "bob", body);
    assert!(response.text().contains(completed), "{}", response.text());
    assert_eq!((tokens(&server, "", "input"), tokens(&server, "", "output")), (5.0, 6.0));
    assert!(!requests.lock().unwrap()[0].1.contains("stream_options"));
}

#[test]
fn tokens_that_no_provider_reports_are_estimated() {
    let directory = tempfile::tempdir().unwrap();
    // A stream without usage, and one that breaks off.
    let whole = events(&[DELTA, DELTA, "[DONE]"]);
    let cut = whole.strip_suffix("0\r\n\r\n").unwrap().to_owned();
    let compressed =
        json("compressed bytes").replace("\r\n\r\n", "\r\ncontent-encoding: x\r\n\r\n");
    for (sent, output) in [(whole, 3.0), (cut, 3.0), (compressed, 4.0), (json("{}"), 1.0)] {
        let main = provider(&Requests::default(), &*sent);
        let limits = "{ name: ESTIMATE, limit: 1000, DIRECTORY }".replace("ESTIMATE", "estimate");
        let server = Tidegate::start(&config(&main, directory.path(), &limits));
        let mut client = server.connect("web");
        // 40 bytes of a request are 10 tokens.
        let body = format!("{:<40}", r#"{"model":"fast","stream":true}"#);
        client.send(format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\nx-api-key: key-of-bob\r\n\
             connection: close\r\ncontent-length: 40\r\n\r\n{body}"
        ));
        client.read_until_gone();
        let labels = [("provider", "main"), ("model", "fast")];
        server.wait_for_metric("tidegate_ai_estimated_responses_total", &labels, 1.0);
        assert_eq!((tokens(&server, "", "input"), tokens(&server, "", "output")), (10.0, output));
        logged(&server, r#""ai_tokens_from":"estimate""#);
    }
}

#[test]
fn a_client_that_leaves_a_stream_pays_for_it_and_the_provider_is_cancelled() {
    let directory = tempfile::tempdir().unwrap();
    let (gone, is_gone) = channel();
    let gone = Mutex::new(gone);
    let begun = events(&[DELTA, DELTA]);
    let begun = begun.strip_suffix("0\r\n\r\n").unwrap().to_owned();
    let main = Upstream::start(move |peer| {
        read_request(peer);
        peer.send(&begun);
        peer.read_until_gone();
        gone.lock().unwrap().send(()).unwrap();
    });
    let server = Tidegate::start(&config(&main, directory.path(), LIMITS));
    let mut client = server.connect("web");
    let body = r#"{"model":"fast","stream":true}"#;
    client.send(format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\nx-api-key: key-of-bob\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    ));
    // Both events.
    client.read_until(DELTA);
    client.read_until(DELTA);
    drop(client);
    is_gone.recv_timeout(Duration::from_secs(30)).expect("the provider's request is cancelled");
    let labels = [("provider", "main"), ("model", "fast")];
    server.wait_for_metric("tidegate_ai_estimated_responses_total", &labels, 1.0);
    assert_eq!(tokens(&server, "", "output"), 2.0);
}

#[test]
fn limits_without_their_file_reject_and_those_in_error_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let requests = Requests::default();
    let main = provider(&requests, json(ANSWER));
    let file = directory.path().join("file");
    std::fs::write(&file, "not a directory").unwrap();
    let server = Tidegate::start(&config(&main, &file, LIMITS));
    let rejected = ask(&server, "bob", r#"{"model":"fast"}"#);
    assert_eq!((rejected.status, code(&rejected).as_str()), (503, "limit_unavailable"));
    assert_eq!(requests.lock().unwrap().len(), 0);
    let day = "{ name: day, limit: 1 }";
    for (limits, message) in [
        (format!("{day}, {day}"), "two token limits are called \"day\""),
        ("{ name: a/b, limit: 1 }".to_owned(), "the name is 1 to 64"),
        (
            "{ name: a, limit: 1, key: client_ip, consumer_limits: true }".to_owned(),
            "write `key: consumer`",
        ),
        ([day; 9].join(", "), "at most 8 token limits"),
    ] {
        let text = config(&main, directory.path(), &limits);
        let exit = Launch::new(&text).run(&["check", "tidegate.yaml"]);
        let shown = exit.stdout + &exit.stderr;
        assert!(exit.code != Some(0) && shown.contains(message), "{shown}");
    }
}
