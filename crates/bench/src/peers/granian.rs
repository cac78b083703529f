//! Granian, on uvloop; with WSGI as it is shipped, and with one thread for the application.

use super::python::{App, Interface};
use super::{BACKLOG, Peer, Program, Protocol, Role, Setup, Site};

const PROGRAM: Program = Program::Python { module: Some("granian"), needs: &["granian", "uvloop"] };
const PAGE: &str = "https://github.com/emmett-framework/granian#options";

pub(super) const PEER: Peer =
    Peer { name: "granian", program: PROGRAM, start_seconds: 1.0, setup: as_shipped };

pub(super) const ONE_THREAD: Peer =
    Peer { name: "granian-1-thread", program: PROGRAM, start_seconds: 1.0, setup: one_thread };

fn as_shipped(site: &Site) -> Option<Setup> {
    let Role::App(app) = site.role else { return None };
    if app.has_greenlets() {
        return None;
    }
    if !app.is_of(Interface::Asgi) {
        return Some(wsgi(site, app, &[]));
    }
    let (host, port) = (site.address.ip().to_string(), site.address.port().to_string());
    let mut words = asgi(app, site.workers);
    words.extend(["--host".to_owned(), host, "--port".to_owned(), port]);
    words.extend(super::python::pair(site, "--ssl-certificate", "--ssl-keyfile"));
    if let Protocol::Http2 { .. } = site.protocol {
        words.extend(["--http", "2"].map(str::to_owned));
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let setup = Setup::new(&words).app(app, Interface::Asgi).serves(site.protocol);
    Some(setup.note("all arguments", PAGE))
}

fn one_thread(site: &Site) -> Option<Setup> {
    match site.role {
        Role::App(app) if !app.is_of(Interface::Asgi) && !app.has_greenlets() => {
            Some(wsgi(site, app, &["--blocking-threads", "1"]))
        }
        _ => None,
    }
}

/// The arguments except the address. Without `--access-log` there is no access log.
pub(super) fn asgi(app: App, workers: u32) -> Vec<String> {
    let (workers, backlog) = (workers.to_string(), BACKLOG.to_string());
    let websockets = if app == App::WebSocket { "--ws" } else { "--no-ws" };
    let words = [
        &[app.target(Interface::Asgi), "--interface", "asginl", "--loop", "uvloop"][..],
        &["--workers", &workers, "--backlog", &backlog, "--http", "1", websockets],
        &["--log-level", "warning"],
    ];
    words.concat().into_iter().map(str::to_owned).collect()
}

/// The backlog as shipped, because half of it is the number of threads.
fn wsgi(site: &Site, app: App, threads: &[&str]) -> Setup {
    let (host, port) = (site.address.ip().to_string(), site.address.port().to_string());
    let workers = site.workers.to_string();
    let words = [
        &[app.target(Interface::Wsgi), "--interface", "wsgi", "--host", &host, "--port", &port][..],
        &["--workers", &workers, "--http", "1", "--no-ws", "--log-level", "warning"],
        threads,
    ];
    Setup::new(&words.concat()).app(app, Interface::Wsgi).note("all arguments", PAGE)
}
