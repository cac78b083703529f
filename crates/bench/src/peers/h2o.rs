//! h2o: serves four bytes and files from a directory, which it keeps open, and as a proxy.

use super::{
    CERTIFICATE, CONNECTIONS_MAX, HELLO_BODY, HELLO_PATH, PRIVATE_KEY, Peer, Program, Protocol,
    Role, Setup, Site,
};
use crate::load::Handshakes;

pub(super) const PEER: Peer = Peer {
    name: "h2o",
    program: Program::Installed { names: &["h2o"], version: "-v", how: "apt-get install h2o" },
    start_seconds: 0.2,
    setup,
};

fn setup(site: &Site) -> Option<Setup> {
    if site.protocol == (Protocol::Https { handshakes: Some(Handshakes::Resumed) }) {
        // The version of Debian, 2.2, does not resume sessions of TLS 1.3.
        return None;
    }
    let Site { address, workers, .. } = site;
    let directory = site.directory.display();
    let handler = match &site.role {
        // Its only handler for a fixed text is mruby, which costs more than a file.
        Role::Hello => format!("file.dir: {directory}  # configure/file_directives.html#file.dir"),
        Role::Files { root } => {
            format!("file.dir: {}  # configure/file_directives.html", root.display())
        }
        Role::Gateway { backend, keep: true } => format!(
            "proxy.reverse.url: \"http://{backend}/\"  # configure/proxy_directives.html\n        \
             proxy.timeout.keepalive: 3600000  # #proxy.timeout.keepalive, ms\n        \
             proxy.preserve-host: ON"
        ),
        _ => return None,
    };
    let tls = match site.protocol {
        // It detects HTTP/2 by its preface.
        Protocol::Http1 | Protocol::Http2 { .. } => String::new(),
        Protocol::Https { .. } => {
            let certificates = site.certificates.display();
            format!(
                "  ssl:  # configure/base_directives.html#listen-ssl\n    \
                 certificate-file: {certificates}/{CERTIFICATE}\n    \
                 key-file: {certificates}/{PRIVATE_KEY}\n"
            )
        }
    };
    let user = if super::executables::is_root() { "user: root\n" } else { "" };
    let text = format!(
        "\
# Settings: https://h2o.examp1e.net/configure.html, page next to each
{user}num-threads: {workers}  # configure/base_directives.html#num-threads
max-connections: {CONNECTIONS_MAX}  # #max-connections
pid-file: {directory}/h2o.pid
http1-request-timeout: 3600  # configure/http1_directives.html
http2-idle-timeout: 3600  # configure/http2_directives.html
# No access-log, so nothing is logged: configure/access_log_directives.html
listen:
  host: {}
  port: {}
{tls}file.mime.setdefaulttype: text/plain  # configure/file_directives.html
hosts:
  default:
    paths:
      /:
        {handler}
",
        address.ip(),
        address.port(),
    );
    let mut setup = Setup::new(&["-c", "h2o.conf"]).file("h2o.conf", text).serves(site.protocol);
    if site.role == Role::Hello {
        setup = setup.file(HELLO_PATH.trim_start_matches('/'), HELLO_BODY.to_owned());
    }
    Some(setup)
}
