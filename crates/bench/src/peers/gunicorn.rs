//! gunicorn with threads: its plain worker closes after each answer, the threaded one does not.

use super::{BACKLOG, CONNECTIONS_MAX, HELLO_BODY, Peer, Program, Role, Setup, Site};

pub(super) const PEER: Peer = Peer {
    name: "gunicorn",
    program: Program::Installed {
        names: &["gunicorn"],
        version: "--version",
        how: "pip install gunicorn",
    },
    start_seconds: 1.0,
    setup,
};

/// Threads of one worker: https://docs.gunicorn.org/en/stable/design.html#how-many-threads
const THREADS: &str = "4";

fn setup(site: &Site) -> Option<Setup> {
    if site.role != Role::Hello {
        return None;
    }
    let application = format!(
        "\
# https://peps.python.org/pep-3333/
def app(environ, start_response):
    headers = [(\"Content-Type\", \"text/plain\"), (\"Content-Length\", \"{}\")]
    start_response(\"200 OK\", headers)
    return [b\"{HELLO_BODY}\"]
",
        HELLO_BODY.len()
    );
    let address = site.address.to_string();
    let (workers, backlog) = (site.workers.to_string(), BACKLOG.to_string());
    let connections = CONNECTIONS_MAX.to_string();
    // No access log unless asked for.
    let words = [
        &["bench_wsgi:app", "--bind", &address, "--workers", &workers][..],
        &["--worker-class", "gthread", "--threads", THREADS, "--keep-alive", "3600"],
        &["--worker-connections", &connections, "--backlog", &backlog, "--log-level", "warning"],
    ];
    let setup = Setup::new(&words.concat()).file("bench_wsgi.py", application);
    Some(setup.note("all arguments", "https://docs.gunicorn.org/en/stable/settings.html"))
}
