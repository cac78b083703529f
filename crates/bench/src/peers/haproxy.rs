//! HAProxy: one thread, server connections shared by all clients.

use super::{
    CERTIFICATE_AND_KEY, Guard, HELLO_BODY, HELLO_PATH, KEY, KEY_FIELD, Peer, Program, Protocol,
    RATE_MAX, Reload, Role, Setup, Site,
};

use crate::peers::guard::SECRET;

pub(super) const PEER: Peer = Peer {
    name: "haproxy",
    program: Program::Installed {
        names: &["haproxy"],
        version: "-v",
        how: "apt-get install haproxy",
    },
    start_seconds: 0.2,
    setup,
};

fn setup(site: &Site) -> Option<Setup> {
    let Site { address, workers, revision, .. } = site;
    let (rules, backend) = match &site.role {
        Role::Hello => (hello(), String::new()),
        Role::Gateway { backend, keep } => gateway(*backend, *keep, ""),
        // 5.2 proto
        Role::GrpcGateway { backend } => gateway(*backend, true, " proto h2"),
        Role::Guarded { by: Guard::Password | Guard::KeyAndHeaders, .. } => return None,
        Role::Guarded { backend, by } => {
            let (rules, backend) = gateway(*backend, true, "");
            (guard(*by) + &rules, backend)
        }
        Role::LuaHello
        | Role::Filtered { .. }
        | Role::Cached { .. }
        | Role::Canned { .. }
        | Role::App(_)
        | Role::AppGateway
        | Role::AppCached { .. }
        | Role::AppLoop { .. }
        | Role::Routes { .. }
        | Role::Ping
        | Role::Json { .. }
        | Role::Files { .. } => {
            return None;
        }
    };
    let tls = match site.protocol {
        Protocol::Http1 => String::new(),
        Protocol::Https { .. } => {
            let pair = site.certificates.join(CERTIFICATE_AND_KEY);
            format!(" ssl crt {} ssl-min-ver TLSv1.3", pair.display())
        }
        Protocol::Http2 { .. } => " proto h2".to_owned(),
    };
    let text = format!(
        "\
# Settings: https://docs.haproxy.org/2.6/configuration.html, section next to each
global
  nbthread {workers}  # 3.1 nbthread
  # No maxconn: as many as there are descriptors, 3.2 maxconn
defaults
  # No `log` line, so nothing is logged: 4.2 log
  mode http  # 4.2 mode
  timeout client 1h  # 4.2 timeout client
  timeout server 1h
  timeout connect 5s
  timeout http-keep-alive 1h  # 4.2 timeout http-keep-alive
  option http-keep-alive  # 4.2 option http-keep-alive
frontend web
  bind {address}{tls}  # 4.2 bind, 5.1
  http-request return status 204 if {{ path /revision-{revision} }}  # 4.2 http-request return
{rules}{backend}"
    );
    // A master that reloads on SIGUSR2 is needed for that only.
    let mode: &[&str] = if site.reloads { &["-W", "-db"] } else { &["-db"] };
    let setup = Setup::new(&[mode, &["-f", "haproxy.cfg"]].concat())
        .file("haproxy.cfg", text)
        .serves(site.protocol)
        .note("-W -db", "https://docs.haproxy.org/2.6/management.html#3");
    Some(if site.reloads { setup.reload(Reload::Signal(libc::SIGUSR2)) } else { setup })
}

fn hello() -> String {
    format!(
        "  http-request return status 200 content-type text/plain string \"{HELLO_BODY}\" \
         if {{ path {HELLO_PATH} }}\n"
    )
}

fn guard(guard: Guard) -> String {
    if guard == Guard::Token {
        // 7.3.6 http_auth_bearer, 7.3.1 jwt_verify
        return format!(
            "  http-request deny deny_status 401 unless \
             {{ http_auth_bearer,jwt_verify(HS256,{SECRET}) 1 }}\n"
        );
    }
    let field = KEY_FIELD.to_ascii_lowercase();
    format!(
        "  # 4.2 http-request deny, http-request track-sc0, stick-table; 7.3.3 sc_http_req_rate
  http-request deny deny_status 401 unless {{ req.hdr({field}) -m str {KEY} }}
  stick-table type ip size 100k expire 10s store http_req_rate(1s)
  http-request track-sc0 src
  http-request deny deny_status 429 if {{ sc_http_req_rate(0) gt {RATE_MAX} }}
"
    )
}

fn gateway(backend: std::net::SocketAddr, keep: bool, protocol: &str) -> (String, String) {
    let reuse = if keep { "always" } else { "never" };
    (
        "  default_backend backend\n".to_owned(),
        format!(
            "backend backend\n  http-reuse {reuse}  # 4.2 http-reuse\n  \
             server backend {backend}{protocol}  # 4.2 server, 5.2\n"
        ),
    )
}
