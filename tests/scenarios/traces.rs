//! Traces: continued from clients to servers, recorded, and exported by OTLP to a collector.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};

use crate::setup::behind;
use scenarios::{Connection, Tidegate, Upstream, eventually_some};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CLIENT_SPAN: &str = "00f067aa0ba902b7";

/// A span as the collector received it.
#[derive(Debug)]
struct Span {
    trace: String,
    id: String,
    parent: String,
    name: String,
    kind: u64,
    duration_ns: u64,
    attributes: BTreeMap<String, String>,
    has_failed: bool,
}

/// A field of a Protobuf message.
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Field<'a> {
    fn bytes(&self) -> &'a [u8] {
        match self {
            Field::Bytes(bytes) => bytes,
            Field::Number(_) => panic!("a field with bytes"),
        }
    }

    fn number(&self) -> u64 {
        match self {
            Field::Number(number) => *number,
            Field::Bytes(_) => panic!("a field with a number"),
        }
    }

    fn text(&self) -> String {
        String::from_utf8(self.bytes().to_vec()).expect("text")
    }

    fn hex(&self) -> String {
        self.bytes().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Reads a Protobuf message without its definition.
fn fields(mut rest: &[u8]) -> Vec<(u64, Field<'_>)> {
    fn varint(rest: &mut &[u8]) -> u64 {
        let mut number = 0;
        for shift in (0..).step_by(7) {
            let byte = rest[0];
            *rest = &rest[1..];
            number |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                break;
            }
        }
        number
    }
    let mut fields = Vec::new();
    while !rest.is_empty() {
        let key = varint(&mut rest);
        let field = match key & 7 {
            0 => Field::Number(varint(&mut rest)),
            1 => {
                let (bytes, after) = rest.split_first_chunk::<8>().expect("8 bytes");
                rest = after;
                Field::Number(u64::from_le_bytes(*bytes))
            }
            2 => {
                let length = varint(&mut rest) as usize;
                let (bytes, after) = rest.split_at(length);
                rest = after;
                Field::Bytes(bytes)
            }
            other => panic!("wire type {other}"),
        };
        fields.push((key >> 3, field));
    }
    fields
}

/// The fields of that number.
fn all<'a>(message: &'a [u8], number: u64) -> impl Iterator<Item = Field<'a>> {
    fields(message).into_iter().filter(move |(each, _)| *each == number).map(|(_, field)| field)
}

fn only<'a>(message: &'a [u8], number: u64) -> Option<Field<'a>> {
    all(message, number).next()
}

fn attributes(message: &[u8], number: u64) -> BTreeMap<String, String> {
    let pairs = all(message, number).map(|pair| {
        let value = only(pair.bytes(), 2).expect("a value").bytes();
        let text = match only(value, 1) {
            Some(text) => text.text(),
            None => only(value, 3).expect("text or number").number().to_string(),
        };
        (only(pair.bytes(), 1).expect("a key").text(), text)
    });
    pairs.collect()
}

fn span(message: &[u8]) -> Span {
    let hex = |number| only(message, number).map(|field| field.hex()).unwrap_or_default();
    let number = |number| only(message, number).map_or(0, |field| field.number());
    Span {
        trace: hex(1),
        id: hex(2),
        parent: hex(4),
        name: only(message, 5).expect("a name").text(),
        kind: number(6),
        duration_ns: number(8) - number(7),
        attributes: attributes(message, 9),
        has_failed: only(message, 15).is_some(),
    }
}

/// A collector that accepts everything.
struct Collector {
    server: Upstream,
    spans: Receiver<Span>,
}

/// Reads one request of an exporter and sends its spans on.
fn collect(peer: &mut Connection, spans: &Sender<Span>) {
    let head = peer.read_head();
    assert!(head.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{head}");
    assert!(head.to_lowercase().contains("content-type: application/x-protobuf"), "{head}");
    assert!(head.contains("x-token: s3cret"), "{head}");
    let length = head.to_lowercase();
    let length = length.split("content-length: ").nth(1).expect("a length");
    let length = length.split("\r\n").next().expect("a line").parse().expect("a number");
    let body = peer.read_exactly(length);
    for of_resource in all(&body, 1) {
        let resource = only(of_resource.bytes(), 1).expect("a resource");
        assert_eq!(attributes(resource.bytes(), 1)["service.name"], "edge");
        for of_scope in all(of_resource.bytes(), 2) {
            for each in all(of_scope.bytes(), 2) {
                // A test that has seen enough receives no more.
                let _ = spans.send(span(each.bytes()));
            }
        }
    }
}

impl Collector {
    fn start() -> Collector {
        let (sender, spans) = channel();
        let server = Upstream::start(move |peer| {
            while !peer.at_end() {
                collect(peer, &sender);
                // A test that has seen its spans ends the server.
                if !peer.try_send("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n") {
                    return;
                }
            }
        });
        Collector { server, spans }
    }

    fn next(&self) -> Span {
        self.spans.recv_timeout(scenarios::PATIENCE).expect("a span")
    }

    /// The spans of one request, with the server's first; others belong to it.
    fn request(&self) -> Vec<Span> {
        let mut spans = Vec::new();
        while spans.last().is_none_or(|span: &Span| span.kind != 2) {
            spans.push(self.next());
        }
        spans.reverse();
        spans
    }
}

fn traces(collector: &Upstream, more: &str) -> String {
    let address = collector.address();
    format!(
        r#"
traces:
  service: edge
  {more}
  otlp:
    url: "http://{address}/v1/traces"
    headers: {{ x-token: s3cret }}
    interval: 10ms
"#
    )
}

/// An upstream that responds with the fields of the trace, or with 500.
fn telling() -> Upstream {
    Upstream::start(|peer| {
        while !peer.at_end() {
            let head = peer.read_head();
            let field = |name: &str| {
                let fields = head.lines().filter_map(|line| line.split_once(": "));
                let value = fields.into_iter().find(|(each, _)| each.eq_ignore_ascii_case(name));
                value.map_or("none", |(_, value)| value).to_owned()
            };
            let status = if head.starts_with("GET /fail") { 500 } else { 200 };
            let body = format!("{} {} {}", field("traceparent"), field("tracestate"), field("b3"));
            let length = body.len();
            peer.send(format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\n\r\n{body}"));
        }
    })
}

fn get(server: &Tidegate, path: &str, fields: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nhost: a.example\r\n{fields}\r\n");
    server.exchange("web", request).text()
}

#[test]
fn a_request_is_one_tree_from_its_client_to_its_server() {
    let (upstream, collector) = (telling(), Collector::start());
    let server = Tidegate::start(&behind(&upstream, &traces(&collector.server, "sample: 0")));
    let parent = format!("traceparent: 00-{TRACE}-{CLIENT_SPAN}-01\r\ntracestate: a=b\r\n");
    let seen = get(&server, "/a?token=hidden&n=1", &parent);
    let spans = collector.request();
    let [request, handler, attempt] = &spans[..] else { panic!("{spans:#?}") };
    assert!(spans.iter().all(|span| span.trace == TRACE && !span.has_failed), "{spans:#?}");
    let names: Vec<_> = spans.iter().map(|span| (&*span.name, span.kind)).collect();
    assert_eq!(names, [("GET app", 2), ("upstream", 1), ("upstream attempt", 3)]);
    assert_eq!(request.parent, CLIENT_SPAN);
    assert_eq!((&handler.parent, &attempt.parent), (&request.id, &handler.id));
    assert_eq!(seen, format!("00-{TRACE}-{}-01 a=b none", attempt.id));
    assert!(request.duration_ns >= attempt.duration_ns, "{spans:#?}");
    let said = |span: &Span, name: &str| span.attributes[name].clone();
    for (name, value) in [
        ("http.request.method", "GET"),
        ("url.path", "/a"),
        ("url.query", "token=***&n=1"),
        ("server.address", "a.example"),
        ("client.address", "127.0.0.1"),
        ("http.response.status_code", "200"),
        ("tidegate.route", "app"),
    ] {
        assert_eq!(said(request, name), value, "{name}");
    }
    assert_eq!(said(attempt, "server.address"), "127.0.0.1");
    assert_eq!(said(attempt, "server.port"), upstream.address().port().to_string());
    assert_eq!(said(attempt, "http.response.status_code"), "200");
    server.wait_for_metric("tidegate_trace_spans_total", &[("result", "exported")], 3.0);
}

#[test]
fn what_is_not_sampled_is_continued_and_only_failures_are_recorded() {
    let (upstream, collector) = (telling(), Collector::start());
    let more = "log: { access: { path: a.log } }";
    let config = behind(&upstream, &traces(&collector.server, "sample: 0")) + more;
    let server = Tidegate::start(&config);
    let parent = format!("traceparent: 00-{TRACE}-{CLIENT_SPAN}-00\r\n");
    assert!(get(&server, "/a", &parent).starts_with(&format!("00-{TRACE}-")));
    let fresh = get(&server, "/a", "traceparent: 00-0-0-01\r\ntracestate: a=b\r\n");
    assert!(fresh.starts_with("00-") && fresh.ends_with("-00 none none"), "{fresh}");
    assert!(!fresh.contains(TRACE), "{fresh}");
    get(&server, "/fail", &parent);
    let failed = collector.request();
    assert_eq!(failed.len(), 3);
    assert!(failed.iter().all(|span| span.has_failed && span.trace == TRACE), "{failed:#?}");
    let log = eventually_some("three lines in the access log", || {
        let log = std::fs::read_to_string(server.path("a.log")).unwrap_or_default();
        (log.lines().count() == 3).then_some(log)
    });
    assert_eq!(log.matches(&format!("\"trace_id\":\"{TRACE}\"")).count(), 2, "{log}");
    assert!(log.contains(&format!("\"span_id\":\"{}\"", failed[0].id)), "{log}");
}

#[test]
fn clients_decide_nothing_unless_they_may() {
    let (upstream, collector) = (telling(), Collector::start());
    let settings = "accept_parent: false\n  sample: 0";
    let server = Tidegate::start(&behind(&upstream, &traces(&collector.server, settings)));
    let parent = format!("traceparent: 00-{TRACE}-{CLIENT_SPAN}-01\r\ntracestate: a=b\r\n");
    let seen = get(&server, "/a", &parent);
    assert!(!seen.contains(TRACE) && seen.ends_with("-00 none none"), "{seen}");
}

#[test]
fn b3_is_continued_in_the_formats_of_the_settings() {
    let (upstream, collector) = (telling(), Collector::start());
    let settings = "propagate: [b3]\n  sample: 1";
    let server = Tidegate::start(&behind(&upstream, &traces(&collector.server, settings)));
    let seen = get(&server, "/a", &format!("b3: {TRACE}-{CLIENT_SPAN}-1\r\n"));
    let spans = collector.request();
    assert_eq!(spans[0].parent, CLIENT_SPAN);
    assert_eq!(seen, format!("none none {TRACE}-{}-1", spans[2].id));
}

#[test]
fn a_collector_that_fails_costs_spans_and_no_request() {
    let upstream = telling();
    let (sender, spans) = channel();
    let collector = Upstream::start(move |peer| {
        while !peer.at_end() {
            collect(peer, &sender);
            peer.send("HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n");
        }
    });
    let server = Tidegate::start(&behind(&upstream, &traces(&collector, "")));
    for _ in 0..3 {
        assert!(get(&server, "/a", "").starts_with("00-"));
    }
    server.wait_for_log("event=traces_not_exported");
    server.wait_for_metric("tidegate_trace_spans_total", &[("result", "failed")], 9.0);
    assert_eq!(spans.try_iter().count(), 9);
}

#[test]
fn spans_of_the_last_requests_are_sent_before_the_process_ends() {
    let (upstream, collector) = (telling(), Collector::start());
    let config = behind(&upstream, &traces(&collector.server, ""));
    let server = Tidegate::start(&config.replace("interval: 10ms", "interval: 1m"));
    get(&server, "/a", "");
    server.signal("TERM");
    assert_eq!(collector.request().len(), 3);
    assert_eq!(server.wait().code, Some(0));
}

#[test]
fn a_batch_whose_response_is_awaited_at_the_end_is_sent_again() {
    let upstream = telling();
    let (sender, spans) = channel();
    let (silent, silent_spans) = channel();
    let collector = Upstream::start(move |peer| {
        if peer.number() == 0 {
            // No response.
            collect(peer, &silent);
            peer.at_end();
        } else {
            collect(peer, &sender);
            peer.send("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
        }
    });
    let server = Tidegate::start(&behind(&upstream, &traces(&collector, "")));
    get(&server, "/a", "");
    let first = silent_spans.recv_timeout(scenarios::PATIENCE).expect("a span");
    server.signal("TERM");
    let again = spans.recv_timeout(scenarios::PATIENCE).expect("the span again");
    assert_eq!((again.trace, again.id), (first.trace, first.id));
    assert_eq!(server.wait().code, Some(0));
}

#[test]
fn a_reload_loses_no_span() {
    let (upstream, first, second) = (telling(), Collector::start(), Collector::start());
    let config = behind(&upstream, &traces(&first.server, ""));
    let server = Tidegate::start(&config.replace("interval: 10ms", "interval: 500ms"));
    get(&server, "/a", "");
    server.rewrite_config(&behind(&upstream, &traces(&second.server, "")));
    server.wait_for_log("configuration in use");
    get(&server, "/b", "");
    assert_eq!(first.request()[0].attributes["url.path"], "/a");
    assert_eq!(second.request()[0].attributes["url.path"], "/b");
}

/// An AI provider that responds with this status and, as a member, the `traceparent` it got.
fn ai_provider(status: u16) -> Upstream {
    Upstream::start(move |peer| {
        let head = peer.read_head().to_lowercase();
        let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name));
        let length = field("content-length: ").expect("a length").parse().expect("a number");
        peer.read_exactly(length);
        let usage = r#"{ "prompt_tokens": 7, "completion_tokens": 3 }"#;
        let seen = field("traceparent: ").unwrap_or("none");
        let body = format!(r#"{{ "usage": {usage}, "seen": "{seen}" }}"#);
        peer.send(format!(
            "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\nconnection: close\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        ));
    })
}

#[test]
fn each_attempt_on_an_ai_provider_is_a_span_that_the_provider_continues() {
    let collector = Collector::start();
    let (main, other) = (ai_provider(503), ai_provider(200));
    let config = format!(
        r#"
workers: 1
listeners: {{ web: {{ bind: "127.0.0.1:0" }} }}
admin: {{ bind: "127.0.0.1:0" }}
routes:
  - name: ai
    match: {{}}
    handler:
      ai_proxy:
        providers:
          main: {{ url: "http://{}/v1" }}
          other: {{ url: "http://{}/v1" }}
        models:
          fast: {{ providers: [main, {{ provider: other, model: quick, backup: true }}] }}
{}"#,
        main.address(),
        other.address(),
        traces(&collector.server, "sample: 0"),
    );
    let server = Tidegate::start(&config);
    let body = r#"{"model":"fast"}"#;
    let request = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\ncontent-length: {}\r\n\
         traceparent: 00-{TRACE}-{CLIENT_SPAN}-01\r\n\r\n{body}",
        body.len()
    );
    let response = server.exchange("web", request).text();
    let spans = collector.request();
    let [request, handler, second, first] = &spans[..] else { panic!("{spans:#?}") };
    let names: Vec<_> = spans.iter().map(|span| (&*span.name, span.has_failed)).collect();
    let attempt = |has_failed| ("ai attempt", has_failed);
    let expected = [("POST ai", false), ("ai_proxy", false), attempt(false), attempt(true)];
    assert_eq!(names, expected);
    assert_eq!((&first.parent, &second.parent), (&handler.id, &handler.id));
    assert!(response.contains(&format!("00-{TRACE}-{}-01", second.id)), "{response}");
    let port = |upstream: &Upstream| upstream.address().port().to_string();
    for (span, name, value) in [
        (first, "gen_ai.provider.name", "main"),
        (first, "gen_ai.request.model", "fast"),
        (first, "server.port", &*port(&main)),
        (first, "http.response.status_code", "503"),
        (second, "gen_ai.operation.name", "chat"),
        (second, "gen_ai.provider.name", "other"),
        (second, "gen_ai.request.model", "quick"),
        (second, "server.port", &*port(&other)),
        (second, "http.request.resend_count", "1"),
        (second, "http.response.status_code", "200"),
        (request, "gen_ai.request.model", "fast"),
        (request, "gen_ai.provider.name", "other"),
        (request, "gen_ai.usage.input_tokens", "7"),
        (request, "gen_ai.usage.output_tokens", "3"),
    ] {
        assert_eq!(span.attributes[name], value, "{} {name}", span.name);
    }
    assert!(!first.attributes.contains_key("http.request.resend_count"), "{first:#?}");
}

#[test]
fn an_exported_trace_is_an_example_of_its_duration() {
    let (upstream, collector) = (telling(), Collector::start());
    let server = Tidegate::start(&behind(&upstream, &traces(&collector.server, "sample: 1")));
    get(&server, "/a", &format!("traceparent: 00-{TRACE}-{CLIENT_SPAN}-01\r\n"));
    collector.request();
    let request =
        "GET /metrics HTTP/1.1\r\nhost: a\r\naccept: application/openmetrics-text\r\n\r\n";
    let text = eventually_some("the trace is an example", || {
        let text = server.exchange("admin", request).text();
        text.contains(&format!("# {{trace_id=\"{TRACE}\",span_id=\"")).then_some(text)
    });
    assert!(text.contains("# TYPE tidegate_requests counter\n") && text.ends_with("# EOF\n"));
    let plain = server.exchange("admin", "GET /metrics HTTP/1.1\r\nhost: a\r\n\r\n").text();
    assert!(!plain.contains(TRACE));
}
