//! The programs of `examples/lua`, each started and used by real clients.
#![allow(clippy::disallowed_types, reason = "the client side of a test opens its own sockets")]

mod chat;

use scenarios::{Exit, Process, command_exists, eventually, free_port, tidegate_binary};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Command;

/// The directory of the examples.
fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../examples/lua")
}

/// A running program of the examples.
struct Example {
    process: Process,
    address: SocketAddr,
}

impl Example {
    /// Starts one that listens where `--listen` says and tells the address in its log.
    fn start(name: &str, arguments: &[&str]) -> Example {
        Example::start_at(0, name, arguments)
    }

    fn start_at(port: u16, name: &str, arguments: &[&str]) -> Example {
        let mut command = Command::new(tidegate_binary());
        let listen = format!("--listen=127.0.0.1:{port}");
        command.arg("run").arg(directory().join(name)).arg(listen).args(arguments);
        let process = Process::start(&mut command);
        let told = process.wait_for_line(|line| {
            line.split_once("listens on ")?.1.split_whitespace().next()?.parse().ok()
        });
        let address = told.unwrap_or_else(|| panic!("{name} ended: {:?}", process.log()));
        Example { process, address }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("the program accepts");
        stream.set_read_timeout(Some(scenarios::PATIENCE)).expect("a time-out");
        stream
    }

    /// Sends `request`, and reads exactly as much as `response` is long.
    fn says(&self, request: &str, response: &str) {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).expect("the program reads");
        let mut got = vec![0; response.len()];
        stream.read_exact(&mut got).expect("a response");
        assert_eq!(String::from_utf8_lossy(&got), response, "to {request:?}");
    }

    /// Sends `request`, and reads the number that responds to it.
    fn number(&self, request: &str) -> i64 {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).expect("the program reads");
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).expect("a response");
        let number = line.strip_prefix(':').and_then(|rest| rest.trim_end().parse().ok());
        number.unwrap_or_else(|| panic!("{line:?} to {request:?}"))
    }

    fn port(&self) -> String {
        self.address.port().to_string()
    }

    /// Ends as a service manager would end it.
    fn stop(self) {
        self.process.signal("TERM");
        let exit = self.process.wait();
        assert_eq!(exit.code, Some(0), "{exit:?}");
    }
}

/// Runs a client to its end; `None`, said aloud, where it is not installed.
fn client(name: &str, arguments: &[&str]) -> Option<Exit> {
    if !command_exists(name) {
        let _ = writeln!(std::io::stderr(), "skipped: {name} is not installed");
        return None;
    }
    let exit = Process::run(Command::new(name).args(arguments));
    assert_eq!(exit.code, Some(0), "{name} {arguments:?}: {exit:?}");
    Some(exit)
}

/// A program that listens at a fixed address of its own, moved to a port that is free.
fn start_published(name: &str) -> Example {
    let port = free_port();
    let text = fs::read_to_string(directory().join(name)).expect("the example");
    let moved = text.replace("127.0.0.1:6379", &format!("127.0.0.1:{port}"));
    assert_ne!(text, moved, "it listens where redis-benchmark looks by default");
    let place = tempfile::tempdir().expect("a temporary directory");
    let file = place.path().join(name);
    fs::write(&file, moved).expect("a writable directory");
    let process = Process::start(Command::new(tidegate_binary()).arg("run").arg(&file));
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    // It prints nothing once it listens.
    eventually(&format!("{name} listens"), || TcpStream::connect(address).is_ok());
    Example { process, address }
}

fn answers_pings(name: &str) {
    let example = start_published(name);
    example.says("PING\r\n", "+PONG\r\n");
    example.says("*1\r\n$4\r\nPING\r\n", "+PONG\r\n");
    example.says("PING\r\nPING\r\nPI", "+PONG\r\n+PONG\r\n");
    for pipeline in ["1", "16"] {
        let port = example.port();
        let words = ["-p", &port, "-t", "ping", "-c", "20", "-n", "4000", "-P", pipeline, "--csv"];
        if let Some(exit) = client("redis-benchmark", &words) {
            for test in ["PING_INLINE", "PING_MBULK"] {
                assert!(exit.stdout.contains(test), "{exit:?}");
            }
        }
    }
    example.stop();
}

#[test]
fn the_published_benchmark_program_responds_to_pings() {
    answers_pings("ping.lua");
}

#[test]
fn so_does_the_same_with_objects() {
    answers_pings("ping_objects.lua");
}

#[test]
fn what_is_sent_comes_back() {
    let example = Example::start("echo.lua", &[]);
    assert_eq!(through(&example), sample());
    example.stop();
}

#[test]
fn a_proxy_passes_both_ways_and_both_ends_on() {
    // No other process gets this port once the program has ended.
    let echo = Example::start_at(free_port(), "echo.lua", &[]);
    let to = format!("--to={}", echo.address);
    let proxy = Example::start("proxy.lua", &[&to]);
    assert_eq!(through(&proxy), sample());
    let counted = format!("sent {0} received {0}", sample().len());
    let line = proxy.process.wait_for_line(|line| line.contains(&counted).then_some(()));
    assert!(line.is_some(), "{:?}", proxy.process.log());
    echo.stop();
    // Its target is gone: the client is let go, the proxy lives.
    let mut rest = Vec::new();
    assert_eq!(proxy.connect().read_to_end(&mut rest).expect("the end"), 0);
    proxy.stop();
}

/// More than any buffer on the way holds.
fn sample() -> Vec<u8> {
    (0..4 << 20).map(|at: u32| (at ^ (at >> 8)) as u8).collect()
}

/// What comes back of the sample, read while it is sent.
fn through(example: &Example) -> Vec<u8> {
    let mut stream = example.connect();
    let mut sending = stream.try_clone().expect("a second descriptor");
    let sender = std::thread::spawn(move || {
        sending.write_all(&sample()).expect("the program reads");
        sending.shutdown(Shutdown::Write).expect("half a close");
    });
    let mut got = Vec::new();
    stream.read_to_end(&mut got).expect("everything comes back");
    sender.join().expect("everything was sent");
    got
}

#[test]
fn a_cache_keeps_values_for_their_time() {
    let cache = Example::start("cache.lua", &["--keys=3"]);
    let says = |request, response| cache.says(request, response);
    says("PING\r\n", "+PONG\r\n");
    says("*2\r\n$4\r\nECHO\r\n$4\r\na\r\nb\r\n", "$4\r\na\r\nb\r\n");
    says("SET a 1\r\nGET a\r\nDEL a b\r\nGET a\r\n", "+OK\r\n$1\r\n1\r\n:1\r\n$-1\r\n");
    says("SET n 41\r\nINCR n\r\nSET n 0 NX\r\nSET x 0 XX\r\n", "+OK\r\n:42\r\n$-1\r\n$-1\r\n");
    says("SET t 1 EX 100\r\nTTL n\r\nTTL no\r\n", "+OK\r\n:-1\r\n:-2\r\n");
    let left = cache.number("TTL t\r\n");
    assert!((1..=100).contains(&left), "{left} s of 100");
    says("EXPIRE n 0\r\nGET n\r\nEXPIRE n 1\r\n", ":1\r\n$-1\r\n:0\r\n");
    says("FLUSHALL\r\nDBSIZE\r\n", "+OK\r\n:0\r\n");
    // The oldest goes when there are more keys than may be.
    says("SET 1 a\r\nSET 2 b\r\nSET 3 c\r\nSET 4 d\r\n", "+OK\r\n+OK\r\n+OK\r\n+OK\r\n");
    says("DBSIZE\r\nGET 1\r\nGET 4\r\n", ":3\r\n$-1\r\n$1\r\nd\r\n");
    says("WHAT\r\nGET 4\r\n", "-ERR unknown command 'what'\r\n$1\r\nd\r\n");
    says("SET\r\n", "-ERR wrong number of arguments for 'set' command\r\n");
    says("*1\r\n$99999999999\r\n", "-ERR Protocol error: invalid bulk length\r\n");
    cache.stop();
}

#[test]
fn the_clients_of_redis_use_the_cache() {
    let cache = Example::start("cache.lua", &[]);
    let port = cache.port();
    let cli = |words: &[&str]| {
        let exit = client("redis-cli", &[&["-p", &port], words].concat())?;
        Some(exit.stdout.trim().to_owned())
    };
    let Some(pong) = cli(&["PING"]) else { return };
    assert_eq!(pong, "PONG");
    assert_eq!(cli(&["SET", "greeting", "good day", "EX", "60"]).as_deref(), Some("OK"));
    assert_eq!(cli(&["GET", "greeting"]).as_deref(), Some("good day"));
    assert_eq!(cli(&["DEL", "greeting"]).as_deref(), Some("1"));
    assert_eq!(cli(&["GET", "greeting"]).as_deref(), Some(""));
    let words = ["-p", &port, "-t", "ping,set,get,incr", "-c", "20", "-n", "2000", "--csv"];
    if let Some(exit) = client("redis-benchmark", &words) {
        assert!(exit.stdout.contains("\"INCR\""), "{exit:?}");
    }
    cache.stop();
}

#[test]
fn an_api_speaks_json() {
    let api = Example::start("api.lua", &[]);
    let curl = |path: &str, words: &[&str]| {
        let url = format!("http://{}{path}", api.address);
        let head = ["-s", "-w", " %{http_code}", &url];
        client("curl", &[&head, words].concat()).map(|exit| exit.stdout)
    };
    let Some(first) = curl("/notes", &["-d", r#"{"text":"buy milk"}"#]) else { return };
    assert!(first.contains(r#""text":"buy milk""#) && first.ends_with(" 201"), "{first}");
    let read = curl("/notes/1", &[]).expect("curl is there");
    assert!(read.contains(r#""id":1"#) && read.ends_with(" 200"), "{read}");
    let changed = curl("/notes/1", &["-X", "PUT", "-d", r#"{"text":"drink it"}"#]);
    assert!(changed.is_some_and(|text| text.contains("drink it")), "changed");
    let all = curl("/notes?from=1", &[]).expect("curl is there");
    assert!(all.contains("drink it") && all.contains(r#""count":1"#), "{all}");
    for (path, words, status) in [
        ("/notes/1", &["-X", "DELETE"][..], "200"),
        ("/notes/1", &[], "404"),
        ("/nowhere", &[], "404"),
        ("/notes", &["-d", "{"], "400"),
        ("/notes", &["-d", "[1]"], "400"),
    ] {
        let response = curl(path, words).expect("curl is there");
        assert!(response.ends_with(status), "{path} {words:?}: {response}");
    }
    api.stop();
}
