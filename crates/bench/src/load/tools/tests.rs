//! The external tools, if installed, against a server with a known latency. The bounds are loose: a
//! benchmark is not a test. `make bench-generator` prints a precise comparison.

use std::time::Duration;

use super::Tool;
use crate::load::tests::{Act, END, PONG, Scripted, is_something, target, until};
use crate::load::{Command, Errors, LoadOutcome, LoadPlan, Moment, Target, Traffic, run};

const SLOW: Duration = Duration::from_millis(10);

fn plan() -> LoadPlan {
    LoadPlan { connections: 4, duration: Duration::from_secs(1), ..LoadPlan::default() }
}

/// The outcome of the tool and of ours on the same server, or a line why there is none.
fn both(tool: Tool, target: &Target) -> Option<(LoadOutcome, LoadOutcome)> {
    let Some(program) = tool.program() else {
        println!("skipped: {} is not installed", tool.name());
        return None;
    };
    let theirs = || {
        let mut told = Vec::new();
        let theirs = tool.run_with(&program, target, &plan(), |moment| told.push(moment)).unwrap();
        assert_eq!(told, [Moment::Begin, Moment::End]);
        theirs
    };
    let ours = || run(target, &plan()).unwrap();
    Some((until(theirs, is_something), until(ours, is_something)))
}

#[track_caller]
fn alike(theirs: &LoadOutcome, ours: &LoadOutcome) {
    assert_eq!(theirs.errors, Errors::default());
    assert_eq!(ours.errors, Errors::default());
    // What no machine, however busy, can do: respond before the server does.
    for outcome in [theirs, ours] {
        let at_most = plan().connections as f64 / SLOW.as_secs_f64();
        let rate = outcome.per_second();
        assert!(rate > 0.0 && rate < at_most * 1.05, "{rate}");
        let (p50, p90) = (outcome.latency_ms(50.0), outcome.latency_ms(90.0));
        assert!(p50 > 9.9 && p90 >= p50, "{p50} and {p90} ms");
    }
    assert!(theirs.client_cpu > Duration::ZERO);
}

#[test]
fn wrk_finds_what_we_find() {
    let server = Scripted::tcp(END, |_| vec![Act::Wait(SLOW), Act::Send(PONG.to_vec())]);
    if let Some((theirs, ours)) = both(Tool::Wrk, &target(&server.address)) {
        alike(&theirs, &ours);
        assert!(theirs.bytes > 0);
    }
}

#[test]
fn redis_benchmark_finds_what_we_find() {
    // It asks for two settings before it begins, as arrays: answered by an empty one each, when
    // their last line, the name of the setting, has come.
    let server = Scripted::lines(|line| match line {
        b"PING" => vec![Act::Wait(SLOW / 100), Act::Send(b"+PONG\r\n".to_vec())],
        b"save" | b"appendonly" => vec![Act::Send(b"*0\r\n".to_vec())],
        _ => Vec::new(),
    });
    let traffic = Traffic::Resp { command: Command::Inline, pipeline: 1 };
    let target = Target { address: server.address.clone(), tls: None, traffic };
    if let Some((theirs, ours)) = both(Tool::RedisBenchmark, &target) {
        assert_eq!(ours.errors, Errors::default());
        assert!(theirs.requests > 0 && ours.requests > 0, "{theirs:?}\n{ours:?}");
        let (a, b) = (theirs.latency_ms(50.0), ours.latency_ms(50.0));
        assert!(a > 0.09 && b > 0.09, "{a} and {b} ms");
    }
}

#[test]
fn a_load_that_a_tool_cannot_make_is_refused() {
    let server = Scripted::tcp(END, |_| Vec::new());
    let http = target(&server.address);
    assert!(Tool::Wrk.can(&http, &plan()).is_ok());
    assert!(Tool::RedisBenchmark.can(&http, &plan()).is_err());
    let mode = crate::load::Mode::Open { rate: 1.0 };
    assert!(Tool::Wrk.can(&http, &LoadPlan { mode, ..plan() }).is_err());
    assert_eq!(Tool::by_name("redis-benchmark"), Some(Tool::RedisBenchmark));
    assert_eq!(Tool::by_name("ab"), None);
}
