//! Holds our load generator against wrk and redis-benchmark on the same servers, and prints.
//!
//! Two questions: what a request costs the generator (on a server that answers at once, where
//! each asks as fast as it can), and whether the figures agree (on a server whose latencies are
//! its own, so that rate and percentiles do not depend on the generator). Rounds alternate A B B A;
//! medians, and the ratio ours ÷ theirs with its bootstrap interval.
//! Nothing passes or fails, unless `check` is asked for: then the bounds are judged, with more
//! turns while the interval lies on both sides of one, and the exit code is 1 when one does not
//! hold or cannot be told. A tool that is not installed is a line.
//!
//! Usage: `generator [check] [SECONDS [TURNS [cost|agreement]]]`, a turn being A B B A; run by
//! `make bench-generator` and `make bench-generator-check`.
#![allow(clippy::print_stdout, reason = "printing is all it is for")]
#![allow(clippy::disallowed_types, reason = "bench is outside the rule that only net has sockets")]

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bench::load::tools::Tool;
use bench::load::{self, Address, Expect, LoadOutcome, LoadPlan, Target, Traffic};
use bench::stats::{Bound, BoundVerdict, Interval, bootstrap_ratio, median};

const PONG: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npong";
const SEED: u64 = 1;
/// What a request costs ours and the other.
const COST: Bound = Bound::at_most(1.1);
const SAME: Bound = Bound::within(0.05);
/// Where the bar of the cost holds.
const JUDGED_CONNECTIONS: [usize; 2] = [1, 512];
/// A check gives up after so many times the turns it was asked for.
const CHECKS_MAX: u64 = 4;

/// What is asked of the rounds.
struct Rounds {
    time: Duration,
    turns: u64,
    is_check: bool,
    /// Sentences about bounds that do not hold.
    failed: Vec<String>,
}

fn main() -> io::Result<()> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let is_check = arguments.first().is_some_and(|word| word == "check");
    if is_check {
        arguments.remove(0);
    }
    match arguments.first().map(String::as_str) {
        Some("floor") => return bench::floor::serve(&["hello".into(), "127.0.0.1:0".into()]),
        Some("paced") => return paced(),
        _ => {}
    }
    let number = |index: usize, otherwise: u64| {
        arguments.get(index).and_then(|word| word.parse().ok()).unwrap_or(otherwise)
    };
    let (time, turns) = (Duration::from_secs(number(0, 2)), number(1, 3));
    let mut rounds = Rounds { time, turns, is_check, failed: Vec::new() };
    let wanted = |part| arguments.get(2).is_none_or(|word| word == part);
    if wanted("cost") {
        cost(&mut rounds)?;
    }
    if wanted("agreement") {
        agreement(&mut rounds)?;
    }
    if rounds.failed.is_empty() {
        return Ok(());
    }
    println!("\n{}", rounds.failed.join("\n"));
    Err(io::Error::other("the generator is not what it is said to be, or the machine too busy"))
}

/// What a request costs the generator.
fn cost(rounds: &mut Rounds) -> io::Result<()> {
    println!("\nCPU of the generator, µs a request (bar: at most 1.10)\n");
    println!("{:34} {:>8} {:>8}  ratio", "", "ours", "theirs");
    let floor = Server::ours("floor")?;
    for connections in [1, 16, 100, 512] {
        let plan = LoadPlan { connections, duration: rounds.time, ..LoadPlan::default() };
        let title = format!("floor-hello, wrk, {connections} connections");
        let bound = JUDGED_CONNECTIONS.contains(&connections).then_some(COST);
        let figures: &[(&str, Figure, _)] = &[("", cpu_us, bound)];
        compare(&title, Tool::Wrk, &http(floor.address), &plan, rounds, figures)?;
    }
    let Some(redis) = Server::redis()? else {
        println!("redis-server is not installed");
        return Ok(());
    };
    for (command, name) in [(load::Command::Inline, "inline"), (load::Command::MultiBulk, "bulk")] {
        for (connections, pipeline) in [(1, 1), (100, 1), (512, 1), (100, 16)] {
            let plan = LoadPlan { connections, duration: rounds.time, ..LoadPlan::default() };
            let traffic = Traffic::Resp { command, pipeline };
            let target = Target { address: Address::Tcp(redis.address), tls: None, traffic };
            let title = format!("redis {name}, -c {connections} -P {pipeline}");
            let figures: &[(&str, Figure, _)] = &[("", cpu_us, None)];
            compare(&title, Tool::RedisBenchmark, &target, &plan, rounds, figures)?;
        }
    }
    Ok(())
}

/// Whether both find the same.
fn agreement(rounds: &mut Rounds) -> io::Result<()> {
    println!("\nThe same server, the same figures (bar: within 5 %)\n");
    println!("{:34} {:>8} {:>8}  ratio", "", "ours", "theirs");
    let paced = Server::ours("paced")?;
    let plan = LoadPlan { connections: 32, duration: rounds.time, ..LoadPlan::default() };
    let figures: [(&str, Figure, _); 3] = [
        ("requests/s", LoadOutcome::per_second, Some(SAME)),
        ("p50 ms", |outcome| outcome.latency_ms(50.0), Some(SAME)),
        ("p99 ms", |outcome| outcome.latency_ms(99.0), Some(SAME)),
    ];
    compare("paced, wrk", Tool::Wrk, &http(paced.address), &plan, rounds, &figures)?;
    let traffic = Traffic::Resp { command: load::Command::Inline, pipeline: 1 };
    let target = Target { address: Address::Tcp(paced.address), tls: None, traffic };
    compare("paced, redis-benchmark", Tool::RedisBenchmark, &target, &plan, rounds, &figures)
}

type Figure = fn(&LoadOutcome) -> f64;

fn cpu_us(outcome: &LoadOutcome) -> f64 {
    outcome.client_cpu.as_secs_f64() * 1e6 / outcome.requests.max(1) as f64
}

/// One or more lines: ours, theirs, ratio, for each figure, and what a check says to it.
fn compare(
    title: &str,
    tool: Tool,
    target: &Target,
    plan: &LoadPlan,
    rounds: &mut Rounds,
    figures: &[(&str, Figure, Option<Bound>)],
) -> io::Result<()> {
    let Some(program) = tool.program() else {
        println!("{title:34} {} is not installed", tool.name());
        return Ok(());
    };
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for check in 1..=CHECKS_MAX {
        for turn in 0..rounds.turns * 4 {
            if matches!(turn % 4, 0 | 3) {
                let outcome = load::run(target, plan)?;
                ours.push(if tool == Tool::Wrk { as_wrk_says(outcome, plan) } else { outcome });
            } else {
                theirs.push(tool.run_with(&program, target, plan, |_| ())?);
            }
        }
        let undecided = figures.iter().any(|(_, figure, bound)| {
            bound.is_some_and(|bound| {
                verdict(bound, *figure, &ours, &theirs) == BoundVerdict::CannotTell
            })
        });
        if !rounds.is_check || !undecided || check == CHECKS_MAX {
            break;
        }
    }
    for outcome in ours.iter().chain(&theirs).filter(|outcome| outcome.errors.total() > 0) {
        println!("{title:34} errors: {:?}", outcome.errors);
    }
    for (name, figure, bound) in figures {
        let title = [title, name].join(" ");
        let said = line(&title, *figure, &ours, &theirs);
        let verdict = bound.map(|bound| verdict(bound, *figure, &ours, &theirs));
        let verdict = verdict.filter(|_| rounds.is_check);
        println!("{said}{}", verdict.map(|it| format!("  {it:?}")).unwrap_or_default());
        if verdict.is_some_and(|verdict| verdict != BoundVerdict::Holds) {
            rounds.failed.push(said);
        }
    }
    Ok(())
}

fn ratio(figure: Figure, ours: &[LoadOutcome], theirs: &[LoadOutcome]) -> Option<Interval> {
    let of = |outcomes: &[LoadOutcome]| outcomes.iter().map(figure).collect::<Vec<_>>();
    bootstrap_ratio(&of(ours), &of(theirs), SEED)
}

fn verdict(
    bound: Bound,
    figure: Figure,
    ours: &[LoadOutcome],
    theirs: &[LoadOutcome],
) -> BoundVerdict {
    let failed = ours.iter().chain(theirs).any(|outcome| outcome.errors.total() > 0);
    match ratio(figure, ours, theirs) {
        Some(found) if !failed => bound.judge(&found),
        _ => BoundVerdict::Broken,
    }
}

fn line(title: &str, figure: Figure, ours: &[LoadOutcome], theirs: &[LoadOutcome]) -> String {
    let of = |outcomes: &[LoadOutcome]| median(&outcomes.iter().map(figure).collect::<Vec<_>>());
    let (ours_is, theirs_is) = (of(ours).unwrap_or(f64::NAN), of(theirs).unwrap_or(f64::NAN));
    let found = match ratio(figure, ours, theirs) {
        Some(found) => format!("{:.3} [{:.3} {:.3}]", found.ratio, found.low, found.high),
        None => "-".to_owned(),
    };
    format!("{title:34} {ours_is:8.2} {theirs_is:8.2}  {found}")
}

/// wrk adds latencies where one is above twice the mean interval; so do we, to compare.
fn as_wrk_says(mut outcome: LoadOutcome, plan: &LoadPlan) -> LoadOutcome {
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
        ..Expect::default()
    };
    let request = format!("GET /ping HTTP/1.1\r\nHost: {address}\r\n\r\n").into_bytes();
    let traffic = Traffic::Http { request, expect, keep_alive: true };
    Target { address: Address::Tcp(address), tls: None, traffic }
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
    let mut rng = fastrand::Rng::with_seed(number);
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
        let delay_us = if rng.u8(..50) == 0 { 40_000 } else { rng.u64(2_000..12_000) };
        std::thread::sleep(Duration::from_micros(delay_us));
        let answer = if request.starts_with(b"G") { PONG } else { b"+PONG\r\n" };
        stream.write_all(answer)?;
    }
}
