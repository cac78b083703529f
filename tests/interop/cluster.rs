//! `net.cluster`: a program and a peer in Python call each other.

use crate::tools::{command, has};
use scenarios::{Process, tidegate_binary};
use std::fs;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

const PROGRAM: &str = r#"
local silly, cluster = require "silly", require "silly.net.cluster"
local errno, trace = require "silly.errno", require "silly.trace"
local function same(got, expected)
  if got ~= expected then
    io.stderr:write(debug.traceback(("got %s, expected %s"):format(got, expected)), "\n")
    os.exit(1)
  end
end
local calls = 0
cluster.serve {
  -- Longer than the test is waited for.
  timeout = 120000,
  marshal = function(_, command, data) return command, data end,
  unmarshal = function(_, _, data) return data end,
  call = function(_, command, data)
    calls = calls + 1
    return ("%d %s %x"):format(command, data, trace.propagate())
  end,
}
local listener = assert(cluster.listen "127.0.0.1:0")
local peer = cluster.connect(require "silly.env".get "peer")
trace.setnode(7)
trace.attach(0x0102030405060000)
same(cluster.call(peer, 1, listener.addr), "9 from python 102030405060007")
same(calls, 3)
local large = ("0123456789"):rep(300000)
same(cluster.call(peer, 2, large), large:reverse())
same(select(2, cluster.call(peer, 3, "")), errno.EOF)
same(cluster.call(peer, 4, ""), "once")
same(cluster.call(peer, 2, "abc"), "cba")
same(cluster.stat().waiting, 0)
silly.exit()
"#;

#[test]
fn a_program_and_python_call_each_other() {
    if !has("python3") {
        return;
    }
    let directory = TempDir::new().expect("a temporary directory");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("interop/cluster.py");
    let python = Process::start(command("python3", directory.path()).arg(&script));
    let port = python.wait_for_line(|line| line.strip_prefix("port ").map(str::to_owned));
    let port = port.unwrap_or_else(|| panic!("python3 ended: {:?}", python.log()));
    let file = directory.path().join("program.lua");
    fs::write(&file, PROGRAM).expect("a writable directory");
    let peer = format!("--peer=127.0.0.1:{port}");
    let program = Process::start(Command::new(tidegate_binary()).arg("run").arg(file).arg(peer));
    let exit = program.wait();
    assert_eq!(exit.code, Some(0), "{exit:?} {:?}", python.log());
}
