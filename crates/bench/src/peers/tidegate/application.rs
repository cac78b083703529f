//! Tidegate with a Python application: served by the wheel, or in processes next to a gateway.

use super::super::python::{Interface, environment_of, pair};
use super::super::{App, CONNECTIONS_MAX, DOCUMENT_PATH, Role, Setup, Site};
use std::fmt::Write as _;

/// The packages that the Python of the run needs.
const WHEEL: [&str; 2] = ["tidegate", "uvloop"];

/// The wheel serves the application itself, as shipped.
pub(super) fn served(site: &Site, app: App) -> Setup {
    let interface = app.interface().unwrap_or(Interface::Asgi);
    let (address, workers) = (site.address.to_string(), site.workers.to_string());
    let words = ["run", app.target(interface), "--bind", &address, "--workers", &workers];
    let connections = CONNECTIONS_MAX.to_string();
    let greenlets = ["--threads", "gevent", "--worker-connections", &connections];
    let greenlets: &[&str] = if app.has_greenlets() { &greenlets } else { &[] };
    let pair = pair(site, "--ssl-certfile", "--ssl-keyfile");
    let pair: Vec<&str> = pair.iter().map(String::as_str).collect();
    let words = [&words[..], &["--app-dir", "."], greenlets, &pair].concat();
    let setup = Setup::new(&words).app(app, interface).serves(site.protocol);
    let mut setup = setup.module(&site.python, "tidegate");
    setup.needs.extend(WHEEL);
    if app.has_greenlets() {
        setup.needs.push("gevent");
    }
    setup.note("all arguments", "docs/guide/python.md")
}

/// Returns the application that runs next to a gateway in this role.
fn app_of(role: &Role) -> Option<App> {
    match role {
        Role::AppGateway => Some(App::AsgiHello),
        Role::AppCached { .. } => Some(App::AsgiDocument),
        _ => None,
    }
}

/// The application in the configuration of the gateway, if there is one: it runs in processes of
/// the environment of the run.
pub(super) fn apps(site: &Site) -> String {
    let Some(app) = app_of(&site.role) else { return String::new() };
    let (target, workers) = (app.target(Interface::Asgi), site.workers);
    let (dir, venv) = (site.directory.display(), environment_of(&site.python));
    let mut text = format!(
        "apps:
  bench:
    python: \"{target}\"
    workers: {workers}
    dir: \"{dir}\"
    venv: \"{}\"
",
        venv.display(),
    );
    if let Role::AppCached { root, .. } = &site.role {
        let document = root.join(DOCUMENT_PATH.trim_start_matches('/'));
        let _ = writeln!(text, "    env: {{ BENCH_DOCUMENT: \"{}\" }}", document.display());
    }
    text
}

/// With the files of that application, and what it takes.
pub(super) fn next_to_gateway(setup: Setup, role: &Role) -> Setup {
    let Some(app) = app_of(role) else { return setup };
    let mut setup = setup.app(app, Interface::Asgi);
    setup.needs.extend(WHEEL);
    setup
}
