//! Options and commands of other servers: what to write instead.
//!
//! Owns the options of uvicorn, gunicorn, granian, hypercorn, nginx, haproxy and caddy that do not
//! exist here. Each has a text of its own: the most similar option would do something else.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Error};

use super::Tidegate;

/// Spellings of an option, and the advice for them.
type Row = (&'static [&'static str], &'static str);

const TLS: &str = "write --cert FILE --key FILE for tidegate proxy and tidegate files, \
                   --ssl-certfile FILE --ssl-keyfile FILE for tidegate run, and tls in the \
                   listeners of a tidegate.yaml for tidegate up";
const TLS_TUNING: &str = "leave it out: TLS 1.2 and 1.3 are served with the ciphers that are safe \
                          today";
const ENCRYPTED_KEY: &str = "encrypted keys are not supported: decrypt the key with openssl pkey \
                             -in FILE -out FILE, and let only this user read it";
const CLIENT_CERTIFICATES: &str = "write --ssl-cert-reqs 2 to require certificates of clients, 1 \
                                   to verify those that are presented";
const HTTP2: &str = "leave it out: HTTP/2 is served to clients that ask for it, by ALPN over TLS \
                     and by prior knowledge in the clear";
const SUPERVISED: &str = "the process stays in the foreground: systemd or another supervisor runs \
                          it in the background";
const LOGS: &str = "the log goes to standard error, for journald or another collector: leave it \
                    out, or write --error-logfile FILE";
const STRICT: &str = "malformed requests are always rejected: leave it out";
const THREADS: &str = "leave it out: each worker process has one thread for its connections, and \
                       the threads of --threads for WSGI";

/// Options for all commands.
const ANY: &[Row] = &[
    (&["--tls"], TLS),
    (&["--ssl-version", "--ssl-ciphers", "--ssl-protocol-min", "--ciphers"], TLS_TUNING),
    (
        &["--suppress-ragged-eofs", "--do-handshake-on-connect"],
        "leave it out: handshakes never block a worker",
    ),
    (&["--ssl-keyfile-password", "--keyfile-password"], ENCRYPTED_KEY),
    (&["--ssl-client-verify", "--no-ssl-client-verify", "--verify-mode"], CLIENT_CERTIFICATES),
    (
        &["--ssl-crl"],
        "certificates of clients are not looked up in revocation lists: issue short ones",
    ),
    (&["--insecure-bind"], "start a second server for plain HTTP, or write a tidegate.yaml"),
    (&["--quic-bind"], "HTTP/3 is not supported yet: leave it out"),
    (
        &[
            "--http2",
            "--http2-adaptive-window",
            "--no-http2-adaptive-window",
            "--http2-initial-connection-window-size",
            "--http2-initial-stream-window-size",
            "--http2-keep-alive-interval",
            "--http2-keep-alive-timeout",
            "--http2-max-concurrent-streams",
            "--http2-max-frame-size",
            "--http2-max-headers-size",
            "--http2-max-send-buffer-size",
            "--http-protocols",
            "--http2-cleartext",
            "--http2-initial-window-size",
            "--http2-max-header-list-size",
            "--http3",
        ],
        HTTP2,
    ),
    (&["--daemon", "-D"], SUPERVISED),
];

/// Options of Python servers, for `tidegate run`.
const RUN: &[Row] = &[
    (
        &["--no-preload-app"],
        "leave it out: each worker process imports the application itself without --preload",
    ),
    (
        &["--http", "--http-parser"],
        "leave it out: HTTP/1.1 and HTTP/2 are both served, by parsers of their own",
    ),
    (&["--ws", "--no-ws", "--websockets"], "leave it out: WebSocket is built in"),
    (
        &["--no-access-log", "--disable-access-log"],
        "leave it out: there is no access log without --access-log FILE",
    ),
    (
        &["--use-colors", "--no-use-colors", "--reload-tick", "--reload-engine"],
        "leave it out: the log has no colours, and changed files are noticed without polling",
    ),
    (&["--reload-ignore-dirs", "--reload-ignore-paths"], "write --reload-exclude PATTERN"),
    (&["--server-header", "--no-server-header"], "leave it out: no Server field is added"),
    (&["--date-header", "--no-date-header"], "leave it out: responses always have a Date field"),
    (
        &["--timeout-worker-healthcheck", "--worker-healthcheck-timeout"],
        "write --timeout: a worker without progress for that long is killed",
    ),
    (
        &[
            "--h11-max-incomplete-event-size",
            "--limit-request-field_size",
            "--h11-max-incomplete-size",
        ],
        "write --limit-headers SIZE, for all header lines together",
    ),
    (
        &["--reset-contextvars"],
        "not supported yet: set context variables in the application or in a middleware of it",
    ),
    (&["--backpressure"], "write --limit-concurrency N, for the requests in the application"),
    (&["--spew"], "not supported: use a profiler or sys.settrace in the application"),
    (
        &["--no-sendfile", "--sendfile"],
        "leave it out: files are sent with sendfile where the system can",
    ),
    (&["--reuse-port"], "leave it out: the workers share the listening sockets"),
    (&["--worker-tmp-dir"], "leave it out: workers have no heartbeat files"),
    (
        &[
            "--disable-redirect-access-to-syslog",
            "--log-syslog",
            "--log-syslog-to",
            "--log-syslog-prefix",
            "--log-syslog-facility",
        ],
        LOGS,
    ),
    (
        &["-R", "--enable-stdio-inheritance"],
        "leave it out: what the application writes to standard output and error goes there",
    ),
    (&["--logger-class", "--log-config-json"], "write --log-config FILE"),
    (&["--log", "--no-log"], "write --log-level LEVEL"),
    (
        &[
            "--enable-backlog-metric",
            "--metrics",
            "--no-metrics",
            "--metrics-scrape-interval",
            "--metrics-address",
            "--metrics-port",
        ],
        "write --admin ADDRESS: it serves /metrics for Prometheus; --statsd-host sends to StatsD",
    ),
    (&["--pythonpath", "--working-dir"], "write --app-dir DIR, or set PYTHONPATH"),
    (&["--paste", "--paster", "--paste-global"], "Paste Deploy is not supported: write MODULE:APP"),
    (&["--proxy-mode"], "write --proxy-protocol for hypercorn's legacy and modern alike"),
    (
        &[
            "--permit-obsolete-folding",
            "--strip-header-spaces",
            "--casefold-http-method",
            "--permit-unconventional-http-method",
            "--permit-unconventional-http-version",
            "--forwarder-headers",
            "--header-map",
        ],
        STRICT,
    ),
    (
        &["--protocol", "--uwsgi-allow-from"],
        "the uwsgi protocol is not supported: let the proxy send HTTP",
    ),
    (
        &[
            "--runtime-mode",
            "--runtime-threads",
            "--runtime-blocking-threads",
            "--task-impl",
            "--blocking-threads-idle-timeout",
            "--opt",
            "--no-opt",
        ],
        THREADS,
    ),
    (
        &[
            "--http1-buffer-size",
            "--http1-header-read-timeout",
            "--http1-keep-alive",
            "--no-http1-keep-alive",
            "--http1-pipeline-flush",
            "--no-http1-pipeline-flush",
        ],
        "leave it out: connections are kept for --keep-alive TIME, within fixed bounds",
    ),
    (
        &["--static-path-mount", "--static-path-route", "--static-path-expires"],
        "write --static PREFIX=DIR",
    ),
    (
        &[
            "--respawn-failed-workers",
            "--no-respawn-failed-workers",
            "--respawn-interval",
            "--rss-sample-interval",
            "--rss-samples",
        ],
        "leave it out: workers that end are always replaced, later if they end again and again",
    ),
    (
        &["--control-socket", "--control-socket-mode", "--no-control-socket"],
        "leave it out: tidegate ctl has a socket of its own, for this user alone",
    ),
    (
        &[
            "--dirty-app",
            "--dirty-workers",
            "--dirty-timeout",
            "--dirty-threads",
            "--dirty-graceful-timeout",
        ],
        "dirty workers are not supported: run such an application as a server of its own",
    ),
    (
        &["--asgi-disconnect-grace-period"],
        "leave it out: an application is told at once that its client has gone",
    ),
    (&["--workers-max-rss"], "write --max-rss SIZE"),
    (
        &["--initgroups"],
        "workers of --user have no supplementary groups: give the group they need with --group",
    ),
    (&["--pid-file"], "write --pid FILE"),
    (&["-v"], "write tidegate version"),
];

/// Options of nginx, haproxy and caddy.
const GATEWAYS: &[Row] = &[
    (
        &["--user", "-u", "--group"],
        "the process does not change its user: systemd or another supervisor does that (User=, \
         Group=)",
    ),
    (
        &[
            "--ssl-keyfile",
            "--ssl-certfile",
            "--ssl-cert-reqs",
            "--ssl-ca-certs",
            "--ssl-certificate",
            "--ssl-ca",
            "--keyfile",
            "--certfile",
            "--cert-reqs",
            "--ca-certs",
            "--cert",
            "--key",
        ],
        TLS,
    ),
    (&["-t", "-T"], "write tidegate check FILE"),
    (
        &["-s", "--signal"],
        "write tidegate ctl reload (also SIGHUP) or tidegate ctl drain (also SIGTERM)",
    ),
    (
        &["-c", "--config", "-f"],
        "the configuration is an argument without an option: tidegate up FILE, tidegate check FILE",
    ),
    (&["-g"], "settings are written in the configuration: tidegate schema lists them"),
    (
        &["-p", "--prefix"],
        "leave it out: relative paths start at the directory of the configuration",
    ),
    (&["-q", "--quiet"], "write --log-level warn where a server is started"),
    (&["-v"], "write tidegate version"),
    (&["--adapter"], "leave it out: tidegate import converts configurations of other servers"),
    (&["--watch"], "leave it out: the configuration is watched, and applied when it changes"),
    (&["--environ", "--envfile"], "set the variables before the command: ${NAME} is replaced"),
    (&["--resume"], "leave it out: the configuration file is what the server starts with"),
    (&["--listen", "--from"], "write --bind ADDRESS for files; proxy takes it as an argument"),
    (&["--to"], "the upstream is an argument without an option: tidegate proxy FROM TO"),
    (&["--root"], "the directory is an argument without an option: tidegate files DIR"),
    (&["--browse"], "write --listing"),
];

/// Commands of other servers.
const COMMANDS: &[Row] = &[
    (&["validate", "test", "configtest"], "write tidegate check FILE"),
    (&["start", "serve", "server"], "write tidegate up FILE"),
    (&["stop", "quit"], "write tidegate ctl drain, or send SIGTERM"),
    (&["reload"], "write tidegate ctl reload, or send SIGHUP"),
    (&["status"], "write tidegate ctl status"),
    (&["file-server"], "write tidegate files DIR"),
    (&["reverse-proxy"], "write tidegate proxy FROM TO"),
    (&["adapt"], "write tidegate import"),
];

/// Replaces clap's message for a rejected word by the advice for it.
pub(super) fn advise(refused: Error, command: Option<&str>) -> Error {
    let context = |kind| match refused.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let said = match refused.kind() {
        ErrorKind::UnknownArgument => context(ContextKind::InvalidArg).and_then(|word| {
            let option = word.split('=').next().unwrap_or(word);
            Some(format!("{option}: {}", option_text(option, command)?))
        }),
        ErrorKind::InvalidSubcommand => context(ContextKind::InvalidSubcommand).and_then(|word| {
            let text = find(COMMANDS, word).map(str::to_owned);
            let application = || word.contains(':').then(|| format!("write tidegate run {word}"));
            Some(format!("there is no command {word}: {}", text.or_else(application)?))
        }),
        _ => None,
    };
    match said {
        Some(said) => Tidegate::command().error(refused.kind(), format!("{said}\n")),
        None => refused,
    }
}

/// Returns the advice for an option of a Python server.
pub(super) fn run_option(option: &str) -> Option<&'static str> {
    option_text(option, Some("run"))
}

fn option_text(option: &str, command: Option<&str>) -> Option<&'static str> {
    let own = if command == Some("run") { RUN } else { GATEWAYS };
    find(own, option).or_else(|| find(ANY, option))
}

fn find(rows: &[Row], word: &str) -> Option<&'static str> {
    rows.iter().find(|(words, _)| words.contains(&word)).map(|(_, text)| *text)
}

#[cfg(test)]
mod tests;
