//! hypercorn on uvloop, the ASGI server with HTTP/2.

use super::python::{self, Interface};
use super::{BACKLOG, Peer, Program, Role, Setup, Site};

pub(super) const PEER: Peer = Peer {
    name: "hypercorn",
    program: Program::Python { module: Some("hypercorn"), needs: &["hypercorn", "uvloop"] },
    start_seconds: 1.5,
    setup,
};

/// Without options for logs it logs no access.
fn setup(site: &Site) -> Option<Setup> {
    let Role::App(app) = site.role else { return None };
    if app.interface() != Some(Interface::Asgi) {
        return None;
    }
    let (address, workers) = (site.address.to_string(), site.workers.to_string());
    let backlog = BACKLOG.to_string();
    let words = [app.target(Interface::Asgi), "--bind", &address, "--workers", &workers];
    let options = ["--worker-class", "uvloop", "--backlog", &backlog, "--keep-alive", "3600"];
    let pair = python::pair(site, "--certfile", "--keyfile");
    let pair: Vec<&str> = pair.iter().map(String::as_str).collect();
    let setup = Setup::new(&[&words[..], &options, &pair].concat()).app(app, Interface::Asgi);
    let page = "https://hypercorn.readthedocs.io/en/latest/how_to_guides/configuring.html";
    Some(setup.serves(site.protocol).note("all arguments", page))
}
