//! FastPySGI: a C server whose event loop runs on the application's thread.

use super::python::Interface;
use super::{BACKLOG, Peer, Program, Role, Setup, Site};
use crate::peers::App;

pub(super) const PEER: Peer = Peer {
    name: "fastpysgi",
    program: Program::Python { module: None, needs: &["fastpysgi"] },
    start_seconds: 0.5,
    setup,
};

/// Its command line has no option for the backlog and the workers.
const RUN: &str = "\
# https://github.com/remittor/fastpysgi#example-usage-of-fastpysgi; it logs no access
import importlib
import sys

import fastpysgi

target, host, port, workers, backlog = sys.argv[1:]
module, name = target.split(':')
fastpysgi.server.backlog = int(backlog)
app = getattr(importlib.import_module(module), name)
fastpysgi.run(app, host=host, port=int(port), workers=int(workers))
";

fn setup(site: &Site) -> Option<Setup> {
    let Role::App(app) = site.role else { return None };
    if app == App::WebSocket || app.has_greenlets() {
        return None;
    }
    let interface = app.interface().unwrap_or(Interface::Asgi);
    let (host, port) = (site.address.ip().to_string(), site.address.port().to_string());
    let (workers, backlog) = (site.workers.to_string(), BACKLOG.to_string());
    let words = ["run_fastpysgi.py", app.target(interface), &host, &port, &workers, &backlog];
    Some(Setup::new(&words).file("run_fastpysgi.py", RUN.to_owned()).app(app, interface))
}
