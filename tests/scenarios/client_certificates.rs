//! `cert_auth`: whose a client's certificate is, over both versions of HTTP, in resumed sessions,
//! and after consumers have changed.

use crate::setup::fingerprint;
use scenarios::{Authority, Exit, Launch, Process, Tidegate};
use std::process::Command;

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
