//! tidegate: the program under test, with every time-out, limit and filter as shipped.
//!
//! Settings: docs/reference/configuration.md

use super::{HELLO_BODY, HELLO_PATH, Peer, Program, Reload, Role, Setup, Site};

pub(super) const PEER: Peer =
    Peer { name: "tidegate", program: Program::Subject, start_seconds: 0.2, setup };

fn setup(site: &Site) -> Option<Setup> {
    let respond = format!(
        r#"{{ respond: {{ headers: {{ content-type: text/plain }}, body: "{HELLO_BODY}" }} }}"#
    );
    let route = |path: &str, handler: &str| {
        format!("  - {{ match: {{ path: \"{path}\" }}, handler: {handler} }}\n")
    };
    let mut routes = match &site.role {
        Role::Hello => route(HELLO_PATH, &respond),
        Role::Gateway { .. } => route("/{*rest}", "{ upstream: backend }"),
        Role::Files { root } => route("/{*file}", &format!("{{ files: \"{}\" }}", root.display())),
    };
    if site.revision > 0 {
        routes += &route(&format!("/revision-{}", site.revision), &respond);
    }
    let upstreams = match &site.role {
        Role::Gateway { backend, keep: true } => {
            format!("upstreams: {{ backend: {{ servers: [\"{backend}\"] }} }}\n")
        }
        Role::Gateway { backend, keep: false } => format!(
            "upstreams:\n  backend: {{ servers: [\"{backend}\"], keepalive: {{ max_idle: 0 }} }}\n"
        ),
        _ => String::new(),
    };
    let text = format!(
        "# docs/reference/configuration.md; no access log unless asked for\n\
         workers: {}\n\
         listeners: {{ web: {{ bind: \"{}\" }} }}\n\
         {upstreams}routes:\n{routes}",
        site.workers, site.address,
    );
    let setup = Setup::new(&["up", "tidegate.yaml"]).file("tidegate.yaml", text);
    Some(setup.reload(Reload::Signal(libc::SIGHUP)))
}
