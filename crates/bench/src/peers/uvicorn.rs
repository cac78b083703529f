//! uvicorn on uvloop and httptools: the ASGI server of the published page.

use super::python::Interface;
use super::{BACKLOG, Peer, Program, Role, Setup, Site};

pub(super) const PEER: Peer = Peer {
    name: "uvicorn",
    program: Program::Python {
        module: Some("uvicorn"),
        needs: &["uvicorn", "uvloop", "httptools", "websockets"],
    },
    start_seconds: 1.0,
    setup,
};

fn setup(site: &Site) -> Option<Setup> {
    let Role::App(app) = site.role else { return None };
    if !app.is_of(Interface::Asgi) {
        return None;
    }
    let (host, port) = (site.address.ip().to_string(), site.address.port().to_string());
    let (workers, backlog) = (site.workers.to_string(), BACKLOG.to_string());
    let words = [
        &[app.target(Interface::Asgi), "--app-dir", ".", "--host", &host, "--port", &port][..],
        &["--workers", &workers, "--backlog", &backlog, "--timeout-keep-alive", "3600"],
        &["--loop", "uvloop", "--http", "httptools", "--lifespan", "off"],
        &["--no-access-log", "--log-level", "warning"],
    ];
    let setup = Setup::new(&words.concat()).app(app, Interface::Asgi);
    Some(setup.note("all arguments", "https://www.uvicorn.org/settings/"))
}
