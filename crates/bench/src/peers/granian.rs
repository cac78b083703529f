//! Granian with the same application as uvicorn.

use super::{BACKLOG, Peer, Program, Role, Setup, Site, uvicorn};

pub(super) const PEER: Peer = Peer {
    name: "granian",
    program: Program::Installed {
        names: &["granian"],
        version: "--version",
        how: "pip install 'granian[uvloop]'",
    },
    start_seconds: 1.0,
    setup,
};

fn setup(site: &Site) -> Option<Setup> {
    if site.role != Role::Hello {
        return None;
    }
    let (host, port) = (site.address.ip().to_string(), site.address.port().to_string());
    let (workers, backlog) = (site.workers.to_string(), BACKLOG.to_string());
    // No access log unless asked for.
    let words = [
        &["bench_asgi:app", "--interface", "asginl", "--host", &host, "--port", &port][..],
        &["--workers", &workers, "--backlog", &backlog, "--http", "1", "--no-ws"],
        &["--log-level", "warning"],
    ];
    let setup = Setup::new(&words.concat()).file("bench_asgi.py", uvicorn::application());
    Some(setup.note("all arguments", "https://github.com/emmett-framework/granian#options"))
}
