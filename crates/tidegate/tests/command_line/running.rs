//! `run`: what is told of a Python application, and what is said of options that are wrong.

use serde_json::Value;
use tempfile::TempDir;

use crate::process::{Running, run, run_in, tidegate};

/// What workers would be told.
#[track_caller]
fn printed_config(arguments: &[&str]) -> Value {
    let printed = run(&[&["run", "--print-config"], arguments].concat()).printed();
    serde_json::from_str(&printed).expect("JSON is printed")
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
    let before = printed_config(&["--threads", "4", "--interface", "wsgi", "shop.web:app"]);
    assert_eq!(before["python"]["target"], "shop.web:app");
    assert_eq!(before["python"]["threads"], 4);
    assert_eq!(before["python"]["interface"], "wsgi");
    let after = printed_config(&["shop.web:app", "--threads=4", "--interface", "wsgi"]);
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
fn clients_connect_where_configured() {
    let binds = |arguments: &[&str]| {
        let printed_config = printed_config(&[arguments, &["app:app"]].concat());
        let listeners = printed_config["configuration"]["listeners"].as_object().cloned().unwrap();
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
    for (wrong, printed) in [
        (&["--bind", "fd://1"][..], "3 is the first"),
        (&["--bind", "localhost"], "\"localhost\" "),
        (&["--host", "example.com"], "names no address of this machine"),
        (&["--host", "a b"], "is not an address to listen on"),
        (&["--host", "::1", "--bind", ":80"], "cannot be used with"),
        (&["--backlog", "0"], "0 is not in 1..=65535"),
    ] {
        let why = refused(&[wrong, &["app:app"]].concat());
        assert!(why.contains(printed), "{why}");
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
    let printed_config: Value =
        serde_json::from_str(&run_in(directory.path(), &arguments).printed()).unwrap();
    let printed_config = &printed_config["configuration"];
    assert_eq!(printed_config["routes"][0]["match"]["path"], "/static/{*file}");
    let root = printed_config["routes"][0]["handler"]["files"]["root"].as_str().unwrap();
    assert!(root.starts_with('/') && root.ends_with("/public"), "{root}");
    assert_eq!(printed_config["routes"][1]["handler"]["app"], "main");
    let limits = serde_json::json!({
        "request_line": "4KiB", "header_count": 50, "body": "1MiB"
    });
    assert_eq!(printed_config["limits"], limits);
    assert_eq!(printed_config["timeouts"], serde_json::json!({ "idle": "5s", "body": "7s" }));
    assert_eq!(printed_config["apps"]["main"]["limits"]["in_flight"], 7);
    assert_eq!(printed_config["trusted_proxies"], serde_json::json!(["10.0.0.0/8", "::1"]));
    assert_eq!(printed_config["listeners"]["main"]["backlog"], 128);
    assert_eq!(printed_config["log"]["access"]["path"], "stdout");
    let why = refused(&["app:app", "--static", "/static=nowhere"]);
    assert!(why.contains("cannot serve nowhere"), "{why}");
}

#[test]
fn the_way_to_the_application_has_its_bounds() {
    let app = |options: &[&str]| {
        printed_config(&[&["app:app"], options].concat())["configuration"]["apps"]["main"].clone()
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
fn options_of_gunicorn_and_uvicorn_are_taken() {
    let printed = printed_config(&[
        "app:app",
        "-kuvicorn.workers.UvicornWorker",
        "-w4",
        "--log-level=warning",
        "-n=shop",
        "--proxy-protocol",
        "--header=X-Frame-Options: DENY",
        "--header=x-a:{b} ${C}",
        "--header=x-a:2",
    ]);
    assert_eq!(printed["python"]["interface"], "asgi");
    assert_eq!(printed["python"]["name"], "shop");
    assert_eq!(printed["python"]["processes"], 4);
    let configuration = &printed["configuration"];
    let from = &configuration["listeners"]["main"]["proxy_protocol"]["from"];
    assert_eq!(*from, serde_json::json!(["127.0.0.1", "::1"]));
    let added = serde_json::json!({
        "x-frame-options": ["DENY"], "x-a": ["{{b}} $${{C}}", "2"]
    });
    let filter = &configuration["defaults"]["filters"][0]["response_headers"];
    assert_eq!((&filter["add"], &filter["always"]), (&added, &Value::Bool(true)));
    let proxies = |options: &[&str]| {
        let printed = printed_config(&[&["app:app"], options].concat());
        printed["configuration"]["listeners"]["main"]["proxy_protocol"].clone()
    };
    assert_eq!(proxies(&["--proxy-protocol=off"]), Value::Null);
    assert_eq!(
        proxies(&["--proxy-protocol=v2", "--proxy-allow-from=*"])["from"],
        serde_json::json!(["0.0.0.0/0", "::/0"])
    );
    for (wrong, why) in [
        (&["--proxy-allow-from=*"][..], "--proxy-protocol"),
        (&["-e", "A"], "is not NAME=VALUE"),
        (&["--header", "x"], "is not NAME:VALUE"),
        (&["--umask", "22"], "write it as an octal number"),
        (&["--reload-extra-file", "a"], "--reload"),
        (&["-k", "sync", "--interface", "asgi"], "cannot be used with"),
    ] {
        let said = refused(&[&["app:app"], wrong].concat());
        assert!(said.contains(why), "{said}");
    }
}

#[test]
fn peers_are_believed_as_elsewhere() {
    let believed = |options: &[&str]| {
        let printed_config = printed_config(&[&["app:app"], options].concat());
        printed_config["configuration"]["trusted_proxies"].to_string().replace('"', "")
    };
    assert_eq!(believed(&[]), "[127.0.0.1,::1]");
    assert_eq!(believed(&["--no-proxy-headers"]), "[]");
    assert_eq!(believed(&["--no-proxy-headers", "--proxy-headers"]), "[127.0.0.1,::1]");
    assert_eq!(believed(&["--forwarded-allow-ips", "*"]), "[0.0.0.0/0,::/0]");
}

#[test]
fn what_is_not_there_or_not_for_lua_is_reported() {
    for (wrong, printed) in [
        (&["app:app", "--app-dir", "nowhere"][..], "nowhere is not a directory"),
        (&["app:app", "--log-config", "log.json"], "there is no file log.json"),
        (&["app:app", "--reload-dir", "."], "--reload"),
        (&["app:app", "--reload", "--reload-dir", "nowhere"], "nowhere is not a directory"),
        (&["app:app", "--reload", "--reload-extra-file", "no"], "there is no file no"),
        (&["app:app", "--access-log-format", "%(x)s"], "%(x)s is not a known atom"),
        (&["app:app", "--uds-permissions", "999"], "not a mode of a file"),
        (&["app:app", "--user", "no-such-user"], "there is no user \"no-such-user\""),
        (&["app:app", "--max-requests-jitter", "5"], "--max-requests"),
        (&["app:app", "--lifetime", "0"], "not a positive time"),
        (&["app:app", "--store", "1KiB"], "from 1MiB to 64GiB"),
        (&["app:app", "--timeout", "x"], "\"x\" is not a duration"),
        (&["app:app", "--root-path", "api"], "did you mean /api?"),
        (&["app:app", "--interface", "rsgi"], "asgi, wsgi"),
        (&["--factory", "a.lua"], "a.lua is a Lua program, and what was said about the"),
        (&["--preload", "a.lua"], "is for Python applications"),
        (&["--port", "1", "a.lua"], "is for Python applications"),
        (&["--interactive", "app:app"], "--interactive is for Lua programs"),
    ] {
        let why = refused(wrong);
        assert!(why.contains(printed), "{wrong:?}: {why}");
    }
}

#[test]
fn the_guide_has_every_option() {
    let guide = include_str!("../../../../docs/guide/python.md");
    let help = run(&["run", "--help"]).printed();
    let words = help.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
    let mut options: Vec<_> = words.filter(|word| word.starts_with("--")).collect();
    // The program's own, Silly's and those that have nothing to do with Python.
    let others = ["--key", "--lualib-path", "--lualib-cpath", "--log-path", "--pid-file"];
    let affinity = ["--worker-affinity", "--cpu-affinity", "--help", "--interactive"];
    let debugger = ["--debug-adapter", "--debug-wait"];
    let own = [&others[..], &affinity, &debugger].concat();
    options.retain(|option| !own.contains(option));
    assert!(options.len() > 40, "{help}");
    options.retain(|option| {
        let quoted = format!("{option}`");
        let with_value = format!("{option} ");
        !guide.contains(&quoted) && !guide.contains(&with_value)
    });
    assert!(options.is_empty(), "docs/guide/python.md says nothing of {options:?}");
}

#[test]
fn workers_get_a_configuration() {
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
        &["--header=x-a:{b} ${C}", "--proxy-protocol", "--proxy-allow-from=10.0.0.0/8"],
    ] {
        let arguments = [&["run", "app:app", "--print-config"], options].concat();
        let printed_config: Value =
            serde_json::from_str(&run_in(directory.path(), &arguments).printed()).unwrap();
        let file = directory.path().join("tidegate.yaml");
        std::fs::write(file, printed_config["configuration"].to_string()).unwrap();
        let printed = run_in(directory.path(), &["check"]).printed();
        assert!(printed.starts_with("ok: "), "{options:?}: {printed}");
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
require 'silly.time'.after(1, function() count_for_ever() require 'silly'.exit() end)
";
    std::fs::write(directory.path().join("busy.lua"), program).unwrap();
    let mut running = Running::start(tidegate(directory.path(), &["run", "busy.lua"]));
    // On a slow machine another turn may be long as well.
    let is_counting = |line: &str| {
        let is_long = line.contains("Lua turn has been running for more than a second");
        is_long && line.contains("count_for_ever")
    };
    let line = running.line(|line| is_counting(line).then(|| line.to_owned()));
    assert!(line.contains("vm=lua-0") && line.contains("busy.lua:"), "{line}");
    std::fs::write(directory.path().join("seen"), "").unwrap();
    let (code, printed) = running.end();
    assert_eq!(code, Some(0), "{printed}");
    assert_eq!(printed.lines().filter(|line| is_counting(line)).count(), 1, "{printed}");
}
