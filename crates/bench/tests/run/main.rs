//! Whole runs with tiny durations: their results, their duration, and their clean-up.
//!
//! The floors are always there, so they are what is run; other peers join where they are installed.
#![allow(
    clippy::disallowed_types,
    reason = "bench is outside the rule that only net opens sockets"
)]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod interrupted;

use bench::live::Live;
use bench::peers::Finder;
use bench::report::data::{Data, Placement};
use bench::run::{ExternalTarget, Options, plan};
use std::fs;
use std::io::{self, Read};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

fn options() -> Options {
    let floor = vec![env!("CARGO_BIN_EXE_floor").to_owned()];
    let subject = vec!["/nowhere/tidegate".to_owned()];
    let mut options =
        Options::new(Finder { subject, floor, given: [].into(), cache: None, python: None });
    options.round = Duration::from_millis(100);
    options.warm_up = Duration::from_millis(50);
    options.rounds = 2;
    options.connections = vec![4];
    options.idle = 200;
    options.verify = true;
    // Other tests run at the same time: no round is left out because of them.
    options.slack = Duration::from_secs(60);
    options
}

/// With the slack of users, for tests of runs that take too long.
fn with_little_slack(scenarios: &[&str], peers: &[&str]) -> Options {
    Options { slack: Duration::from_secs(2), ..with(scenarios, peers) }
}

fn with(scenarios: &[&str], peers: &[&str]) -> Options {
    let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    Options { scenarios: names(scenarios), peers: Some(names(peers)), ..options() }
}

fn run(options: Options) -> Data {
    let schedule = plan(options).unwrap();
    let live = Live::to(io::sink(), false, schedule.planned());
    let began = Instant::now();
    let data = schedule.run(&live).unwrap();
    // With the slack of a machine that is busy with other things.
    let told = schedule.planned() + Duration::from_secs(15);
    assert!(began.elapsed() <= told, "{:?}", began.elapsed());
    data
}

/// Runs again until the figures say so: on a busy machine a server may get no processor time in so
/// short a round, or little.
fn run_until(options: &Options, says: impl Fn(&Data) -> bool) -> Data {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let data = run(options.clone());
        if says(&data) {
            return data;
        }
        assert!(Instant::now() < deadline, "{data:?}");
    }
}

/// Every case that was run has a rate.
fn has_rates(data: &Data) -> bool {
    data.records.iter().all(|record| record.requests_per_second > 0.0)
}

#[test]
fn a_run_measures_what_was_requested() {
    let p50 = |data: &Data, case| data.of_scenario(case).next().unwrap().latency_ms.p50;
    let options = with(&["hello", "gateway"], &["floor", "tidegate"]);
    let is_quick = |data: &Data| has_rates(data) && p50(data, "gateway") < 20.0;
    let data = run_until(&options, is_quick);
    assert!(data.complete, "{:?}", data.notes);
    let of = |scenario| data.of_scenario(scenario).collect::<Vec<_>>();
    for scenario in ["hello", "gateway", "gateway-20ms", "gateway-close", "gateway-close-20ms"] {
        let [record] = of(scenario)[..] else { panic!("{scenario}: {:?}", data.records) };
        assert_eq!((record.server.as_str(), record.connections), ("floor", 4));
        assert_eq!((record.errors, record.rounds.len()), (0, 2), "{record:?}");
        assert!(record.requests_per_second > 0.0 && record.cpu_us_per_request > 0.0, "{record:?}");
        assert!(["tasks", "cgroup"].contains(&record.cpu_from.as_deref().unwrap()), "{record:?}");
        assert!(record.rss_bytes > 0 && record.latency_ms.max >= record.latency_ms.p50);
        assert!(data.scenarios.iter().any(|one| one.name == scenario));
    }
    // A backend that takes 20 ms cannot be answered for sooner.
    assert!(p50(&data, "gateway-20ms") >= 20.0);
    let missing = data.peers.iter().find(|peer| peer.name == "tidegate").unwrap();
    assert!(missing.missing.as_deref().unwrap().contains("/nowhere/tidegate"), "{missing:?}");
    let floor = data.peers.iter().find(|peer| peer.name == "floor").unwrap();
    assert!(floor.configs.iter().any(|config| config.command.contains("proxy 127.0.0.1:")));
}

/// The installed servers that speak TLS; a record for each case, without an error.
#[test]
fn tls_is_measured() {
    let scenarios = ["tls-hello", "tls-handshake", "tls-file", "tls-proxied"];
    let Ok(schedule) = plan(with(&scenarios, &["nginx", "haproxy", "caddy", "h2o"])) else {
        eprintln!("skipped: no server that speaks TLS is installed");
        return;
    };
    drop(schedule);
    let data = run_until(&with(&scenarios, &["nginx", "haproxy", "caddy", "h2o"]), has_rates);
    let cases =
        ["tls-hello", "tls-handshake-full", "tls-handshake-resumed", "tls-file", "tls-proxied"];
    for case in cases {
        for record in data.of_scenario(case) {
            assert_eq!((record.errors, record.rounds.len()), (0, 2), "{record:?} {:?}", data.notes);
        }
    }
    assert!(data.of_scenario("tls-hello").count() > 0, "{:?}", data.notes);
}

/// The installed servers that speak HTTP/2; a record for each case, without an error.
#[test]
fn http2_is_measured() {
    let scenarios = ["h2-hello", "h2-proxied", "grpc-unary"];
    let options = with(&scenarios, &["nginx", "haproxy", "caddy", "h2o"]);
    let Ok(schedule) = plan(options.clone()) else {
        eprintln!("skipped: no server that speaks HTTP/2 is installed");
        return;
    };
    drop(schedule);
    let cases = ["h2-hello-10", "h2-hello-100", "h2-proxied", "grpc-unary"];
    let responds = |data: &Data, case: &str| {
        data.of_scenario(case).any(|record| record.requests_per_second > 0.0)
    };
    let data = run_until(&options, |data| cases.iter().all(|case| responds(data, case)));
    for record in cases.iter().flat_map(|case| data.of_scenario(case)) {
        assert_eq!((record.errors, record.rounds.len()), (0, 2), "{record:?} {:?}", data.notes);
    }
}

#[test]
fn open_calls_have_a_size() {
    let gateways = ["nginx", "haproxy", "caddy"];
    let Ok(schedule) = plan(with(&["connections"], &gateways)) else {
        eprintln!("skipped: no gateway of gRPC is installed");
        return;
    };
    drop(schedule);
    let data = run(with(&["connections"], &gateways));
    for record in data.of_scenario("connections-grpc") {
        assert_eq!(record.errors, 0, "{record:?} {:?}", data.notes);
        assert!(record.rss_bytes_per_connection.is_some(), "{record:?}");
    }
    assert!(data.of_scenario("connections-grpc").count() > 0, "{:?}", data.notes);
}

#[test]
fn idle_connections_have_a_size() {
    let can_pin = std::thread::available_parallelism().is_ok_and(|cores| cores.get() > 1);
    // Both placements, where there are cores for it.
    let data = run(Options { placements: Vec::new(), ..with(&["connections"], &["floor"]) });
    assert_eq!(data.pinned.is_some(), can_pin, "{:?}", data.pinned);
    let placements: Vec<_> = data.records.iter().map(|record| record.placement).collect();
    assert_eq!(placements, Placement::ALL[..1 + usize::from(can_pin)]);
    for record in &data.records {
        assert_eq!((record.connections, record.errors), (200, 0), "{record:?}");
        let each = record.rss_bytes_per_connection.unwrap();
        assert!((0.0..65_536.0).contains(&each), "{each}");
    }
}

#[test]
fn fewer_idle_connections_than_were_requested_are_a_line() {
    let options = Options { idle: 10_000_000, ..with(&["connections"], &["floor"]) };
    let lines = plan(options).unwrap().lines();
    assert!(lines.iter().any(|line| line.contains("idle ones, not 10000000")), "{lines:?}");
}

#[test]
fn pings_are_measured() {
    let data = run(with(&["ping"], &["floor", "redis-server"]));
    for scenario in ["ping-inline", "ping-bulk", "ping-inline-16", "ping-bulk-16"] {
        let records: Vec<_> = data.of_scenario(scenario).collect();
        assert!(records.iter().any(|record| record.server == "floor"), "{:?}", data.notes);
        for record in records {
            assert_eq!((record.errors, record.rounds.len()), (0, 2), "{record:?}");
        }
    }
}

#[test]
fn documents_are_decoded_and_encoded() {
    let Ok(schedule) = plan(with(&["json"], &["lua-cjson"])) else {
        eprintln!("skipped: Lua is not installed");
        return;
    };
    drop(schedule);
    let data = run(with(&["json"], &["lua-cjson"]));
    if data.records.iter().any(|record| record.disturbed.as_deref().is_some_and(no_cjson)) {
        eprintln!("skipped: lua-cjson is not installed");
        return;
    }
    assert_eq!(data.records.len(), 9, "{:?}", data.notes);
    for record in &data.records {
        assert_eq!((record.errors, record.rounds.len()), (0, 2), "{record:?}");
        assert_eq!(record.cpu_from.as_deref(), Some("program"));
        assert!(record.cpu_us_per_request > 1.0 && record.bytes_per_second > 1e6, "{record:?}");
    }
}

fn no_cjson(why: &str) -> bool {
    why.contains("module 'cjson' not found")
}

#[test]
fn what_a_scenario_adds_is_held_against_the_same_without() {
    let scenarios = ["filters", "authentication", "routes"];
    let data = run(with(&scenarios, &["floor", "nginx", "haproxy", "varnish"]));
    for scenario in
        ["filters", "filters-headers", "authentication-password", "authentication-token", "routes"]
    {
        let records: Vec<_> = data.of_scenario(scenario).collect();
        assert!(records.iter().any(|record| record.server == "floor"), "{records:?}");
        for record in records {
            assert_eq!((record.errors, record.rounds.len()), (0, 2), "{record:?}");
        }
    }
    let varnish = data.peers.iter().find(|peer| peer.name == "varnish").unwrap();
    assert_eq!(varnish.missing.as_deref(), Some("cannot do any of this"));
}

#[test]
fn more_workers_are_a_chart_of_the_report() {
    let cores = std::thread::available_parallelism().unwrap().get();
    let options = Options { workers: vec![1, 2], ..with(&["hello"], &["floor", "nginx"]) };
    let data = run(options);
    let workers = |server: &str| -> Vec<u32> {
        let records = data.records.iter().filter(|record| record.server == server);
        records.map(|record| record.workers).collect()
    };
    // The floor has one loop.
    assert_eq!(workers("floor"), [1]);
    if workers("nginx").is_empty() {
        eprintln!("skipped: nginx is not installed");
        return;
    }
    assert_eq!(workers("nginx"), [1, 2], "on {cores} cores");
    let page = bench::report::html::render(&data);
    assert!(page.contains("requests per second, 2 workers"), "no chart of the scaling");
}

#[test]
fn files_and_reloads_are_run_with_servers_that_support_them() {
    let options = with(&["files", "reload"], &["nginx", "haproxy", "caddy"]);
    let options = Options { round: Duration::from_millis(700), rounds: 1, ..options };
    let Ok(schedule) = plan(options.clone()) else {
        eprintln!("skipped: neither nginx nor haproxy nor caddy is installed");
        return;
    };
    drop(schedule);
    let data = run(options);
    assert!(data.complete, "{:?}", data.notes);
    for record in &data.records {
        assert_eq!(record.rounds.len(), 1, "{record:?}");
        let failed = ["reload", "start", "ended", "body", "length", "status", "framing"];
        let found = failed.iter().find(|kind| record.errors_by_kind.contains_key(**kind));
        assert_eq!(found, None, "{record:?}");
    }
}

#[test]
fn an_external_server_is_loaded_at_its_address() {
    let mut floor = Floor::start();
    let target = ExternalTarget { url: format!("http://{}/any", floor.address), is_own: false };
    let data = run_until(&Options { external_target: Some(target), ..options() }, has_rates);
    floor.end();
    let [record] = &data.records[..] else { panic!("{:?}", data.records) };
    assert_eq!((record.scenario.as_str(), record.errors), ("target", 0));
    // The listening process is found.
    assert!(record.cpu_us_per_request > 0.0 && record.rss_bytes > 0, "{record:?}");
    assert_eq!(record.cpu_from.as_deref(), Some("tasks"));
    assert!(data.notes.iter().any(|note| note.contains("those of floor (process")), "{data:?}");
}

struct Floor {
    child: Child,
    address: String,
}

impl Floor {
    fn start() -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_floor"))
            .args(["hello", "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = Vec::new();
        let mut stdout = child.stdout.take().unwrap();
        let mut byte = [0];
        while stdout.read_exact(&mut byte).is_ok() && byte != *b"\n" {
            line.push(byte[0]);
        }
        let line = String::from_utf8(line).unwrap();
        Self { child, address: line.strip_prefix("listening ").unwrap().to_owned() }
    }

    fn end(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

#[test]
fn a_server_that_breaks_is_an_error_and_not_the_end_of_the_run() {
    let directory = tempfile::tempdir().unwrap();
    // Does what a floor does, but answers every request with something else.
    let liar = directory.path().join("liar");
    let script = "#!/bin/sh\nexec python3 -c '\nimport socket,sys\n\
        s=socket.socket();s.setsockopt(socket.SOL_SOCKET,socket.SO_REUSEADDR,1)\n\
        h,p=sys.argv[2].split(\":\");s.bind((h,int(p)));s.listen()\nwhile True:\n c,_=s.accept()\n \
        while c.recv(4096): c.sendall(b\"HTTP/1.1 200 OK\\r\\ncontent-length: 3\\r\\n\\r\\nlie\")\n\
        ' \"$@\"\n";
    fs::write(&liar, script).unwrap();
    fs::set_permissions(&liar, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut options = with(&["hello"], &["floor"]);
    options.finder.floor = vec![liar.display().to_string()];
    let data = run(options);
    let [record] = &data.records[..] else { panic!("{:?}", data.records) };
    assert_eq!(record.errors_by_kind["start"], 1);
    let why = record.disturbed.as_deref().unwrap();
    let python = why.contains("answers 3 bytes that are not right");
    assert!(python || why.contains("ended at once"), "{why}");
    assert!(data.notes.iter().any(|note| note.starts_with("FAILED hello: floor")), "{data:?}");
}

#[test]
fn a_start_that_the_end_of_the_run_cuts_short_is_not_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("never-listens");
    fs::write(&script, "#!/bin/sh\nexec sleep 600\n").unwrap();
    fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut options = with_little_slack(&["hello"], &["floor"]);
    options.finder.floor = vec![script.display().to_string()];
    let data = run(options);
    assert!(!data.complete);
    assert_eq!(data.records.iter().map(|record| record.errors).sum::<u64>(), 0, "{data:?}");
}

#[test]
fn a_machine_that_is_slower_than_thought_gets_fewer_rounds_of_every_case() {
    let mut options = with_little_slack(&["hello", "gateway"], &["floor"]);
    let floor = options.finder.floor[0].clone();
    // Every server and backend comes up late, by more than the slack of the whole run.
    let slow = format!("sleep 1.2; exec {floor} \"$@\"");
    options.finder.floor = ["sh", "-c", &slow, "floor"].map(str::to_owned).to_vec();
    (options.rounds, options.round) = (8, Duration::from_millis(300));
    // `run` looks at the clock.
    let data = run(options);
    // On a machine busy beyond all measure even the first rounds do not fit.
    if data.complete {
        assert_eq!(data.records.len(), 5, "{:?}", data.records);
        assert!(data.records.iter().all(|record| !record.rounds.is_empty()), "{data:?}");
    }
    let rounds: usize = data.records.iter().map(|record| record.rounds.len()).sum();
    assert!(rounds < 5 * 8, "{rounds}");
    assert!(data.notes.iter().any(|note| note.contains("fewer rounds, to end in the time told")));
}

#[test]
fn a_server_that_never_responds_does_not_take_more_time_than_was_allowed() {
    let mut options = with_little_slack(&["hello"], &["floor"]);
    options.finder.floor = ["sh", "-c", "sleep 600"].map(str::to_owned).to_vec();
    // `run` looks at the clock.
    let data = run(options);
    assert!(!data.complete);
    assert!(data.records.iter().all(|record| record.rounds.is_empty()), "{:?}", data.records);
    assert!(data.notes.iter().any(|note| note.contains("floor does not accept")), "{data:?}");
}
