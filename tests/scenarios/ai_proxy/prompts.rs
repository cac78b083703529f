//! Models for some consumers, added messages, and the longest text.

use super::*;

fn config(provider: &Upstream) -> String {
    let address = provider.address();
    format!(
        r#"
workers: 1
listeners: {{ web: {{ bind: "127.0.0.1:0" }} }}
consumers:
  - {{ name: ann, groups: [gold], keys: [{{ key: key-of-ann }}] }}
  - {{ name: bob, keys: [{{ key: key-of-bob }}] }}
routes:
  - match: {{}}
    filters: [{{ key_auth: {{}} }}]
    handler:
      ai_proxy:
        providers: {{ main: {{ url: "http://{address}/v1", key: "{KEY}" }} }}
        prompt: {{ append: [{{ role: user, content: "Be brief." }}] }}
        max_prompt: 40B
        models:
          fast:
            provider: main
            prompt: {{ prepend: [{{ role: system, content: "Answer in \"English\"." }}] }}
          large: {{ provider: main, when: {{ group: gold }}, max_prompt: 1KiB }}
          own: {{ provider: main, when: {{ consumer: [bob] }} }}
"#
    )
}

fn ask(server: &Tidegate, consumer: &str, path: &str, body: &str) -> HttpResponse {
    let line = if body.is_empty() { "GET" } else { "POST" };
    let length = body.len();
    let head = format!("{line} /v1/{path} HTTP/1.1\r\nhost: a\r\nx-api-key: key-of-{consumer}\r\n");
    server.exchange("web", format!("{head}content-length: {length}\r\n\r\n{body}"))
}

#[test]
fn a_model_exists_for_consumers_that_may_use_it() {
    let requests = Requests::default();
    let main = provider(&requests, OK);
    let server = Tidegate::start(&config(&main));
    for (consumer, visible, hidden) in
        [("ann", ["fast", "large"], "own"), ("bob", ["fast", "own"], "large")]
    {
        let list = ask(&server, consumer, "models", "");
        let list: serde_json::Value = serde_json::from_str(&list.text()).unwrap();
        let names: Vec<_> = list["data"].as_array().unwrap().iter().map(|m| &m["id"]).collect();
        assert_eq!(names, visible, "{consumer}");
        let hidden = format!(r#"{{"model":"{hidden}","messages":[]}}"#);
        let rejected = ask(&server, consumer, "chat/completions", &hidden);
        assert_eq!((rejected.status, code(&rejected).as_str()), (404, "model_not_found"));
        let visible = format!(r#"{{"model":"{}","messages":[]}}"#, visible[1]);
        assert_eq!(ask(&server, consumer, "chat/completions", &visible).status, 200);
    }
    assert_eq!(requests.lock().unwrap().len(), 2);
}

#[test]
fn messages_are_added_to_every_prompt() {
    let requests = Requests::default();
    let main = provider(&requests, OK);
    let server = Tidegate::start(&config(&main));
    let chat = r#"{"model":"fast","messages":[{"role":"user","content":"hi"}]}"#;
    assert_eq!(ask(&server, "ann", "chat/completions", chat).status, 200);
    assert_eq!(ask(&server, "ann", "responses", r#"{"model":"fast","input":"hi"}"#).status, 200);
    for (path, body, expected) in [
        ("completions", r#"{"model":"fast","prompt":"hi"}"#, "prompt_unsupported"),
        ("chat/completions", r#"{"model":"fast"}"#, "invalid_messages"),
    ] {
        let rejected = ask(&server, "ann", path, body);
        assert_eq!((rejected.status, code(&rejected).as_str()), (400, expected));
    }
    let system = r#"{"role":"system","content":"Answer in \"English\"."}"#;
    let user = |text: &str| format!(r#"{{"role":"user","content":"{text}"}}"#);
    let messages = format!("[{system},{},{}]", user("hi"), user("Be brief."));
    let sent: Vec<String> = requests.lock().unwrap().iter().map(|sent| sent.1.clone()).collect();
    assert_eq!(sent[0], format!(r#"{{"model":"fast","messages":{messages}}}"#));
    assert_eq!(sent[1], format!(r#"{{"model":"fast","input":{messages}}}"#));
    assert_eq!(sent.len(), 2);
}

#[test]
fn a_text_that_is_too_long_reaches_no_provider() {
    let requests = Requests::default();
    let main = provider(&requests, OK);
    let server = Tidegate::start(&config(&main));
    let body = |model: &str| {
        format!(r#"{{"model":"{model}","messages":[{{"content":"{}"}}]}}"#, "x".repeat(36))
    };
    // With the name of the model these are 40 bytes.
    assert_eq!(ask(&server, "ann", "chat/completions", &body("fast")).status, 200);
    let rejected = ask(&server, "ann", "chat/completions", &body("fast").replace("xx", "xxx"));
    assert_eq!((rejected.status, code(&rejected).as_str()), (400, "context_length_exceeded"));
    assert_eq!(ask(&server, "ann", "chat/completions", &body("large")).status, 200);
    assert_eq!(requests.lock().unwrap().len(), 2);
}
