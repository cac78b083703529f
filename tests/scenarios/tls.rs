//! Listeners with TLS, seen by curl and by raw sockets: names, client certificates, protocols that
//! are not TLS, slow handshakes, and certificates that are replaced while the server runs.

use crate::setup::{body, fingerprint};
use scenarios::{Authority, Exit, Issued, Launch, Process, Tidegate, eventually, tidegate_binary};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

const ROUTES: &str = r#"
  - match: { path: "/public/{*file}" }
    handler: { files: { root: . } }
  - match: { path: /client, when: { variable: tls.client_name, equals: alice.clients.test } }
    handler: { respond: { body: "alice" } }
  - match: { path: /client }
    handler: { respond: { body: "other" } }
  - match: { path: /known, when: { variable: tls.client_fingerprint, equals: "$known" } }
    handler: { respond: { body: known } }
  - match: { path: /known }
    handler: { respond: { body: unknown } }
  - match: { path: /hsts }
    handler: { respond: { headers: { strict-transport-security: max-age=1 } } }
  - match: { path: "/{*rest}" }
    filters:
      - response_headers:
          set:
            x-tls: "{tls.version} {tls.server_name} {tls.protocol}"
            x-client: "{tls.client_subject} {tls.client_name} {tls.client_fingerprint}."
            x-scheme: "{scheme}"
    handler: { respond: { body: hello } }
"#;

/// A server with a certificate for `a.test` in its directory; `tls` is added to its settings.
fn launch(authority: &Authority, tls: &str) -> Launch {
    let issued = authority.issue(&["a.test"]);
    let config = format!(
        r#"
workers: 2
listeners:
  web:
    bind: "127.0.0.1:0"
    tls:
      certificates: [{{ cert: a.pem, key: a.key }}]
{tls}
admin: {{ bind: "127.0.0.1:0" }}
log: {{ level: debug, access: {{ path: access.log }} }}
routes: {ROUTES}"#
    );
    Launch::new(&config)
        .file("a.pem", issued.chain)
        .file("a.key", issued.key)
        .file("ca.pem", authority.pem())
        .file("public/page.txt", "page")
}

fn start(authority: &Authority, tls: &str) -> Tidegate {
    launch(authority, tls).start()
}

/// Fetches a path of a name from the server with curl.
fn curl(server: &Tidegate, name: &str, path: &str, more: &[&str]) -> Exit {
    let address = server.address("web");
    let resolve = format!("{name}:{}:127.0.0.1", address.port());
    let ca = server.path("ca.pem");
    let url = format!("https://{name}:{}{path}", address.port());
    let mut command = Command::new("curl");
    command.args(["-sS", "-i", "--max-time", "20", "--resolve", &resolve, "--cacert"]);
    Process::run(command.arg(ca).args(more).arg(url))
}

#[test]
fn a_request_is_served_and_knows_its_connection() {
    let authority = Authority::new();
    let server = start(&authority, "");
    for (version, wanted) in [("--tlsv1.2", "TLSv1.2"), ("--tlsv1.3", "TLSv1.3")] {
        let max = version.trim_start_matches("--tlsv");
        let exit = curl(&server, "a.test", "/", &[version, "--tls-max", max]);
        assert_eq!(body(&exit), "hello", "{exit:?}");
        assert!(exit.stdout.contains(&format!("x-tls: {wanted} a.test h2")), "{exit:?}");
        assert!(exit.stdout.contains("x-scheme: https"), "{exit:?}");
    }
    let old = curl(&server, "a.test", "/", &["--tls-max", "1.1"]);
    assert!(old.code != Some(0), "{old:?}");
    server.wait_for_metric("tidegate_tls_handshakes_total", &[("result", "full")], 2.0);
    eventually("the access log has the connection", || {
        let log = std::fs::read_to_string(server.path("access.log")).unwrap_or_default();
        log.contains("\"tls_version\":\"TLSv1.2\"")
            && log.contains("\"tls_server_name\":\"a.test\"")
    });
}

#[test]
fn client_certificates_are_verified_and_decide() {
    let authority = Authority::new();
    let server = start(&authority, "      client_auth: { ca: ca.pem, mode: optional }");
    let anonymous = curl(&server, "a.test", "/client", &[]);
    assert_eq!(body(&anonymous), "other", "{anonymous:?}");
    for (issuer, name, accepted) in [
        (&authority, "alice", true),
        (&authority, "bob", true),
        (&Authority::new(), "alice", false),
    ] {
        let Issued { chain, key } = issuer.issue_client(name);
        server.write("client.pem", chain + &key);
        let certificate = server.path("client.pem");
        let certificate = ["--cert", certificate.to_str().expect("a path")];
        let exit = curl(&server, "a.test", "/client", &certificate);
        let wanted = if name == "alice" { "alice" } else { "other" };
        assert_eq!(exit.code == Some(0) && body(&exit) == wanted, accepted, "{exit:?}");
        if accepted {
            let exit = curl(&server, "a.test", "/", &certificate);
            let digits = fingerprint(&server.path("client.pem"));
            let said = format!("x-client: CN={name} {name}.clients.test {digits}.\r\n");
            assert!(exit.stdout.contains(&said), "{exit:?}");
            let fields = format!(
                "\"tls_client_subject\":\"CN={name}\",\
                 \"tls_client_name\":\"{name}.clients.test\",\
                 \"tls_client_fingerprint\":\"{digits}\""
            );
            eventually("the access log has the client's certificate", || {
                let log = std::fs::read_to_string(server.path("access.log"));
                log.unwrap_or_default().contains(&fields)
            });
        }
    }
}

#[test]
fn a_fingerprint_selects_a_route_also_over_a_resumed_session() {
    let authority = Authority::new();
    let tls = "      client_auth: { ca: ca.pem, mode: optional }";
    let [known, other] = ["known", "other"].map(|name| {
        let Issued { chain, key } = authority.issue_client(name);
        chain + &key
    });
    let launch = launch(&authority, tls).file("known.pem", known).file("other.pem", other);
    let digits = fingerprint(&launch.path("known.pem"));
    let server = launch.start();
    let text = std::fs::read_to_string(server.path("tidegate.yaml")).expect("the configuration");
    server.rewrite_config(&text.replace("$known", &digits));
    let fetch = |name: &str| {
        let certificate = server.path(&format!("{name}.pem"));
        // curl uses the session of the first connection for the second one.
        let certificate =
            ["--cert", certificate.to_str().expect("a path"), "-H", "connection: close"];
        let both = format!("https://a.test:{}/known", server.address("web").port());
        curl(&server, "a.test", "/known", &[&certificate[..], &["--http1.1", &both]].concat())
    };
    eventually("the configuration is reloaded", || body(&fetch("known")) == "known");
    let twice = fetch("known");
    assert_eq!(twice.stdout.matches("\r\n\r\nknown").count(), 2, "{twice:?}");
    let resumed =
        || server.metrics().sum("tidegate_tls_handshakes_total", &[("result", "resumed")]);
    assert!(resumed() > 0.0, "{twice:?}");
    assert_eq!(body(&fetch("other")), "unknown");
    assert_eq!(body(&curl(&server, "a.test", "/known", &[])), "unknown", "without a certificate");
}

#[test]
fn a_host_that_the_certificate_does_not_name_is_misdirected() {
    let authority = Authority::new();
    let b = authority.issue(&["b.test", "*.b.test"]);
    let launch = launch(&authority, "      unknown_name: reject");
    let server = launch.file("b.pem", b.chain).file("b.key", b.key).start();
    // The second certificate arrives by a reload.
    let text = std::fs::read_to_string(server.path("tidegate.yaml")).expect("the configuration");
    server.rewrite_config(&text.replace(
        "[{ cert: a.pem, key: a.key }]",
        "[{ cert: a.pem, key: a.key }, { cert: b.pem, key: b.key }]",
    ));
    eventually("the second certificate is presented", || {
        body(&curl(&server, "x.b.test", "/", &[])) == "hello"
    });
    for (name, host, status) in [
        ("a.test", "a.test", "200"),
        ("a.test", "A.TEST.:443", "200"),
        ("a.test", "b.test", "421"),
        ("b.test", "x.b.test", "200"),
        ("b.test", "a.test", "421"),
    ] {
        let exit = curl(&server, name, "/", &["-H", &format!("host: {host}")]);
        assert!(exit.stdout.starts_with(&format!("HTTP/2 {status}")), "{name} {host}: {exit:?}");
    }
    let unknown = curl(&server, "other.test", "/", &["-k"]);
    assert_ne!(unknown.code, Some(0), "{unknown:?}");
    server.wait_for_metric("tidegate_connections_closed_total", &[("reason", "tls_failed")], 1.0);
}

#[test]
fn plain_http_gets_a_response() {
    let authority = Authority::new();
    let server = start(&authority, "");
    let response = server.exchange("web", "GET / HTTP/1.1\r\nhost: a.test\r\n\r\n");
    assert_eq!((response.status, response.header("connection")), (400, Some("close")));
    let server = start(&authority, "      plain_http: redirect");
    let response = server.exchange("web", "GET /p%20q?x=1 HTTP/1.1\r\nhost: a.test:8443\r\n\r\n");
    let location = response.header("location");
    assert_eq!((response.status, location), (308, Some("https://a.test:8443/p%20q?x=1")));
    let response = server.exchange("web", "GET / HTTP/1.0\r\n\r\n");
    assert_eq!(response.status, 400, "there is no host to redirect to");
}

#[test]
fn browsers_are_led_to_https_and_stay_there() {
    let authority = Authority::new();
    let tls = "      hsts: { subdomains: true }\n      redirect_from: \"127.0.0.1:0\"";
    let server = start(&authority, tls);
    let hsts = "strict-transport-security: max-age=31536000; includeSubDomains\r\n";
    for (path, status) in [("/", 200), ("/public/none", 404), ("/hsts", 200)] {
        for version in ["--http1.1", "--http2"] {
            let exit = curl(&server, "a.test", path, &[version]);
            let headers = exit.stdout.to_ascii_lowercase();
            assert!(headers.lines().next().is_some_and(|line| line.contains(&status.to_string())));
            let expected =
                if path == "/hsts" { "strict-transport-security: max-age=1\r\n" } else { hsts };
            assert!(headers.contains(&expected.to_ascii_lowercase()), "{path}: {exit:?}");
            assert_eq!(headers.matches("strict-transport-security").count(), 1, "{exit:?}");
        }
    }
    let plain = |request: &str| {
        let response = server.exchange("web-redirect", request);
        assert_eq!(response.header("strict-transport-security"), None, "{response:?}");
        (response.status, response.header("location").map(str::to_owned))
    };
    // The port of the listener is the configured one.
    let location = Some("https://a.test:0/p%20q?x=1".to_owned());
    let head = "HTTP/1.1\r\nhost: a.test:8080\r\ncontent-length: 0\r\n\r\n";
    assert_eq!(plain(&format!("POST /p%20q?x=1 {head}")), (308, location));
    let location = Some("https://[::1]:0/".to_owned());
    assert_eq!(plain("GET / HTTP/1.1\r\nhost: [::1]:80\r\n\r\n"), (308, location));
    assert_eq!(plain("GET / HTTP/1.0\r\n\r\n"), (400, None));
    assert_eq!(
        server.exchange("web", "GET / HTTP/1.0\r\n\r\n").header("strict-transport-security"),
        None
    );
}

#[test]
fn handshakes_that_fail_or_stall_end() {
    let authority = Authority::new();
    let server = start(&authority, "");
    let closed = |reason: &str| {
        let labels = [("reason", reason)];
        server.wait_for_metric("tidegate_connections_closed_total", &labels, 1.0);
    };
    let mut garbage = server.connect("web");
    garbage.send([0x16, 3, 1, 0, 4, 0xff, 0, 0, 0]);
    assert_eq!(garbage.read_until_gone()[0], 0x15, "an alert");
    closed("tls_failed");
    let mut gone = server.connect("web");
    gone.finish_sending();
    gone.expect_closed();
    closed("client_closed");
    // A client hello that does not come to its end.
    let server = start(&authority, "    timeouts: { handshake: 1s }");
    let mut slow = server.connect("web");
    slow.send([0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc]);
    slow.read_until_gone();
    let labels = [("reason", "handshake_timeout")];
    server.wait_for_metric("tidegate_connections_closed_total", &labels, 1.0);
}

#[test]
fn a_renewed_certificate_is_used_and_an_invalid_one_is_not() {
    let authority = Authority::new();
    let server = start(&authority, "");
    let expiry =
        || server.metrics().sum("tidegate_certificate_expiry_seconds", &[("listener", "web")]);
    assert!(expiry() > 0.0);
    let serves = || body(&curl(&server, "a.test", "/", &[])) == "hello";
    assert!(serves());
    // The key of another certificate: both files change, one after the other.
    let renewed = authority.issue_between(&["a.test"], 2020, 2050);
    server.write("a.pem", &renewed.chain);
    server.wait_for_log("the private key does not belong to the certificate");
    assert!(serves(), "the old pair is in use");
    let before = expiry();
    server.write("a.key", &renewed.key);
    eventually("the new pair is in use", || expiry() < before - 1e9);
    assert!(serves());
    let expired = authority.issue_between(&["a.test"], 2020, 2021);
    server.write("a.key", &expired.key);
    server.write("a.pem", &expired.chain);
    server.wait_for_log("the certificate expired on 2021-01-01");
    assert!(serves());
}

#[test]
fn a_certificate_that_expires_soon_is_warned_of() {
    let authority = Authority::new();
    let server = start(&authority, "");
    let warns = || server.log().iter().any(|line| line.contains("certificate_expires"));
    assert_eq!(body(&curl(&server, "a.test", "/", &[])), "hello");
    assert!(!warns());
    let soon = authority.issue_for_hours(&["a.test"], 132);
    server.write("a.key", &soon.key);
    server.write("a.pem", &soon.chain);
    let line = server.wait_for_log("certificate_expires");
    assert!(line.contains("days=5") && line.contains("listener=web"), "{line}");
}

#[test]
fn no_handshake_fails_while_certificates_are_replaced_fifty_times() {
    let authority = Authority::new();
    let server = start(&authority, "");
    let ended = AtomicBool::new(false);
    let served = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                let exit = curl(&server, "a.test", "/", &[]);
                assert_eq!(body(&exit), "hello", "{exit:?}");
                served.fetch_add(1, Ordering::Relaxed);
            }
        });
        let reloads = || server.metrics().sum("tidegate_config_reloads_total", &[]);
        for _ in 0..50 {
            let before = reloads();
            let renewed = authority.issue(&["a.test"]);
            server.write("a.key", &renewed.key);
            server.write("a.pem", &renewed.chain);
            eventually("the pair is replaced", || reloads() > before);
        }
        eventually("clients are served", || served.load(Ordering::Relaxed) > 10);
        ended.store(true, Ordering::Relaxed);
    });
}

/// Connects again and again with the session of the first connection, and prints the version, how
/// many sessions were resumed, and what the last response ends with. An end without close_notify
/// is an error.
const RESUME: &str = r#"
import socket, ssl, sys
context = ssl.create_default_context(cafile=sys.argv[2])
if sys.argv[3] == "1.2":
    context.maximum_version = ssl.TLSVersion.TLSv1_2
def fetch(session):
    plain = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
    secure = context.wrap_socket(plain, server_hostname="a.test", session=session,
                                 suppress_ragged_eofs=False)
    secure.sendall(b"GET / HTTP/1.1\r\nhost: a.test\r\nconnection: close\r\n\r\n")
    received = b""
    while chunk := secure.recv(65536):
        received += chunk
    return secure, received
first, received = fetch(None)
resumed = 0
for _ in range(8):
    again, received = fetch(first.session)
    resumed += again.session_reused
print(first.version(), resumed, received[-5:].decode())
"#;

#[test]
fn python_resumes_sessions_on_every_worker() {
    let authority = Authority::new();
    let server = start(&authority, "");
    let port = server.address("web").port().to_string();
    for (version, wanted) in [("1.2", "TLSv1.2 8 hello"), ("1.3", "TLSv1.3 8 hello")] {
        let mut command = Command::new("python3");
        command.args(["-c", RESUME, &port]).arg(server.path("ca.pem")).arg(version);
        let exit = Process::run(&mut command);
        assert_eq!(exit.stdout.trim(), wanted, "{exit:?}");
    }
    server.wait_for_metric("tidegate_tls_handshakes_total", &[("result", "resumed")], 16.0);
}

/// Sends the last message of the handshake and a request in one packet, and prints how many packets
/// with data the server has sent up to the end that it announces.
const PACKETS: &str = r#"
import socket, ssl, struct, sys
context = ssl.create_default_context(cafile=sys.argv[2])
plain = socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=30)
incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
tls = context.wrap_bio(incoming, outgoing, server_hostname="a.test")
while True:
    try:
        tls.do_handshake()
        break
    except ssl.SSLWantReadError:
        plain.sendall(outgoing.read())
        incoming.write(plain.recv(65536))
tls.write(b"GET / HTTP/1.1\r\nhost: a.test\r\nconnection: close\r\n\r\n")
plain.sendall(outgoing.read())
received = b""
while True:
    try:
        if not (chunk := tls.read(65536)):
            break
        received += chunk
    except ssl.SSLWantReadError:
        packet = plain.recv(65536)
        assert packet, "the end was not announced"
        incoming.write(packet)
# tcpi_data_segs_in
info = plain.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 160)
print(*struct.unpack_from("I", info, 152), received[-5:].decode())
"#;

#[test]
fn the_ticket_the_last_response_and_the_end_leave_in_one_packet() {
    let authority = Authority::new();
    let server = start(&authority, "");
    let port = server.address("web").port().to_string();
    let mut command = Command::new("python3");
    command.args(["-c", PACKETS, &port]).arg(server.path("ca.pem"));
    let exit = Process::run(&mut command);
    // The first one is the flight of the handshake.
    assert_eq!(exit.stdout.trim(), "2 hello", "{exit:?}");
}

#[test]
fn a_large_file_arrives_whole_and_an_upload_too() {
    let authority = Authority::new();
    let content: Vec<u8> = (0..5_000_000_u32).map(|index| (index % 251) as u8).collect();
    let server = launch(&authority, "").file("public/large.bin", &content).start();
    let into = server.path("received.bin");
    let out = ["-o", into.to_str().expect("a path")];
    let exit = curl(&server, "a.test", "/public/large.bin", &out);
    assert_eq!(exit.code, Some(0), "{exit:?}");
    let received = std::fs::read(&into).expect("a file");
    // curl writes the head first.
    assert!(received.ends_with(&content), "{} bytes", received.len());
    let upload = format!("@{}", server.path("public/large.bin").display());
    // Nothing reads it: its client may send the rest after the response. With HTTP/2 curl 7.88 does
    // not end after RST_STREAM with NO_ERROR, but takes all of a core until its time is over.
    for version in ["--http2", "--http1.1"] {
        let arguments = [version, "--max-time", "5", "--data-binary", upload.as_str()];
        let exit = curl(&server, "a.test", "/", &arguments);
        assert_eq!(body(&exit), "hello", "{exit:?}");
    }
}

#[test]
fn a_directory_is_served_with_a_certificate_of_the_command_line() {
    let authority = Authority::new();
    let issued = authority.issue(&["a.test"]);
    let directory = tempfile::tempdir().expect("a directory");
    let files = [("a.pem", issued.chain), ("a.key", issued.key), ("page.txt", "hello".to_owned())];
    for (name, content) in files {
        std::fs::write(directory.path().join(name), content).expect("a file");
    }
    let mut command = Command::new(tidegate_binary());
    command.args(["files", ".", "--bind", "127.0.0.1:0", "--cert", "a.pem", "--key", "a.key"]);
    let server = Process::start(command.current_dir(directory.path()));
    let address = server.wait_for_line(|line| {
        let address = line.split_once("listening name=files address=")?.1;
        Some(address.to_owned())
    });
    let url = format!("https://{}/page.txt", address.expect("it listens"));
    let exit = Process::run(Command::new("curl").args(["-sS", "-k", &url]));
    assert_eq!(exit.stdout, "hello", "{exit:?}");
}

#[test]
fn the_admin_api_is_served_under_tls() {
    let authority = Authority::new();
    let launch = launch(&authority, "");
    let text = std::fs::read_to_string(launch.path("tidegate.yaml")).expect("the configuration");
    let tls = "tls: { certificates: [{ cert: a.pem, key: a.key }] }";
    let text = text.replace(
        "admin: { bind: \"127.0.0.1:0\" }",
        &format!("admin: {{ bind: \"127.0.0.1:0\", {tls} }}"),
    );
    let server = launch.file("tidegate.yaml", text).start();
    let url = format!("https://{}/metrics", server.address("admin"));
    let exit = Process::run(Command::new("curl").args(["-sS", "-k", &url]));
    let expiry = "tidegate_certificate_expiry_seconds{listener=\"admin\"";
    assert!(exit.stdout.contains(expiry), "{exit:?}");
    assert_eq!(server.exchange("admin", "GET /metrics HTTP/1.1\r\nhost: a\r\n\r\n").status, 400);
}
