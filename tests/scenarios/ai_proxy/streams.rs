//! Streams: a reload in the middle of one, a reader that stalls, and providers that lie.

use super::*;
use scenarios::{Authority, TlsUpstream};

fn event(data: &str) -> String {
    let event = format!("data: {data}\n\n");
    format!("{:x}\r\n{event}\r\n", event.len())
}

const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
                    transfer-encoding: chunked\r\n\r\n";

fn begin(server: &Tidegate) -> Connection {
    let mut client = server.connect("web");
    client.send(post("/v1/chat/completions", r#"{"model":"gpt-4o","stream":true}"#));
    client
}

#[test]
fn a_stream_survives_a_reload() {
    let (next, gate) = channel();
    let gate = Mutex::new(gate);
    let openai = Upstream::start(move |peer| {
        if read_request(peer).1.contains("stream") {
            peer.send(format!("{HEAD}{}", event("first")));
            let reloaded = gate.lock().unwrap().recv_timeout(Duration::from_secs(30));
            reloaded.expect("the reload is over");
            peer.send(format!("{}0\r\n\r\n", event("second")));
        } else {
            peer.send(OK);
        }
    });
    let text = with_main(&openai);
    let server = Tidegate::start(&text);
    let mut client = begin(&server);
    client.read_head();
    client.expect(event("first"));
    server.rewrite_config(&text.replace("gpt-4o", "gpt-5"));
    scenarios::eventually("the new models", || chat(&server, r#"{"model":"gpt-5"}"#).status == 200);
    assert_eq!(chat(&server, r#"{"model":"gpt-4o"}"#).status, 404);
    next.send(()).unwrap();
    client.expect(format!("{}0\r\n\r\n", event("second")));
}

#[test]
fn a_reader_that_stalls_stalls_the_provider() {
    // More than the buffers of both connections.
    const MOST: usize = 32 << 20;
    let (stuck, is_stuck) = channel();
    let stuck = Mutex::new(stuck);
    let openai = Upstream::start(move |peer| {
        read_request(peer);
        peer.send("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: x");
        let sent = peer.send_until_stuck(Duration::from_millis(500));
        stuck.lock().unwrap().send(sent).unwrap();
    });
    let server = Tidegate::start(&with_main(&openai));
    let mut client = server.connect("web");
    client.set_receive_buffer(64 * 1024);
    client.send(post("/v1/chat/completions", r#"{"model":"gpt-4o","stream":true}"#));
    let sent = is_stuck.recv_timeout(Duration::from_secs(60)).expect("the provider is stuck");
    assert!(sent < MOST, "{sent} bytes are stored");
    // What was sent arrives.
    assert_eq!(client.read_response().body.len(), sent + "data: x".len());
}

#[test]
fn streams_of_a_provider_that_lies_harm_no_one_else() {
    let long = format!("{HEAD}{}0\r\n\r\n", event(&"x".repeat(1 << 20)));
    let many = format!("{HEAD}{}0\r\n\r\n", event("{}").repeat(10_000));
    let nested = format!("{HEAD}{}0\r\n\r\n", event(&r#"{"usage":"#.repeat(50_000)));
    let usage = r#"{"choices":[],"usage":{"prompt_tokens":1e999,"completion_tokens":-1}}"#;
    let odd = format!("{HEAD}{}{}0\r\n\r\n", event(usage), event("[DONE]"));
    for (sent, is_whole, contains) in [
        (&*long, true, "xxxxxxxx"),
        (&*many, true, "data: {}\n\n"),
        (&*nested, true, r#"{"usage":{"usage":"#),
        // A usage that is none is not removed.
        (&*odd, true, "1e999"),
        // Cut within an event, and within a chunk.
        (&*format!("{HEAD}5\r\ndata:\r\n"), false, ""),
        (&*format!("{HEAD}ffff\r\ndata: a\n\n"), false, "data: a\n\n"),
        (&*format!("{HEAD}zz\r\ndata: a\n\n"), false, ""),
    ] {
        let openai = provider(&Requests::default(), sent);
        let server = Tidegate::start(&with_main(&openai));
        let mut client = begin(&server);
        let received = String::from_utf8(if is_whole {
            let response = client.read_response();
            assert_eq!(response.status, 200);
            response.text().into_bytes()
        } else {
            client.read_until_gone()
        })
        .unwrap();
        let shown = &received[..received.len().min(300)];
        assert!(received.contains(contains), "{shown}");
        assert!(is_whole || !received.ends_with("0\r\n\r\n"), "{shown}");
        assert_eq!(chat(&server, "{}").status, 400);
    }
}

#[test]
fn a_usage_out_of_range_counts_as_the_highest_number() {
    let body = r#"{"usage":{"prompt_tokens":99999999999999,"completion_tokens":1}}"#;
    let length = body.len();
    let sent = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}");
    let openai = provider(&Requests::default(), sent);
    let server = Tidegate::start(&with_main(&openai));
    assert_eq!(chat(&server, r#"{"model":"gpt-4o"}"#).text(), body);
    let labels = [("direction", "input")];
    server.wait_for_metric("tidegate_ai_tokens_total", &labels, 4_294_967_295.0);
}

#[test]
fn the_certificate_of_a_provider_is_verified() {
    let authority = Authority::new();
    let secure = TlsUpstream::start(&authority.issue(&["ai.test", "127.0.0.1"]));
    for (tls, status) in [
        ("tls: { ca: ca.pem }", 200),
        ("tls: { ca: ca.pem, server_name: ai.test }", 200),
        ("tls: { ca: ca.pem, server_name: other.test }", 502),
        ("api: openai", 502),
    ] {
        let url = format!("url: \"{}/v1\", {tls}", secure.url());
        let text = config(ABSENT, ABSENT).replace(&format!("url: \"http://{ABSENT}/v1\""), &url);
        let launch = Launch::new(&text).file("ca.pem", authority.pem());
        let response = chat(&launch.start(), r#"{"model":"gpt-4o"}"#);
        assert_eq!(response.status, status, "{tls}: {}", response.text());
    }
}

#[test]
fn explain_shows_the_models_and_no_key() {
    let text = config(ABSENT, "127.0.0.1:2");
    let arguments = ["explain", "tidegate.yaml", "POST", "http://a/v1/chat/completions"];
    let exit = Launch::new(&text).run(&arguments);
    let shown = exit.stdout + &exit.stderr;
    assert!(shown.contains("gpt-4o at main; small at main; deployed at cloud"), "{shown}");
    assert!(!shown.contains(KEY) && !shown.contains(AZURE_KEY), "{shown}");
}
