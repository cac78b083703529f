//! Caddy: one processor for its Go runtime, pool of connections to the upstream made large enough.

use super::{
    CERTIFICATE, Guard, HELLO_BODY, HELLO_PATH, KEY, KEY_FIELD, PRIVATE_KEY, Peer, Program,
    Protocol, Reload, Role, Setup, Site,
};
use crate::load::SERVER_NAME;

pub(super) const PEER: Peer = Peer {
    name: "caddy",
    program: Program::Installed {
        names: &["caddy"],
        version: "version",
        how: "go install github.com/caddyserver/caddy/v2/cmd/caddy@v2.11.9",
    },
    start_seconds: 0.5,
    setup,
};

fn setup(site: &Site) -> Option<Setup> {
    let Site { address, revision, .. } = site;
    let directory = site.directory.display();
    let handler = handler(site)?;
    let (scheme, host, tls) = protocol(site);
    let text = format!(
        "\
{{
  # https://caddyserver.com/docs/caddyfile/options
  admin unix/{directory}/admin.sock
  auto_https off
  log {{
    level ERROR
  }}
  servers {{
    protocols h1 h2 h2c
    timeouts {{
      idle 1h
    }}
  }}
}}
{scheme}://{host}:{} {{
  # https://caddyserver.com/docs/caddyfile/directives/bind; no `log` here, so no access log
  bind {}
{tls}  respond /revision-{revision} 204
{handler}}}
",
        address.port(),
        address.ip(),
    );
    let setup = Setup::new(&["run", "--config", "Caddyfile", "--adapter", "caddyfile"])
        .file("Caddyfile", text)
        .serves(site.protocol)
        .environment("GOMAXPROCS", site.workers)
        .environment("XDG_CONFIG_HOME", &directory)
        .environment("XDG_DATA_HOME", &directory)
        .note("GOMAXPROCS", "https://pkg.go.dev/runtime#hdr-Environment_Variables")
        .note("XDG_…_HOME", "https://caddyserver.com/docs/conventions#file-locations");
    // https://caddyserver.com/docs/command-line#caddy-reload
    let reload = ["reload", "--config", "Caddyfile", "--adapter", "caddyfile"].map(str::to_owned);
    Some(setup.reload(Reload::Run(reload.to_vec())))
}

/// What the site does; `None` if Caddy has no counterpart.
fn handler(site: &Site) -> Option<String> {
    Some(match &site.role {
        Role::Hello => format!(
            "  # https://caddyserver.com/docs/caddyfile/directives/respond\n  \
             header {HELLO_PATH} Content-Type text/plain\n  \
             respond {HELLO_PATH} \"{HELLO_BODY}\"\n"
        ),
        Role::Gateway { backend, keep } => gateway(*backend, "1.1", *keep),
        Role::GrpcGateway { backend } => gateway(*backend, "h2c", true),
        // Without the limit, for which Caddy has no module of its own.
        Role::Guarded { backend, by: Guard::Key } => guard() + &gateway(*backend, "1.1", true),
        Role::Guarded { backend, by: Guard::KeyAndHeaders } => {
            guard() + HEADERS + &gateway(*backend, "1.1", true)
        }
        Role::Guarded { .. }
        | Role::Filtered { .. }
        | Role::LuaHello
        | Role::Cached { .. }
        | Role::Canned { .. }
        | Role::App(_)
        | Role::AppGateway
        | Role::AppCached { .. }
        | Role::AppLoop { .. }
        | Role::Routes { .. }
        | Role::Ping
        | Role::Json { .. } => {
            return None;
        }
        Role::Files { root } => format!(
            "  # https://caddyserver.com/docs/caddyfile/directives/file_server\n  \
             root * {}\n  file_server\n",
            root.display()
        ),
    })
}

/// Scheme, host and certificate of its site.
fn protocol(site: &Site) -> (&'static str, &'static str, String) {
    match site.protocol {
        Protocol::Http1 | Protocol::Http2 { .. } => ("http", "", String::new()),
        Protocol::Https { .. } => {
            let at = site.certificates.display();
            let page = "https://caddyserver.com/docs/caddyfile/directives/tls";
            let tls = format!("  # {page}\n  tls {at}/{CERTIFICATE} {at}/{PRIVATE_KEY}\n");
            ("https", SERVER_NAME, tls)
        }
    }
}

/// What tidegate changes, too.
const HEADERS: &str = "  # https://caddyserver.com/docs/caddyfile/directives/request_header
  request_header X-Gateway bench
  request_header -X-Internal
  # https://caddyserver.com/docs/caddyfile/directives/header
  header >X-Frame-Options DENY
  header -X-Powered-By
";

fn guard() -> String {
    format!(
        "  # https://caddyserver.com/docs/caddyfile/matchers#header\n  \
         @no_key not header {KEY_FIELD} {KEY}\n  respond @no_key 401\n"
    )
}

fn gateway(backend: std::net::SocketAddr, version: &str, keep: bool) -> String {
    let pool = if keep {
        "keepalive 1h\n      keepalive_idle_conns 1024\n      keepalive_idle_conns_per_host 1024"
    } else {
        "keepalive off"
    };
    format!(
        "  # https://caddyserver.com/docs/caddyfile/directives/reverse_proxy#the-http-transport\n  \
         reverse_proxy {backend} {{\n    transport http {{\n      \
         versions {version}\n      compression off\n      {pool}\n    }}\n  }}\n"
    )
}
