//! etcd: what `store.etcd` of our Lua programs says to a real server.
#![allow(clippy::disallowed_types, reason = "the client side of a test opens its own sockets")]

use crate::tools::{command, has, run};
use scenarios::{Authority, Connection, Process, free_port, temporary_directory, tidegate_binary};
use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

/// A server with a directory of its own.
pub(crate) struct Server {
    pub(crate) process: Process,
    pub(crate) port: u16,
    pub(crate) peer: u16,
}

impl Server {
    pub(crate) fn start(directory: &Path, scheme: &str, more: &[&str]) -> Server {
        Server::start_at(directory, scheme, more, free_port(), free_port())
    }

    pub(crate) fn start_at(
        directory: &Path,
        scheme: &str,
        more: &[&str],
        port: u16,
        peer: u16,
    ) -> Server {
        let url = format!("{scheme}://127.0.0.1:{port}");
        let peer_url = format!("http://127.0.0.1:{peer}");
        let mut command = command("etcd", directory);
        command.args(["--name=one", "--data-dir=data", "--log-level=error"]);
        command.arg(format!("--listen-client-urls={url}"));
        command.arg(format!("--advertise-client-urls={url}"));
        command.arg(format!("--listen-peer-urls={peer_url}"));
        command.arg(format!("--initial-advertise-peer-urls={peer_url}"));
        command.arg(format!("--initial-cluster=one={peer_url}"));
        let process = Process::start(command.args(more));
        scenarios::eventually("etcd accepts connections", || {
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        if scheme == "http" {
            scenarios::eventually("etcd has a leader", || is_healthy(port));
        }
        Server { process, port, peer }
    }

    pub(crate) fn kill(self) {
        self.process.signal("KILL");
        self.process.wait();
    }
}

fn is_healthy(port: u16) -> bool {
    let mut connection = Connection::to(([127, 0, 0, 1], port).into());
    connection.send("GET /health HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
    connection.read_response().text().contains(r#""health":"true""#)
}

/// Runs `etcdctl` with this endpoint; returns what it printed.
pub(crate) fn etcdctl(directory: &Path, endpoint: &str, arguments: &[&str]) -> String {
    let endpoint = format!("--endpoints={endpoint}");
    let common = [endpoint.as_str(), "--dial-timeout=50s", "--command-timeout=50s"];
    run("etcdctl", directory, &[&common[..], arguments].concat()).stdout
}

const HEAD: &str = r##"
local silly, task, time = require "silly", require "silly.task", require "silly.time"
local etcd, env, errno = require "silly.store.etcd", require "silly.env", require "silly.errno"
local directory, port = env.get("directory"), env.get("etcd")
local function check(ok, err)
  if not ok then
    io.stderr:write(debug.traceback(tostring(err)), "\n")
    os.exit(1)
  end
  return ok
end
local function same(got, expected)
  check(got == expected, ("got %s, expected %s"):format(got, expected))
end
local function open(more)
  local options = { endpoints = { "127.0.0.1:" .. port }, retry_sleep = 50 }
  for name, value in pairs(more or {}) do options[name] = value end
  return etcd.newclient(options)
end
local function wait_for(file)
  while not io.open(directory .. "/" .. file) do time.sleep(10) end
end
local function tell(file) io.open(directory .. "/" .. file, "w"):close() end
"##;

/// Starts a program that is told the directory and the port of the server.
fn program(directory: &Path, port: u16, text: &str) -> Process {
    let file = directory.join("program.lua");
    fs::write(&file, format!("{HEAD}{text}\nsilly.exit(0)")).expect("a writable directory");
    let mut command = Command::new(tidegate_binary());
    command.arg("run").arg(file).arg(format!("--etcd={port}"));
    Process::start(command.arg(format!("--directory={}", directory.display())))
}

fn ends_well(process: Process) {
    let exit = process.wait();
    assert_eq!(exit.code, Some(0), "{exit:?}");
}

const KEYS: &str = r##"
local client <close> = open()
-- Keys.
local res = check(client:put { key = "shop/a", value = "1" })
check(res.header.revision > 0 and res.prev_kv == nil, "a header")
same(check(client:put { key = "shop/a", value = "2", prev_kv = true }).prev_kv.value, "1")
check(client:put { key = "shop/b", value = "b\0b" })
check(client:put { key = "shoq", value = "3" })
local descending = { key = "shop/", prefix = true, sort_target = "KEY", sort_order = "DESCEND" }
res = check(client:get(descending))
same(#res.kvs, 2)
same(res.kvs[1].key .. res.kvs[1].value, "shop/bb\0b")
same(res.kvs[2].version, 2)
same(res.count, 2)
same(res.more, false)
same(#check(client:get { key = "shop/b", fromkey = true }).kvs, 2)
same(#check(client:get { key = "", prefix = true, keys_only = true }).kvs, 3)
same(check(client:get { key = "none" }).count, 0)
res = check(client:delete { key = "shop/", prefix = true, prev_kv = true })
same(res.deleted, 2)
same(res.prev_kvs[1].key, "shop/a")
-- Transactions.
local function create()
  return check(client:txn {
    compare = { { key = "once", create_revision = 0 } },
    success = { { put = { key = "once", value = "1" } }, { get = { key = "shoq" } } },
    failure = {
      { delete = { key = "shoq" } },
      { txn = { success = { { get = { key = "once" } } } } },
    },
  })
end
res = create()
same(res.succeeded, true)
same(res.responses[2].get.kvs[1].value, "3")
res = create()
same(res.succeeded, false)
same(res.responses[1].delete.deleted, 1)
same(res.responses[2].txn.responses[1].get.kvs[1].value, "1")
same(client:txn { compare = { { key = "once", value = "0", result = "GREATER" } } }.succeeded, true)
-- Compaction.
local revision = res.header.revision
check(client:compact { revision = revision })
local old, err, code = client:get { key = "once", revision = revision - 1 }
check(not old and err:find("compacted", 1, true) and code == "out_of_range", err)
-- Leases: one that is renewed, one that is not.
local kept = check(client:grant { TTL = 9 })
local left = check(client:grant { TTL = 2, keepalive = false })
check(client:put { key = "kept", value = "1", lease = kept.ID })
local gone = check(client:watch { key = "left", NOPUT = true })
check(client:put { key = "left", value = "1", lease = left.ID })
same(check(gone:read(50000)).events[1].type, "DELETE")
gone:cancel()
-- Its remaining time becomes longer only if it is renewed.
local rest, before = check(client:ttl { ID = kept.ID }).TTL
repeat
  time.sleep(20)
  before, rest = rest, check(client:ttl { ID = kept.ID }).TTL
until rest > before
same(check(client:get { key = "kept" }).count, 1)
same(#check(client:leases()).leases, 1)
res = check(client:ttl { ID = kept.ID, keys = true })
same(res.keys[1], "kept")
same(res.grantedTTL, 9)
check(check(client:keepalive { ID = kept.ID }).TTL > 0, "renewed")
local none
none, err, code = client:keepalive(left.ID)
check(none == nil and code == "not_found", err)
same(client:lost(kept.ID, 1), nil)
-- Another client ends the lease.
local other <close> = open()
check(other:revoke { ID = kept.ID })
same(client:lost(kept.ID, 50000), true)
same(check(client:get { key = "kept" }).count, 0)
-- Locks are granted in order, and end with their lease.
local order = {}
local done = require "silly.sync.waitgroup".new()
local holder = check(client:grant { TTL = 60 })
same(client:lock(holder.ID, "lock", "first"), true)
local busy
busy, err = other:lock(check(other:grant { TTL = 60 }).ID, "lock", "impatient", 20)
same(busy, false)
same(err, errno.TIMEDOUT)
for number = 1, 3 do
  done:fork(function()
    local mine <close> = open()
    local lease = check(mine:grant { TTL = 60 })
    check(mine:lock(lease.ID, "lock", "n" .. number))
    table.insert(order, number)
    check(mine:unlock("lock", "n" .. number))
  end)
  while check(client:get { key = "lock/", prefix = true }).count <= number do time.sleep(5) end
end
check(client:revoke { ID = holder.ID })
done:wait()
same(table.concat(order), "123")
"##;

#[test]
fn keys_transactions_leases_and_locks() {
    if !has("etcd") {
        return;
    }
    let directory = temporary_directory();
    let server = Server::start(directory.path(), "http", &[]);
    ends_well(program(directory.path(), server.port, KEYS));
    server.kill();
}

const WATCHES: &str = r##"
local client <close> = open()
local watch = check(client:watch { key = "a/", prefix = true, prev_kv = true })
same(watch:read(10), nil)
local first = check(client:put { key = "a/1", value = "1" }).header.revision
local res = check(watch:read())
same(#res.events, 1)
same(res.events[1].type .. res.events[1].kv.key .. res.events[1].kv.value, "PUTa/11")
check(client:txn {
  success = { { put = { key = "a/1", value = "2" } }, { put = { key = "a/2", value = "2" } } },
})
res = check(watch:read())
same(#res.events, 2)
same(res.events[1].prev_kv.value, "1")
tell("ready")
wait_for("restarted")
repeat res = client:put { key = "a/3", value = "3" } until res
same(check(watch:read()).events[1].kv.key, "a/3")
check(client:delete { key = "a/3" })
-- A put whose response was lost was made more than once.
local event
repeat
  res = check(watch:read())
  event = res.events[#res.events]
until event.type == "DELETE"
same(event.prev_kv.value, "3")
-- What was compacted is lost, and said to be.
check(client:compact { revision = res.header.revision })
local late = check(client:watch { key = "a/", prefix = true, start_revision = first })
local nothing, err, code, revision = late:read()
check(nothing == nil and code == "out_of_range" and revision == res.header.revision, err)
-- One coroutine reads; closing wakes it.
local woken
task.fork(function() woken = table.pack(watch:read()) end)
time.sleep(0)
nothing, err = watch:read()
check(nothing == nil and err:find("another coroutine", 1, true), err)
watch:close()
while not woken do time.sleep(1) end
same(woken[2], errno.CLOSED)
same(select(2, watch:read()), errno.CLOSED)
"##;

#[test]
fn watches_survive_a_restart_and_report_a_compaction() {
    if !has("etcd") {
        return;
    }
    let directory = temporary_directory();
    let server = Server::start(directory.path(), "http", &[]);
    let process = program(directory.path(), server.port, WATCHES);
    scenarios::eventually("the program is ready", || directory.path().join("ready").exists());
    let (port, peer) = (server.port, server.peer);
    server.kill();
    let server = Server::start_at(directory.path(), "http", &[], port, peer);
    fs::write(directory.path().join("restarted"), "").expect("a writable directory");
    ends_well(process);
    server.kill();
}

#[test]
fn users_and_tls() {
    if !has("etcd") || !has("etcdctl") {
        return;
    }
    let directory = temporary_directory();
    let authority = Authority::new();
    let issued = authority.issue(&["etcd.test"]);
    let write = |name: &str, text: &str| {
        fs::write(directory.path().join(name), text).expect("a writable directory");
    };
    write("ca.pem", &authority.pem());
    write("cert.pem", &issued.chain);
    write("key.pem", &issued.key);
    let server =
        Server::start(directory.path(), "https", &["--cert-file=cert.pem", "--key-file=key.pem"]);
    let endpoint = format!("https://127.0.0.1:{}", server.port);
    for arguments in [
        &["user", "add", "root:secret"][..],
        &["user", "grant-role", "root", "root"],
        &["auth", "enable"],
    ] {
        let any = ["--insecure-transport=false", "--insecure-skip-tls-verify"];
        etcdctl(directory.path(), &endpoint, &[&any[..], arguments].concat());
    }
    let text = r##"
local ca = io.open(directory .. "/ca.pem"):read("a")
local tls = { ca = ca, hostname = "etcd.test" }
local client <close> = open { tls = tls, user = "root", password = "secret" }
check(client:put { key = "a", value = "1" })
same(check(client:get { key = "a" }).kvs[1].value, "1")
local function fails(options, what)
  local other <close> = open(options)
  local res, err = other:get { key = "a" }
  check(res == nil and err:find(what, 1, true), err)
end
fails({ tls = tls, user = "root", password = "wrong" }, "invalid user ID or password")
fails({ tls = tls }, "user name is empty")
fails({ tls = { ca = ca }, user = "root", password = "secret", retry = 1 }, "TLS")
fails({ tls = { ca = ca, hostname = "other.test" }, retry = 1 }, "TLS")
"##;
    ends_well(program(directory.path(), server.port, text));
    server.kill();
}
