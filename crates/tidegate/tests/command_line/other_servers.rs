//! Options of other servers: each is taken, or there is a text that says what to write instead.

use tempfile::TempDir;

use crate::process::{Ended, ended, run, tidegate};

#[test]
fn variables_of_python_servers_are_read() {
    let directory = TempDir::new().unwrap();
    let variables = [
        ("GUNICORN_CMD_ARGS", "--workers 3 --worker-tmp-dir /dev/shm"),
        ("UVICORN_LIMIT_CONCURRENCY", "7"),
        ("PORT", "9000"),
        ("FORWARDED_ALLOW_IPS", "10.0.0.0/8"),
    ];
    let mut command = tidegate(directory.path(), &["run", "app:app", "--print-config"]);
    let Ended { code, stdout, stderr } =
        ended(command.envs(variables).output().expect("the binary starts"));
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stderr.starts_with("note: GUNICORN_CMD_ARGS has --worker-tmp-dir"), "{stderr}");
    let printed: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(printed["python"]["processes"], 3);
    let configuration = &printed["configuration"];
    assert_eq!(configuration["apps"]["main"]["limits"]["in_flight"], 7);
    assert_eq!(configuration["listeners"]["main"]["bind"], "0.0.0.0:9000");
    assert_eq!(configuration["trusted_proxies"], serde_json::json!(["10.0.0.0/8"]));
    for (name, value, why) in [
        ("PORT", "x", "PORT is \"x\", which is no port"),
        ("FORWARDED_ALLOW_IPS", "x", "in FORWARDED_ALLOW_IPS: \"x\" "),
        ("GUNICORN_CMD_ARGS", "--preload -k gevent", "--preload is not for --threads gevent"),
    ] {
        let mut command = tidegate(directory.path(), &["run", "app:app", "--print-config"]);
        let said = ended(command.env(name, value).output().expect("the binary starts")).failed(2);
        assert!(said.contains(why), "{said}");
    }
    // A Lua program has its own arguments.
    let mut command = tidegate(directory.path(), &["run", "none.lua"]);
    let said = ended(command.env("UVICORN_PORT", "x").output().expect("the binary starts"));
    assert!(!said.stderr.contains("UVICORN"), "{}", said.stderr);
}

/// `uvicorn --help` (0.38).
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

#[test]
fn options_of_python_servers_are_taken_or_explained() {
    // One process for each is what a user does, and slow: the words are independent of each other.
    let missing: Vec<_> = UVICORN
        .iter()
        .chain(GUNICORN)
        .filter(|option| {
            let why = run(&["run", option, "x", "app:app"]).stderr;
            why.contains(&format!("unexpected argument '{option}'")) || why.contains("similar")
        })
        .collect();
    assert!(missing.is_empty(), "neither taken nor explained: {missing:?}");
}

#[test]
fn what_is_not_there_is_reported_on_either_side_of_the_application() {
    for (arguments, text) in [
        (&["run", "app:app", "-keventlet"][..], "eventlet is not supported: write gevent"),
        (&["run", "app:app", "-p", "8000"], "did you mean --port 8000?"),
        (&["up", "-u", "www-data"], "does not change its user"),
        (&["run", "-c", "gunicorn.conf.py", "app:app"], "gunicorn.conf.py is executed by Python"),
        (&["run", "app:app", "--preload", "--threads=gevent"], "--preload is not for --threads"),
        (&["run", "app:app", "--http", "h2"], "HTTP/1.1 and HTTP/2 are both served"),
        (&["up", "-c", "site.yaml"], "tidegate up FILE"),
        (&["up", "--http2"], "HTTP/2 is served to clients that ask for it"),
        (&["-t"], "write tidegate check FILE"),
        (&["-s", "reload"], "write tidegate ctl reload"),
        (&["reload"], "write tidegate ctl reload"),
        (&["validate", "--config", "x"], "write tidegate check FILE"),
        (&["app:app"], "write tidegate run app:app"),
    ] {
        let why = run(arguments).failed(2);
        assert!(why.starts_with("error: ") && why.contains(text), "{arguments:?}: {why}");
        assert!(!why.contains("similar"), "{arguments:?}: {why}");
    }
}
