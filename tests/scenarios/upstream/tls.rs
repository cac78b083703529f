//! Servers with TLS: whose certificate is accepted, what is presented to them, what fails and how,
//! and which connections are used again.

use super::{GET, ask, assert_fault, config, wait_until_released};
use scenarios::{Authority, Connection, Launch, Tidegate, TlsUpstream, Upstream, eventually};

/// A gateway to these servers whose `tls` is this; the authority's certificate is `ca.pem`.
fn launch(authority: &Authority, servers: &[&str], more: &str) -> Launch {
    let servers: Vec<_> = servers.iter().map(|server| format!("\"{server}\"")).collect();
    let upstream = format!("servers: [{}], {more}", servers.join(", "));
    Launch::new(&config(&upstream, 1)).file("ca.pem", authority.pem())
}

fn gateway(authority: &Authority, servers: &[&str], more: &str) -> Tidegate {
    launch(authority, servers, more).start()
}

fn connects(server: &Tidegate, result: &str) -> f64 {
    server.metrics().sum("tidegate_upstream_connects_total", &[("result", result)])
}

#[test]
fn a_certificate_is_verified_for_the_name_of_the_server() {
    let (authority, other) = (Authority::new(), Authority::new());
    let valid = authority.issue(&["app.test", "127.0.0.1"]);
    let expired = authority.issue_between(&["app.test"], 2001, 2002);
    let foreign = other.issue(&["app.test"]);
    const NAMED: &str = "tls: { ca: ca.pem, server_name: app.test }";
    // (the server's certificate, the settings, what its certificate is not; the name it was sent)
    for (issued, tls, wrong, sni) in [
        (&valid, NAMED, None, "app.test"),
        (&valid, "tls: { ca: ca.pem }", None, "None"),
        (&foreign, "tls: { server_name: b.test, verify: false }", None, "b.test"),
        (&valid, "tls: { ca: ca.pem, server_name: b.test }", Some("not valid for name"), ""),
        (&expired, NAMED, Some("certificate expired"), ""),
        (&foreign, NAMED, Some("BadSignature"), ""),
        (&valid, "tls: { server_name: app.test }", Some("UnknownIssuer"), ""),
    ] {
        let upstream = TlsUpstream::start(issued);
        let server = gateway(&authority, &[&upstream.url()], tls);
        let response = ask(&server);
        if let Some(wrong) = wrong {
            assert_fault(&response, 502, "tls_certificate_error");
            let line = server.wait_for_log(wrong);
            assert!(line.contains(&upstream.address().to_string()), "{line}");
            assert_eq!((connects(&server, "certificate"), connects(&server, "ok")), (1.0, 0.0));
        } else {
            let text = response.text();
            assert!(text.contains(&format!("sni={sni} client=None")), "{tls}: {response:?}");
            assert!(text.contains("Host: a"), "the client's Host: {text}");
        }
        wait_until_released(&server);
    }
}

#[test]
fn a_hundred_requests_use_one_connection_and_the_next_one_resumes_its_session() {
    let authority = Authority::new();
    let upstream = TlsUpstream::start(&authority.issue(&["localhost"]));
    let server = format!("https://localhost:{}", upstream.address().port());
    let more = "tls: { ca: ca.pem }, host: server, keepalive: { max_requests: 100 }";
    let server = gateway(&authority, &[&server], more);
    let mut client = server.connect("web");
    for number in 0..102 {
        client.send(GET);
        let text = client.read_response().text();
        let (connection, request) = (number / 100, number % 100);
        let expected = format!("connection={connection} request={request} ");
        assert!(text.contains(&expected), "{number}: {text}");
        let resumed = if connection == 0 { "resumed=False" } else { "resumed=True" };
        assert!(text.contains(resumed) && text.contains("sni=localhost"), "{text}");
        assert!(text.contains(&format!("ost: localhost:{}", upstream.address().port())), "{text}");
    }
    assert_eq!(connects(&server, "ok"), 2.0);
}

#[test]
fn a_server_that_demands_a_certificate_gets_ours() {
    let authority = Authority::new();
    let upstream = TlsUpstream::demanding(&authority.issue(&["app.test"]), &authority.pem());
    let ours = authority.issue_client("gateway");
    for (certificate, accepted) in
        [("", false), (", certificate: { cert: us.pem, key: us.key }", true)]
    {
        let tls = format!("tls: {{ ca: ca.pem, server_name: app.test{certificate} }}");
        let server = launch(&authority, &[&upstream.url()], &tls)
            .file("us.pem", &ours.chain)
            .file("us.key", &ours.key)
            .start();
        let response = ask(&server);
        if accepted {
            assert!(response.text().contains("client=gateway"), "{response:?}");
        } else {
            // Under TLS 1.3 the server decides after our handshake. Where its alert arrives before
            // the request is sent, only the end of the connection is seen.
            let told = response.header("proxy-status").unwrap_or_default().to_owned();
            let seen = ["tls_alert_received", "connection_terminated"];
            let seen = seen.iter().find(|error| told.contains(**error));
            assert_fault(&response, 502, seen.expect("one of these faults"));
        }
    }
}

#[test]
fn a_handshake_that_fails_or_takes_too_long_has_its_own_fault() {
    let authority = Authority::new();
    let hangs_up = Upstream::start(|peer| {
        peer.read_exactly(5);
    });
    let silent = Upstream::start(|peer| drop(peer.read_until_gone()));
    let plain = Upstream::start(|peer| {
        peer.read_exactly(5);
        peer.try_send("HTTP/1.1 400 Bad Request\r\n\r\n");
        peer.read_until_gone();
    });
    // Only what must time out has a short time: a busy machine is slow.
    for (upstream, connect, status, error) in [
        (&hangs_up, "20s", 502, "connection_terminated"),
        (&silent, "300ms", 504, "connection_timeout"),
        (&plain, "20s", 502, "tls_protocol_error"),
    ] {
        let url = format!("https://{}", upstream.address());
        let more = format!("timeouts: {{ connect: {connect} }}");
        let server = gateway(&authority, &[&url], &more);
        assert_fault(&ask(&server), status, error);
        wait_until_released(&server);
    }
}

#[test]
fn a_request_goes_elsewhere_if_the_handshake_fails_whatever_its_method() {
    let authority = Authority::new();
    let bad = TlsUpstream::start(&Authority::new().issue(&["127.0.0.1"]));
    let good = TlsUpstream::start(&authority.issue(&["127.0.0.1"]));
    let more = "tls: { ca: ca.pem }, balance: round_robin, ejection: { failures: 0 }";
    let server = gateway(&authority, &[&bad.url(), &good.url()], more);
    for _ in 0..4 {
        let response =
            server.exchange("web", "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n");
        assert!(response.text().starts_with("sni="), "{response:?}");
    }
    assert_eq!(connects(&server, "certificate"), 2.0);
}

#[test]
fn a_renewed_authority_is_used_by_new_connections_and_an_invalid_one_is_not() {
    let (old, new) = (Authority::new(), Authority::new());
    let upstream = TlsUpstream::start(&old.issue(&["127.0.0.1"]));
    let server =
        gateway(&old, &[&upstream.url()], "tls: { ca: ca.pem }, ejection: { failures: 0 }");
    let mut client = server.connect("web");
    let mut status = || {
        client.send(GET);
        client.read_response().status
    };
    assert_eq!(status(), 200);
    server.write("ca.pem", "no certificate");
    server.wait_for_log("ca.pem: no certificate");
    assert_eq!(status(), 200, "the previous authority is used");
    // Verified by the former authority, the kept connection is not used any more.
    server.write("ca.pem", new.pem());
    eventually("the new authority is used", || status() == 502);
    server.write("ca.pem", old.pem());
    eventually("the old authority is used again", || status() == 200);
}

#[test]
fn servers_are_checked_over_tls() {
    let authority = Authority::new();
    let issued = authority.issue(&["127.0.0.1"]);
    let good = TlsUpstream::start(&issued);
    let bad = TlsUpstream::start(&Authority::new().issue(&["127.0.0.1"]));
    for check in ["path: /health, ", ""] {
        // Only the certificate makes a check fail, not a busy machine.
        let health = format!("health: {{ {check}interval: 100ms, timeout: 1m }}");
        let more = format!("tls: {{ ca: ca.pem }}, {health}");
        let server = gateway(&authority, &[&good.url(), &bad.url()], &more);
        let line = server.wait_for_log("a server is unhealthy");
        let why =
            line.contains("invalid peer certificate") && line.contains(&bad.address().to_string());
        assert!(why, "{line}");
        for _ in 0..4 {
            assert_eq!(ask(&server).status, 200);
        }
    }
}

#[test]
fn a_proxy_in_one_line_trusts_the_authorities_of_the_system() {
    let authority = Authority::new();
    let upstream = TlsUpstream::start(&authority.issue(&["localhost"]));
    let url = format!("https://localhost:{}", upstream.address().port());
    let launch = Launch::new("").file("ca.pem", authority.pem());
    let ca = launch.path("ca.pem");
    let launch = launch.environment("SSL_CERT_FILE", ca.to_str().expect("a path"));
    let server = launch.command(&["proxy", "127.0.0.1:0", &url]).start();
    let mut client = Connection::to(server.address("proxy"));
    client.send(GET);
    let response = client.read_response();
    assert!(response.text().starts_with("sni=localhost "), "{response:?}");
}

#[test]
fn without_authorities_a_configuration_is_an_error() {
    let launch = Launch::new(&config("servers: [\"https://app.test\"]", 1)).file("none", "");
    let none = launch.path("none");
    let none = none.to_str().expect("a path").to_owned();
    let launch = launch.environment("SSL_CERT_FILE", &none).environment("SSL_CERT_DIR", &none);
    let exit = launch.run(&["check", "tidegate.yaml"]);
    assert_eq!(exit.code, Some(2), "{exit:?}");
    assert!(exit.stderr.contains("the system has no certificate authorities"), "{exit:?}");
}
