//! OpenSSL's s_client before us: versions, names, protocols, resumption, client certificates, OCSP
//! stapling. And nginx as the server that gets a PROXY header.

use crate::tools::{has, nginx, run};
use scenarios::{Launch, Tidegate, eventually};
use std::net::SocketAddr;
use std::path::Path;
use tempfile::TempDir;

/// Makes an authority, certificates of a server and a client, and the OCSP response of the
/// server's.
const CERTIFICATES: &str = r#"
set -e
key="-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"
openssl req -x509 $key -days 9 -subj /CN=ca -keyout ca.key -out ca.pem
issue() {
  openssl req $key -subj "/CN=$1" -addext "subjectAltName=DNS:$1" -keyout "$1.key" -out "$1.csr"
  openssl x509 -req -in "$1.csr" -CA ca.pem -CAkey ca.key -set_serial "$2" -days 9 \
    -copy_extensions copy -out "$1.crt"
  cat "$1.crt" ca.pem > "$1.pem"
}
issue a.test 4660
issue b.test 4661
issue alice 4662
printf 'V\t491231235959Z\t\t1234\tunknown\t/CN=a.test\n' > index.txt
openssl rand -out tickets.key 80
openssl ocsp -issuer ca.pem -cert a.test.crt -no_nonce -reqout request.der
openssl ocsp -index index.txt -CA ca.pem -rsigner ca.pem -rkey ca.key -ndays 7 \
  -reqin request.der -respout a.test.ocsp
"#;

/// Replaces the response with that of the second certificate.
const OTHER_RESPONSE: &str = r#"
set -e
printf 'V\t491231235959Z\t\t1235\tunknown\t/CN=b.test\n' > index.txt
openssl ocsp -issuer ca.pem -cert b.test.crt -no_nonce -reqout request.der
openssl ocsp -index index.txt -CA ca.pem -rsigner ca.pem -rkey ca.key -ndays 7 \
  -reqin request.der -respout other.ocsp
mv other.ocsp a.test.ocsp
"#;

const CONFIG: &str = r#"
workers: 2
admin: { bind: "127.0.0.1:0" }
listeners:
  web:
    bind: "127.0.0.1:0"
    tls:
      certificates:
        - { cert: a.test.pem, key: a.test.key, ocsp: a.test.ocsp }
        - { cert: b.test.pem, key: b.test.key }
      unknown_name: reject
  optional:
    bind: "127.0.0.1:0"
    tls:
      certificates: [{ cert: a.test.pem, key: a.test.key }]
      client_auth: { ca: ca.pem, mode: optional }
  shared:
    bind: "127.0.0.1:0"
    tls:
      certificates: [{ cert: a.test.pem, key: a.test.key }]
      ticket_keys: [tickets.key]
  required:
    bind: "127.0.0.1:0"
    tls:
      certificates: [{ cert: a.test.pem, key: a.test.key }]
      client_auth: { ca: ca.pem }
      min_version: "1.3"
routes:
  - handler:
      respond:
        headers: { x-tls: "{tls.version} {tls.server_name} client={tls.client_subject}" }
"#;

/// A server with these certificates in its directory.
struct Site(Tidegate);

impl Site {
    fn start() -> Option<Site> {
        if !has("openssl") {
            return None;
        }
        let launch = Launch::new(CONFIG);
        let directory = launch.path("");
        run("sh", &directory, &["-c", CERTIFICATES]);
        Some(Site(launch.start()))
    }

    /// Connects, sends a request, and returns all that s_client prints.
    fn client(&self, listener: &str, options: &[&str]) -> String {
        s_client(&self.0.path(""), self.0.address(listener), options)
    }
}

/// Connects, sends a request, and returns all that s_client prints; the authority is `ca.pem`.
pub(crate) fn s_client(directory: &Path, address: SocketAddr, options: &[&str]) -> String {
    let address = address.to_string();
    let script = "\
         printf 'GET / HTTP/1.1\\r\\nhost: a.test\\r\\nconnection: close\\r\\n\\r\\n' | \
         timeout 30 openssl s_client -ign_eof -CAfile ca.pem \"$@\" 2>&1 || true";
    let mut arguments = vec!["-c", script, "sh", "-connect", &address];
    arguments.extend(options);
    run("sh", directory, &arguments).stdout
}

#[test]
fn versions_names_and_protocols_are_agreed_on() {
    let Some(site) = Site::start() else { return };
    for (version, name) in [("-tls1_2", "TLSv1.2"), ("-tls1_3", "TLSv1.3")] {
        let options = [version, "-servername", "a.test", "-alpn", "http/1.1", "-status"];
        let said = site.client("web", &options);
        assert!(said.contains(&format!("x-tls: {name} a.test client=")), "{said}");
        assert!(said.contains("Verify return code: 0 (ok)"), "{said}");
        assert!(said.contains("ALPN protocol: http/1.1"), "{said}");
        assert!(said.contains("OCSP Response Status: successful (0x0)"), "{said}");
        assert!(said.contains("Cert Status: good"), "{said}");
    }
    let said = site.client("web", &["-servername", "a.test", "-alpn", "spdy,h2"]);
    assert!(said.contains("ALPN protocol: h2"), "{said}");
    let said = site.client("web", &["-servername", "a.test", "-alpn", "ftp"]);
    assert!(said.contains("alert no application protocol"), "{said}");
    let said = site.client("web", &["-servername", "b.test", "-verify_hostname", "b.test"]);
    assert!(said.contains("Verify return code: 0 (ok)"), "{said}");
    let said = site.client("web", &["-servername", "c.test"]);
    assert!(said.contains("no peer certificate available"), "{said}");
    let said = site.client("required", &["-tls1_2"]);
    assert!(said.contains("alert protocol version"), "{said}");
}

#[test]
fn an_ocsp_response_of_another_certificate_is_not_stapled() {
    let Some(site) = Site::start() else { return };
    let stapled = |value| {
        let labels = [("listener", "web"), ("subject", "CN=a.test")];
        eventually("the metric tells whether the response is sent", || {
            site.0.metrics().sum("tidegate_ocsp_stapled", &labels) == value
        });
    };
    stapled(1.0);
    let status = || site.client("web", &["-servername", "a.test", "-status"]);
    assert!(status().contains("Cert Status: good"));
    let right = std::fs::read(site.0.path("a.test.ocsp")).expect("the response");
    run("sh", &site.0.path(""), &["-c", OTHER_RESPONSE]);
    let line = site.0.wait_for_log("event=ocsp_not_stapled");
    assert!(line.contains("it is the response of another certificate"), "{line}");
    stapled(0.0);
    let without = status();
    assert!(without.contains("OCSP response: no response sent"), "{without}");
    assert!(without.contains("x-tls: TLSv1.3"), "{without}");
    site.0.write("a.test.ocsp", right);
    stapled(1.0);
    assert!(status().contains("Cert Status: good"));
}

#[test]
fn sessions_are_resumed() {
    let Some(site) = Site::start() else { return };
    for version in ["-tls1_2", "-tls1_3"] {
        let options = |file| [version, "-servername", "a.test", file, "session.pem"];
        let first = site.client("web", &options("-sess_out"));
        assert!(first.contains("New, TLSv1") && first.contains("x-tls: "), "{first}");
        let tickets = first.matches("Post-Handshake New Session Ticket arrived").count();
        assert_eq!(tickets, usize::from(version == "-tls1_3"), "{first}");
        for _ in 0..4 {
            let again = site.client("web", &options("-sess_in"));
            assert!(again.contains("Reused, TLSv1") && again.contains("x-tls: "), "{again}");
        }
    }
}

#[test]
fn machines_with_a_key_file_resume_sessions_and_replace_it_without_a_restart() {
    let (Some(site), Some(other)) = (Site::start(), Site::start()) else { return };
    let reloads = |site: &Site| site.0.metrics().sum("tidegate_config_reloads_total", &[]);
    let replace = |site: &Site, key: &[u8]| {
        let before = reloads(site);
        site.0.write("tickets.key", key);
        eventually("the key is in use", || reloads(site) > before);
    };
    let key = std::fs::read(site.0.path("tickets.key")).expect("the key");
    replace(&other, &key);
    let begin = |site: &Site, file| site.client("shared", &["-sess_out", file]);
    let resumes = |site: &Site, file| {
        let said = site.client("shared", &["-sess_in", file]);
        assert!(said.contains("x-tls: TLSv1.3"), "{said}");
        said.contains("Reused, TLSv1")
    };
    begin(&site, "first.pem");
    let session = std::fs::read(site.0.path("first.pem")).expect("a session");
    other.0.write("first.pem", &session);
    assert!(resumes(&site, "first.pem") && resumes(&other, "first.pem"));
    replace(&site, &[7; 80]);
    assert!(!resumes(&site, "first.pem"), "its key is gone");
    assert!(resumes(&other, "first.pem"));
    begin(&site, "second.pem");
    site.0.write("tickets.key", [8; 31]);
    let line = site.0.wait_for_log("a key of session tickets has 32 bytes or more");
    assert!(line.contains("tickets.key"), "{line}");
    assert!(resumes(&site, "second.pem"), "the key before is in use");
}

#[test]
fn client_certificates_are_optional_or_required() {
    let Some(site) = Site::start() else { return };
    let alice = ["-cert", "alice.pem", "-key", "alice.key"];
    // Of an authority that the server does not know.
    let script = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 9 \
         -subj /CN=eve -keyout eve.key -out eve.pem";
    run("sh", &site.0.path(""), &["-c", script]);
    let eve = ["-cert", "eve.pem", "-key", "eve.key"];
    for listener in ["optional", "required"] {
        let said = site.client(listener, &alice);
        assert!(said.contains("x-tls: TLSv1.3") && said.contains("client=CN=alice"), "{said}");
        let said = site.client(listener, &eve);
        assert!(said.contains("SSL alert number") && !said.contains("x-tls"), "{said}");
    }
    let said = site.client("optional", &["-tls1_2"]);
    assert!(said.contains("x-tls: TLSv1.2") && !said.contains("client=CN"), "{said}");
    let said = site.client("required", &[]);
    assert!(said.contains("alert certificate required") && !said.contains("x-tls"), "{said}");
}

#[test]
fn nginx_reads_the_client_in_the_proxy_header() {
    const NGINX: &str = "daemon off; master_process off; pid nginx.pid; error_log stderr notice;\n\
         events {}\n\
         http { access_log off; client_body_temp_path body; proxy_temp_path proxy;\n\
         fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;\n\
         server { listen unix:nginx.sock proxy_protocol;\n\
         location / { return 200 '$proxy_protocol_addr $http_x_forwarded_for.'; } } }";
    if !has("nginx") {
        return;
    }
    let directory = TempDir::new().expect("a temporary directory");
    let (_nginx, address) = nginx(&directory, NGINX, "");
    for version in ["v1", "v2"] {
        let server = Tidegate::start(&format!(
            "listeners: {{ web: {{ bind: \"127.0.0.1:0\", \
             proxy_protocol: {{ from: [127.0.0.1] }} }} }}\n\
             upstreams: {{ u: {{ servers: [\"{address}\"], send_proxy_protocol: {version} }} }}\n\
             routes: [{{ handler: {{ upstream: u }} }}]\n"
        ));
        for (family, client) in [("TCP4", "192.0.2.7"), ("TCP6", "2001:db8::7")] {
            let request = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";
            let header = format!("PROXY {family} {client} {client} 1024 80\r\n");
            let response = server.exchange("web", header + request);
            assert_eq!(response.text(), format!("{client} {client}."), "{version}");
        }
    }
}
