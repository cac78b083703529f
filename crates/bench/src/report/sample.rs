//! A run with fixed figures, for the tests of every output format.

use super::data::{
    Command, Config, Data, FLOOR, Latency, Machine, OURS, Peer, Record, Round, Scenario, VERSION,
};

const SPREAD: [f64; 4] = [-0.1, 0.05, -0.05, 0.1];

/// hello and gateway on four servers, three numbers of connections, workers 1 and 2 for ours.
pub(crate) fn data() -> Data {
    let mut records = Vec::new();
    for connections in [1, 100, 512] {
        let alone = if connections == 1 { 2.4 } else { 1.0 };
        let mut add = |server: &str, scenario: &str, us: f64| {
            records.push(record(server, scenario, connections, us * alone));
        };
        add(FLOOR, "hello", 5.6);
        add(OURS, "hello", 5.9);
        add("nginx", "hello", 7.0);
        add("haproxy", "hello", 7.6);
        add(FLOOR, "gateway", 11.2);
        add(OURS, "gateway", 13.9);
        add("nginx", "gateway", 16.1);
        add("haproxy", "gateway", 15.0);
    }
    for workers in [2, 4] {
        let mut scaled = record(OURS, "hello", 100, 6.1);
        scaled.workers = workers;
        scaled.requests_per_second *= f64::from(workers) * 0.9;
        records.push(scaled);
    }
    Data {
        version: VERSION,
        date: "2026-11-20T12:00:00Z".to_owned(),
        planned_seconds: 200.0,
        elapsed_seconds: 196.4,
        complete: true,
        pinned: None,
        notes: Vec::new(),
        machine: machine(),
        commands: vec![Command {
            what: "the run".to_owned(),
            line: "tidegate bench hello gateway --connections 1,100,512".to_owned(),
        }],
        scenarios: vec![
            scenario("hello", "GET of four bytes that the server has in its configuration."),
            scenario("gateway", "GET of 2 KiB from one backend, kept alive on both sides."),
        ],
        peers: peers(),
        records,
    }
}

/// The same with as many servers as there are, one that failed, and an external target.
pub(crate) fn crowded() -> Data {
    let mut data = data();
    let template = data.peers.iter().find(|peer| peer.name == "nginx").cloned();
    for at in 0..10 {
        let name = format!("another-server-{at}");
        let us = 20.0 * 1.6f64.powi(at);
        data.records.push(record(&name, "hello", 100, us));
        data.peers.extend(template.clone().map(|peer| Peer { name, ..peer }));
    }
    for failed in data.records.iter_mut().filter(|it| it.server == "another-server-3") {
        failed.errors = 12_345;
        failed.errors_by_kind.insert("timeout".to_owned(), 12_345);
    }
    let url = "http://127.0.0.1:8080/a/rather/long/path/of/a/server?that=somebody&else=started";
    let mut target = record(url, "target", 100, f64::NAN);
    target.rounds.iter_mut().for_each(|round| round.cpu_us_per_request = f64::NAN);
    target.requests_per_second = 100_000.0;
    target.cpu_from = None;
    data.records.push(target);
    data.scenarios.push(scenario("target", "GET of another server."));
    data.notes.push(format!("FAILED {url}: {}", "a sentence that is far too long ".repeat(8)));
    data
}

pub(crate) fn record(server: &str, scenario: &str, connections: u32, us: f64) -> Record {
    let per_second = 600_000.0 / us;
    let ms = f64::from(connections) / per_second * 1e3;
    let round = |offset: f64| Round {
        requests: per_second as u64,
        seconds: 1.0,
        cpu_us_per_request: us + offset,
        requests_per_second: per_second,
        client_us_per_request: 4.0,
        p50_ms: ms,
        p99_ms: ms * 1.9,
        p999_ms: ms * 3.0,
        errors: 0,
        disturbed: None,
    };
    Record {
        server: server.to_owned(),
        scenario: scenario.to_owned(),
        connections,
        workers: 1,
        cpu_us_per_request: us,
        cpu_from: Some("cgroup".to_owned()),
        system_share: Some(0.8),
        requests_per_second: per_second,
        bytes_per_second: per_second * 150.0,
        latency_ms: Latency {
            p50: ms,
            p90: ms * 1.3,
            p99: ms * 1.9,
            p999: ms * 3.0,
            max: ms * 9.0,
        },
        latency_curve: vec![
            (0.0, ms * 0.4),
            (50.0, ms),
            (75.0, ms * 1.1),
            (90.0, ms * 1.3),
            (99.0, ms * 1.9),
            (99.9, ms * 3.0),
            (99.99, ms * 5.0),
            (100.0, ms * 9.0),
        ],
        rss_bytes: 9 << 20,
        system_calls_per_request: (scenario == "hello").then_some(2.02),
        rounds: SPREAD.map(round).into(),
        ..Record::default()
    }
}

fn machine() -> Machine {
    Machine {
        cpu: "AMD EPYC 9004 <test>".to_owned(),
        cores: 2,
        memory_bytes: 8 << 30,
        kernel: "6.18.0".to_owned(),
        governor: None,
        clocksource: Some("tsc".to_owned()),
        congestion_control: Some("cubic".to_owned()),
        virtualization: Some("kvm".to_owned()),
        steal_share: Some(0.004),
        load: Some(0.35),
    }
}

fn scenario(name: &str, about: &str) -> Scenario {
    Scenario { name: name.to_owned(), about: about.to_owned(), replays: Some(name.to_owned()) }
}

fn peers() -> Vec<Peer> {
    let config = |scenario: &str, command: &str, text: &str| Config {
        scenario: scenario.to_owned(),
        command: command.to_owned(),
        text: text.to_owned(),
    };
    let peer = |name: &str, version: &str, configs: Vec<Config>| Peer {
        name: name.to_owned(),
        version: Some(version.to_owned()),
        missing: None,
        configs,
    };
    let nginx = "worker_processes 1;\naccess_log off; # ngx_http_log_module.html#access_log\n";
    vec![
        peer(OURS, "0.1.0", vec![config("hello", "tidegate up hello.yaml", "workers: 1\n")]),
        peer(FLOOR, "0.1.0", vec![config("hello", "floor-hello 127.0.0.1:1", "")]),
        peer("nginx", "1.22.1", vec![config("hello", "nginx -c nginx.conf", nginx)]),
        peer("haproxy", "2.6.12", vec![config("gateway", "haproxy -f haproxy.cfg", "global\n")]),
        Peer {
            name: "varnish".to_owned(),
            missing: Some("not installed: apt-get install varnish".to_owned()),
            ..Peer::default()
        },
    ]
}
