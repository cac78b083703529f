//! Advice for options and commands of other servers, against the options that exist.

use std::collections::HashSet;

use clap::CommandFactory;

use super::{ANY, COMMANDS, GATEWAYS, RUN, run_option};
use crate::commands::Tidegate;

const UVICORN: &[&str] = &[
    "--host",
    "--port",
    "--uds",
    "--fd",
    "--reload",
    "--reload-dir",
    "--reload-include",
    "--reload-exclude",
    "--reload-delay",
    "--workers",
    "--loop",
    "--http",
    "--ws",
    "--ws-max-size",
    "--ws-max-queue",
    "--ws-ping-interval",
    "--ws-ping-timeout",
    "--ws-per-message-deflate",
    "--lifespan",
    "--interface",
    "--env-file",
    "--log-config",
    "--log-level",
    "--access-log",
    "--no-access-log",
    "--use-colors",
    "--no-use-colors",
    "--proxy-headers",
    "--no-proxy-headers",
    "--server-header",
    "--no-server-header",
    "--date-header",
    "--no-date-header",
    "--forwarded-allow-ips",
    "--root-path",
    "--limit-concurrency",
    "--backlog",
    "--limit-max-requests",
    "--limit-max-requests-jitter",
    "--timeout-keep-alive",
    "--timeout-graceful-shutdown",
    "--timeout-worker-healthcheck",
    "--ssl-keyfile",
    "--ssl-certfile",
    "--ssl-keyfile-password",
    "--ssl-version",
    "--ssl-cert-reqs",
    "--ssl-ca-certs",
    "--ssl-ciphers",
    "--header",
    "--app-dir",
    "--h11-max-incomplete-event-size",
    "--factory",
    "--reset-contextvars",
];

/// The settings of gunicorn that have an option (27).
const GUNICORN: &[&str] = &[
    "-c",
    "--config",
    "-b",
    "--bind",
    "--backlog",
    "-w",
    "--workers",
    "-k",
    "--worker-class",
    "--threads",
    "--worker-connections",
    "--max-requests",
    "--max-requests-jitter",
    "-t",
    "--timeout",
    "--graceful-timeout",
    "--keep-alive",
    "--limit-request-line",
    "--limit-request-fields",
    "--limit-request-field_size",
    "--reload",
    "--reload-engine",
    "--reload-extra-file",
    "--spew",
    "--check-config",
    "--print-config",
    "--preload",
    "--no-sendfile",
    "--reuse-port",
    "--chdir",
    "-D",
    "--daemon",
    "-e",
    "--env",
    "-p",
    "--pid",
    "--worker-tmp-dir",
    "-u",
    "--user",
    "-g",
    "--group",
    "-m",
    "--umask",
    "--initgroups",
    "--forwarded-allow-ips",
    "--access-logfile",
    "--disable-redirect-access-to-syslog",
    "--access-logformat",
    "--error-logfile",
    "--log-file",
    "--log-level",
    "--capture-output",
    "--logger-class",
    "--log-config",
    "--log-config-json",
    "--log-syslog-to",
    "--log-syslog",
    "--log-syslog-prefix",
    "--log-syslog-facility",
    "-R",
    "--enable-stdio-inheritance",
    "--statsd-host",
    "--dogstatsd-tags",
    "--statsd-prefix",
    "-n",
    "--name",
    "--pythonpath",
    "--paste",
    "--paster",
    "--proxy-protocol",
    "--proxy-allow-from",
    "--keyfile",
    "--certfile",
    "--ssl-version",
    "--cert-reqs",
    "--ca-certs",
    "--suppress-ragged-eofs",
    "--do-handshake-on-connect",
    "--ciphers",
    "--paste-global",
    "--permit-obsolete-folding",
    "--strip-header-spaces",
    "--permit-unconventional-http-method",
    "--permit-unconventional-http-version",
    "--casefold-http-method",
    "--forwarder-headers",
    "--header-map",
    "--enable-backlog-metric",
    "--protocol",
    "--uwsgi-allow-from",
    "--http-protocols",
    "--http2-cleartext",
    "--http2-max-concurrent-streams",
    "--http2-initial-window-size",
    "--http2-max-frame-size",
    "--http2-max-header-list-size",
    "--asgi-loop",
    "--asgi-lifespan",
    "--asgi-disconnect-grace-period",
    "--websocket-max-message-size",
    "--http-parser",
    "--root-path",
    "--dirty-app",
    "--dirty-workers",
    "--dirty-timeout",
    "--dirty-threads",
    "--dirty-graceful-timeout",
    "--control-socket",
    "--control-socket-mode",
    "--no-control-socket",
];

/// Every option of a command, with its aliases.
fn options(command: &clap::Command) -> HashSet<String> {
    let all = command.get_arguments().flat_map(|arg| {
        let aliases = arg.get_all_aliases().unwrap_or_default();
        let long = arg.get_long().into_iter().chain(aliases).map(|name| format!("--{name}"));
        long.chain(arg.get_short().map(|short| format!("-{short}"))).collect::<Vec<_>>()
    });
    all.collect()
}

#[test]
fn advice_names_options_and_commands_that_exist() {
    let root = Tidegate::command();
    let all: HashSet<String> = root.get_subcommands().flat_map(options).collect();
    for (words, text) in ANY.iter().chain(RUN).chain(GATEWAYS).chain(COMMANDS) {
        for word in text.split(|c: char| c.is_whitespace() || ",;:()".contains(c)) {
            assert!(
                !word.starts_with("--") || word == "--help" || all.contains(word),
                "{words:?}: {word}"
            );
        }
        for (_, rest) in
            text.match_indices("write tidegate ").map(|(at, m)| text.split_at(at + m.len()))
        {
            let name = rest.split([' ', ',', '.']).next().unwrap_or_default();
            assert!(root.find_subcommand(name).is_some(), "{words:?}: {name}");
        }
    }
}

#[test]
fn no_row_hides_an_option_and_no_word_stands_twice() {
    let root = Tidegate::command();
    let run = options(root.find_subcommand("run").unwrap());
    let mut seen = HashSet::new();
    for word in ANY.iter().chain(RUN).flat_map(|(words, _)| *words) {
        assert!(!run.contains(*word), "{word} is an option of run");
        assert!(seen.insert(word), "{word} stands twice");
    }
}

#[test]
fn options_of_python_servers_are_taken_or_explained() {
    let root = Tidegate::command();
    let mut taken = options(&root);
    taken.extend(options(root.find_subcommand("run").unwrap()));
    let missing: Vec<_> = UVICORN
        .iter()
        .chain(GUNICORN)
        .filter(|option| !taken.contains(**option) && run_option(option).is_none())
        .collect();
    assert!(missing.is_empty(), "neither taken nor explained: {missing:?}");
}
