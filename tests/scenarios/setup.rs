//! Configurations that many pages begin with, as text: a page adds what it is about.

use scenarios::{Exit, Process, Upstream};
use std::path::Path;
use std::process::Command;

/// Everything goes to `upstream`; `more` are further lines of the top level.
pub(crate) fn behind(upstream: &Upstream, more: &str) -> String {
    let address = upstream.address();
    format!(
        r#"
workers: 2
listeners: {{ web: {{ bind: "127.0.0.1:0" }} }}
admin: {{ bind: "127.0.0.1:0" }}
upstreams: {{ app: {{ servers: ["{address}"] }} }}
routes: [{{ name: app, match: {{ path: "/{{*rest}}" }}, handler: {{ upstream: app }} }}]
{more}
"#
    )
}

/// [`behind`] for many clients at once: the scripted upstream's queue is short, and a connection
/// that does not fit takes the kernel a second longer.
pub(crate) fn patient(upstream: &Upstream) -> String {
    behind(upstream, "").replace("\"] }", "\"], timeouts: { connect: 15s } }")
}

/// Answers by itself: `/ping` at once, `/slow` after a moment, `/big` with 8 MiB, and says in
/// `x-n` which of the requests it answers.
pub(crate) fn responding(more: &str) -> String {
    format!(
        r#"
workers: 2
listeners: {{ web: {{ bind: "127.0.0.1:0" }} }}
admin: {{ bind: "127.0.0.1:0" }}
routes:
  - name: ping
    match: {{ path: "/ping" }}
    handler: {{ respond: {{ headers: {{ x-n: "{{query.n}}" }}, body: "pong" }} }}
  - name: slow
    match: {{ path: "/slow" }}
    handler: {{ respond: {{ headers: {{ x-n: "{{query.n}}" }}, body: "late", delay: 50ms }} }}
  - name: big
    match: {{ path: "/big" }}
    handler: {{ respond: {{ headers: {{ x-n: "{{query.n}}" }}, body_size: 8MiB }} }}
{more}
"#
    )
}

/// The SHA-256 fingerprint of a certificate in a PEM file as 64 hex digits, by OpenSSL.
pub(crate) fn fingerprint(file: &Path) -> String {
    let mut command = Command::new("openssl");
    command.args(["x509", "-noout", "-fingerprint", "-sha256", "-in"]).arg(file);
    let exit = Process::run(&mut command);
    let (_, digits) = exit.stdout.trim().split_once('=').unwrap_or_else(|| panic!("{exit:?}"));
    digits.replace(':', "").to_lowercase()
}

/// The body of the last response that `curl -i` has printed.
pub(crate) fn body(exit: &Exit) -> &str {
    exit.stdout.rsplit("\r\n\r\n").next().unwrap_or_default()
}
