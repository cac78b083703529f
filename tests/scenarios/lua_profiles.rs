//! Profiles of the Lua code of a server, and of a program, recorded over the admin API and by
//! `tidegate ctl profile` while they run.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use scenarios::{Exit, HttpResponse, Launch, Process, Tidegate, eventually, tidegate_binary};
use tempfile::TempDir;

const SCRIPT: &str = r#"
local function hot()
  local sum = 0
  for n = 1, 200000 do sum = sum + n % 7 end
  return sum
end
local function grow()
  local kept = {}
  for n = 1, 16 do kept[n] = ("x"):rep(64 * 1024) .. n end
  return #kept
end
return function(request, response)
  response:text(tostring(hot() + grow()))
end
"#;

const CONFIG: &str = r#"
workers: 2
listeners: { web: { bind: "127.0.0.1:0" } }
admin:
  bind: "127.0.0.1:0"
  tokens:
    - { name: reader, role: read, token: only-looks }
    - { name: operator, role: write, token: may-write }
routes: [{ match: { path: "/x" }, handler: { lua: x.lua } }]
"#;

fn start() -> Tidegate {
    Launch::new(CONFIG).file("x.lua", SCRIPT).start()
}

fn head(token: &str, query: &str) -> String {
    format!(
        "POST /v1/lua/profile{query} HTTP/1.1\r\nhost: localhost\r\n\
         authorization: Bearer {token}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
    )
}

fn post(server: &Tidegate, query: &str) -> HttpResponse {
    server.exchange("admin", head("may-write", query))
}

/// Sends requests for as long as `work` takes.
fn under_load<T: Send>(server: &Tidegate, work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let working = scope.spawn(work);
        while !working.is_finished() {
            let request = "GET /x HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
            assert_eq!(server.exchange("web", request).status, 200);
        }
        working.join().expect("the profile is recorded")
    })
}

/// True if a stack of the folded profile ends in this function of the script.
fn has(folded: &str, function: &str) -> bool {
    let mut leaves = folded.lines().filter_map(|line| line.rsplit(';').next());
    leaves.any(|leaf| leaf.starts_with(function) && leaf.contains("x.lua:"))
}

#[test]
fn handlers_are_profiled_while_they_serve() {
    let server = start();
    // A busy machine may give the server too little time for a sample within a second.
    eventually("a sample is in the function that uses CPU time", || {
        let response = under_load(&server, || post(&server, "?seconds=1&format=folded"));
        assert_eq!(response.status, 200, "{response:?}");
        assert_eq!(response.header("content-type"), Some("text/plain; charset=utf-8"));
        has(&response.text(), "hot")
    });
    let query = "?seconds=1&kind=allocations&format=folded";
    eventually("an allocation is in the function that keeps text", || {
        under_load(&server, || post(&server, query)).text().contains("grow (")
    });
    let svg = under_load(&server, || post(&server, "?seconds=1&format=svg"));
    assert_eq!(svg.header("content-type"), Some("image/svg+xml"));
    assert!(svg.text().starts_with("<svg "), "{svg:?}");
    let pprof = under_load(&server, || post(&server, "?seconds=1"));
    assert_eq!(pprof.body[..2], [0x1f, 0x8b], "gzip");
    server.wait_for_log(
        "by=operator role=write with=token client=127.0.0.1 request=\"POST /v1/lua/profile\" \
         status=200",
    );
}

#[test]
fn one_profile_at_a_time_for_clients_that_may_write() {
    let server = start();
    assert_eq!(server.exchange("admin", head("only-looks", "?seconds=1")).status, 403);
    let wrong = post(&server, "?seconds=61");
    assert!(wrong.status == 400 && wrong.text().contains("from 1 to 60"), "{wrong:?}");
    let mut first = server.connect("admin");
    first.send(head("may-write", "?seconds=60"));
    // One thread serves the API, and workers get their commands in order.
    let second = post(&server, "?seconds=1");
    let why = second.text();
    assert!(second.status == 409 && why.contains("another profile is being recorded"), "{why}");
    // It ends with its client, not after a minute.
    drop(first);
    eventually("another one can begin", || post(&server, "?seconds=1").status == 200);
}

#[test]
fn a_server_without_lua_has_none() {
    let config = CONFIG.replace("lua: x.lua", "respond: { body: none }");
    let response = post(&Tidegate::start(&config), "?seconds=1");
    let text = response.text();
    assert!(response.status == 404 && text.contains("runs no Lua code"), "{text}");
}

/// `tidegate ctl WORDS` in the directory of a server, over its Unix socket.
fn ctl(server: &Tidegate, words: &[&str]) -> Exit {
    let mut command = Command::new(tidegate_binary());
    command.args(["ctl", "profile"]).args(words).current_dir(server.path(""));
    command.env("XDG_RUNTIME_DIR", server.path(""));
    Process::run(&mut command)
}

#[test]
fn the_command_writes_files_of_each_format() {
    let server = start();
    server.address("admin");
    let written = |words: &[&str], file: &str| {
        let words = [words, &["--seconds", "1", "--out", file]].concat();
        let exit = under_load(&server, || ctl(&server, &words));
        assert_eq!(exit.code, Some(0), "{exit:?}");
        assert!(exit.stdout.contains(file), "{exit:?}");
        std::fs::read(server.path(file)).expect("a profile")
    };
    assert!(written(&[], "a.svg").starts_with(b"<svg "));
    assert_eq!(written(&["--kind", "allocations"], "a.pb.gz")[..2], [0x1f, 0x8b]);
    // A busy machine may serve no request within a second.
    eventually("an allocation in the file", || {
        let folded = written(&["--kind", "allocations", "--format", "folded"], "a.txt");
        String::from_utf8_lossy(&folded).contains("grow (")
    });
    eventually("an allocation on the standard output", || {
        let words = ["--kind", "allocations", "--format", "folded", "--seconds", "1"];
        let printed = under_load(&server, || ctl(&server, &words));
        assert_eq!(printed.code, Some(0), "{printed:?}");
        printed.stdout.contains("grow (")
    });
    let exit = ctl(&server, &["--out", "a.png"]);
    assert!(exit.code == Some(2) && exit.stderr.contains(".pb.gz, .svg or .folded"), "{exit:?}");
    assert_eq!(ctl(&server, &["--seconds", "61"]).code, Some(2));
}

const PROGRAM: &str = r#"
local task, time, logger = require "silly.task", require "silly.time", require "silly.logger"
local function hot()
  local sum = 0
  for n = 1, 20000 do sum = sum + n % 7 end
  return sum
end
local function grow()
  local kept = {}
  for n = 1, 4 do kept[n] = ("x"):rep(64 * 1024) .. n end
  return kept
end
task.fork(function()
  while true do
    hot()
    grow()
    time.sleep(1)
  end
end)
logger.info "the program runs"
"#;

#[test]
fn a_program_is_profiled_over_the_socket_that_it_is_given() {
    let directory = TempDir::new().expect("a directory");
    std::fs::write(directory.path().join("program.lua"), PROGRAM).expect("a file");
    let socket = directory.path().join("admin.sock");
    let admin = format!("unix:{}", socket.display());
    let command = |words: &[&str]| {
        let mut command = Command::new(tidegate_binary());
        command.args(words).current_dir(directory.path());
        command
    };
    let refused = Process::run(&mut command(&["run", "--admin", "127.0.0.1:0", "program.lua"]));
    assert!(refused.code == Some(2) && refused.stderr.contains("unix:/PATH"), "{refused:?}");
    let run = ["run", "--workers", "2", "--admin", &admin, "program.lua"];
    let process = Process::start(&mut command(&run));
    let runs = process.wait_for_line(|line| line.contains("the program runs").then_some(()));
    assert!(runs.is_some(), "it ended: {:?}", process.log());
    // The other worker may be the one that has logged it.
    eventually("the socket exists", || socket.exists());
    let profile = |words: &[&str]| {
        let ctl = ["ctl", "--admin", &admin, "profile", "--seconds", "1", "--format", "folded"];
        let exit = Process::run(&mut command(&[&ctl[..], words].concat()));
        assert_eq!(exit.code, Some(0), "{exit:?}");
        exit.stdout
    };
    // A busy machine may give the program too little time for a sample within a second.
    eventually("a sample is in the function that uses CPU time", || profile(&[]).contains("hot ("));
    eventually("an allocation is in the function that keeps text", || {
        profile(&["--kind", "allocations"]).contains("grow (")
    });
    let mode = std::fs::metadata(&socket).expect("a socket").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let status = Process::run(&mut command(&["ctl", "--admin", &admin, "status"]));
    let why = &status.stderr;
    assert!(status.code == Some(1) && why.contains("has only /v1/lua/profile"), "{status:?}");
}
