//! Holds our load generator against wrk and redis-benchmark on the same servers, and prints.
//!
//! Two questions: what a request costs the generator (on a server that answers at once, where
//! each asks as fast as it can), and whether the figures agree (on a server whose latencies are
//! its own, so that rate and percentiles do not depend on who asks). Rounds alternate A B B A;
//! medians, and the ratio ours ÷ theirs with its bootstrap interval.
//! Nothing here passes or fails. A tool that is not installed is a line.
//!
//! Usage: `generator [SECONDS [TURNS [cost|agreement]]]`, a turn being A B B A; run by
//! `make bench-generator`.
#![allow(clippy::print_stdout, reason = "printing is all it is for")]
#![allow(clippy::disallowed_types, reason = "bench is outside the rule that only net has sockets")]

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bench::load::tools::Tool;
use bench::load::{self, Address, Expect, Outcome, Plan, Target, Traffic};
use bench::stats::{bootstrap_ratio, median};

const PONG: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npong";
const SEED: u64 = 1;

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("floor") => return bench::floor::serve(&["hello".into(), "127.0.0.1:0".into()]),
        Some("paced") => return paced(),
        _ => {}
    }
    let number = |index: usize, otherwise: u64| {
        arguments.get(index).and_then(|word| word.parse().ok()).unwrap_or(otherwise)
    };
    let (time, turns) = (Duration::from_secs(number(0, 2)), number(1, 3));
    let wanted = |part| arguments.get(2).is_none_or(|word| word == part);
    if wanted("cost") {
        cost(time, turns)?;
    }
    if wanted("agreement") {
        agreement(time, turns)?;
    }
    Ok(())
}

/// What a request costs the generator.
fn cost(time: Duration, turns: u64) -> io::Result<()> {
    println!("\nCPU of the generator, µs a request (bar: at most 1.10)\n");
    println!("{:34} {:>8} {:>8}  ratio", "", "ours", "theirs");
    let floor = Server::ours("floor")?;
    for connections in [1, 16, 100, 512] {
        let plan = Plan { connections, duration: time, ..Plan::default() };
        let title = format!("floor-hello, wrk, {connections} connections");
        compare(&title, Tool::Wrk, &http(floor.address), &plan, turns, &[("", cpu_us)])?;
    }
    let Some(redis) = Server::redis()? else {
        println!("redis-server is not installed");
        return Ok(());
    };
    for (command, name) in [(load::Command::Inline, "inline"), (load::Command::MultiBulk, "bulk")] {
        for (connections, pipeline) in [(1, 1), (100, 1), (512, 1), (100, 16)] {
            let plan = Plan { connections, duration: time, ..Plan::default() };
            let traffic = Traffic::Resp { command, pipeline };
            let target = Target { address: Address::Tcp(redis.address), traffic };
            let title = format!("redis {name}, -c {connections} -P {pipeline}");
            compare(&title, Tool::RedisBenchmark, &target, &plan, turns, &[("", cpu_us)])?;
        }
    }
    Ok(())
}

/// Whether both find the same.
fn agreement(time: Duration, turns: u64) -> io::Result<()> {
    println!("\nThe same server, the same figures (bar: within 5 %)\n");
    println!("{:34} {:>8} {:>8}  ratio", "", "ours", "theirs");
    let paced = Server::ours("paced")?;
    let plan = Plan { connections: 32, duration: time, ..Plan::default() };
    let figures: [(&str, Figure); 3] = [
        ("requests/s", Outcome::per_second),
        ("p50 ms", |outcome| outcome.latency_ms(50.0)),
        ("p99 ms", |outcome| outcome.latency_ms(99.0)),
    ];
    compare("paced, wrk", Tool::Wrk, &http(paced.address), &plan, turns, &figures)?;
    let traffic = Traffic::Resp { command: load::Command::Inline, pipeline: 1 };
    let target = Target { address: Address::Tcp(paced.address), traffic };
    compare("paced, redis-benchmark", Tool::RedisBenchmark, &target, &plan, turns, &figures)
}

type Figure = fn(&Outcome) -> f64;

fn cpu_us(outcome: &Outcome) -> f64 {
    outcome.client_cpu.as_secs_f64() * 1e6 / outcome.requests.max(1) as f64
}

/// One or more lines: ours, theirs, ratio, for each figure.
fn compare(
    title: &str,
    tool: Tool,
    target: &Target,
    plan: &Plan,
    turns: u64,
    figures: &[(&str, Figure)],
) -> io::Result<()> {
    let Some(program) = tool.program() else {
        println!("{title:34} {} is not installed", tool.name());
        return Ok(());
    };
    let mut ours = Vec::new();
    let mut theirs = Vec::new();
    for turn in 0..turns * 4 {
        if matches!(turn % 4, 0 | 3) {
            let outcome = load::run(target, plan)?;
            ours.push(if tool == Tool::Wrk { as_wrk_says(outcome, plan) } else { outcome });
        } else {
            theirs.push(tool.run_with(&program, target, plan, |_| ())?);
        }
    }
    for outcome in ours.iter().chain(&theirs).filter(|outcome| outcome.errors.total() > 0) {
        println!("{title:34} errors: {:?}", outcome.errors);
    }
    for (name, figure) in figures {
        let a: Vec<f64> = ours.iter().map(figure).collect();
        let b: Vec<f64> = theirs.iter().map(figure).collect();
        let (Some(ours), Some(theirs)) = (median(&a), median(&b)) else { continue };
        let title = [title, name].join(" ");
        match bootstrap_ratio(&a, &b, SEED) {
            Some(found) => println!(
                "{title:34} {ours:8.2} {theirs:8.2}  {:.3} [{:.3} {:.3}]",
                found.ratio, found.low, found.high
            ),
            None => println!("{title:34} {ours:8.2} {theirs:8.2}  -"),
        }
    }
    Ok(())
}

/// wrk adds latencies where one is above twice the mean interval; so do we, to compare.
fn as_wrk_says(mut outcome: Outcome, plan: &Plan) -> Outcome {
    let elapsed_ns = outcome.elapsed.as_nanos() as u64;
    let interval_ns = elapsed_ns.checked_div(outcome.requests / plan.connections as u64);
    if let Some(interval_ns) = interval_ns {
        outcome.latency = outcome.latency.clone_correct(interval_ns);
    }
    outcome
}

fn http(address: SocketAddr) -> Target {
    let expect = Expect {
        status: 200,
        length: Some(4),
        body: Some(Arc::from(&b"pong"[..])),
        headers: Vec::new(),
    };
    let request = format!("GET /ping HTTP/1.1\r\nHost: {address}\r\n\r\n").into_bytes();
    let traffic = Traffic::Http { request, expect, keep_alive: true };
    Target { address: Address::Tcp(address), traffic }
}

/// A child that listens; ended when dropped.
struct Server {
    child: Child,
    address: SocketAddr,
}

impl Server {
    /// This program again, as one of its servers.
    fn ours(kind: &str) -> io::Result<Self> {
        let program = std::env::current_exe()?;
        let mut child = Command::new(program).arg(kind).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        if let Some(output) = child.stdout.take() {
            BufReader::new(output).read_line(&mut line)?;
        }
        let address = line.trim().strip_prefix("listening ").and_then(|text| text.parse().ok());
        let Some(address) = address else {
            child.kill()?;
            return Err(io::Error::other(format!("{kind} said {line}")));
        };
        Ok(Self { child, address })
    }

    /// `None` if it is not installed.
    fn redis() -> io::Result<Option<Self>> {
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let started = Command::new("redis-server")
            .args(["--port", &address.port().to_string(), "--bind", "127.0.0.1"])
            .args(["--save", "", "--appendonly", "no"])
            .stdout(Stdio::null())
            .spawn();
        let Ok(child) = started else { return Ok(None) };
        let server = Self { child, address };
        for _ in 0..500 {
            if TcpStream::connect(address).is_ok() {
                return Ok(Some(server));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Err(io::Error::other("redis-server does not accept"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Answers after 2 to 12 ms, one in fifty after 40 ms, in an order that is always the same; in
/// HTTP, or in RESP if the first byte is no `G`.
fn paced() -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "listening {}", listener.local_addr()?)?;
    stdout.flush()?;
    for (number, stream) in listener.incoming().enumerate() {
        let stream = stream?;
        stream.set_nodelay(true)?;
        // A client that is gone ends its thread.
        std::thread::spawn(move || drop(answer_paced(stream, number as u64)));
    }
    Ok(())
}

fn answer_paced(mut stream: TcpStream, number: u64) -> io::Result<()> {
    let mut random = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut buffer = [0; 4096];
    loop {
        let count = stream.read(&mut buffer)?;
        let request = &buffer[..count];
        if request.is_empty() {
            return Ok(());
        }
        // redis-benchmark asks for two settings before it begins, in one write each.
        if request.starts_with(b"*") && request.windows(6).any(|word| word == b"CONFIG") {
            let settings = request.windows(6).filter(|word| *word == b"CONFIG").count();
            stream.write_all(&b"*0\r\n".repeat(settings))?;
            continue;
        }
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let delay_us = if random.is_multiple_of(50) { 40_000 } else { 2_000 + random % 10_000 };
        std::thread::sleep(Duration::from_micros(delay_us));
        let answer = if request.starts_with(b"G") { PONG } else { b"+PONG\r\n" };
        stream.write_all(answer)?;
    }
}
