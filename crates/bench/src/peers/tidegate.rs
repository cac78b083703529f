//! tidegate: the program under test, with every time-out, limit and filter as shipped.
//!
//! Settings: docs/reference/configuration.md

use super::{
    BURST_MAX, CERTIFICATE, CacheRequest, DOCUMENT_PATH, Guard, HELLO_BODY, HELLO_PATH, KEY,
    KEY_FIELD, PRIVATE_KEY, Peer, Program, Protocol, RATE_MAX, Reload, Role, Setup, Site,
    lua_cjson, routed, silly,
};
use crate::peers::guard::{PASSWORD_HASH, SECRET, USER};
use std::fmt::Write as _;
use std::path::Path;

mod application;

pub(super) const PEER: Peer =
    Peer { name: "tidegate", program: Program::Subject, start_seconds: 0.2, setup };

/// The response of `respond`, from a handler.
const LUA_HELLO: &str = include_str!("../../peers/lua/hello.lua");

pub(super) fn setup(site: &Site) -> Option<Setup> {
    let respond = format!(
        r#"{{ respond: {{ headers: {{ content-type: text/plain }}, body: "{HELLO_BODY}" }} }}"#
    );
    let route = |path: &str, handler: &str| {
        format!("  - {{ match: {{ path: \"{path}\" }}, handler: {handler} }}\n")
    };
    let mut routes = match &site.role {
        Role::Hello => route(HELLO_PATH, &respond),
        Role::Gateway { .. } | Role::GrpcGateway { .. } => {
            route("/{*rest}", "{ upstream: backend }")
        }
        Role::Guarded { by, .. } => {
            route("/{*rest}", &format!("{{ upstream: backend }}, filters: {}", filters(*by)))
        }
        Role::Filtered { filters, .. } => {
            route("/{*rest}", &format!("{{ upstream: backend }}, filters: [{{ {filters} }}]"))
        }
        Role::LuaHello => route(HELLO_PATH, "{ lua: hello.lua }"),
        Role::Routes { count } => routes(*count, &respond),
        Role::Ping => return ping(site),
        Role::Json { .. } => return lua_cjson::runner("silly.encoding.json", site, &["run"]),
        Role::Files { root } => route("/{*file}", &format!("{{ files: \"{}\" }}", root.display())),
        Role::Cached { .. } => {
            route("/{*rest}", "{ upstream: backend }, filters: [{ cache: { store: pages } }]")
        }
        Role::Canned { file } => route(DOCUMENT_PATH, &canned(file)),
        Role::App(app) => return Some(application::served(site, *app)),
        Role::AppGateway => route("/{*rest}", "{ app: bench }"),
        Role::AppCached { .. } => {
            route("/{*rest}", "{ app: bench }, filters: [{ cache: { store: pages } }]")
        }
        Role::AppLoop { .. } => return None,
    };
    if site.revision > 0 {
        routes += &route(&format!("/revision-{}", site.revision), &respond);
    }
    let caches = match &site.role {
        Role::Cached { asked: CacheRequest::Many, .. } => {
            "caches: { pages: { memory: 16MiB, disk: { path: cache, size: 1GiB } } }\n"
        }
        Role::Cached { .. } | Role::AppCached { .. } => "caches: { pages: { memory: 256MiB } }\n",
        _ => "",
    };
    let tls = match site.protocol {
        Protocol::Http1 | Protocol::Http2 { .. } => String::new(),
        Protocol::Https { .. } => {
            let at = site.certificates.display();
            let pair = format!("{{ cert: {at}/{CERTIFICATE}, key: {at}/{PRIVATE_KEY} }}");
            format!(", tls: {{ certificates: [{pair}] }}")
        }
    };
    let text = format!(
        "# docs/reference/configuration.md; no access log unless asked for\n\
         workers: {}\n\
         listeners: {{ web: {{ bind: \"{}\"{tls} }} }}\n\
         {}{caches}{}routes:\n{routes}",
        site.workers,
        site.address,
        upstreams(&site.role),
        application::apps(site),
    );
    let mut setup =
        Setup::new(&["up", "tidegate.yaml"]).file("tidegate.yaml", text).serves(site.protocol);
    if site.role == Role::LuaHello {
        setup = setup.file("hello.lua", LUA_HELLO.to_owned());
    }
    setup = setup.reload(Reload::Signal(libc::SIGHUP));
    Some(application::next_to_gateway(setup, &site.role))
}

fn upstreams(role: &Role) -> String {
    match role {
        Role::Gateway { backend, keep: true }
        | Role::Guarded { backend, .. }
        | Role::Filtered { backend, .. }
        | Role::Cached { backend, .. } => {
            format!("upstreams: {{ backend: {{ servers: [\"{backend}\"] }} }}\n")
        }
        Role::Gateway { backend, keep: false } => format!(
            "upstreams:\n  backend: {{ servers: [\"{backend}\"], keepalive: {{ max_idle: 0 }} }}\n"
        ),
        Role::GrpcGateway { backend } => {
            format!("upstreams: {{ backend: {{ servers: [\"h2c://{backend}\"] }} }}\n")
        }
        _ => String::new(),
    }
}

/// One VM, whatever the number of workers: a program is not spread over cores unless asked.
fn ping(site: &Site) -> Option<Setup> {
    let listen = format!("--listen={}", site.address);
    let workers = format!("--workers={}", site.workers);
    let words = ["run", &workers, "ping.lua", &listen];
    Some(Setup::new(&words).file("ping.lua", silly::PING.to_owned()))
}

fn canned(file: &Path) -> String {
    let fields = "{ content-type: application/json, cache-control: max-age=86400 }";
    format!("{{ respond: {{ headers: {fields}, file: \"{}\" }} }}", file.display())
}

fn filters(guard: Guard) -> String {
    let limit =
        format!("{{ rate_limit: {{ rate: {RATE_MAX}/s, burst: {BURST_MAX}, key: client_ip }} }}");
    let field = KEY_FIELD.to_ascii_lowercase();
    let keys = format!("[{{ consumer: bench, key: {KEY} }}]");
    let key = format!("{{ key_auth: {{ from: {{ header: {field} }}, keys: {keys} }} }}");
    match guard {
        Guard::Key => format!("[{key}, {limit}]"),
        Guard::KeyAndHeaders => {
            let request = "{ remove: [x-internal], set: { x-gateway: bench } }";
            let response = "{ remove: [x-powered-by], set: { x-frame-options: DENY } }";
            format!(
                "[{key}, {limit}, {{ request_headers: {request} }}, \
                 {{ response_headers: {response} }}]"
            )
        }
        Guard::Password => {
            let users = format!("[{{ consumer: {USER}, password: \"{PASSWORD_HASH}\" }}]");
            format!("[{{ basic_auth: {{ users: {users} }} }}, {limit}]")
        }
        Guard::Token => {
            format!("[{{ jwt: {{ keys: [{{ algorithm: HS256, secret: {SECRET} }}] }} }}]")
        }
    }
}

/// The requested route is the last one.
fn routes(count: usize, handler: &str) -> String {
    let others = (1..count).map(routed);
    let asked = "/api/v1/asked/items/".to_owned();
    others.chain([asked]).fold(String::new(), |mut text, path| {
        let _ = writeln!(text, "  - {{ match: {{ path: \"{path}{{id}}\" }}, handler: {handler} }}");
        text
    })
}
