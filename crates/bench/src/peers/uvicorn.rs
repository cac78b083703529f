//! uvicorn with an application of one answer: the ASGI server of the published page.

use super::{BACKLOG, HELLO_BODY, Peer, Program, Role, Setup, Site};

pub(super) const PEER: Peer = Peer {
    name: "uvicorn",
    program: Program::Installed {
        names: &["uvicorn"],
        version: "--version",
        how: "pip install 'uvicorn[standard]'",
    },
    start_seconds: 1.0,
    setup,
};

/// The application that ASGI servers are given.
pub(super) fn application() -> String {
    format!(
        "\
# https://asgi.readthedocs.io/en/latest/specs/www.html
async def app(scope, receive, send):
    headers = [(b\"content-type\", b\"text/plain\"), (b\"content-length\", b\"{}\")]
    await send({{\"type\": \"http.response.start\", \"status\": 200, \"headers\": headers}})
    await send({{\"type\": \"http.response.body\", \"body\": b\"{HELLO_BODY}\"}})
",
        HELLO_BODY.len()
    )
}

fn setup(site: &Site) -> Option<Setup> {
    if site.role != Role::Hello {
        return None;
    }
    let (host, port) = (site.address.ip().to_string(), site.address.port().to_string());
    let (workers, backlog) = (site.workers.to_string(), BACKLOG.to_string());
    // uvloop and httptools are used where they are installed.
    let words = [
        &["bench_asgi:app", "--app-dir", ".", "--host", &host, "--port", &port][..],
        &["--workers", &workers, "--backlog", &backlog, "--timeout-keep-alive", "3600"],
        &["--no-access-log", "--log-level", "warning", "--lifespan", "off"],
    ];
    let setup = Setup::new(&words.concat()).file("bench_asgi.py", application());
    Some(setup.note("all arguments", "https://www.uvicorn.org/settings/"))
}
