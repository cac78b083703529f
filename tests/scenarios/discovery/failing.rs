//! Sources that fail, lie, or have nothing: the last known servers stay in use.

use super::{addresses, admin, body, gateway, lines, replace, server, status, wait_for};
use scenarios::{Tidegate, Upstream, eventually};
use std::sync::{Arc, Mutex, PoisonError};

/// Waits until the source is shown to fail with these words.
fn wait_for_error(gateway: &Tidegate, error: &str) {
    eventually(error, || {
        status(gateway)["discovery"]["error"].as_str().is_some_and(|text| text.contains(error))
    });
}

fn wait_for_recovery(gateway: &Tidegate) {
    eventually("the source is in order", || status(gateway)["discovery"]["error"].is_null());
}

#[test]
fn a_file_that_cannot_be_used_changes_nothing_and_is_reported() {
    let servers = ["0", "1"].map(server);
    let settings = "discover: { file: { path: servers, interval: 100ms } }";
    let gateway = gateway(settings, &lines(&servers));
    wait_for(&gateway, &servers);
    for (content, error) in [
        ("{\"adress\": 1}", "the list `servers`"),
        ("[{\"adress\": \"a:1\"}]", "unknown key \"adress\", did you mean \"address\"?"),
        ("unix:/run/docker.sock\n", "a source names a host and a port"),
        ("https://a\n", "another one than `discover.protocol`"),
        ("\u{0}", "no port"),
    ] {
        replace(&gateway, "servers", content);
        wait_for_error(&gateway, error);
        wait_for(&gateway, &servers);
    }
    let failing = || gateway.metrics().sum("tidegate_discovery_failing", &[("upstream", "api")]);
    assert_eq!(failing(), 1.0);
    let line = gateway.wait_for_log("event=discovery_failed");
    assert!(line.contains("upstream=api") && line.contains("the list `servers`"), "{line}");
    let ready = gateway.exchange("admin", "GET /readyz HTTP/1.1\r\nhost: a\r\n\r\n");
    assert!(ready.status == 200 && ready.text().contains("upstream api: file "), "{ready:?}");
    std::fs::remove_file(gateway.path("servers")).expect("the file");
    wait_for_error(&gateway, "No such file");
    assert!(status(&gateway)["discovery"]["age_s"].is_u64());
    assert!(["0", "1"].contains(&body(&gateway).as_str()));
    replace(&gateway, "servers", &lines(&servers[1..]));
    wait_for(&gateway, &servers[1..]);
    wait_for_recovery(&gateway);
    assert_eq!(failing(), 0.0);
    gateway.wait_for_log("event=discovery_restored");
}

#[test]
fn an_empty_list_keeps_the_servers_or_removes_them() {
    let one = server("one");
    let settings = "discover: { file: { path: servers, interval: 100ms } }";
    let keeping = gateway(settings, &lines([&one]));
    wait_for(&keeping, [&one]);
    replace(&keeping, "servers", "# none\n");
    wait_for_error(&keeping, "the response has no servers");
    assert_eq!(body(&keeping), "one");
    let settings = "discover: { file: { path: servers, interval: 100ms }, on_empty: remove }";
    let removing = gateway(settings, &lines([&one]));
    wait_for(&removing, [&one]);
    replace(&removing, "servers", "[]");
    wait_for(&removing, []);
    assert_eq!(removing.exchange("web", super::GET).status, 503);
}

#[test]
fn servers_of_the_configuration_are_used_while_a_source_has_none() {
    let (fixed, found) = (server("fixed"), server("found"));
    let address = fixed.address();
    let settings = format!(
        "servers: [{{ address: \"{address}\", backup: true }}], \
         discover: {{ file: {{ path: servers, interval: 100ms }} }}"
    );
    let gateway = gateway(&settings, "");
    assert_eq!(body(&gateway), "fixed");
    replace(&gateway, "servers", &lines([&found]));
    wait_for(&gateway, [&fixed, &found]);
    assert_eq!(body(&gateway), "found");
}

/// A source over HTTP that responds with whatever is set.
fn inventory(response: &str) -> (Arc<Mutex<String>>, Upstream, Arc<Mutex<String>>) {
    let response = Arc::new(Mutex::new(response.to_owned()));
    let request = Arc::new(Mutex::new(String::new()));
    let (current, seen) = (response.clone(), request.clone());
    let upstream = Upstream::start(move |peer| {
        while !peer.at_end() {
            *seen.lock().unwrap_or_else(PoisonError::into_inner) = peer.read_head();
            let response = current.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if !peer.try_send(response) {
                return;
            }
        }
    });
    (response, upstream, request)
}

fn ok(content: &str, fields: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n{fields}\r\n{content}", content.len())
}

#[test]
fn a_url_is_polled_and_its_failures_change_nothing() {
    let servers = ["0", "1"].map(server);
    let (response, source, request) = inventory(&ok(&lines(&servers), "etag: \"7\"\r\n"));
    let set = |text: String| *response.lock().expect("the response") = text;
    let url = format!("http://{}/api?key=s3cret", source.address());
    let gateway = gateway(
        &format!("discover: {{ http: {{ url: '{url}', interval: 100ms, token: hidden-token }} }}"),
        "",
    );
    wait_for(&gateway, &servers);
    eventually("the entity tag is sent", || {
        let head = request.lock().expect("the request").to_lowercase();
        let fields = ["\r\nif-none-match: \"7\"\r\n", "\r\nauthorization: bearer hidden-token\r\n"];
        head.starts_with("get /api?key=s3cret http/1.1\r\n")
            && fields.iter().all(|field| head.contains(field))
    });
    let large = ok(&"#".repeat(5 << 20), "");
    for (text, error) in [
        ("HTTP/1.1 500 Oops\r\ncontent-length: 0\r\n\r\n".to_owned(), "the status 500"),
        ("HTTP/1.1 302 Found\r\nlocation: /\r\ncontent-length: 0\r\n\r\n".to_owned(), "status 302"),
        (large, "more than 4194304 bytes"),
        (ok("[\"10.0.0.1\"]", ""), "has no port"),
    ] {
        set(text);
        wait_for_error(&gateway, error);
        wait_for(&gateway, &servers);
    }
    set("HTTP/1.1 304 Not Modified\r\netag: \"7\"\r\n\r\n".to_owned());
    wait_for_recovery(&gateway);
    set(ok(&lines(&servers[..1]), ""));
    wait_for(&gateway, &servers[..1]);
    assert_eq!(body(&gateway), "0");
    let shown = admin(&gateway, "GET", "/v1/upstreams", "").text() + &gateway.log().join("\n");
    assert!(!shown.contains("s3cret") && !shown.contains("hidden-token"), "{shown}");
    assert!(addresses(&gateway, "removed").is_empty());
}
