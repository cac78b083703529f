//! nginx, with persistent upstream connections as its documentation recommends.

use super::{
    BACKLOG, BURST_MAX, CERTIFICATE, CONNECTIONS_MAX, CacheRequest, Guard, HELLO_BODY, KEY,
    KEY_FIELD, MANY, PRIVATE_KEY, Peer, Program, Protocol, RATE_MAX, Reload, Role, Setup, Site,
    routed,
};
use crate::peers::guard::{PASSWORD, USER};
use std::fmt::Write as _;
use std::path::Path;

/// The file of the user and the password, in clear text.
const PASSWORD_FILE: &str = "htpasswd";

pub(super) const PEER: Peer = Peer {
    name: "nginx",
    program: Program::Installed {
        names: &["nginx"],
        version: "-v",
        how: "apt-get install nginx-light",
    },
    start_seconds: 0.2,
    setup,
};

fn setup(site: &Site) -> Option<Setup> {
    let directory = site.directory.display();
    let (upstream, location) = match &site.role {
        Role::Hello => (String::new(), hello()),
        Role::Gateway { backend, keep } => gateway(&backend.to_string(), *keep, ""),
        Role::GrpcGateway { backend } => grpc_gateway(*backend),
        Role::Guarded { by: Guard::Token | Guard::KeyAndHeaders, .. } => return None,
        Role::Guarded { backend, by } => {
            let (upstream, location) = gateway(&backend.to_string(), true, &guard(*by, site));
            (guard_zones(*by) + &upstream, location)
        }
        Role::Routes { count } => (String::new(), routes(*count)),
        Role::Cached { root, asked: CacheRequest::Gzip, .. } => {
            (String::new(), compressed_file(&root.display().to_string()))
        }
        Role::Cached { backend, .. } => cached(*backend, &directory.to_string()),
        Role::LuaHello
        | Role::Filtered { .. }
        | Role::Ping
        | Role::Json { .. }
        | Role::Canned { .. }
        | Role::App(_)
        | Role::AppGateway
        | Role::AppCached { .. }
        | Role::AppLoop { .. } => return None,
        Role::Files { root } => (String::new(), files(&root.display().to_string())),
    };
    let setup = serving(site, &upstream, &location);
    Some(match site.role {
        Role::Guarded { by: Guard::Password, .. } => {
            setup.file(PASSWORD_FILE, format!("{USER}:{{PLAIN}}{PASSWORD}\n"))
        }
        _ => setup,
    })
}

/// The configuration around these blocks.
pub(super) fn serving(site: &Site, upstream: &str, location: &str) -> Setup {
    let Site { address, workers, revision, .. } = site;
    let directory = site.directory.display();
    let (secure, tls) = match site.protocol {
        Protocol::Http1 => ("", String::new()),
        Protocol::Https { .. } => (" ssl", tls(&site.certificates)),
        // https://nginx.org/en/docs/http/ngx_http_v2_module.html
        Protocol::Http2 { .. } => (" http2", String::new()),
    };
    let text = format!(
        "\
worker_processes {workers};  # https://nginx.org/en/docs/ngx_core_module.html#worker_processes
daemon off;  # https://nginx.org/en/docs/ngx_core_module.html#daemon
pid {directory}/nginx.pid;
error_log stderr crit;  # https://nginx.org/en/docs/ngx_core_module.html#error_log
events {{
  worker_connections {CONNECTIONS_MAX};  # …/docs/ngx_core_module.html#worker_connections
}}
http {{
  # Settings of this block: https://nginx.org/en/docs/http/ngx_http_core_module.html
  access_log off;  # https://nginx.org/en/docs/http/ngx_http_log_module.html#access_log
  keepalive_requests {MANY};  # #keepalive_requests: closes after 1000 unless told
  keepalive_timeout 1h;  # #keepalive_timeout
  client_body_temp_path {directory}/body;
  proxy_temp_path {directory}/proxy;
  fastcgi_temp_path {directory}/fastcgi;
  uwsgi_temp_path {directory}/uwsgi;
  scgi_temp_path {directory}/scgi;
{upstream}  server {{
    listen {address}{secure} backlog={BACKLOG};  # #listen
{tls}    location = /revision-{revision} {{ return 204; }}
{location}  }}
}}
"
    );
    let user = as_root_stay_root();
    let setup = Setup::new(&["-p", &directory.to_string(), "-c", "nginx.conf", "-e", "stderr"])
        .file("nginx.conf", user.to_owned() + &text);
    // https://nginx.org/en/docs/control.html#reconfiguration
    setup.reload(Reload::Signal(libc::SIGHUP)).serves(site.protocol)
}

/// Tickets, which resume sessions, are on unless told.
fn tls(certificates: &Path) -> String {
    let at = certificates.display();
    format!(
        "    # https://nginx.org/en/docs/http/ngx_http_ssl_module.html#ssl_certificate\n    \
         ssl_certificate {at}/{CERTIFICATE};\n    \
         ssl_certificate_key {at}/{PRIVATE_KEY};\n    \
         ssl_protocols TLSv1.3;  # #ssl_protocols\n"
    )
}

fn hello() -> String {
    format!(
        "    # https://nginx.org/en/docs/http/ngx_http_rewrite_module.html#return\n    \
         location / {{ default_type text/plain; return 200 \"{HELLO_BODY}\"; }}\n"
    )
}

fn guard_zones(guard: Guard) -> String {
    let variable = format!("$http_{}", KEY_FIELD.to_ascii_lowercase().replace('-', "_"));
    let map = format!(
        "  # https://nginx.org/en/docs/http/ngx_http_map_module.html#map
  map {variable} $consumer {{ default \"\"; \"{KEY}\" bench; }}
"
    );
    let map = if guard == Guard::Key { map } else { String::new() };
    format!(
        "{map}  # https://nginx.org/en/docs/http/ngx_http_limit_req_module.html#limit_req_zone
  limit_req_zone $binary_remote_addr zone=clients:10m rate={RATE_MAX}r/s;
"
    )
}

fn guard(guard: Guard, site: &Site) -> String {
    let check = match guard {
        Guard::Key | Guard::KeyAndHeaders | Guard::Token => {
            "if ($consumer = \"\") { return 401; }".to_owned()
        }
        // https://nginx.org/en/docs/http/ngx_http_auth_basic_module.html
        Guard::Password => {
            let file = site.directory.join(PASSWORD_FILE);
            format!("auth_basic bench; auth_basic_user_file {};", file.display())
        }
    };
    format!("{check} limit_req zone=clients burst={BURST_MAX} nodelay; ")
}

/// A parameter at the end of a path is the rest of a prefix here.
fn routes(count: usize) -> String {
    let answer = format!("default_type text/plain; return 200 \"{HELLO_BODY}\";");
    let asked = "/api/v1/asked/items/".to_owned();
    let mut text =
        "    # https://nginx.org/en/docs/http/ngx_http_core_module.html#location\n".to_owned();
    for path in (1..count).map(routed).chain([asked]) {
        let _ = writeln!(text, "    location {path} {{ {answer} }}");
    }
    text
}

/// Idle connections to a backend, as many as that.
fn pool(connections: u32) -> String {
    format!(
        "    # https://nginx.org/en/docs/http/ngx_http_upstream_module.html#keepalive\n    \
         keepalive {connections};\n    \
         keepalive_requests {MANY};\n    \
         keepalive_timeout 1h;\n"
    )
}

/// Each call in progress has a connection of its own to the backend, so there are more of them.
fn grpc_gateway(backend: std::net::SocketAddr) -> (String, String) {
    let pool = pool(CONNECTIONS_MAX / 2);
    let upstream = format!("  upstream backend {{\n    server {backend};\n{pool}  }}\n");
    let location = "    # https://nginx.org/en/docs/http/ngx_http_grpc_module.html#grpc_pass\n    \
         location / { grpc_pass grpc://backend; }\n";
    (upstream, location.to_owned())
}

/// In front of an address as nginx writes it.
pub(super) fn gateway(backend: &str, keep: bool, guard: &str) -> (String, String) {
    let pool = pool(1024);
    // The same page: "For HTTP, … the "Connection" header field should be cleared".
    // And bodies are passed on as they come, as we do.
    let kept = "proxy_http_version 1.1; proxy_set_header Connection \"\"; \
                proxy_request_buffering off; ";
    let (pool, kept) = if keep { (pool.as_str(), kept) } else { ("", "") };
    let upstream = format!("  upstream backend {{\n    server {backend};\n{pool}  }}\n");
    let location = format!(
        "    # https://nginx.org/en/docs/http/ngx_http_proxy_module.html#proxy_http_version\n    \
         location / {{ {guard}proxy_pass http://backend; {kept}}}\n"
    );
    (upstream, location)
}

fn files(root: &str) -> String {
    format!(
        "    location / {{\n      \
         root {root};\n      \
         sendfile on;  # #sendfile\n      \
         tcp_nopush on;  # #tcp_nopush\n      \
         open_file_cache max=1024 inactive=1h;  # #open_file_cache\n      \
         open_file_cache_valid 1s;  # #open_file_cache_valid: as often as ours looks\n    \
         }}\n"
    )
}

/// The same document as a precompressed file: nginx stores no compressed variants of cached
/// responses, so this is its best case.
fn compressed_file(root: &str) -> String {
    format!(
        "    location / {{\n      \
         root {root};\n      \
         default_type application/json;\n      \
         gzip_static on;  # https://nginx.org/en/docs/http/ngx_http_gzip_static_module.html\n      \
         sendfile on;\n      \
         tcp_nopush on;\n      \
         open_file_cache max=1024 inactive=1h;\n      \
         open_file_cache_valid 1s;\n    \
         }}\n"
    )
}

/// Without `tcp_nopush`: with it nginx waits 40 ms before the end of each response of 64 KiB over
/// loopback, and its CPU for each is three times as much.
fn cached(backend: std::net::SocketAddr, directory: &str) -> (String, String) {
    let zone = format!(
        "  # https://nginx.org/en/docs/http/ngx_http_proxy_module.html#proxy_cache_path\n  \
         proxy_cache_path {directory}/cache keys_zone=pages:10m inactive=1d use_temp_path=off;\n"
    );
    let location = format!(
        "    location / {{\n      \
         proxy_pass http://{backend};\n      \
         proxy_cache pages;  # #proxy_cache\n      \
         sendfile on;\n      \
         open_file_cache max=4096 inactive=1h;  # of cached files too\n      \
         open_file_cache_valid 1h;\n    \
         }}\n"
    );
    (zone, location)
}

/// Started by root its workers would run as another user, which may not read the directory.
fn as_root_stay_root() -> &'static str {
    if super::executables::is_root() {
        "user root;  # https://nginx.org/en/docs/ngx_core_module.html#user\n"
    } else {
        ""
    }
}
