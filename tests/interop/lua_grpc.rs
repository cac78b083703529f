//! `net.grpc` of Lua programs with grpcio and grpcurl, each kind of call.

use crate::tools::{command, python_with, skip};
use scenarios::{Process, tidegate_binary};
use std::fs;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

const PROTO: &str = r#"syntax = "proto3";
package shop;
message Note { string text = 1; int32 number = 2; }
service Orders {
  rpc Get (Note) returns (Note);
  rpc Watch (Note) returns (stream Note);
  rpc Total (stream Note) returns (Note);
  rpc Chat (stream Note) returns (stream Note);
}
"#;

const SERVER: &str = r#"
local grpc, registrar = require "silly.net.grpc", require "silly.net.grpc.registrar"
local code, channel = require "silly.net.grpc.code", require "silly.sync.channel"
local p = require "protoc".new()
local proto = p:parsefile "shop.proto"
p:loadfile "shop.proto"
local ended = channel.new()
local methods = registrar.new()
methods:register(proto, "Orders", {
  Get = function(note, call)
    if note.text == "missing" then
      return nil, { code = code.NotFound, message = "no such order: zwölf %" }
    end
    if note.text == "error" then error "of the handler" end
    if note.text == "wait" then while call:isalive() do require "silly.time".sleep(1) end end
    if note.text == "was it cancelled?" then return { text = ended:pop() } end
    if note.text == "metadata" then return { text = call.header["x-a"] } end
    return { text = note.text:upper(), number = note.number + 1 }
  end,
  Watch = function(note, call)
    for number = 1, note.number do call:write { number = number } end
    if note.text == "forever" then
      while call:isalive() do require "silly.time".sleep(1) end
      ended:push "yes"
    end
    if note.text == "fail" then return nil, { code = code.Aborted, message = "after all" } end
  end,
  Total = function(call)
    local sum = 0
    for note in function() return (call:read()) end do sum = sum + note.number end
    return { number = sum }
  end,
  Chat = function(call)
    for note in function() return (call:read()) end do call:write { text = note.text .. "!" } end
  end,
})
local server = assert(grpc.listen { addr = "127.0.0.1:0", registrar = methods })
io.stderr:write("port ", server.addr:match "%d+$", "\n")
"#;

const CLIENT: &str = r#"
local silly, grpc, env = require "silly", require "silly.net.grpc", require "silly.env"
local p = require "protoc".new()
local proto = p:parsefile "shop.proto"
p:loadfile "shop.proto"
local function same(got, expected)
  if got ~= expected then
    io.stderr:write(debug.traceback(("got %s, expected %s"):format(got, expected)), "\n")
    os.exit(1)
  end
end
local conn = assert(grpc.newclient { targets = { "127.0.0.1:" .. env.get "peer" } })
local orders = assert(grpc.newservice(conn, proto, "Orders"))
local note = assert(orders:Get({ text = "tea", number = 1 }, 30000))
same(note.text .. note.number, "TEA2")
same(#orders:Get({ text = ("x"):rep(3000000) }).text, 3000000)
same(select(2, orders:Get { text = "missing" }), "code = NotFound desc = no such order: zwölf %")
same(orders:Get({ text = "metadata" }, nil, { ["x-a"] = "b" }).text, "b")
local remaining = orders:Get({ text = "remaining" }, 20000).number
same(remaining > 1000 and remaining <= 20000, true)
-- A short deadline may be over before the server has begun.
local ms = 100
repeat
  same(select(2, orders:Get({ text = "wait" }, ms)), "grpc: deadline exceeded")
  ms = ms * 2
until orders:Get({ text = "has it begun?" }).text == "yes"
same(orders:Get({ text = "was it cancelled?" }).text, "yes")
local watch, sum = assert(orders:Watch { text = "fail", number = 3 }), 0
for entry in function() return (watch:read()) end do sum = sum + entry.number end
same(sum .. " " .. watch.status .. " " .. watch.message, "6 10 after all")
local total = assert(orders:Total())
total:write { number = 5 }
total:closewrite { number = 6 }
same(total:read().number, 11)
local chat = assert(orders:Chat())
for _, text in ipairs { "a", "b" } do
  chat:write { text = text }
  same(chat:read().text, text .. "!")
end
chat:closewrite()
same(chat:read(), nil)
same(chat.status, 0)
silly.exit()
"#;

/// A directory with a program and the file of the service.
fn directory(program: &str) -> TempDir {
    let directory = TempDir::new().expect("a temporary directory");
    for (name, text) in [("program.lua", program), ("shop.proto", PROTO)] {
        fs::write(directory.path().join(name), text).expect("a writable directory");
    }
    directory
}

fn program(directory: &TempDir, more: &[&str]) -> Process {
    let mut command = Command::new(tidegate_binary());
    command.current_dir(directory.path()).args(["run", "program.lua"]).args(more);
    Process::start(&mut command)
}

fn port(process: &Process) -> String {
    let port = process.wait_for_line(|line| line.strip_prefix("port ").map(str::to_owned));
    port.unwrap_or_else(|| panic!("the server ended: {:?}", process.log()))
}

#[test]
fn a_program_and_python_call_each_other() {
    let Some(python) = python_with("grpc") else { return };
    let python = |arguments: &[&str]| {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("interop/lua_grpc.py");
        let mut command = command(&python.display().to_string(), &std::env::temp_dir());
        Process::start(command.arg(script).args(arguments))
    };
    let served = directory(SERVER);
    let server = program(&served, &[]);
    let client = python(&["call", &port(&server)]);
    let exit = client.wait();
    assert_eq!(exit.code, Some(0), "{exit:?} {:?}", server.log());

    let peer = python(&["serve"]);
    let calls = directory(CLIENT);
    let client = program(&calls, &[&format!("--peer={}", port(&peer))]);
    let exit = client.wait();
    assert_eq!(exit.code, Some(0), "{exit:?} {:?}", peer.log());
}

#[test]
fn grpcurl_calls_a_program() {
    let grpcurl = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/tools/bin/grpcurl");
    if !grpcurl.is_file() {
        return skip("grpcurl is not installed");
    }
    let served = directory(SERVER);
    let server = program(&served, &[]);
    let address = format!("127.0.0.1:{}", port(&server));
    let call = |data: &str, method: &str| {
        let mut command = Command::new(&grpcurl);
        command.current_dir(served.path()).args(["-plaintext", "-max-time", "40"]);
        command.args(["-proto", "shop.proto", "-d", data, &address, method]);
        let output = command.output().expect("grpcurl runs");
        let text = [output.stdout, output.stderr].concat();
        String::from_utf8_lossy(&text).split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let get = call(r#"{"text":"tea","number":1}"#, "shop.Orders/Get");
    assert_eq!(get, r#"{ "text": "TEA", "number": 2 }"#);
    let watch = call(r#"{"number":2}"#, "shop.Orders/Watch");
    assert_eq!(watch, r#"{ "number": 1 } { "number": 2 }"#);
    let total = call(r#"{"number":2} {"number":3}"#, "shop.Orders/Total");
    assert_eq!(total, r#"{ "number": 5 }"#);
    let chat = call(r#"{"text":"a"} {"text":"b"}"#, "shop.Orders/Chat");
    assert_eq!(chat, r#"{ "text": "a!" } { "text": "b!" }"#);
    let missing = call(r#"{"text":"missing"}"#, "shop.Orders/Get");
    assert!(missing.contains("Code: NotFound Message: no such order: zwölf %"), "{missing}");
}
