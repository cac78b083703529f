//! Connections come and go against a Lua program, in good order and in bad: what the program holds
//! afterwards is what it held before.
//!
//! Five seconds, or what `LUA_SOAK_SECONDS` says (`make soak` says ten minutes).
#![allow(clippy::disallowed_types, reason = "the client side of a test opens its own sockets")]

use scenarios::{Process, tidegate_binary};
use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

mod modules;

const SECONDS: u64 = 5;
const CLIENTS: u64 = 8;
/// Allocators keep some of what they once needed: less than this is not growth.
const GROWTH_BYTES: f64 = 4.0 * 1024.0 * 1024.0;
/// What a full collection leaves of Lua's own may differ by so much.
const LUA_GROWTH_KIB: f64 = 256.0;

const PROGRAM: &str = r#"
local logger, task, tcp = require "silly.logger", require "silly.task", require "silly.net.tcp"
local time = require "silly.time"
local open = 0
local function serve(conn)
  open = open + 1
  local session = time.after(60000, function() end)
  while true do
    local line = conn:read("\n", 10000)
    if not line then break end
    if line == "held\n" then
      collectgarbage()
      collectgarbage()
      conn:write(string.format("%d %.1f\n", open, collectgarbage("count")))
    elseif line == "fork\n" then
      task.fork(function() time.sleep(1) conn:write("forked\n") end)
    elseif line == "fail\n" then
      open = open - 1
      time.cancel(session)
      error("as asked")
    else
      conn:write({ line:rep(3, ""), "" })
    end
  end
  open = open - 1
  time.cancel(session)
  -- Every second one is left to the collector.
  if open % 2 == 0 then conn:close() end
end
local listener = tcp.listen("127.0.0.1:0", serve)
logger.info("listens on", listener.addr)
"#;

/// Starts a program that logs where it listens for `held`.
fn start(file: &Path, arguments: &[String]) -> (Process, SocketAddr) {
    let mut command = Command::new(tidegate_binary());
    command.arg("run").arg(file).args(arguments);
    let process = Process::start(&mut command);
    let address = process.wait_for_line(|line| {
        line.split_once("listens on ")?.1.split_whitespace().next()?.parse().ok()
    });
    let address = address.unwrap_or_else(|| panic!("it ended: {:?}", process.log()));
    (process, address)
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("the program accepts");
    stream.set_read_timeout(Some(scenarios::PATIENCE)).expect("a time-out");
    stream
}

fn ask(stream: &mut TcpStream, line: &str) -> String {
    stream.write_all(line.as_bytes()).expect("the program reads");
    let mut response = Vec::new();
    while response.last() != Some(&b'\n') {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("a response");
        response.push(byte[0]);
    }
    String::from_utf8_lossy(&response).into_owned()
}

/// One connection, in one of the ways that they come and go.
fn visit(address: SocketAddr, number: u64) {
    let mut stream = connect(address);
    for _ in 0..number % 7 {
        assert_eq!(ask(&mut stream, "x\n"), "x\n");
        let mut rest = [0; 4];
        stream.read_exact(&mut rest).expect("two lines more");
    }
    match number % 6 {
        // In good order: our end, then theirs.
        0 => stream.shutdown(Shutdown::Write).expect("half a close"),
        // Gone while a coroutine of theirs is about to write.
        1 => assert_eq!(ask(&mut stream, "fork\n"), "forked\n"),
        2 => stream.write_all(b"fork\n").expect("the program reads"),
        // An error in the script, half a line, a line that never ends.
        3 if number % 10 == 3 => stream.write_all(b"fail\n").expect("the program reads"),
        3 => stream.write_all(b"half a l").expect("the program reads"),
        _ => stream.write_all(&[b'y'; 40_000]).expect("the program reads"),
    }
}

/// Comes and goes with many clients at a time; how often.
fn load(address: SocketAddr, span: Duration) -> u64 {
    let (over, visits) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (over, visits) = (&over, &visits);
            scope.spawn(move || {
                let mut number = client;
                while !over.load(Ordering::Relaxed) {
                    visit(address, number);
                    number += 1;
                    visits.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        // The load is the span itself.
        std::thread::sleep(span);
        over.store(true, Ordering::Relaxed);
    });
    visits.into_inner()
}

/// Resident bytes, KiB of Lua's own, descriptors.
type ResourceUse = (f64, f64, usize);

/// The resources in use once only the test is connected and at most so many descriptors are open:
/// the last coroutines of the load may still be on their way.
fn held(process: &Process, address: SocketAddr, descriptors_max: usize) -> ResourceUse {
    let mut stream = connect(address);
    scenarios::eventually_some(&format!("at most {descriptors_max} descriptors are open"), || {
        let response = ask(&mut stream, "held\n");
        let (open, kib) = response.trim().split_once(' ').expect("two numbers");
        let proc = format!("/proc/{}", process.id());
        let descriptors = fs::read_dir(format!("{proc}/fd")).expect("its descriptors").count();
        if open == "1" && descriptors <= descriptors_max {
            let kib = kib.parse().expect("a number");
            let status = fs::read_to_string(format!("{proc}/status")).expect("a Linux machine");
            let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
            let text = line.expect("RssAnon").trim().trim_end_matches(" kB").to_owned();
            return Some((text.parse::<f64>().expect("a number") * 1024.0, kib, descriptors));
        }
        None
    })
}

fn seconds() -> u64 {
    let told = std::env::var("LUA_SOAK_SECONDS").ok().and_then(|text| text.parse().ok());
    told.unwrap_or(SECONDS)
}

fn assert_flat(before: &ResourceUse, after: &ResourceUse) {
    assert!(after.0 < before.0 + GROWTH_BYTES, "resident: {before:?}, then {after:?}");
    assert!(after.1 < before.1 + LUA_GROWTH_KIB, "of Lua: {before:?}, then {after:?}");
}

#[test]
fn memory_returns_to_where_it_began() {
    let seconds = seconds();
    let place = tempfile::tempdir().expect("a temporary directory");
    let file = place.path().join("soak.lua");
    fs::write(&file, PROGRAM).expect("a writable directory");
    let (process, address) = start(&file, &[]);
    // As many as with one connection, ours.
    let (.., descriptors) = held(&process, address, usize::MAX);
    // Warm: what the first connections allocate for all is not growth.
    load(address, Duration::from_secs((seconds / 5).clamp(1, 20)));
    let before = held(&process, address, descriptors);
    let visits = load(address, Duration::from_secs(seconds - seconds / 5));
    let after = held(&process, address, descriptors);
    println!("{visits} connections: {before:?} before, {after:?} after");
    assert!(visits > seconds, "only {visits} connections");
    assert_flat(&before, &after);
    process.signal("TERM");
    assert_eq!(process.wait().code, Some(0));
}
