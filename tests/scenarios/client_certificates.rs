//! `cert_auth`: whose a client's certificate is, over both versions of HTTP, in resumed sessions,
//! and after consumers have changed.

use crate::setup::fingerprint;
use scenarios::{Authority, Exit, Launch, Process, Tidegate};
use std::io::{Read, Write};
use std::process::{Command, Stdio};

/// `listed` are the certificates of the filter, `alice` the one of that consumer.
fn config(listed: &str, alice: &str) -> String {
    format!(
        r#"
workers: 1
listeners:
  web:
    bind: "127.0.0.1:0"
    tls:
      certificates: [{{ cert: a.pem, key: a.key }}]
      client_auth: {{ ca: ca.pem, mode: optional }}
admin: {{ bind: "127.0.0.1:0" }}
consumers:
  - {{ name: alice, groups: [gold], certificates: [{{ name: {alice}.clients.test }}] }}
routes:
  - match: {{ path: /listed }}
    filters: [{{ cert_auth: {{ certificates: [{listed}] }} }}]
    handler: {{ respond: {{ headers: {{ x-seen: "{{consumer}}" }} }} }}
  - match: {{ path: /consumers }}
    filters: [{{ cert_auth: {{}} }}, {{ allow: {{ groups: [gold] }} }}]
    handler: {{ respond: {{ headers: {{ x-seen: "{{consumer}} {{groups}}" }} }} }}
"#
    )
}

/// A server, and the certificates of clients in its directory.
struct Site(Tidegate);

impl Site {
    fn start() -> Site {
        let authority = Authority::new();
        let own = authority.issue(&["a.test"]);
        let clients = [("alice", &authority), ("bob", &authority), ("carol", &authority)];
        let stranger = Authority::new();
        let mut launch = Launch::new("").file("a.pem", own.chain).file("a.key", own.key);
        launch = launch.file("ca.pem", authority.pem());
        for (name, issuer) in clients.into_iter().chain([("stranger", &stranger)]) {
            let issued = issuer.issue_client(name);
            launch = launch.file(&format!("{name}.pem"), issued.chain + &issued.key);
        }
        let carol = fingerprint(&launch.path("carol.pem"));
        let listed = format!(
            "{{ consumer: by-name, name: alice.clients.test }}, \
             {{ consumer: by-subject, subject: CN=bob }}, \
             {{ consumer: by-fingerprint, fingerprint: \"{carol}\" }}"
        );
        let launch = launch.file("tidegate.yaml", config(&listed, "alice"));
        Site(launch.start())
    }

    /// Requests paths, one after the other and on connections of their own, as this client.
    fn get(&self, client: Option<&str>, options: &[&str], paths: &[&str]) -> Exit {
        let address = self.0.address("web");
        let mut command = Command::new("curl");
        command.args(["-sS", "-i", "--max-time", "20", "--cacert"]).arg(self.0.path("ca.pem"));
        let resolve = format!("a.test:{}:127.0.0.1", address.port());
        command.args(["--resolve", &resolve]).args(options);
        if let Some(client) = client {
            command.arg("--cert").arg(self.0.path(&format!("{client}.pem")));
        }
        let url = |path: &&str| format!("https://a.test:{}{path}", address.port());
        Process::run(command.args(paths.iter().map(url)))
    }

    /// What the route has seen over HTTP/2, or the status of another response than 200.
    fn seen(&self, client: Option<&str>, path: &str) -> String {
        let exit = self.get(client, &["--http2"], &[path]);
        match exit.stdout.strip_prefix("HTTP/2 200") {
            Some(head) => seen(head).join(","),
            None => exit.stdout.split_whitespace().nth(1).unwrap_or_default().to_owned(),
        }
    }
}

/// What each of the responses says that its route has seen.
fn seen(responses: &str) -> Vec<&str> {
    responses.lines().filter_map(|line| line.strip_prefix("x-seen: ")).map(str::trim).collect()
}

#[test]
fn a_certificate_is_known_by_its_name_subject_or_fingerprint() {
    let site = Site::start();
    for (client, consumer) in
        [("alice", "by-name"), ("bob", "by-subject"), ("carol", "by-fingerprint")]
    {
        assert_eq!(site.seen(Some(client), "/listed"), consumer);
        let exit = site.get(Some(client), &["--http1.1"], &["/listed"]);
        assert_eq!(seen(&exit.stdout), [consumer], "{exit:?}");
    }
    assert_eq!(site.seen(None, "/listed"), "403");
    assert_ne!(site.get(Some("stranger"), &[], &["/listed"]).code, Some(0), "the handshake fails");
    let labels = [("filter", "cert_auth"), ("reason", "missing")];
    assert_eq!(site.0.metrics().sum("tidegate_auth_refusals_total", &labels), 1.0);
}

#[test]
fn a_resumed_session_has_its_certificate() {
    let site = Site::start();
    let options = ["--http1.1", "-H", "connection: close"];
    let exit = site.get(Some("alice"), &options, &["/listed", "/consumers", "/listed"]);
    assert_eq!(seen(&exit.stdout), ["by-name", "alice gold", "by-name"], "{exit:?}");
    let resumed = [("result", "resumed")];
    site.0.wait_for_metric("tidegate_tls_handshakes_total", &resumed, 2.0);
}

#[test]
fn a_reload_changes_whose_a_certificate_is() {
    let site = Site::start();
    assert_eq!(site.seen(Some("alice"), "/consumers"), "alice gold");
    assert_eq!(site.seen(Some("bob"), "/consumers"), "403");
    let before = site.0.metrics().sum("tidegate_config_reloads_total", &[]);
    let listed = "{ consumer: owner, name: alice.clients.test }";
    site.0.rewrite_config(&config(listed, "bob"));
    site.0.wait_for_metric("tidegate_config_reloads_total", &[], before + 1.0);
    assert_eq!(site.seen(Some("bob"), "/consumers"), "alice gold");
    assert_eq!(site.seen(Some("alice"), "/consumers"), "403");
    assert_eq!(site.seen(Some("alice"), "/listed"), "owner");
    assert_eq!(site.seen(Some("bob"), "/listed"), "403");
}

/// A connection of `openssl s_client`, without a certificate, that is kept open.
struct Anonymous(std::process::Child);

impl Anonymous {
    fn connect(site: &Site, listener: &str) -> Anonymous {
        let address = site.0.address(listener).to_string();
        let mut client = Command::new("openssl");
        client.args(["s_client", "-quiet", "-servername", "a.test", "-connect", &address]);
        client.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        Anonymous(client.spawn().expect("openssl"))
    }

    /// Sends a request, if the connection is open.
    fn send(&mut self, request: &str) {
        // The process ends with the connection.
        let _ = self.0.stdin.as_mut().expect("a pipe").write_all(request.as_bytes());
    }

    /// What arrives until this text.
    fn read_until(&mut self, end: &str) -> String {
        let (mut text, mut byte) = (Vec::new(), [0]);
        let output = self.0.stdout.as_mut().expect("a pipe");
        while !text.ends_with(end.as_bytes()) {
            output.read_exact(&mut byte).expect("another byte");
            text.push(byte[0]);
        }
        String::from_utf8(text).expect("text")
    }

    /// Waits until the server has closed the connection.
    fn read_to_end(&mut self) -> String {
        let mut text = String::new();
        self.0.stdout.as_mut().expect("a pipe").read_to_string(&mut text).expect("text");
        text
    }
}

impl Drop for Anonymous {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn connections_end_when_another_certificate_is_demanded_and_not_otherwise() {
    const GET: &str = "GET /healthz HTTP/1.1\r\nhost: a.test\r\n\r\n";
    let site = Site::start();
    site.0.address("web");
    let admin = "admin: { bind: \"127.0.0.1:0\" }";
    let secure = "admin: { bind: \"127.0.0.1:0\", hosts: [a.test], tls: { certificates: \
        [{ cert: a.pem, key: a.key }], client_auth: { ca: ca.pem, mode: optional } } }";
    let text = config("{ consumer: a, name: b }", "alice").replace(admin, secure);
    let reload = |text: &str| {
        let loaded = || {
            let log = site.0.log();
            log.iter().filter(|line| line.contains("configuration in use")).count()
        };
        let before = loaded();
        site.0.rewrite_config(text);
        scenarios::eventually("the configuration is in use", || loaded() > before);
    };
    for listener in ["web", "admin"] {
        reload(&text);
        let mut client = Anonymous::connect(&site, listener);
        client.send(GET);
        client.read_until("\r\n\r\n");
        reload(&text.replace("/consumers", "/others"));
        client.send(GET);
        assert!(client.read_until("\r\n\r\n").contains("HTTP/1.1"), "it stays open");
        reload(&text.replace("mode: optional", "mode: required"));
        scenarios::eventually("a client needs a certificate", || {
            let mut other = Anonymous::connect(&site, listener);
            other.send(&GET.replace("\r\n\r\n", "\r\nconnection: close\r\n\r\n"));
            other.read_to_end().is_empty()
        });
        // A connection that ends may serve the request that was on its way.
        client.send(&GET.repeat(3));
        let responses = client.read_to_end().matches("HTTP/1.1 ").count();
        assert!(responses <= 1, "{listener}: {responses} responses");
    }
}
