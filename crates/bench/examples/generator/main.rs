//! Compares our load generator with wrk, h2load, openssl s_time and redis-benchmark on the same
//! servers, and prints.
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

mod servers;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bench::load::tools::Tool;
use bench::load::{self, Address, Expect, Handshakes, LoadOutcome, LoadPlan, Target, Tls, Traffic};
use bench::stats::{Bound, BoundVerdict, Interval, bootstrap_ratio, median};

use servers::Server;

const SEED: u64 = 1;
const PONG_BYTES: usize = b"pong".len();
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
        Some("floor-h2") => {
            return bench::floor::serve(&["grpc".into(), "127.0.0.1:0".into(), "4".into()]);
        }
        Some("paced") => return servers::paced(servers::respond),
        Some("paced-h2") => return servers::paced(servers::respond_streams),
        Some("paced-tls") => return servers::paced_tls(),
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
    let floor = Server::ours("floor-h2")?;
    for (connections, streams) in [(1, 10), (100, 10), (100, 100)] {
        let plan = LoadPlan { connections, duration: rounds.time, ..LoadPlan::default() };
        let title = format!("floor, h2load, -c {connections} -m {streams}");
        let figures: &[(&str, Figure, _)] = &[("", cpu_us, None)];
        let target = http2(floor.address, streams, bench::floor::message(4).len());
        compare(&title, Tool::H2load, &target, &plan, rounds, figures)?;
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
    let rate: [(&str, Figure, _); 1] = [("requests/s", LoadOutcome::per_second, Some(SAME))];
    let streams = Server::ours("paced-h2")?;
    let target = http2(streams.address, 10, PONG_BYTES);
    compare("paced, h2load -m 10", Tool::H2load, &target, &plan, rounds, &rate)?;
    let tls = Server::ours("paced-tls")?;
    for (handshakes, title) in [
        (Handshakes::Full, "paced, openssl s_time -new"),
        (Handshakes::Resumed, "paced, openssl s_time -reuse"),
    ] {
        let secured = Tls::new(tls.certificate.clone(), handshakes)?;
        let target = Target { tls: Some(Arc::new(secured)), ..each_connected(tls.address) };
        let plan = LoadPlan { connections: 1, ..plan.clone() };
        // The first connection gets the tickets: it cannot resume a session.
        load::run(&target, &LoadPlan { duration: Duration::from_millis(200), ..plan.clone() })?;
        let figures: [(&str, Figure, _); 2] = [rate[0], ("CPU µs", cpu_us, None)];
        compare(title, Tool::Openssl, &target, &plan, rounds, &figures)?;
    }
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
    let expect = Expect { body: Some(Arc::from(&b"pong"[..])), ..expect(PONG_BYTES) };
    let request = format!("GET /ping HTTP/1.1\r\nHost: {address}\r\n\r\n").into_bytes();
    let traffic = Traffic::Http { request, expect, keep_alive: true };
    Target { address: Address::Tcp(address), tls: None, traffic }
}

/// The same with a connection for each request.
fn each_connected(address: SocketAddr) -> Target {
    let request = b"GET /ping HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".to_vec();
    let traffic = Traffic::Http { request, expect: expect(PONG_BYTES), keep_alive: false };
    Target { address: Address::Tcp(address), tls: None, traffic }
}

fn http2(address: SocketAddr, streams: u32, length: usize) -> Target {
    let (authority, path, expect) = (address.to_string(), "/ping".to_owned(), expect(length));
    let traffic = Traffic::Http2 { authority, path, call: None, streams, expect };
    Target { address: Address::Tcp(address), tls: None, traffic }
}

fn expect(length: usize) -> Expect {
    Expect { status: 200, length: Some(length as u64), ..Expect::default() }
}
