//! `run`: what is told of a Python application, and what is said of options that are wrong.

use serde_json::Value;
use tempfile::TempDir;

use crate::process::{Running, run, run_in, tidegate};

/// What workers would be told.
#[track_caller]
fn told(arguments: &[&str]) -> Value {
    let said = run(&[&["run", "--print-config"], arguments].concat()).said();
    serde_json::from_str(&said).expect("JSON is printed")
}

#[track_caller]
fn refused(arguments: &[&str]) -> String {
    run(&[&["run"], arguments].concat()).failed(2)
}

#[test]
fn without_python_inside_it_says_what_to_install() {
    let why = refused(&["app:app"]);
    assert!(why.starts_with("error: this tidegate has no Python inside"), "{why}");
    assert!(why.contains("cannot run app:app") && why.contains("pip install tidegate"), "{why}");
    // What was mistyped is said first: it would be wrong elsewhere too.
    let why = refused(&["app.py"]);
    assert!(why.contains("did you mean app:app?"), "{why}");
}

#[test]
fn options_stand_on_either_side_of_the_application() {
    let before = told(&["--threads", "4", "--interface", "wsgi", "shop.web:app"]);
    assert_eq!(before["python"]["target"], "shop.web:app");
    assert_eq!(before["python"]["threads"], 4);
    assert_eq!(before["python"]["interface"], "wsgi");
    let after = told(&["shop.web:app", "--threads=4", "--interface", "wsgi"]);
    assert_eq!(before["configuration"], after["configuration"]);
    assert_eq!(before["python"]["threads"], after["python"]["threads"]);
    for wrong in [&["app:app", "--wrokers", "2"][..], &["--wrokers", "2", "app:app"]] {
        let why = refused(wrong);
        assert!(why.contains("'--wrokers'") && why.contains("'--workers'"), "{why}");
    }
    let why = refused(&["app:app", "other:app"]);
    assert!(why.starts_with("error: \"other:app\" is unexpected"), "{why}");
}

#[test]
fn clients_come_in_where_it_is_said() {
    let binds = |arguments: &[&str]| {
        let told = told(&[arguments, &["app:app"]].concat());
        let listeners = told["configuration"]["listeners"].as_object().cloned().unwrap();
        let bind = |(name, one): (&String, &Value)| format!("{name} {}", one["bind"]);
        listeners.iter().map(bind).collect::<Vec<_>>().join(", ").replace('"', "")
    };
    assert_eq!(binds(&[]), "main 127.0.0.1:8000");
    assert_eq!(binds(&["--port", "0"]), "main 127.0.0.1:0");
    assert_eq!(binds(&["--host", "::1", "--port", "9"]), "main [::1]:9");
    assert_eq!(binds(&["--host", "localhost"]), "main 127.0.0.1:8000");
    assert_eq!(binds(&["--uds", "/run/a.sock"]), "main unix:/run/a.sock");
    assert_eq!(binds(&["-b", ":80", "-b", "unix:/b"]), "main [::]:80, main-2 unix:/b");
    assert_eq!(binds(&["--bind", "fd://3"]), binds(&["--fd", "3"]));
    for (wrong, said) in [
        (&["--bind", "fd://1"][..], "3 is the first"),
        (&["--bind", "localhost"], "\"localhost\" "),
        (&["--host", "example.com"], "names no address of this machine"),
        (&["--host", "a b"], "is no address to listen on"),
        (&["--host", "::1", "--bind", ":80"], "cannot be used with"),
        (&["--backlog", "0"], "0 is not in 1..=65535"),
    ] {
        let why = refused(&[wrong, &["app:app"]].concat());
        assert!(why.contains(said), "{why}");
    }
}

#[test]
fn limits_and_directories_come_before_the_application() {
    let directory = TempDir::new().unwrap();
    std::fs::create_dir(directory.path().join("public")).unwrap();
    let arguments = [
        "run",
        "app:app",
        "--print-config",
        "--static",
        "/static/=public",
        "--limit-body=1MiB",
        "--limit-request-line=4096",
        "--limit-request-fields=50",
        "--keep-alive=5",
        "--body-timeout=7",
        "--limit-concurrency=7",
        "--forwarded-allow-ips=10.0.0.0/8,::1",
        "--access-log=-",
        "--backlog=128",
    ];
    let told: Value = serde_json::from_str(&run_in(directory.path(), &arguments).said()).unwrap();
    let told = &told["configuration"];
    assert_eq!(told["routes"][0]["match"]["path"], "/static/{*file}");
    let root = told["routes"][0]["handler"]["files"]["root"].as_str().unwrap();
    assert!(root.starts_with('/') && root.ends_with("/public"), "{root}");
    assert_eq!(told["routes"][1]["handler"]["app"], "main");
    let limits = serde_json::json!({
        "request_line": "4KiB", "header_count": 50, "body": "1MiB"
    });
    assert_eq!(told["limits"], limits);
    assert_eq!(told["timeouts"], serde_json::json!({ "idle": "5s", "body": "7s" }));
    assert_eq!(told["apps"]["main"]["limits"]["in_flight"], 7);
    assert_eq!(told["trusted_proxies"], serde_json::json!(["10.0.0.0/8", "::1"]));
    assert_eq!(told["listeners"]["main"]["backlog"], 128);
    assert_eq!(told["log"]["access"]["path"], "stdout");
    let why = refused(&["app:app", "--static", "/static=nowhere"]);
    assert!(why.contains("cannot serve nowhere"), "{why}");
}

#[test]
fn the_way_to_the_application_has_its_bounds() {
    let app = |options: &[&str]| {
        told(&[&["app:app"], options].concat())["configuration"]["apps"]["main"].clone()
    };
    assert_eq!(app(&[])["python"], "app:app");
    let bounded = app(&[
        "--response-timeout=5",
        "--pause-timeout=1h",
        "--store=8MiB",
        "--ws-max-size=1048576",
        "--ws-max-queue=8",
        "--ws-ping-interval=0",
        "--ws-ping-timeout=3",
        "--ws-per-message-deflate=true",
    ]);
    assert_eq!(bounded["timeouts"], serde_json::json!({ "answer": "5s", "pause": "1h" }));
    let websocket = serde_json::json!({
        "message_size": "1MiB", "queue": 8, "ping_every": "0s", "ping_timeout": "3s",
        "compression": true,
    });
    assert_eq!(bounded["websocket"], websocket);
    assert_eq!(bounded["limits"]["store"], "8MiB");
}

#[test]
fn peers_are_believed_as_elsewhere() {
    let believed = |options: &[&str]| {
        let told = told(&[&["app:app"], options].concat());
        told["configuration"]["trusted_proxies"].to_string().replace('"', "")
    };
    assert_eq!(believed(&[]), "[127.0.0.1,::1]");
    assert_eq!(believed(&["--no-proxy-headers"]), "[]");
    assert_eq!(believed(&["--no-proxy-headers", "--proxy-headers"]), "[127.0.0.1,::1]");
    assert_eq!(believed(&["--forwarded-allow-ips", "*"]), "[0.0.0.0/0,::/0]");
}

#[test]
fn what_is_not_there_or_not_for_lua_is_said() {
    for (wrong, said) in [
        (&["app:app", "--app-dir", "nowhere"][..], "nowhere is not a directory"),
        (&["app:app", "--log-config", "log.json"], "there is no file log.json"),
        (&["app:app", "--reload-dir", "."], "--reload"),
        (&["app:app", "--access-log-format", "json"], "--access-log"),
        (&["app:app", "--max-requests-jitter", "5"], "--max-requests"),
        (&["app:app", "--lifetime", "0"], "no time at all"),
        (&["app:app", "--store", "1KiB"], "from 1MiB to 64GiB"),
        (&["app:app", "--timeout", "x"], "\"x\" is not a duration"),
        (&["app:app", "--root-path", "api"], "did you mean /api?"),
        (&["app:app", "--interface", "rsgi"], "asgi, wsgi"),
        (&["--factory", "a.lua"], "a.lua is a Lua program, and what was said about the"),
        (&["--reload", "a.lua"], "is for Python applications"),
        (&["--port", "1", "a.lua"], "is for Python applications"),
    ] {
        let why = refused(wrong);
        assert!(why.contains(said), "{wrong:?}: {why}");
    }
}

#[test]
fn the_guide_has_every_option() {
    let guide = include_str!("../../../../docs/guide/python.md");
    let help = run(&["run", "--help"]).said();
    let words = help.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
    let mut options: Vec<_> = words.filter(|word| word.starts_with("--")).collect();
    // The program's own, Silly's and those that have nothing to do with Python.
    let others = ["--key", "--lualib-path", "--lualib-cpath", "--log-path", "--pid-file"];
    let affinity = ["--worker-affinity", "--cpu-affinity", "--help"];
    options.retain(|option| !others.contains(option) && !affinity.contains(option));
    assert!(options.len() > 40, "{help}");
    options.retain(|option| {
        let quoted = format!("{option}`");
        let with_value = format!("{option} ");
        !guide.contains(&quoted) && !guide.contains(&with_value)
    });
    assert!(options.is_empty(), "docs/guide/python.md says nothing of {options:?}");
}

#[test]
fn what_workers_are_told_is_a_configuration() {
    let directory = TempDir::new().unwrap();
    let odd = "it's ${HERE}: {x}";
    std::fs::create_dir(directory.path().join(odd)).unwrap();
    let mount = format!("/static={odd}");
    for options in [
        &["--port=0"][..],
        &["-b", ":0", "-b", "unix:/tmp/${a}.sock", "-b", "fd://3", "-b", "fd://4"],
        &["--static", &mount, "--static", "/files=.", "--access-log=${x}.log"],
        &["--limit-body=unlimited", "--limit-headers=1MiB", "--forwarded-allow-ips=*"],
        &["--limit-concurrency=1", "--response-timeout=1", "--ws-ping-interval=0"],
    ] {
        let arguments = [&["run", "app:app", "--print-config"], options].concat();
        let told: Value =
            serde_json::from_str(&run_in(directory.path(), &arguments).said()).unwrap();
        let file = directory.path().join("tidegate.yaml");
        std::fs::write(file, told["configuration"].to_string()).unwrap();
        let said = run_in(directory.path(), &["check"]).said();
        assert!(said.starts_with("ok: "), "{options:?}: {said}");
    }
}

#[test]
fn a_long_turn_of_a_program_is_logged_with_its_stack() {
    // It ends when the line was seen.
    let directory = TempDir::new().unwrap();
    let program = "
local function count_for_ever()
  while true do
    for _ = 1, 100000 do end
    local file = io.open('seen')
    if file then return end
  end
end
require 'silly.task'.fork(function() count_for_ever() require 'silly'.exit() end)
";
    std::fs::write(directory.path().join("busy.lua"), program).unwrap();
    let mut running = Running::start(tidegate(directory.path(), &["run", "busy.lua"]));
    let line = running.line(|line| {
        line.contains("Lua turn has been running for more than a second").then(|| line.to_owned())
    });
    assert!(line.contains("vm=lua-0") && line.contains("busy.lua:"), "{line}");
    assert!(line.contains("count_for_ever"), "{line}");
    std::fs::write(directory.path().join("seen"), "").unwrap();
    let (code, said) = running.end();
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(said.matches("Lua turn has").count(), 1, "{said}");
}
