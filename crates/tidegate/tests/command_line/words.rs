//! Commands that do not serve: what they print, and how they end.

use std::io::Read;
use std::process::Stdio;

use tempfile::TempDir;

use crate::process::{run, run_in, tidegate};

const COMMANDS: [&str; 15] = [
    "demo",
    "up",
    "check",
    "explain",
    "schema",
    "proxy",
    "files",
    "run",
    "test",
    "bench",
    "ctl",
    "import",
    "new",
    "version",
    "completions",
];

/// The commands of this build: `bench` is a feature.
fn commands() -> impl Iterator<Item = &'static str> {
    COMMANDS.into_iter().filter(|command| cfg!(feature = "bench") || *command != "bench")
}

const TINY: &str = r#"
listeners: { web: { bind: "127.0.0.1:0" } }
routes:
  - { name: ping, match: { path: /ping }, handler: { respond: { body: pong } } }
  - { name: api, match: { path: "/api/{*rest}" }, handler: { upstream: app } }
upstreams: { app: { servers: ["127.0.0.1:9"] } }
"#;

fn directory_with(name: &str, text: &str) -> TempDir {
    let directory = TempDir::new().unwrap();
    std::fs::write(directory.path().join(name), text).unwrap();
    directory
}

#[test]
fn help_names_every_command_and_says_what_each_is_for() {
    let help = run(&["--help"]).printed();
    for command in commands() {
        assert!(help.contains(&format!("\n  {command} ")), "{command}: {help}");
        let own = run(&[command, "--help"]).printed();
        assert!(own.contains("Usage: tidegate"), "{own}");
    }
    for command in [
        "demo", "up", "check", "explain", "schema", "proxy", "files", "run", "test", "ctl",
        "import", "new",
    ] {
        let own = run(&[command, "--help"]).printed();
        assert!(own.contains("Examples:\n  tidegate "), "{own}");
    }
    run(&["import"]).failed(2);
    run(&["ctl", "purge"]).failed(2);
}

#[test]
fn whatever_starts_a_server_takes_its_options() {
    for command in ["demo", "up", "proxy", "files"] {
        let help = run(&[command, "--help"]).printed();
        for option in ["--workers", "--cpu-affinity", "--log-level", "--log-format"] {
            assert!(help.contains(option), "{command}: {help}");
        }
    }
    let why = run(&["up", "--workers", "none"]).failed(2);
    assert!(why.contains("\"none\" is not auto"), "{why}");
    let why = run(&["up", "--log-level", "wran"]).failed(2);
    assert!(why.contains("warn"), "{why}");
}

#[test]
fn wrong_usage_ends_with_two_and_the_nearest_word() {
    let why = run(&["chek"]).failed(2);
    assert!(why.contains("check"), "{why}");
    let why = run(&["up", "--wrokers", "2"]).failed(2);
    assert!(why.contains("--workers"), "{why}");
    run(&[]).failed(2);
    run(&["explain", "GET"]).failed(2);
}

#[test]
fn versions_and_completions() {
    let version = run(&["version"]).printed();
    assert_eq!(version, format!("tidegate {}\n", env!("CARGO_PKG_VERSION")));
    assert_eq!(run(&["--version"]).printed(), version);
    for shell in ["bash", "zsh", "fish"] {
        let script = run(&["completions", shell]).printed();
        assert!(script.contains("explain") && script.contains("log-level"), "{script}");
    }
}

#[test]
fn schema_and_reference_pages() {
    let schema = run(&["schema"]).printed();
    let schema: serde_json::Value = serde_json::from_str(&schema).expect("the schema is JSON");
    assert!(schema["$schema"].as_str().is_some_and(|uri| uri.contains("json-schema.org")));
    for (option, holds) in [
        ("--markdown", "listeners"),
        ("--markdown=metrics", "tidegate_requests_total"),
        ("--markdown=admin", "/v1/reload"),
    ] {
        let page = run(&["schema", option]).printed();
        assert!(page.contains(holds) && page.contains('|'), "{page}");
    }
}

#[test]
fn check_counts_what_is_right() {
    let directory = directory_with("tidegate.yaml", TINY);
    let printed = run_in(directory.path(), &["check"]).printed();
    assert_eq!(printed, "ok: 2 routes, 1 upstream, 1 listener\n");
}

#[test]
fn check_says_every_error_at_once() {
    let wrong = TINY
        .replace("bind:", "bnid:")
        .replace("upstream: app", "upstream: ap")
        .replace("respond:", "repsond:");
    let directory = directory_with("site.yaml", &wrong);
    let ended = run_in(directory.path(), &["check", "site.yaml"]);
    assert_eq!(ended.stdout, "");
    let why = ended.failed(2);
    for part in
        ["site.yaml:2:", "did you mean \"bind\"?", "\"respond\"", "did you mean \"app\"?", "^^^"]
    {
        assert!(why.contains(part), "{why}\nwanted {part}");
    }
    // What would not start says the same.
    let started = run_in(directory.path(), &["up", "site.yaml"]).failed(2);
    assert!(started.contains("did you mean \"bind\"?"), "{started}");
}

#[test]
fn a_missing_file_gets_one_sentence_and_an_advice() {
    for arguments in [&["up"][..], &["check"], &["explain", "GET", "/"]] {
        let why = run(arguments).failed(2);
        assert!(why.starts_with("error: there is no file tidegate.yaml\n"), "{why}");
        assert!(why.contains("tidegate demo") && why.contains("listeners:"), "{why}");
    }
    let why = run(&["up", "elsewhere/a.yaml"]).failed(2);
    assert!(why.starts_with("error: there is no file elsewhere/a.yaml\n"), "{why}");
}

#[test]
fn the_advice_for_a_missing_file_is_a_configuration() {
    let why = run(&["check"]).failed(2);
    let (_, starter) = why.split_once("write this into it:\n\n").expect("a starter");
    let directory = directory_with("tidegate.yaml", starter);
    let printed = run_in(directory.path(), &["check"]).printed();
    assert_eq!(printed, "ok: 1 route, 1 upstream, 1 listener\n");
}

#[test]
fn explain_names_the_route_and_what_was_requested() {
    let directory = directory_with("tidegate.yaml", TINY);
    let explain = |words: &[&str]| run_in(directory.path(), &[&["explain"], words].concat());
    let printed = explain(&["GET", "http://a/api/x"]).printed();
    assert!(printed.contains("api"), "{printed}");
    let named = explain(&["tidegate.yaml", "GET", "http://a/ping", "-H", "x-a: b"]).printed();
    assert!(named.contains("ping") && named.contains("respond"), "{named}");
    let json = explain(&["GET", "http://a/ping", "--json", "--client-ip", "::1"]).printed();
    serde_json::from_str::<serde_json::Value>(&json).expect("--json prints JSON");
    explain(&["GET", "http://a/ping", "-H", "x-a"]).failed(2);
    explain(&["GET", "http://a/ping", "--listener", "wbe"]).failed(2);
}

#[test]
fn a_reader_that_leaves_is_not_a_failure() {
    let directory = TempDir::new().unwrap();
    let mut command = tidegate(directory.path(), &["schema"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Like `| head -c 1`, without waiting for it to have written everything.
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut [0]).unwrap();
    drop(stdout);
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!((child.wait().unwrap().code(), stderr.as_str()), (Some(0), ""));
}
