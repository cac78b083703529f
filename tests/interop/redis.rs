//! Redis: what `store.redis` of our Lua programs says to a real server.
#![allow(clippy::disallowed_types, reason = "the client side of a test opens its own sockets")]

use crate::tools::has;
use scenarios::{Authority, Process, free_port, tidegate_binary};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// A server without persistence of its own accord.
struct Server {
    process: Process,
    port: u16,
}

impl Server {
    fn start(directory: &Path, port: u16) -> Server {
        Server::start_with(directory, port, &[])
    }

    fn start_with(directory: &Path, port: u16, options: &[&str]) -> Server {
        let port_word = port.to_string();
        let mut command = Command::new("redis-server");
        command.current_dir(directory).args(["--port", &port_word, "--bind", "127.0.0.1"]);
        command.args(["--save", "", "--appendonly", "no", "--requirepass", "secret"]);
        command.args(["--user", "reader", "on", ">open", "~*", "&*", "+@all"]);
        command.args(options);
        let process = Process::start(&mut command);
        scenarios::eventually("redis responds", || responses(port));
        Server { process, port }
    }

    fn kill(self) {
        self.process.signal("KILL");
        self.process.wait();
    }
}

/// Whether a server is there, which responds before authentication.
fn responses(port: u16) -> bool {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return false };
    let mut byte = [0];
    stream.write_all(b"PING\r\n").is_ok() && stream.read_exact(&mut byte).is_ok()
}

/// Starts a program that is told the address of the server.
fn program(directory: &Path, server: &Server, text: &str) -> Process {
    let file = directory.join("program.lua");
    fs::write(&file, text).expect("a writable directory");
    let address = format!("--redis=127.0.0.1:{}", server.port);
    Process::start(Command::new(tidegate_binary()).arg("run").arg(file).arg(address))
}

fn ends_well(process: Process) {
    let exit = process.wait();
    assert_eq!(exit.code, Some(0), "{exit:?}");
}

const HEAD: &str = r#"
local silly, task, time = require "silly", require "silly.task", require "silly.time"
local redis, errno = require "silly.store.redis", require "silly.errno"
local addr = require "silly.env".get("redis")
-- Longer than the test is waited for.
local LONG = 120000
local function check(ok, ...)
  if not ok then
    io.stderr:write(debug.traceback(tostring((...))), "\n")
    os.exit(1)
  end
  return ok, ...
end
local function same(got, expected)
  check(got == expected, ("got %s, expected %s"):format(got, expected))
end
"#;

#[test]
fn commands_pipelines_and_protocols() {
    if !has("redis-server") {
        return;
    }
    let directory = TempDir::new().expect("a temporary directory");
    let server = Server::start(directory.path(), free_port());
    let text = r#"
for _, protocol in ipairs{ 2, 3 } do
  local db = redis.new{ addr = addr, auth = "secret", db = 3, protocol = protocol, timeout = LONG }
  check(db:flushdb())
  same(select(2, check(db:set("bytes", "a\r\n\0b"))), "OK")
  same(select(2, db:get("bytes")), "a\r\n\0b")
  same(select(2, db:get("missing")), nil)
  local ok, why = db:incr("bytes")
  check(ok == false and why:find("not an integer"), why)
  check(db:hset("h", "a", 1, "b", 2.5))
  local _, map = db:hgetall("h")
  if protocol == 3 then same(map.b, "2.5") else same(map[4], "2.5") end
  local _, list = db:mget("missing", "bytes", "missing")
  same(list[2], "a\r\n\0b")
  same(list.n, 3)
  local big = ("x"):rep(3000000)
  check(db:set("big", big))
  same(select(2, db:get("big")), big)
  local commands = { { "multi" }, { "incr", "n" }, { "lpush", "bytes", 1 }, { "exec" } }
  commands[5] = { "get", "n" }
  local all = check(db:pipeline(commands))
  same(all[8][1], 1)
  check(all[8][2].err:find("WRONGTYPE"), "an error within an array")
  same(all[10], "1")
  local group, wrong = require "silly.sync.waitgroup".new(), 0
  for at = 1, 300 do
    group:fork(function()
      db:set("k" .. at, at)
      local _, value = db:get("k" .. at)
      if value ~= tostring(at) then wrong = wrong + 1 end
    end)
  end
  group:wait()
  same(wrong, 0)
  local slow = redis.new{ addr = addr, auth = "secret", protocol = protocol, timeout = 500 }
  ok, why = slow:blpop("nothing", 5)
  check(ok == false and why == errno.TIMEDOUT, why)
  -- It continues afterwards; on a stalled machine it may be late once more.
  repeat ok, why = slow:ping() until ok or why ~= errno.TIMEDOUT
  check(ok, why)
  slow:close()
  db:close()
end
check(redis.new{ addr = addr, user = "reader", auth = "open", timeout = LONG }:ping())
local ok, why = redis.new{ addr = addr, auth = "wrong", timeout = LONG }:ping()
check(ok == false and why:find("WRONGPASS"), why)
silly.exit()
"#;
    ends_well(program(directory.path(), &server, &format!("{HEAD}{text}")));
    server.kill();
}

#[test]
fn a_server_that_comes_back_is_used_again() {
    if !has("redis-server") {
        return;
    }
    let directory = TempDir::new().expect("a temporary directory");
    let server = Server::start(directory.path(), free_port());
    let text = r#"
local db = redis.new{ addr = addr, auth = "secret", db = 1, pool = 2, timeout = LONG }
local sub = check(db:subscribe("news"))
check(sub:psubscribe("a*"))
repeat local _, heard = db:publish("ab", "pattern") until heard > 0
same(sub:read(LONG).pattern, "a*")
check(db:publish("news", "before"))
same(sub:read(LONG).payload, "before")
check(db:set("k", "v"))
task.fork(function()
  local _, why = sub:read()
  same(why, errno.EOF)
  local found
  repeat
    found, why = sub:read()
    if not found then time.sleep(5) end
  until found
  same(found.payload, "after")
  silly.exit()
end)
io.stderr:write("kill it\n")
repeat
  local ok = db:ping()
  time.sleep(5)
until not ok
io.stderr:write("start it\n")
repeat
  local ok, heard = db:publish("news", "after")
  time.sleep(5)
until ok and heard > 0
same(select(2, db:get("k")), nil)
"#;
    let process = program(directory.path(), &server, &format!("{HEAD}{text}"));
    let logged = |what: &str| process.wait_for_line(|line| line.contains(what).then_some(()));
    logged("kill it").unwrap_or_else(|| panic!("{:?}", process.log()));
    let port = server.port;
    server.kill();
    logged("start it").unwrap_or_else(|| panic!("{:?}", process.log()));
    let server = Server::start(directory.path(), port);
    ends_well(process);
    server.kill();
}

#[test]
fn connections_use_tls() {
    if !has("redis-server") {
        return;
    }
    let directory = TempDir::new().expect("a temporary directory");
    let authority = Authority::new();
    let server_issued = authority.issue(&["redis.test"]);
    let client_issued = authority.issue_client("program");
    for (name, text) in [
        ("ca.pem", &authority.pem()),
        ("cert.pem", &server_issued.chain),
        ("key.pem", &server_issued.key),
        ("client.pem", &client_issued.chain),
        ("client.key", &client_issued.key),
    ] {
        fs::write(directory.path().join(name), text).expect("a writable directory");
    }
    let tls_port = free_port().to_string();
    let files = ["--tls-cert-file", "cert.pem", "--tls-key-file", "key.pem"];
    let authorities = ["--tls-ca-cert-file", "ca.pem", "--tls-auth-clients", "yes"];
    let options = [&["--tls-port", &tls_port][..], &files, &authorities].concat();
    let server = Server::start_with(directory.path(), free_port(), &options);
    let text = r#"
local encrypted = addr:gsub("%d+$", PORT)
local function content(name) return check(io.open(DIRECTORY .. name)):read("a") end
local ca, cert, key = content "ca.pem", content "client.pem", content "client.key"
local function open(options)
  return redis.new{ addr = encrypted, auth = "secret", tls = options, timeout = LONG }
end
local tls = { ca = ca, hostname = "redis.test", cert = cert, key = key }
local db = open(tls)
same(select(2, check(db:set("bytes", "a\r\n\0b"))), "OK")
same(select(2, db:get("bytes")), "a\r\n\0b")
local big = ("x"):rep(3000000)
check(db:set("big", big))
same(select(2, db:get("big")), big)
local sub = check(db:subscribe("news"))
check(db:publish("news", "hello"))
same(sub:read(LONG).payload, "hello")
same(tls.timeout, nil)

local function fails(options, what)
  local ok, why, lost = open(options):ping()
  check(ok == false and why:find(what) and lost == "lost", why)
  local none, reason = open(options):subscribe("news")
  check(none == nil and reason:find(what), reason)
end
fails(true, "^redis: TLS failed: ")
fails({ ca = ca, cert = cert, key = key }, 'not valid for name "127.0.0.1"')
local other = { ca = ca, hostname = "other.test", cert = cert, key = key }
fails(other, 'not valid for name "other.test"')
-- The server rejects a connection without a certificate after the handshake.
fails({ ca = ca, hostname = "redis.test" }, "")
check(open({ insecure = true, cert = cert, key = key }):ping())
same(pcall(redis.new, { addr = addr, tls = "yes" }), false)
silly.exit()
"#;
    let folder = format!("{}/", directory.path().display());
    let text = text.replace("PORT", &tls_port).replace("DIRECTORY", &format!("{folder:?}"));
    ends_well(program(directory.path(), &server, &format!("{HEAD}{text}")));
    server.kill();
}
