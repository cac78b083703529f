//! Whole runs with applications of Python, for every server installed here.
//!
//! `TIDEGATE_BENCH_PYTHON` names the interpreter, such as target/bench-python/bin/python; what it
//! has not is a line on stderr. `TIDEGATE_BINARY` is the gateway of `asgi-up`.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use bench::live::Live;
use bench::peers::Finder;
use bench::report::data::{Data, Record};
use bench::run::{Options, plan};
use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

fn python() -> Option<PathBuf> {
    let named = std::env::var_os("TIDEGATE_BENCH_PYTHON").map(PathBuf::from);
    named.or_else(bench::peers::interpreter)
}

fn options(scenarios: &[&str], peers: &[&str]) -> Options {
    let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    let floor = vec![env!("CARGO_BIN_EXE_floor").to_owned()];
    let subject = std::env::var("TIDEGATE_BINARY").unwrap_or("/nowhere/tidegate".to_owned());
    let finder =
        Finder { subject: vec![subject], floor, given: [].into(), cache: None, python: python() };
    let mut options = Options::new(finder);
    (options.scenarios, options.peers) = (names(scenarios), Some(names(peers)));
    (options.rounds, options.connections) = (2, vec![4]);
    (options.round, options.warm_up) = (Duration::from_millis(100), Duration::from_millis(50));
    options.verify = true;
    options
}

/// `None` if no server is installed. On a busy machine a server may get no processor time in so
/// short a round: then it is run again.
fn run(options: Options) -> Option<Data> {
    for _ in 0..3 {
        let schedule = match plan(options.clone()) {
            Ok(schedule) => schedule,
            Err(why) => {
                eprintln!("skipped: {}", why.0);
                return None;
            }
        };
        let live = Live::to(io::sink(), false, schedule.planned());
        let data = schedule.run(&live).unwrap();
        // On a machine busy beyond all measure there is no time for every round.
        let has_rate = |one: &Record| one.rounds.is_empty() || one.requests_per_second > 0.0;
        if data.records.iter().all(has_rate) {
            return Some(data);
        }
    }
    panic!("a server never responds in a round");
}

/// Every installed server responds correctly in every case.
#[track_caller]
fn all_is_right(data: &Data) {
    for peer in &data.peers {
        peer.missing.iter().for_each(|why| eprintln!("skipped: {} {why}", peer.name));
    }
    for record in &data.records {
        assert_eq!(record.errors, 0, "{record:?}");
    }
}

#[test]
fn applications_are_served_by_every_installed_server() {
    let scenarios =
        ["asgi-hello", "wsgi-hello", "app-echo", "asgi-sleep", "wsgi-sleep", "websocket-echo"];
    let peers = [
        "tidegate",
        "floor",
        "granian",
        "granian-1-thread",
        "uvicorn",
        "gunicorn",
        "gunicorn-gevent",
        "fastpysgi",
    ];
    let Some(data) = run(options(&scenarios, &peers)) else { return };
    all_is_right(&data);
    let measured: BTreeSet<_> =
        data.records.iter().map(|one| (&*one.scenario, &*one.server)).collect();
    assert!(measured.contains(&("asgi-hello", "floor")), "{measured:?}");
    assert!(!measured.contains(&("app-echo-asgi", "floor")), "{measured:?}");
    let is_here =
        |name: &str| data.peers.iter().any(|peer| peer.name == name && peer.missing.is_none());
    if is_here("granian") {
        assert!(measured.contains(&("wsgi-hello", "granian-1-thread")), "{measured:?}");
        assert!(!measured.contains(&("asgi-hello", "granian-1-thread")), "{measured:?}");
        assert!(measured.contains(&("app-echo-wsgi", "granian")), "{measured:?}");
        assert!(measured.contains(&("websocket-echo", "granian")), "{measured:?}");
    }
    if is_here("uvicorn") {
        assert!(measured.contains(&("app-echo-asgi", "uvicorn")), "{measured:?}");
        assert!(!measured.contains(&("wsgi-hello", "uvicorn")), "{measured:?}");
    }
}

#[test]
fn an_endpoint_is_compared_with_a_loop_without_a_server() {
    let Some(data) = run(options(&["fastapi-json"], &["uvicorn", "bare-loop"])) else { return };
    all_is_right(&data);
    for record in data.of_scenario("fastapi-json-loop") {
        assert_eq!((&*record.server, record.cpu_from.as_deref()), ("bare-loop", Some("program")));
        assert!(record.cpu_us_per_request > 1.0, "{record:?}");
    }
}

#[test]
fn greenlets_tls_and_http_2_are_measured() {
    let peers = ["tidegate", "gunicorn-gevent", "gunicorn", "granian", "uvicorn", "hypercorn"];
    let Some(data) = run(options(&["gevent", "fastapi-tls"], &peers)) else { return };
    all_is_right(&data);
    let allowed = |scenario: &str| match scenario {
        "gevent-hello" | "gevent-sleep" => ["tidegate", "gunicorn-gevent", ""],
        _ => ["tidegate", "granian", "hypercorn"],
    };
    for record in &data.records {
        assert!(allowed(&record.scenario).contains(&&*record.server), "{record:?}");
    }
}

#[test]
fn what_stands_in_front_of_an_application_is_measured_with_it() {
    let peers = ["tidegate", "baseline", "nginx-granian"];
    let Some(data) = run(options(&["asgi-up", "cache-python"], &peers)) else { return };
    all_is_right(&data);
    if let Some(record) = data.records.iter().find(|one| one.server == "nginx-granian") {
        let config = data.peers.iter().find(|peer| peer.name == "nginx-granian").unwrap();
        assert!(config.configs[0].command.contains(" -m granian "), "{config:?}");
        // Two servers of Python are in it, and nginx: more than nginx alone ever takes.
        assert!(record.rss_bytes > 30 << 20, "{record:?}");
    }
}

#[test]
fn an_interpreter_that_lacks_everything_is_a_line_and_not_an_error() {
    let mut options = options(&["asgi-hello"], &["tidegate", "floor", "granian"]);
    options.finder.python = Some("/nowhere/python".into());
    let schedule = plan(options).unwrap();
    let lines = schedule.lines().join("\n");
    let line = lines.lines().find(|line| line.starts_with("granian ")).unwrap();
    assert!(line.contains(" cannot be run: /nowhere/python"), "{line}");
}
