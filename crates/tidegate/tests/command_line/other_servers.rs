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
        ("PORT", "x", "PORT is \"x\", which is not a port"),
        ("FORWARDED_ALLOW_IPS", "x", "in FORWARDED_ALLOW_IPS: \"x\" "),
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
#[test]
fn what_is_not_there_is_reported_on_either_side_of_the_application() {
    for (arguments, text) in [
        (&["run", "app:app", "-keventlet"][..], "eventlet is not supported: write gevent"),
        (&["run", "app:app", "-p", "8000"], "did you mean --port 8000?"),
        (&["up", "-u", "www-data"], "does not change its user"),
        (&["run", "-c", "gunicorn.conf.py", "app:app"], "gunicorn.conf.py is executed by Python"),
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
