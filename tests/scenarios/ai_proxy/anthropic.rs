//! A provider with Anthropic's Messages API behind the API of chat completions.

use super::*;
use serde_json::{Value, json};

const ANTHROPIC_KEY: &str = "sk-ant-0123456789";

fn config(anthropic: &Upstream, openai: &str) -> String {
    let address = anthropic.address();
    format!(
        r#"
workers: 1
listeners: {{ web: {{ bind: "127.0.0.1:0" }} }}
admin: {{ bind: "127.0.0.1:0", token: "{ADMIN_TOKEN}", metrics: open }}
routes:
  - match: {{}}
    handler:
      ai_proxy:
        providers:
          claude:
            {{ url: "http://{address}/v1", api: anthropic, key: "{ANTHROPIC_KEY}", max_tokens: 99 }}
          main: {{ url: "http://{openai}/v1", key: "{KEY}" }}
        models:
          fast: {{ provider: claude, model: claude-x }}
          both: {{ providers: [claude, {{ provider: main, backup: true }}] }}
"#
    )
}

fn with_length(status: &str, content_type: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status} X\r\ncontent-type: {content_type}\r\nrequest-id: r\r\n\
         connection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

fn message() -> Value {
    json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-x-1",
        "content": [{ "type": "text", "text": "Hello" }], "stop_reason": "end_turn",
        "usage": { "input_tokens": 10, "output_tokens": 4 }
    })
}

const EVENTS: &str = concat!(
    "event: message_start\n",
    r#"data: {"type":"message_start","message":{"id":"msg_1","model":"claude-x-1","#,
    r#""usage":{"input_tokens":5,"output_tokens":1}}}"#,
    "\n\nevent: content_block_delta\n",
    r#"data: {"type":"content_block_delta","index":0,"delta":"#,
    r#"{"type":"text_delta","text":"Hello"}}"#,
    "\n\nevent: message_delta\n",
    r#"data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"#,
    r#""usage":{"output_tokens":7}}"#,
    "\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
);

const ASK: &str = r#"{"model":"fast","messages":[{"role":"user","content":"hi"}]}"#;

#[test]
fn a_request_and_its_response_are_translated() {
    let requests = Requests::default();
    let sent = with_length("200", "application/json", &message().to_string());
    let claude = provider(&requests, sent);
    let server = Tidegate::start(&config(&claude, ABSENT));
    let response = chat(&server, ASK);
    assert_eq!(response.status, 200);
    let answer: Value = serde_json::from_str(&response.text()).unwrap();
    assert_eq!(answer["object"], "chat.completion");
    assert_eq!(answer["choices"][0]["message"]["content"], "Hello");
    assert_eq!(answer["usage"]["total_tokens"], 14);
    assert_eq!(response.header("request-id"), None);
    let (head, body) = requests.lock().unwrap()[0].clone();
    assert!(head.starts_with("POST /v1/messages HTTP/1.1\r\n"), "{head}");
    let key = format!("x-api-key: {ANTHROPIC_KEY}\r\n");
    assert!(head.to_ascii_lowercase().contains(&key), "{head}");
    assert!(head.contains("anthropic-version: 2023-06-01\r\n"), "{head}");
    assert!(!head.contains(CLIENT_KEY), "{head}");
    let body: Value = serde_json::from_str(&body).unwrap();
    let content = json!([{ "type": "text", "text": "hi" }]);
    let messages = json!([{ "role": "user", "content": content }]);
    let expected = json!({ "model": "claude-x", "max_tokens": 99, "messages": messages });
    assert_eq!(body, expected);
    server.wait_for_metric("tidegate_ai_tokens_total", &[("direction", "input")], 10.0);
}

#[test]
fn a_stream_is_translated_as_it_arrives() {
    let (next, gate) = channel();
    let gate = Mutex::new(gate);
    let (first, second) = EVENTS.split_at(EVENTS.find("event: message_delta").unwrap());
    let claude = Upstream::start(move |peer| {
        let (_, body) = read_request(peer);
        assert!(body.contains(r#""stream":true"#), "{body}");
        peer.send("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n");
        peer.send(first);
        let had = gate.lock().unwrap().recv_timeout(Duration::from_secs(30));
        had.expect("the client has the first text");
        peer.send(second);
    });
    let server = Tidegate::start(&config(&claude, ABSENT));
    for (options, has_usage) in [("", false), (r#","stream_options":{"include_usage":true}"#, true)]
    {
        let body = ASK.replace("]}", &format!(r#"],"stream":true{options}}}"#));
        let mut client = server.connect("web");
        client.send(post("/v1/chat/completions", &body));
        client.read_until(r#"{"content":"Hello"}"#);
        next.send(()).unwrap();
        let rest = String::from_utf8(client.read_until("[DONE]")).unwrap();
        assert!(rest.contains(r#""finish_reason":"stop""#), "{rest}");
        assert_eq!(rest.contains(r#""total_tokens":12"#), has_usage, "{rest}");
    }
    server.wait_for_metric("tidegate_ai_tokens_total", &[("direction", "output")], 14.0);
}

#[test]
fn a_stream_that_is_cut_is_cut_for_the_client() {
    let cut = EVENTS.split("event: message_stop").next().unwrap();
    let claude = provider(&Requests::default(), with_length("200", "text/event-stream", cut));
    let server = Tidegate::start(&config(&claude, ABSENT));
    let mut client = server.connect("web");
    let body = ASK.replace("]}", r#"],"stream":true}"#);
    client.send(post("/v1/chat/completions", &body));
    client.read_head();
    let rest = String::from_utf8(client.read_until_gone()).unwrap();
    assert!(rest.contains("Hello") && !rest.ends_with("0\r\n\r\n"), "{rest}");
}

#[test]
fn errors_and_odd_responses_are_translated_too() {
    let error = r#"{"type":"error","error":{"type":"invalid_request_error","message":"too long"}}"#;
    for (sent, status, text) in [
        (with_length("400", "application/json", error), 400, "too long"),
        (with_length("529", "text/html", "<html>"), 529, "The provider of the model failed."),
        (with_length("200", "application/json", "{}"), 502, "provider_failed"),
        (
            with_length("200", "application/json\r\ncontent-encoding: gzip", "x"),
            502,
            "provider_failed",
        ),
    ] {
        let claude = provider(&Requests::default(), &*sent);
        let server = Tidegate::start(&config(&claude, ABSENT));
        let response = chat(&server, ASK);
        assert_eq!(response.status, status, "{sent}: {}", response.text());
        assert!(response.text().contains(text), "{}", response.text());
    }
}

#[test]
fn what_the_provider_does_not_have_is_an_error_or_for_another_one() {
    let (claude, main) = (Requests::default(), Requests::default());
    let (first, second) = (provider(&claude, ""), provider(&main, OK));
    let server = Tidegate::start(&config(&first, &second.address().to_string()));
    let embeddings = |model: &str| {
        let body = format!(r#"{{"model":"{model}","input":"hi"}}"#);
        server.exchange("web", post("/v1/embeddings", &body))
    };
    let rejected = embeddings("fast");
    assert_eq!((rejected.status, code(&rejected).as_str()), (400, "endpoint_unsupported"));
    assert_eq!(embeddings("both").status, 200);
    let rejected = chat(&server, &ASK.replace("]}", r#"],"n":2}"#));
    assert_eq!((rejected.status, code(&rejected).as_str()), (400, "unsupported_parameter"));
    assert_eq!(claude.lock().unwrap().len(), 0);
    // A failure is followed by the other provider, which gets the client's own request.
    let asked = ASK.replace("fast", "both");
    assert_eq!(chat(&server, &asked).status, 200);
    assert_eq!(main.lock().unwrap()[1].1, asked);
    assert_eq!(claude.lock().unwrap().len(), 1);
}
