//! Varnish: one pool of threads. It compiles its configuration, which takes a C compiler.

use super::{BACKLOG, CacheRequest, HELLO_BODY, Peer, Program, Role, Setup, Site};
use std::net::SocketAddr;

pub(super) const PEER: Peer = Peer {
    name: "varnish",
    program: Program::Installed {
        names: &["varnishd"],
        version: "-V",
        how: "apt-get install varnish",
    },
    start_seconds: 2.0,
    setup,
};

fn setup(site: &Site) -> Option<Setup> {
    let text = match &site.role {
        Role::Hello => hello(),
        Role::Gateway { backend, .. } => format!(
            "\
vcl 4.1;
# https://varnish-cache.org/docs/7.1/reference/vcl-backend.html; it keeps connections unless the
# backend closes them, and passes because nothing here may be cached.
backend default {{ .host = \"{}\"; .port = \"{}\"; }}
sub vcl_recv {{ return (pass); }}
",
            backend.ip(),
            backend.port()
        ),
        Role::Cached { backend, asked, .. } => cached(*backend, *asked),
        Role::Guarded { .. }
        | Role::Filtered { .. }
        | Role::GrpcGateway { .. }
        | Role::Canned { .. }
        | Role::App(_)
        | Role::AppGateway
        | Role::AppCached { .. }
        | Role::AppLoop { .. }
        | Role::LuaHello
        | Role::Routes { .. }
        | Role::Ping
        | Role::Json { .. }
        | Role::Files { .. } => return None,
    };
    let parameters = [
        format!("thread_pools={}", site.workers),
        "timeout_idle=3600".to_owned(),
        format!("listen_depth={BACKLOG}"),
    ];
    let address = site.address.to_string();
    let directory = site.directory.join("varnish").display().to_string();
    // A relative name is looked for where its own configurations lie, not where it runs.
    let file = site.directory.join("site.vcl").display().to_string();
    let mut words = vec!["-F", "-j", "none", "-n", &directory, "-a", &address, "-f", &file];
    // A file of its own in the directory of the server.
    let storage = match &site.role {
        Role::Cached { asked: CacheRequest::Many, .. } => {
            format!("file,{},1g", site.directory.join("store").display())
        }
        _ => "malloc,64m".to_owned(),
    };
    words.extend(["-s", &storage]);
    for parameter in &parameters {
        words.extend(["-p", parameter]);
    }
    let setup = Setup::new(&words).file("site.vcl", text);
    let page = "https://varnish-cache.org/docs/7.1/reference/varnishd.html";
    Some(
        setup
            .note("-F -j none -n -a -f -s", page)
            .note("thread_pools, timeout_idle, listen_depth: list of parameters", page),
    )
}

/// Large objects are stored as gzip, as they are when a backend compresses; clients that do not
/// accept it cause a decompression for each response. Not where only such clients are.
fn cached(backend: SocketAddr, asked: CacheRequest) -> String {
    let gzip = !matches!(asked, CacheRequest::Small | CacheRequest::Many);
    format!(
        "\
vcl 4.1;
# https://varnish-cache.org/docs/7.1/users-guide/compression.html
backend default {{ .host = \"{}\"; .port = \"{}\"; }}
sub vcl_backend_response {{ set beresp.do_gzip = {gzip}; }}
",
        backend.ip(),
        backend.port()
    )
}

fn hello() -> String {
    format!(
        "\
vcl 4.1;
# https://varnish-cache.org/docs/7.1/users-guide/vcl-built-in-subs.html#vcl-synth
backend default none;
sub vcl_recv {{ return (synth(200)); }}
sub vcl_synth {{
  set resp.http.Content-Type = \"text/plain\";
  set resp.body = \"{HELLO_BODY}\";
  return (deliver);
}}
"
    )
}
