//! Tokens that a scripted end point is asked about (RFC 7662): remembered, rejected, and while it
//! fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;

use scenarios::{HttpResponse, Tidegate, Upstream, eventually};

fn config(end_point: &str, more: &str) -> String {
    with_filter(&filter(end_point, more))
}

fn filter(end_point: &str, more: &str) -> String {
    let url = format!("http://{end_point}/introspect");
    format!(
        "introspection: {{ url: \"{url}\", client_id: gate way, client_secret: \"s:ecret\"{more} }}"
    )
}

fn with_filter(filter: &str) -> String {
    format!(
        r#"
workers: 1
listeners: {{ web: {{ bind: "127.0.0.1:0" }} }}
admin: {{ bind: "127.0.0.1:0" }}
consumers: [{{ name: alice, jwt: {{ subject: a-17 }} }}]
routes:
  - filters: [{{ {filter} }}]
    handler:
      respond:
        headers: {{ x-seen: "{{consumer}} {{claim.scope}} <{{header.authorization}}>" }}
"#
    )
}

/// An end point that responds to each request with what it is told, and how often it was asked.
struct EndPoint {
    upstream: Upstream,
    requests: Arc<AtomicUsize>,
}

impl EndPoint {
    fn start(reply: impl Fn(&str) -> String + Send + Sync + 'static) -> EndPoint {
        let requests = Arc::new(AtomicUsize::new(0));
        let count = requests.clone();
        let upstream = Upstream::start(move |peer| {
            while !peer.at_end() {
                let head = peer.read_head();
                assert!(head.starts_with("POST /introspect HTTP/1.1\r\n"), "{head}");
                // `gate way` and `s:ecret`, each encoded as in a form.
                let basic = "authorization: basic z2f0zsuymhdhetpzjtnbzwnyzxq=";
                assert!(head.to_ascii_lowercase().contains(basic), "{head}");
                let length = head.to_ascii_lowercase();
                let length = length.split_once("content-length: ").expect("a length").1;
                let length = length.lines().next().and_then(|digits| digits.parse().ok());
                let body = peer.read_exactly(length.expect("a number"));
                let body = String::from_utf8(body).expect("a form");
                count.fetch_add(1, Ordering::Relaxed);
                let json = reply(&body);
                if json.starts_with("HTTP/") {
                    peer.send(json);
                    continue;
                }
                let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
                peer.send(format!("{head}content-length: {}\r\n\r\n{json}", json.len()));
            }
        });
        EndPoint { upstream, requests }
    }

    fn address(&self) -> String {
        self.upstream.address().to_string()
    }

    fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }
}

const ACTIVE: &str = r#"{"active":true,"sub":"a-17","scope":"read write","aud":"other"}"#;

fn by_token(body: &str) -> String {
    let expired = ACTIVE.replace("true", "true,\"exp\":1000000000");
    match body {
        "token=good&token_type_hint=access_token" => ACTIVE.to_owned(),
        "token=old&token_type_hint=access_token" => expired,
        "token=anonymous&token_type_hint=access_token" => r#"{"active":true}"#.to_owned(),
        "token=odd&token_type_hint=access_token" => {
            "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n".to_owned()
        }
        "token=broken&token_type_hint=access_token" => r#"{"active":"yes"}"#.to_owned(),
        _ => r#"{"active":false}"#.to_owned(),
    }
}

fn request(token: &str) -> String {
    format!("GET / HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {token}\r\n\r\n")
}

fn get(server: &Tidegate, token: &str) -> HttpResponse {
    server.exchange("web", request(token))
}

fn results(server: &Tidegate, result: &str) -> f64 {
    server.metrics().sum("tidegate_introspections_total", &[("result", result)])
}

#[test]
fn an_active_token_is_asked_about_once_and_again_after_a_reload() {
    let end_point = EndPoint::start(by_token);
    let server = Tidegate::start(&config(&end_point.address(), ""));
    for _ in 0..3 {
        let response = get(&server, "good");
        assert_eq!(
            (response.status, response.header("x-seen")),
            (200, Some("alice read write <>"))
        );
    }
    assert_eq!(end_point.requests(), 1);
    assert_eq!((results(&server, "active"), results(&server, "remembered")), (1.0, 2.0));
    let before = server.metrics().sum("tidegate_config_reloads_total", &[]);
    server.rewrite_config(&config(&end_point.address(), ", hide: false, remember: 0s"));
    server.wait_for_metric("tidegate_config_reloads_total", &[], before + 1.0);
    for requests in [2, 3] {
        let seen = get(&server, "good");
        assert_eq!(seen.header("x-seen"), Some("alice read write <Bearer good>"));
        assert_eq!(end_point.requests(), requests);
    }
    let log = server.log().join("\n");
    assert!(!log.contains("s:ecret") && !log.contains("good"), "{log}");
}

#[test]
fn other_tokens_are_rejected_and_remembered() {
    let end_point = EndPoint::start(by_token);
    let server = Tidegate::start(&config(&end_point.address(), ""));
    for (token, asked) in [("bad", 1), ("bad", 1), ("old", 2), ("anonymous", 3), ("a\u{e4}b", 3)] {
        let response = get(&server, token);
        assert_eq!(response.status, 401, "{token}");
        let challenge = response.header("www-authenticate");
        assert_eq!(challenge, Some("Bearer realm=\"tidegate\", error=\"invalid_token\""));
        assert_eq!(end_point.requests(), asked, "{token}");
    }
    let response = server.exchange("web", "GET / HTTP/1.1\r\nhost: a\r\n\r\n");
    let challenge = response.header("www-authenticate");
    assert_eq!((response.status, challenge), (401, Some("Bearer realm=\"tidegate\"")));
    let refusals = |reason| {
        let labels = [("filter", "introspection"), ("reason", reason)];
        server.metrics().sum("tidegate_auth_refusals_total", &labels)
    };
    assert_eq!((refusals("invalid"), refusals("missing")), (5.0, 1.0));
    assert_eq!(results(&server, "inactive"), 3.0);

    let more = ", audience: shop, remember_inactive: 0s, consumer_claim: scope";
    let server = Tidegate::start(&config(&end_point.address(), more));
    let before = end_point.requests();
    for _ in 0..2 {
        assert_eq!(get(&server, "good").status, 401, "for another audience");
    }
    assert_eq!(end_point.requests(), before + 2, "nothing is remembered");
    let more = ", issuer: \"https://id.test\"";
    let server = Tidegate::start(&config(&end_point.address(), more));
    assert_eq!(get(&server, "good").status, 401, "of no issuer");
    let server = Tidegate::start(&config(
        &end_point.address(),
        ", consumers_only: true, consumer_claim: scope",
    ));
    assert_eq!(get(&server, "good").status, 401, "there is no such consumer");
}

#[test]
fn clients_with_one_token_wait_for_one_request() {
    let (go, wait) = channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let end_point = EndPoint::start(move |body| {
        let _ = wait.lock().expect("no panic").recv();
        by_token(body)
    });
    let server = Tidegate::start(&config(&end_point.address(), ""));
    let mut clients: Vec<_> = (0..5).map(|_| server.connect("web")).collect();
    for client in &mut clients {
        client.send(request("good"));
    }
    eventually("the end point is asked", || end_point.requests() == 1);
    // The first to ask leaves; the others still get the response.
    drop(clients.remove(0));
    go.send(()).expect("the end point waits");
    for client in &mut clients {
        assert_eq!(client.read_response().status, 200);
    }
    assert_eq!(end_point.requests(), 1);
}

#[test]
fn an_end_point_that_fails_rejects_new_tokens_only() {
    let end_point = EndPoint::start(by_token);
    let address = end_point.address();
    let server = Tidegate::start(&config(&address, ""));
    assert_eq!(get(&server, "good").status, 200);
    let response = get(&server, "broken");
    assert_eq!((response.status, response.header("retry-after")), (503, Some("1")));
    let line = server.wait_for_log("event=introspection_failed");
    assert!(line.contains("does not say whether the token is active"), "{line}");
    assert_eq!(results(&server, "failed"), 1.0);
    assert_eq!(get(&server, "good").status, 200, "it is remembered");

    // It accepts connections and never responds.
    let silent = Upstream::start(|peer| {
        peer.read_until_gone();
    });
    let server = Tidegate::start(&config(&silent.address().to_string(), ", timeout: 50ms"));
    assert_eq!(get(&server, "good").status, 503);
    let line = server.wait_for_log("event=introspection_failed");
    assert!(line.contains("50 ms"), "{line}");
}

/// Otherwise one client could lock all others out, a request a second.
#[test]
fn a_token_that_the_end_point_refuses_does_not_stop_requests_about_others() {
    let end_point = EndPoint::start(by_token);
    let server = Tidegate::start(&config(&end_point.address(), ""));
    let response = get(&server, "odd");
    assert_eq!((response.status, response.header("retry-after")), (503, Some("1")));
    let line = server.wait_for_log("event=introspection_failed");
    assert!(line.contains("the response has the status 400"), "{line}");
    assert_eq!(get(&server, "good").status, 200);
    assert_eq!(results(&server, "failed"), 1.0);
}

#[test]
fn several_methods_and_another_place_for_the_token() {
    let end_point = EndPoint::start(by_token);
    let asked = filter(&end_point.address(), ", from: { header: x-token }");
    let methods = format!("auth: {{ any: [{{ key_auth: {{}} }}, {{ {asked} }}] }}");
    let server = Tidegate::start(&with_filter(&methods));
    let response = server.exchange("web", "GET / HTTP/1.1\r\nhost: a\r\nx-token: good\r\n\r\n");
    assert_eq!((response.status, response.header("x-seen")), (200, Some("alice read write <>")));
}
