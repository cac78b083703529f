//! `test` and `new`: Lua programs while they are written.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::process::{Ended, Running, TIMEOUT, ended, get, run_in, status, tidegate};

#[test]
fn a_new_service_passes_its_tests_and_runs() {
    let directory = TempDir::new().unwrap();
    let printed = run_in(directory.path(), &["new", "lua-service", "shop"]).printed();
    assert!(
        printed.contains("cd shop\n  tidegate test tests\n  tidegate run main.lua\n"),
        "{printed}"
    );
    let shop = directory.path().join("shop");
    let printed = run_in(&shop, &["test", "tests"]).printed();
    assert!(printed.starts_with("tests/api_test.lua\n  ok   the API: is healthy ("), "{printed}");
    assert!(printed.contains("\n\n4 passed, 0 failed in "), "{printed}");
    let arguments = ["run", "main.lua", "--listen=127.0.0.1:0"];
    let mut running = Running::start(tidegate(&shop, &arguments));
    let address = running
        .line(|line| line.split_once("shop listens on ")?.1.split(['"', ' ']).next()?.parse().ok());
    assert_eq!(status(&get(address, "/healthz", "")), "200");
    running.terminate();
    assert_eq!(running.end().0, Some(0));
    let types = shop.join(".tidegate/types/silly/net/tcp.lua");
    assert!(std::fs::read_to_string(&types).unwrap().starts_with("---@meta silly.net.tcp\n"));
    // Nothing is overwritten but the definitions.
    let why = run_in(directory.path(), &["new", "lua-service", "shop"]).failed(2);
    assert!(why.contains("the directory shop is not empty"), "{why}");
    for name in ["../shop", "a/b", "", "-x"] {
        run_in(directory.path(), &["new", "lua-service", "--", name]).failed(2);
    }
    std::fs::write(&types, "old").unwrap();
    let printed = run_in(&shop, &["new", "lua-types"]).printed();
    assert!(printed.ends_with(" files in .tidegate/types\n"), "{printed}");
    assert!(std::fs::read_to_string(&types).unwrap().starts_with("---@meta"));
}

#[test]
fn tests_are_listed_filtered_and_their_failure_is_the_exit_code() {
    let directory = TempDir::new().unwrap();
    let text = "
it('passes', function() print('from the test') end)
it('fails', function() require 'tide.test'.equal(1, 2) end)
it('is slow', function() require 'silly.time'.sleep(60000) end)
";
    std::fs::write(directory.path().join("a_test.lua"), text).unwrap();
    let test = |arguments: &[&str]| run_in(directory.path(), &[&["test"], arguments].concat());
    assert_eq!(test(&["--list"]).printed(), "a_test.lua\n  passes\n  fails\n  is slow\n");
    let printed = test(&["--filter", "passes"]).printed();
    assert!(printed.starts_with("a_test.lua\nfrom the test\n  ok   passes ("), "{printed}");
    let ended = test(&["a_test.lua", "--timeout", "50ms"]);
    let printed = ended.stdout.clone();
    ended.failed(1);
    assert!(printed.contains("a_test.lua:3: got 1, expected 2\n"), "{printed}");
    assert!(printed.contains("no end after 50 ms; the test waits here\n"), "{printed}");
    assert!(printed.contains("\n1 passed, 2 failed in "), "{printed}");
    assert!(test(&["nowhere.lua"]).failed(2).starts_with("error: cannot read nowhere.lua: "));
    assert!(test(&["--filter", "nothing"]).failed(2).contains("no test has \"nothing\""));
    test(&["--timeout", "x"]).failed(2);
}

/// Runs a command with this standard input.
fn fed(directory: &Path, arguments: &[&str], input: &str) -> Ended {
    let mut command = tidegate(directory, arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // It fits the pipe.
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    ended(child.wait_with_output().unwrap())
}

#[test]
fn a_prompt_runs_chunks_that_may_wait() {
    let directory = TempDir::new().unwrap();
    std::fs::write(directory.path().join("start.lua"), "kept = 'of the program'").unwrap();
    let input = "1 + 1, 'two'
=kept
require 'silly.time'.sleep(1) print 'woke'
for n = 1, 2 do
  print('line', n)
end
error 'boom'
x = = 1
nothing = nil
kept";
    let ended = fed(directory.path(), &["run", "-i", "start.lua"], input);
    let stderr = ended.stderr.clone();
    let printed = ended.printed();
    for part in [
        "> 2\ttwo\n",
        "> of the program\n",
        "> woke\n",
        "> >> >> line\t1\nline\t2\n",
        // After the errors, and at the end without a line's end.
        "> > > > of the program\n> \n",
    ] {
        assert!(printed.contains(part), "{part:?}: {printed}{stderr}");
    }
    assert!(stderr.contains("stdin:1: boom\nstack traceback:\n"), "{stderr}");
    assert!(stderr.contains("stdin:1: unexpected symbol near '='"), "{stderr}");
    assert!(fed(directory.path(), &["run", "--interactive"], "").printed().ends_with("> \n"));
    fed(directory.path(), &["run", "-i"], "require 'silly'.exit(3)\nprint 'more'").failed(3);
    std::fs::write(directory.path().join("start.lua"), "error 'early'").unwrap();
    let ended = fed(directory.path(), &["run", "-i", "start.lua"], "'still here'");
    assert!(ended.stderr.contains("error: start.lua:1: early\n"), "{}", ended.stderr);
    assert!(ended.printed().contains("> still here\n"));
}

#[test]
fn what_stands_behind_a_program_is_its_own() {
    let directory = TempDir::new().unwrap();
    let text = "
local env = require 'silly.env'
print(env.get 'port', env.get 'bind', env.get 'workers', require 'silly.worker'.count)
require 'silly'.exit()
";
    std::fs::write(directory.path().join("ping.lua"), text).unwrap();
    let run = |arguments: &[&str]| run_in(directory.path(), &[&["run"], arguments].concat());
    // As `--help` shows it; --port is also an option of Python applications.
    let printed = run(&["ping.lua", "--port=6379", "--bind=x"]).printed();
    assert_eq!(printed, "6379\tx\tnil\t1\n");
    let printed = run(&["--workers", "1", "ping.lua", "--", "--port=6379"]).printed();
    assert_eq!(printed, "6379\tnil\tnil\t1\n");
    let ended = run(&["ping.lua", "--workers=2", "--port=1"]);
    let note = ended.stderr.clone();
    assert_eq!(ended.printed(), "1\tnil\t2\t1\n");
    assert!(note.starts_with("note: --workers=2 stands behind the program"), "{note}");
    assert!(run(&["--port=1", "ping.lua"]).failed(2).contains("is for Python applications"));
}

#[test]
fn reads_of_standard_input_let_other_coroutines_run() {
    let directory = TempDir::new().unwrap();
    let text = "
local task, time = require 'silly.task', require 'silly.time'
local ticks = 0
task.fork(function() while true do time.sleep(1) ticks = ticks + 1 end end)
task.fork(function()
  while ticks < 5 do time.sleep(1) end
  io.open('ticked', 'w'):close()
end)
local first = io.stdin:read('l')
assert(ticks >= 5, ticks)
assert(first == 'one')
assert(select('#', io.stdin:read('n', 'l')) == 2)
local rest = {}
for line in io.stdin:lines('L') do rest[#rest + 1] = line end
assert(table.concat(rest) == 'three\\nfour')
assert(io.stdin:read('a') == '' and io.stdin:read('l') == nil)
require 'silly'.exit()
";
    std::fs::write(directory.path().join("read.lua"), text).unwrap();
    let mut command = tidegate(directory.path(), &["run", "read.lua"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    // Its first read waits, and its timers fire.
    while !directory.path().join("ticked").exists() {
        assert!(child.try_wait().unwrap().is_none(), "it ended early");
        std::thread::yield_now();
    }
    input.write_all(b"one\n2 two\nthree\nfour").unwrap();
    drop(input);
    ended(child.wait_with_output().unwrap()).printed();
}

#[test]
fn a_program_begins_again_when_a_file_changes() {
    let directory = TempDir::new().unwrap();
    let write = |name: &str, text: &str| {
        // Renamed, so that no half of it is seen.
        std::fs::write(directory.path().join("new"), text).unwrap();
        std::fs::rename(directory.path().join("new"), directory.path().join(name)).unwrap();
    };
    write("word.lua", "return 'first'");
    write("main.lua", "io.stdout:setvbuf 'line' print('the ' .. require 'word' .. ' program')");
    let mut running = Running::start(tidegate(directory.path(), &["run", "--reload", "main.lua"]));
    running.line(|line| (line == "the first program").then_some(()));
    let id = running.id();
    write("word.lua", "return 'broken");
    running.line(|line| line.contains("continues as it was: ").then_some(()));
    write("word.lua", "return 'second'");
    running.line(|line| (line == "the second program").then_some(()));
    write("main.lua", "require 'silly'.exit(3)");
    assert_eq!(running.id(), id);
    assert_eq!(running.end().0, Some(3));
}

/// A client of the Debug Adapter Protocol.
struct DebugClient {
    connection: BufReader<TcpStream>,
    seq: u64,
}

impl DebugClient {
    fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.connection.read_line(&mut line).unwrap();
        let length = line.strip_prefix("Content-Length: ").unwrap().trim().parse().unwrap();
        self.connection.read_line(&mut line).unwrap();
        let mut body = vec![0; length];
        self.connection.read_exact(&mut body).unwrap();
        serde_json::from_slice(&body).unwrap()
    }

    /// The body of a response, behind the events before it.
    fn request(&mut self, command: &str, arguments: Value) -> Value {
        self.seq += 1;
        let request = json!({
            "seq": self.seq, "type": "request", "command": command, "arguments": arguments,
        });
        let text = request.to_string();
        write!(self.connection.get_mut(), "Content-Length: {}\r\n\r\n{text}", text.len()).unwrap();
        loop {
            let message = self.receive();
            if message["type"] == "response" {
                assert_eq!(message["request_seq"], self.seq);
                assert_eq!(message["success"], true, "{message}");
                return message["body"].clone();
            }
        }
    }
}

#[test]
fn an_editor_stops_at_a_line_of_a_program() {
    let directory = TempDir::new().unwrap();
    let text = "local sum = 0\nfor n = 1, 3 do\n  sum = sum + n\nend\nprint(sum)\n";
    let file = directory.path().join("sum.lua");
    std::fs::write(&file, format!("{text}require 'silly'.exit()\n")).unwrap();
    let arguments = ["run", "--debug-adapter", "127.0.0.1:0", "--debug-wait", "sum.lua"];
    let mut running = Running::start(tidegate(directory.path(), &arguments));
    let address: SocketAddr = running.line(|line| {
        line.split_once("[debugger] listens on ")?.1.split(['"', ' ']).next()?.parse().ok()
    });
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut client = DebugClient { connection: BufReader::new(stream), seq: 0 };
    client.request("initialize", json!({ "adapterID": "tidegate" }));
    client.request("attach", json!({}));
    let wanted = json!([{ "line": 3, "condition": "n == 3" }]);
    let set = client
        .request("setBreakpoints", json!({ "source": { "path": file }, "breakpoints": wanted }));
    assert_eq!(set["breakpoints"][0]["verified"], true);
    // The program begins now.
    client.request("configurationDone", json!({}));
    let stopped = client.receive();
    assert_eq!(stopped["event"], "stopped");
    let thread = stopped["body"]["threadId"].clone();
    let stack = client.request("stackTrace", json!({ "threadId": thread }));
    assert_eq!(stack["stackFrames"][0]["line"], 3);
    assert_eq!(stack["stackFrames"][0]["source"]["name"], "sum.lua");
    let frame = stack["stackFrames"][0]["id"].clone();
    let sum = client.request("evaluate", json!({ "expression": "sum", "frameId": frame }));
    assert_eq!(sum["result"], "3");
    // The editor is killed: the program continues, to its end.
    drop(client);
    running.line(|line| (line == "6").then_some(()));
    assert_eq!(running.end().0, Some(0));
}

#[test]
fn a_debugger_is_for_one_worker_and_one_machine() {
    let directory = TempDir::new().unwrap();
    std::fs::write(directory.path().join("a.lua"), "require 'silly'.exit()").unwrap();
    let run = |arguments: &[&str]| run_in(directory.path(), &[&["run"], arguments].concat());
    let why = run(&["--debug-adapter", "0.0.0.0:0", "a.lua"]).failed(1);
    assert!(
        why.contains("the debugger cannot listen on 0.0.0.0:0: a debugger listens on"),
        "{why}"
    );
    let why = run(&["--debug-adapter", "127.0.0.1:0", "--workers", "2", "a.lua"]).failed(2);
    assert!(why.contains("leave out --workers"), "{why}");
    run(&["--debug-wait", "a.lua"]).failed(2);
}
