//! `tidegate ctl` against a running server.

use std::path::Path;

use tempfile::TempDir;

use crate::process::{Running, ended, get, run_in, tidegate};

const CONFIG: &str = r#"
listeners: { web: { bind: "127.0.0.1:0" } }
admin: { bind: "127.0.0.1:0", token: sesame }
routes:
  - { name: ping, match: { path: /ping }, handler: { respond: { body: pong } } }
"#;

const UPSTREAM: &str = r#"
  - { name: api, match: { path: /api }, handler: { upstream: app } }
upstreams: { app: { servers: ["127.0.0.1:9"] } }
"#;

fn start(directory: &Path, file: &str) -> Running {
    std::fs::write(directory.join(file), CONFIG).unwrap();
    let mut server = Running::start(tidegate(directory, &["up", file, "--workers", "1"]));
    server.address("web");
    server
}

#[test]
fn without_a_server_it_says_where_it_looked() {
    let directory = TempDir::new().unwrap();
    let why = run_in(directory.path(), &["ctl", "status"]).failed(1);
    assert!(why.starts_with("error: no server runs here") && why.contains("--admin"), "{why}");
    let why = run_in(directory.path(), &["ctl", "status", "--admin", "unix:/nowhere"]).failed(1);
    assert!(why.starts_with("error: no server listens at unix:/nowhere"), "{why}");
    run_in(directory.path(), &["ctl", "status", "--admin", "nowhere"]).failed(2);
}

#[test]
fn the_only_server_is_found_by_itself() {
    let directory = TempDir::new().unwrap();
    let server = start(directory.path(), "tidegate.yaml");
    let printed = run_in(directory.path(), &["ctl", "status"]).printed();
    assert!(printed.contains(&format!("is serving as process {}", server.id())), "{printed}");
    assert!(printed.contains("LISTENER") && printed.contains("\nweb "), "{printed}");
    let json = run_in(directory.path(), &["ctl", "status", "--json"]).printed();
    let json: serde_json::Value = serde_json::from_str(&json).expect("--json prints JSON");
    assert_eq!((&json["state"], &json["workers"][0]["index"]), (&"serving".into(), &0.into()));

    let other = start(directory.path(), "other.yaml");
    let why = run_in(directory.path(), &["ctl", "status"]).failed(1);
    assert!(why.starts_with("error: 2 servers run here"), "{why}");
    for id in [server.id(), other.id()] {
        assert!(why.contains(&format!("{id}.sock")), "{why}");
    }
}

#[test]
fn over_tcp_it_needs_the_token() {
    let directory = TempDir::new().unwrap();
    let mut server = start(directory.path(), "tidegate.yaml");
    let admin = server.address("admin").to_string();
    let why = run_in(directory.path(), &["ctl", "status", "--admin", &admin]).failed(1);
    assert!(why.contains("Bearer") && why.contains("TIDEGATE_TOKEN"), "{why}");
    std::fs::write(directory.path().join("token"), "sesame\n").unwrap();
    let arguments = ["ctl", "--admin", &admin, "--token-file", "token", "status"];
    assert!(run_in(directory.path(), &arguments).printed().contains("serving"));
    let mut command = tidegate(directory.path(), &["ctl", "status"]);
    command.env("TIDEGATE_ADMIN", format!("http://{admin}")).env("TIDEGATE_TOKEN", "wrong");
    let why = ended(command.output().unwrap()).failed(1);
    assert!(why.contains("not the admin token"), "{why}");
    assert!(!why.contains("wrong"), "the token is shown: {why}");
}

#[test]
fn reload_waits_for_what_comes_of_it() {
    let directory = TempDir::new().unwrap();
    let server = start(directory.path(), "tidegate.yaml");
    let reload = || run_in(directory.path(), &["ctl", "reload", "--wait"]);
    let write = |text: &str| std::fs::write(directory.path().join("tidegate.yaml"), text).unwrap();

    write(&CONFIG.replace("pong", "new"));
    let printed = reload().printed();
    assert!(printed.starts_with("serving configuration "), "{printed}");

    write(&CONFIG.replace("handler", "hanlder"));
    let why = reload().failed(1);
    assert!(why.contains("did you mean \"handler\"?") && why.contains("stays in use"), "{why}");
    let status = run_in(directory.path(), &["ctl", "status"]).printed();
    assert!(status.contains("was rejected:\n  tidegate.yaml:"), "{status}");

    write(CONFIG);
    let reloaded = run_in(directory.path(), &["ctl", "reload"]).printed();
    assert!(reloaded.starts_with("asked for a reload"), "{reloaded}");
    drop(server);
}

#[test]
fn routes_upstreams_and_the_level_of_the_log() {
    let directory = TempDir::new().unwrap();
    let config = format!("{CONFIG}{UPSTREAM}");
    std::fs::write(directory.path().join("a.yaml"), config).unwrap();
    let mut server = Running::start(tidegate(directory.path(), &["up", "a.yaml"]));
    let web = server.address("web");
    let ctl = |words: &[&str]| run_in(directory.path(), &[&["ctl"], words].concat());
    get(web, "/ping", "");
    let routes = ctl(&["routes"]).printed();
    assert!(
        routes.starts_with("ROUTE ") && routes.contains("\nping ") && routes.contains("\napi ")
    );
    assert!(ctl(&["upstreams"]).printed().contains(" healthy "));

    let drain = ["upstreams", "app", "--server", "127.0.0.1:9"];
    let drained = ctl(&[&drain[..], &["--drain", "--weight", "7"]].concat()).printed();
    assert!(drained.starts_with("changed 127.0.0.1:9 until the next reload\n"), "{drained}");
    assert!(drained.contains("draining (until the next reload)  7 "), "{drained}");
    let why = ctl(&["upstreams", "app", "--server", "127.0.0.1:8", "--drain"]).failed(1);
    assert!(why.contains("did you mean \"127.0.0.1:9\"?"), "{why}");
    assert!(ctl(&["upstreams", "ap"]).failed(1).contains("did you mean \"app\"?"));

    assert_eq!(ctl(&["log-level"]).printed(), "info\n");
    let changed = ctl(&["log-level", "debug"]).printed();
    assert_eq!(changed, "the level is debug until the next reload\n");
    assert_eq!(ctl(&["log-level"]).printed(), "debug\n");
    assert!(ctl(&["log-level", "debgu"]).failed(1).contains("did you mean \"debug\"?"));

    ctl(&["reload", "--wait"]).printed();
    let after = ctl(&["upstreams", "app"]).printed();
    assert!(after.contains(" healthy  1 ") && !after.contains("draining"), "{after}");
}

#[test]
fn the_terminal_view_needs_a_terminal() {
    let directory = TempDir::new().unwrap();
    let _server = start(directory.path(), "tidegate.yaml");
    let why = run_in(directory.path(), &["ctl", "top"]).failed(2);
    assert!(why.contains("needs a terminal") && why.contains("ctl status"), "{why}");
}

#[test]
fn the_live_log_shows_requests_until_enough_were_seen() {
    let directory = TempDir::new().unwrap();
    std::fs::write(directory.path().join("a.yaml"), CONFIG).unwrap();
    let mut server = Running::start(tidegate(directory.path(), &["up", "a.yaml"]));
    let web = server.address("web");
    let words = ["ctl", "log", "--count", "2", "--route", "ping", "--where", "query.n != 1"];
    let mut watching = tidegate(directory.path(), &words);
    let watching = std::thread::spawn(move || ended(watching.output().expect("the binary starts")));
    // Requests before it watches are not shown.
    let mut sent = 0;
    while !watching.is_finished() {
        sent += 1;
        get(web, &format!("/ping?n={sent}&token=s3cret"), "");
    }
    let printed = watching.join().unwrap().printed();
    assert_eq!(printed.matches("GET http://").count(), 2, "{printed}");
    assert!(
        printed.contains("route ping: ") && printed.contains("accept listener=web"),
        "{printed}"
    );
    assert!(!printed.contains("s3cret"), "{printed}");
    let why = run_in(directory.path(), &["ctl", "log", "--where", "qery.n"]).failed(1);
    assert!(why.contains("did you mean \"query.n\"?"), "{why}");
}

#[test]
fn drain_ends_the_server() {
    let directory = TempDir::new().unwrap();
    let server = start(directory.path(), "tidegate.yaml");
    assert_eq!(run_in(directory.path(), &["ctl", "drain"]).printed(), "draining\n");
    let (code, printed) = server.end();
    assert_eq!(code, Some(0), "{printed}");
    let why = run_in(directory.path(), &["ctl", "status"]).failed(1);
    assert!(why.starts_with("error: no server runs here"), "{why}");
}
