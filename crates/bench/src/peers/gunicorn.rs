//! gunicorn with threads (its plain worker closes after each response, the threaded one does not),
//! and with gevent as on the published page.

use super::python::{App, Interface};
use super::{BACKLOG, CONNECTIONS_MAX, Peer, Program, Role, Setup, Site};

pub(super) const PEER: Peer = Peer {
    name: "gunicorn",
    program: Program::Python { module: Some("gunicorn"), needs: &["gunicorn"] },
    start_seconds: 1.0,
    setup,
};

pub(super) const GEVENT: Peer = Peer {
    name: "gunicorn-gevent",
    program: Program::Python {
        module: Some("gunicorn"),
        needs: &["gunicorn", "gevent", "packaging"],
    },
    start_seconds: 1.0,
    setup: gevent,
};

/// Threads of one worker: https://docs.gunicorn.org/en/stable/design.html#how-many-threads
const THREADS: &str = "4";

fn setup(site: &Site) -> Option<Setup> {
    match site.role {
        Role::App(app) if app.interface() == Some(Interface::Wsgi) && !app.has_greenlets() => {
            Some(with(site, app, &["--worker-class", "gthread", "--threads", THREADS]))
        }
        _ => None,
    }
}

fn gevent(site: &Site) -> Option<Setup> {
    match site.role {
        Role::App(app) if app.is_of(Interface::Wsgi) => {
            Some(with(site, app, &["--worker-class", "gevent"]))
        }
        _ => None,
    }
}

/// Without an access log option there is no access log.
fn with(site: &Site, app: App, worker: &[&str]) -> Setup {
    let address = site.address.to_string();
    let (workers, backlog) = (site.workers.to_string(), BACKLOG.to_string());
    let connections = CONNECTIONS_MAX.to_string();
    let words = [
        &[app.target(Interface::Wsgi), "--bind", &address, "--workers", &workers],
        worker,
        &["--worker-connections", &connections, "--backlog", &backlog],
        &["--keep-alive", "3600", "--log-level", "warning"],
    ];
    let setup = Setup::new(&words.concat()).app(app, Interface::Wsgi);
    setup.note("all arguments", "https://docs.gunicorn.org/en/stable/settings.html")
}
