//! nginx in front of Granian on a Unix socket: how an application of Python is usually deployed.

use super::nginx::{self, gateway};
use super::python::{App, Interface};
use super::{Peer, Program, Role, Setup, Site, UpstreamServer, granian};

pub(super) const PEER: Peer = Peer {
    name: "nginx-granian",
    program: Program::Installed {
        names: &["nginx"],
        version: "-v",
        how: "apt-get install nginx-light",
    },
    start_seconds: 1.5,
    setup,
};

fn setup(site: &Site) -> Option<Setup> {
    if site.role != Role::AppGateway {
        return None;
    }
    let socket = site.directory.join("app.sock");
    let (upstream, location) = gateway(&format!("unix:{}", socket.display()), true, "");
    let app = App::AsgiHello;
    let python = site.python.display().to_string();
    let mut words: Vec<String> = [&python, "-m", "granian"].map(str::to_owned).into();
    words.extend(granian::asgi(app, site.workers));
    words.extend(["--uds".to_owned(), socket.display().to_string()]);
    let mut setup = nginx::serving(site, &upstream, &location).app(app, Interface::Asgi);
    setup.needs.extend(["granian", "uvloop"]);
    setup.upstream = Some(UpstreamServer { words, socket });
    Some(setup.note("granian", "https://github.com/emmett-framework/granian#options"))
}
