//! Certificates from Pebble, a certificate authority for tests: each challenge, renewal, and what
//! happens when the authority is down or rejects a name. Skipped where Pebble is not installed.
#![allow(clippy::disallowed_types, reason = "the client side of a test opens its own sockets")]

mod fleet;

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use scenarios::{
    Authority, Exit, Launch, Process, Tidegate, Upstream, command_exists, eventually,
    eventually_some, free_port,
};
use tempfile::TempDir;

use crate::setup::fingerprint;

const ORDERS: &str = "tidegate_acme_orders_total";
/// The label of the orders that ended with a certificate.
const ISSUED: [(&str, &str); 1] = [("result", "issued")];

/// Pebble, as scripts/prepare installs it.
fn pebble() -> Option<PathBuf> {
    let installed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/tools/bin/pebble");
    if installed.exists() {
        return Some(installed);
    }
    let found = command_exists("pebble").then(|| PathBuf::from("pebble"));
    if found.is_none() {
        let _ = writeln!(std::io::stderr(), "skipped: pebble is not installed");
    }
    found
}

/// Responds to every question for an address with this machine's, and to those for texts with the
/// lines `NAME VALUE` of a file. Pebble asks over TCP. It ends with the test's process.
fn name_server(records: PathBuf) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let records = records.clone();
            thread::spawn(move || serve_names(stream, &records));
        }
    });
    address
}

/// Serves questions until the client closes, each after its length.
fn serve_names(mut stream: TcpStream, records: &Path) -> Option<()> {
    loop {
        let mut length = [0; 2];
        stream.read_exact(&mut length).ok()?;
        let mut question = vec![0; usize::from(u16::from_be_bytes(length))];
        stream.read_exact(&mut question).ok()?;
        let response = name_response(&question, records)?;
        let length = u16::try_from(response.len()).ok()?.to_be_bytes();
        stream.write_all(&[&length, &*response].concat()).ok()?;
    }
}

fn name_response(question: &[u8], records: &Path) -> Option<Vec<u8>> {
    let (mut name, mut at) = (Vec::new(), 12);
    while *question.get(at)? > 0 {
        let length = usize::from(question[at]);
        name.push(String::from_utf8_lossy(question.get(at + 1..at + 1 + length)?).to_lowercase());
        at += 1 + length;
    }
    let (name, end) = (name.join("."), at + 5);
    let kind = *question.get(at + 2)?;
    let data: Vec<Vec<u8>> = match kind {
        1 => vec![vec![127, 0, 0, 1]],
        16 => {
            let text = std::fs::read_to_string(records).unwrap_or_default();
            let values = text.lines().filter_map(|line| line.split_once(' '));
            let values = values.filter(|(of, _)| *of == name);
            values.map(|(_, value)| [&[value.len() as u8], value.as_bytes()].concat()).collect()
        }
        _ => Vec::new(),
    };
    let mut response =
        [&question[..2], &[0x81, 0x80, 0, 1, 0, data.len() as u8, 0, 0, 0, 0]].concat();
    response.extend_from_slice(question.get(12..end)?);
    for data in data {
        response.extend_from_slice(&[0xc0, 12, 0, kind, 0, 1, 0, 0, 0, 0, 0, data.len() as u8]);
        response.extend_from_slice(&data);
    }
    Some(response)
}

/// Where a certificate authority and a server that uses it listen.
struct Site {
    directory: TempDir,
    authority: Authority,
    ports: HashMap<&'static str, u16>,
    /// Further settings of Pebble.
    settings: &'static str,
}

impl Site {
    fn new() -> Site {
        let ports = ["ca", "management", "http", "tls"].map(|name| (name, free_port())).into();
        let directory = tempfile::tempdir().expect("a directory");
        Site { directory, authority: Authority::new(), ports, settings: "" }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Starts the certificate authority. Its certificates are valid for so many seconds.
    fn pebble(&self, program: &Path, validity_secs: u64) -> Process {
        let issued = self.authority.issue(&["127.0.0.1"]);
        std::fs::write(self.path("pebble.pem"), issued.chain).expect("a file");
        std::fs::write(self.path("pebble.key"), issued.key).expect("a file");
        let config = format!(
            r#"{{ "pebble": {{
                "listenAddress": "127.0.0.1:{}", "managementListenAddress": "127.0.0.1:{}",
                "certificate": {:?}, "privateKey": {:?},
                "httpPort": {}, "tlsPort": {}, "ocspResponderURL": "", {}
                "profiles": {{
                    "default": {{ "description": "", "validityPeriod": {validity_secs} }}
                }}
            }} }}"#,
            self.ports["ca"],
            self.ports["management"],
            self.path("pebble.pem"),
            self.path("pebble.key"),
            self.ports["http"],
            self.ports["tls"],
            self.settings
        );
        let file = self.path("pebble.json");
        std::fs::write(&file, config).expect("a file");
        let names = name_server(self.path("records"));
        // It logs to standard output.
        let mut command = Command::new("sh");
        command.args(["-c", "exec \"$0\" \"$@\" >&2"]).arg(program);
        command.arg("-config").arg(file).args(["-dnsserver", &names.to_string()]);
        // Some nonces are rejected, and authorizations are not reused.
        command.env("PEBBLE_VA_NOSLEEP", "1").env("PEBBLE_WFE_NONCEREJECT", "10");
        let process = Process::start(command.env("PEBBLE_AUTHZREUSE", "0"));
        process.wait_for_line(|line| line.contains("ACME directory available").then_some(()));
        process
    }

    fn launch(&self, acme: &str) -> Launch {
        Launch::new(&format!(
            r#"
workers: 2
listeners:
  plain: {{ bind: "127.0.0.1:{}", unknown_host: close }}
  secure:
    bind: "127.0.0.1:{}"
    tls:
      acme:
        {{ email: ops@a.test, directory: "https://127.0.0.1:{}/dir", ca: ca.pem,
          storage: state, {acme} }}
      client_auth: {{ ca: ca.pem, mode: optional }}
admin: {{ bind: "127.0.0.1:0" }}
routes:
  - match: {{ host: a.test, path: "/{{*rest}}" }}
    handler: {{ respond: {{ headers: {{ x-client: "{{tls.client_fingerprint}}" }}, body: hello }} }}
"#,
            self.ports["http"], self.ports["tls"], self.ports["ca"]
        ))
        .file("ca.pem", self.authority.pem())
    }
}

/// The certificate that the server presents for a name, as its fingerprint.
fn presented(server: &Tidegate, name: &str) -> Option<String> {
    let address = server.address("secure");
    let text = format!(
        "openssl s_client -connect {address} -servername {name} </dev/null 2>/dev/null | openssl \
         x509 -noout -fingerprint -sha256 -checkhost {name} 2>&1"
    );
    let exit = Process::run(Command::new("sh").args(["-c", &text]));
    exit.stdout.contains("does match").then_some(exit.stdout)
}

/// Waits until a certificate was issued, then until it is presented: to look costs three processes.
fn first_certificate(server: &Tidegate) -> String {
    server.wait_for_metric(ORDERS, &ISSUED, 1.0);
    eventually_some("a certificate is presented", || presented(server, "a.test"))
}

fn fetch(server: &Tidegate, more: &[&str]) -> Exit {
    let port = server.address("secure").port();
    let (resolve, url) = (format!("a.test:{port}:127.0.0.1"), format!("https://a.test:{port}/"));
    let mut command = Command::new("curl");
    Process::run(command.args(["-sSk", "--max-time", "20", "--resolve", &resolve, &url]).args(more))
}

fn stored(server: &Tidegate) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(server.path("state")).expect("a directory");
    let files = entries.map(|entry| entry.expect("an entry").path());
    files.filter(|file| file.extension().is_some_and(|ending| ending != "lock")).collect()
}

/// Gives the next server what this one has stored.
fn copy_stored(server: &Tidegate, next: &Launch) {
    std::fs::create_dir_all(next.path("state")).expect("a directory");
    for file in stored(server) {
        let name = format!("state/{}", file.file_name().expect("a name").to_string_lossy());
        std::fs::copy(&file, next.path(&name)).expect("a file");
    }
}

fn obtains(challenge: &str, domains: &str) {
    let Some(program) = pebble() else { return };
    let site = Site::new();
    let _pebble = site.pebble(&program, 60 * 60 * 24 * 90);
    let records = site.path("records");
    let hook =
        format!("if [ $1 = present ]; then echo $2 $3 >> {0}; else : > {0}; fi", records.display());
    let hook = if challenge == "dns-01" {
        format!("dns_hook: [sh, -c, \"{hook}\", hook]")
    } else {
        format!("challenge: {challenge}")
    };
    let server = site.launch(&format!("domains: {domains}, {hook}")).start();
    let first = first_certificate(&server);
    assert_eq!(fetch(&server, &[]).stdout, "hello");
    let alice = site.authority.issue_client("alice");
    server.write("alice.pem", alice.chain + &alice.key);
    let alice = server.path("alice.pem");
    let exit = fetch(&server, &["-i", "--cert", alice.to_str().expect("a path")]);
    assert!(exit.stdout.contains(&format!("x-client: {}\r\n", fingerprint(&alice))), "{exit:?}");
    let labels = [("listener", "secure")];
    server.wait_for_metric("tidegate_certificate_expiry_seconds", &labels, 1e6);
    let files = stored(&server);
    assert_eq!(files.len(), 2, "an account and a certificate: {files:?}");
    for file in &files {
        let mode = std::fs::metadata(file).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file:?}");
    }
    assert!(std::fs::read_to_string(&records).unwrap_or_default().is_empty(), "cleaned up");
    // Found again at the next start.
    let copy = site.launch(&format!("domains: {domains}, {hook}"));
    copy_stored(&server, &copy);
    drop(server);
    let server = copy.start();
    assert_eq!(presented(&server, "a.test").as_deref(), Some(&*first));
    assert_eq!(server.metrics().sum(ORDERS, &ISSUED), 0.0);
}

#[test]
fn http_01_is_answered_by_a_plain_listener_before_its_routes() {
    obtains("http-01", "[a.test, b.test]");
}

#[test]
fn tls_alpn_01_is_answered_by_the_listener() {
    obtains("tls-alpn-01", "[a.test, b.test]");
}

#[test]
fn tls_alpn_01_is_answered_by_a_stream() {
    let Some(program) = pebble() else { return };
    let site = Site::new();
    let _pebble = site.pebble(&program, 60 * 60 * 24 * 90);
    let upstream = Upstream::responding("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello");
    let config = format!(
        r#"
streams:
  - name: secure
    bind: "127.0.0.1:{}"
    upstream: u
    tls:
      acme:
        {{ domains: [a.test], email: ops@a.test, directory: "https://127.0.0.1:{}/dir", ca: ca.pem,
          storage: state, challenge: tls-alpn-01 }}
upstreams: {{ u: {{ servers: ["{}"] }} }}
admin: {{ bind: "127.0.0.1:0" }}
"#,
        site.ports["tls"],
        site.ports["ca"],
        upstream.address()
    );
    let server = Launch::new(&config).file("ca.pem", site.authority.pem()).start();
    first_certificate(&server);
    // curl offers protocols, of which the stream knows none.
    assert_eq!(fetch(&server, &[]).stdout, "hello");
}

#[test]
fn dns_01_is_answered_by_a_hook_also_for_wildcards() {
    obtains("dns-01", "[a.test, \"*.a.test\"]");
}

#[test]
fn an_authority_that_is_down_is_asked_again_and_certificates_are_renewed() {
    let Some(program) = pebble() else { return };
    let site = Site::new();
    let server = site.launch("domains: [a.test]").start();
    let line = server.wait_for_log("event=acme_failed");
    assert!(line.contains("cannot reach https://127.0.0.1"), "{line}");
    let plain = server.exchange("plain", "GET / HTTP/1.1\r\nhost: a.test\r\n\r\n");
    assert_eq!(plain.body, b"hello", "the other listener serves");
    assert_eq!(presented(&server, "a.test"), None);
    let _pebble = site.pebble(&program, 30);
    let first = first_certificate(&server);
    server.wait_for_metric(ORDERS, &ISSUED, 2.0);
    eventually("a renewed certificate is presented", || {
        presented(&server, "a.test").is_some_and(|second| second != first)
    });
}

/// Has Pebble respond with `window` when it is asked when to renew the certificate that the server
/// has stored.
fn suggest(site: &Site, server: &Tidegate, window: &str) {
    let is_certificate = |text: &String| text.contains("-----BEGIN CERTIFICATE-----");
    let mut texts =
        stored(server).into_iter().map(|file| std::fs::read_to_string(file).expect("text"));
    let certificate = texts.find(is_certificate).expect("a certificate");
    let certificate = &certificate[certificate.find("-----BEGIN CERT").expect("its beginning")..];
    let json = |text: &str| format!("{text:?}");
    let content =
        format!(r#"{{"Certificate":{},"ARIResponse":{}}}"#, json(certificate), json(window));
    let url = format!("https://127.0.0.1:{}/set-renewal-info/", site.ports["management"]);
    let mut command = Command::new("curl");
    let exit = Process::run(command.args(["-sSk", "--fail", "--data", &content, &url]));
    assert_eq!(exit.code, Some(0), "{exit:?}");
}

#[test]
fn a_certificate_is_renewed_early_if_the_authority_says_so() {
    let Some(program) = pebble() else { return };
    let site = Site::new();
    let _pebble = site.pebble(&program, 60 * 60 * 24 * 90);
    let mut server = site.launch("domains: [a.test]").start();
    let first = first_certificate(&server);
    // What a lying authority says is bounded: malformed windows, one that ends before it begins,
    // and one long after the certificate has ended renew nothing now.
    for window in [
        r#"{}"#,
        r#"{"suggestedWindow":{"start":"yesterday","end":"2020-01-02T00:00:00Z"}}"#,
        r#"{"suggestedWindow":{"start":"2999-01-02T00:00:00Z","end":"2999-01-03T00:00:00Z"}}"#,
        r#"{"suggestedWindow":{"start":"2999-01-02T00:00:00Z","end":"2020-01-01T00:00:00Z"}}"#,
    ] {
        suggest(&site, &server, window);
        let next = site.launch("domains: [a.test]");
        copy_stored(&server, &next);
        drop(server);
        server = next.start();
        server.wait_for_log("event=acme_renewal_planned");
        assert_eq!(presented(&server, "a.test").as_deref(), Some(&*first), "{window}");
        assert_eq!(server.metrics().sum(ORDERS, &[]), 0.0, "{window}");
    }
    // The certificate will be revoked, for example: its window has moved into the past.
    suggest(
        &site,
        &server,
        r#"{"suggestedWindow":{"start":"2020-01-01T00:00:00Z","end":"2020-01-02T00:00:00Z"}}"#,
    );
    // The second server has the first certificate too, which the authority knows as replaced by
    // then (RFC 9773 5), as it does after an attempt that failed when its order had been made.
    let launches = [(); 2].map(|()| {
        let next = site.launch("domains: [a.test]");
        copy_stored(&server, &next);
        next
    });
    drop(server);
    for next in launches {
        let server = next.start();
        server.wait_for_metric(ORDERS, &ISSUED, 1.0);
        eventually("another certificate is presented", || {
            presented(&server, "a.test").is_some_and(|other| other != first)
        });
        assert_eq!(server.metrics().sum(ORDERS, &ISSUED), 1.0, "once");
    }
}

#[test]
fn a_rejected_challenge_says_why_and_is_not_repeated_at_once() {
    let Some(program) = pebble() else { return };
    let mut site = Site::new();
    let right = site.ports.insert("http", free_port()).expect("a port");
    // The certificate authority looks where nothing listens.
    let _pebble = site.pebble(&program, 60 * 60);
    site.ports.insert("http", right);
    let server = site.launch("domains: [a.test], challenge: http-01").start();
    let line = server.wait_for_log("event=acme_failed");
    assert!(line.contains("a.test: ") && line.contains("urn:ietf:params:acme:error"), "{line}");
    let retry = line.split_once("retry_in_s=").expect("a pause").1;
    let retry: u64 =
        retry.split_whitespace().next().and_then(|n| n.parse().ok()).expect("a number");
    assert!(retry >= 600, "{line}");
    server.wait_for_metric(ORDERS, &[("result", "failed")], 1.0);
}

#[test]
fn an_account_is_bound_to_one_of_the_authority() {
    let Some(program) = pebble() else { return };
    let mut site = Site::new();
    site.settings = r#""externalAccountBindingRequired": true,
        "externalAccountMACKeys": { "kid-1": "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG4" },"#;
    let _pebble = site.pebble(&program, 60 * 60 * 24 * 90);
    let server = site.launch("domains: [a.test]").start();
    let line = server.wait_for_log("event=acme_failed");
    assert!(line.contains("externalAccountRequired"), "{line}");
    drop(server);
    let external = "eab: { key_id: kid-1, mac_key: \"${MAC_KEY}\" }";
    let server = site
        .launch(&format!("domains: [a.test], {external}"))
        .environment("MAC_KEY", "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG4")
        .start();
    first_certificate(&server);
}

/// Responds to every request with 429 and a pause of two hours.
const LIMITED: &str = r#"
import http.server, ssl, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = b'{"type":"urn:ietf:params:acme:error:rateLimited","detail":"too many orders"}'
        self.send_response(429)
        self.send_header("retry-after", "7200")
        self.send_header("content-type", "application/problem+json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[2], sys.argv[3])
server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
server.socket = context.wrap_socket(server.socket, server_side=True)
print("listening", file=sys.stderr, flush=True)
server.serve_forever()
"#;

#[test]
fn the_pause_that_the_authority_asks_for_is_kept() {
    let site = Site::new();
    let issued = site.authority.issue(&["127.0.0.1"]);
    std::fs::write(site.path("ca.crt"), issued.chain).expect("a file");
    std::fs::write(site.path("ca.key"), issued.key).expect("a file");
    let mut command = Command::new("python3");
    command.args(["-c", LIMITED, &site.ports["ca"].to_string()]);
    let authority = Process::start(command.arg(site.path("ca.crt")).arg(site.path("ca.key")));
    let ready = authority.wait_for_line(|line| (line == "listening").then_some(()));
    assert!(ready.is_some(), "{:?}", authority.log());
    let server = site.launch("domains: [a.test]").start();
    let line = server.wait_for_log("event=acme_failed");
    assert!(line.contains("retry_in_s=7200"), "{line}");
}
