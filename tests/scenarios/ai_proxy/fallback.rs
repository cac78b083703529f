//! Several providers of a model: shares, the next one after a failure, ejection.

use super::*;

/// A model with two providers, of which the second is a backup.
fn with_backup(first: &str, second: &str, settings: &str) -> String {
    let models = r#"{ fast: { providers: [main, { provider: other, backup: true }] } }"#;
    format!(
        r#"
workers: 2
listeners: {{ web: {{ bind: "127.0.0.1:0" }} }}
admin: {{ bind: "127.0.0.1:0", token: "{ADMIN_TOKEN}" }}
log: {{ access: {{ format: json, path: a.log }} }}
routes:
  - match: {{}}
    handler:
      ai_proxy:
        providers:
          main: {{ url: "http://{first}/v1", key: "{KEY}" }}
          other: {{ url: "http://{second}/v1", key: "{AZURE_KEY}" }}
        models: {models}
        {settings}
"#
    )
}

const FROM_OTHER: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\
                          content-length: 7\r\nconnection: close\r\n\r\n\"other\"";

fn ask(server: &Tidegate) -> HttpResponse {
    chat(server, r#"{"model":"fast"}"#)
}

fn sum(server: &Tidegate, family: &str, provider: &str) -> f64 {
    server.metrics().sum(family, &[("provider", provider), ("model", "fast")])
}

#[test]
fn each_kind_of_failure_is_followed_by_the_next_provider() {
    let closed = "".to_owned();
    let status = |status: &str| format!("HTTP/1.1 {status} X\r\ncontent-length: 2\r\n\r\n{{}}");
    for (sent, reason) in [
        (closed, "connection_terminated"),
        (status("401"), "http_response_status"),
        (status("408"), "408"),
        (status("429"), "429"),
        (status("500"), "5xx"),
        (status("529"), "5xx"),
        ("no HTTP\r\n\r\n".to_owned(), "http_protocol_error"),
        // A stream that ends before its first event.
        (STREAM.split("a\r\n").next().unwrap().to_owned(), "http_response_incomplete"),
    ] {
        let (main, other) = (Requests::default(), Requests::default());
        let (first, second) = (provider(&main, &*sent), provider(&other, FROM_OTHER));
        let (first, second) = (first.address().to_string(), second.address().to_string());
        let server = Tidegate::start(&with_backup(&first, &second, ""));
        let response = ask(&server);
        assert_eq!((response.status, response.text().as_str()), (200, "\"other\""), "{sent}");
        let labels = [("provider", "main"), ("model", "fast"), ("reason", reason)];
        let metrics = server.metrics();
        let fallbacks = metrics.sum("tidegate_ai_fallbacks_total", &labels);
        assert_eq!(fallbacks, 1.0, "{sent}");
        // Each provider gets its own key.
        let (main, other) = (main.lock().unwrap(), other.lock().unwrap());
        assert!(main[0].0.contains(KEY) && !main[0].0.contains(AZURE_KEY), "{sent}");
        assert!(other[0].0.contains(AZURE_KEY) && !other[0].0.contains(KEY), "{sent}");
        let line = log_line(&server);
        assert!(line.contains(r#""upstream":"other","attempts":2"#), "{line}");
    }
}

fn log_line(server: &Tidegate) -> String {
    scenarios::eventually_some("the line of the access log", || {
        let log = std::fs::read_to_string(server.path("a.log")).unwrap_or_default();
        log.lines().next().filter(|_| log.ends_with('\n')).map(str::to_owned)
    })
}

#[test]
fn a_silent_and_an_absent_provider_are_followed_by_the_next_one() {
    let silent = Upstream::start(|peer| {
        peer.read_until_gone();
    });
    for (first, settings) in
        [(silent.address().to_string(), "response: 300ms"), (ABSENT.to_owned(), "")]
    {
        let other = provider(&Requests::default(), FROM_OTHER);
        let second = other.address().to_string();
        let server = Tidegate::start(&with_backup(&first, &second, settings));
        // Of a busy machine the second provider may be late as well.
        scenarios::eventually("the next provider responds after a failure", || {
            let before = sum(&server, "tidegate_ai_fallbacks_total", "main");
            let is_other = ask(&server).text() == "\"other\"";
            is_other && sum(&server, "tidegate_ai_fallbacks_total", "main") > before
        });
    }
}

#[test]
fn other_responses_and_a_stream_that_has_begun_are_final() {
    let status = |status: &str| format!("HTTP/1.1 {status} X\r\ncontent-length: 2\r\n\r\n{{}}");
    for (sent, expected) in [(status("400"), 400), (status("404"), 404), (STREAM.to_owned(), 200)] {
        let other = Upstream::start(|_| panic!("the second provider gets no request"));
        let first = provider(&Requests::default(), &*sent);
        let (first, second) = (first.address().to_string(), other.address().to_string());
        let server = Tidegate::start(&with_backup(&first, &second, ""));
        let mut client = server.connect("web");
        client.send(post("/v1/chat/completions", r#"{"model":"fast","stream":true}"#));
        let head = client.read_head();
        assert!(head.starts_with(&format!("HTTP/1.1 {expected} ")), "{head}");
        if expected == 200 {
            let rest = String::from_utf8(client.read_until_gone()).unwrap();
            assert!(rest.contains("data: {}") && !rest.ends_with("0\r\n\r\n"), "{rest}");
        }
        assert_eq!(other.accepted(), 0);
    }
}

#[test]
fn attempts_are_bounded_and_the_last_result_is_the_clients() {
    let limited = "HTTP/1.1 429 X\r\nretry-after: 9\r\ncontent-length: 2\r\n\r\n{}";
    let failed = "HTTP/1.1 503 X\r\ncontent-length: 4\r\n\r\nlast";
    for (settings, status, text) in [("", 503, "last"), ("attempts: 1", 429, "{}")] {
        let requests = Requests::default();
        let (main, other) = (provider(&requests, limited), provider(&requests, failed));
        let (first, second) = (main.address().to_string(), other.address().to_string());
        let server = Tidegate::start(&with_backup(&first, &second, settings));
        let response = ask(&server);
        assert_eq!((response.status, response.text().as_str()), (status, text));
        assert_eq!(response.header("retry-after"), (status == 429).then_some("9"));
        assert_eq!(requests.lock().unwrap().len(), if status == 429 { 1 } else { 2 });
    }
}

#[test]
fn retry_after_ejects_a_provider_for_all_workers_also_across_a_reload() {
    let limited = "HTTP/1.1 429 X\r\nretry-after: 300\r\ncontent-length: 2\r\n\r\n{}";
    let main = Requests::default();
    let (first, second) = (provider(&main, limited), provider(&Requests::default(), FROM_OTHER));
    let (first, second) = (first.address().to_string(), second.address().to_string());
    let config = with_backup(&first, &second, "");
    let server = Tidegate::start(&config);
    for _ in 0..8 {
        assert_eq!(ask(&server).status, 200);
    }
    let before = server.metrics().sum("tidegate_config_reloads_total", &[]);
    server.rewrite_config(&config.replace("        \n", "        attempts: 2\n"));
    server.wait_for_metric("tidegate_config_reloads_total", &[], before + 1.0);
    for _ in 0..8 {
        assert_eq!(ask(&server).status, 200);
    }
    assert_eq!(main.lock().unwrap().len(), 1);
    assert_eq!(sum(&server, "tidegate_ai_ejections_total", "main"), 1.0);
    assert_eq!(sum(&server, "tidegate_ai_requests_total", "other"), 16.0);
    server.wait_for_log("an AI provider is ejected for a model");
}

#[test]
fn failures_in_a_row_eject_a_provider_until_its_time_is_over() {
    let main = Requests::default();
    let failed = "HTTP/1.1 500 X\r\ncontent-length: 2\r\n\r\n{}";
    let (first, second) = (provider(&main, failed), provider(&Requests::default(), FROM_OTHER));
    let (first, second) = (first.address().to_string(), second.address().to_string());
    let ejection = "ejection: { failures: 2, ejected_for: 500ms }";
    let server = Tidegate::start(&with_backup(&first, &second, ejection));
    ask(&server);
    ask(&server);
    assert_eq!(sum(&server, "tidegate_ai_ejections_total", "main"), 1.0);
    scenarios::eventually("the provider is used again", || {
        ask(&server);
        main.lock().unwrap().len() > 2
    });
    assert_eq!(sum(&server, "tidegate_ai_ejections_total", "main"), 2.0);
}

#[test]
fn shares_follow_the_weights() {
    let (main, other) = (Requests::default(), Requests::default());
    let (first, second) = (provider(&main, OK), provider(&other, FROM_OTHER));
    let (first, second) = (first.address().to_string(), second.address().to_string());
    let config = with_backup(&first, &second, "")
        .replace("[main, ", "[{ provider: main, weight: 1000 }, ")
        .replace("backup: true", "model: org/other");
    let server = Tidegate::start(&config);
    for _ in 0..40 {
        assert_eq!(ask(&server).status, 200);
    }
    // A wrong share passes with a probability of less than 10^-30.
    assert!(main.lock().unwrap().len() >= 30, "{}", main.lock().unwrap().len());
    for (_, body) in other.lock().unwrap().iter() {
        assert_eq!(body, r#"{"model":"org/other"}"#);
    }
}

#[test]
fn providers_in_error_are_named() {
    let valid = with_backup(ABSENT, ABSENT, "");
    let check = |from: &str, to: &str| {
        let text = valid.replace(from, to);
        assert_ne!(text, valid);
        let exit = Launch::new(&text).run(&["check", "tidegate.yaml"]);
        assert_ne!(exit.code, Some(0), "{to}");
        exit.stdout + &exit.stderr
    };
    for (from, to, message) in [
        ("provider: other,", "provider: othr,", "did you mean \"other\"?"),
        ("[main, ", "[", "all providers are backups"),
        ("fast: { ", "fast: { provider: main, ", "either `provider` or `providers`"),
        ("fast: { ", "fast: { model: a, ", "`model` belongs to an entry of `providers`"),
        ("backup: true", "weight: 0", "between 1 and 1000"),
        (
            "[main, ",
            "[main, main, main, main, main, main, main, main, main, main, main, main, \
          main, main, main, main, ",
            "at most 16 providers",
        ),
    ] {
        let shown = check(from, to);
        assert!(shown.contains(message), "{shown}");
    }
}
