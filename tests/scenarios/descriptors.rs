//! File descriptors run out: clients leave enough of them for everything else, the longest idle
//! connections give way to new ones, and nothing spins.

use crate::setup::{behind, responding};
use scenarios::{
    Connection, Launch, Metrics, Process, Tidegate, Upstream, command_exists, eventually,
};
use std::collections::BTreeSet;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};

const PING: &str = "GET /ping HTTP/1.1\r\nhost: a\r\n\r\n";

/// Few enough that the crowd holds everything that it can get.
const DESCRIPTORS: u32 = 128;
const CROWD: usize = 300;

fn serves(client: &mut Connection) {
    client.send(PING);
    assert_eq!(client.read_response().body, b"pong");
}

/// Whether a connection was served, and not rejected or closed for another.
fn is_served(client: &mut Connection) -> bool {
    let sent = client.try_send("GET /ping HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
    sent && client.read_until_gone().ends_with(b"pong")
}

/// What an endpoint of the admin API answers, over a connection of its own.
fn ask(server: &Tidegate, path: &str) -> scenarios::HttpResponse {
    server.exchange("admin", format!("GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"))
}

/// Processor time of the server so far.
fn cpu_seconds(metrics: &Metrics) -> f64 {
    metrics.sum("process_cpu_seconds_total", &[])
}

#[test]
fn clients_cannot_take_the_descriptors_of_everything_else() {
    let server = Launch::new(&responding("")).descriptors(DESCRIPTORS).start();
    let address = server.address("web");
    let mut first = server.connect("web");
    serves(&mut first);

    // More than there are descriptors. Those above the cap are answered 503, or closed.
    let crowd: Vec<_> = (0..CROWD).map(|_| Connection::to(address)).collect();
    server.wait_for_metric("tidegate_limits_hit_total", &[("limit", "descriptors")], 1.0);
    let metrics = server.metrics();
    let open = metrics.sum("process_open_fds", &[]);
    assert!(open < f64::from(DESCRIPTORS) - 8.0, "{open} are open");
    assert_eq!(ask(&server, "/healthz").status, 200);
    let ready = ask(&server, "/readyz");
    assert_eq!(ready.status, 200);
    assert!(ready.text().contains("out of file descriptors"), "{}", ready.text());
    server.wait_for_log("event=descriptors_exhausted");
    let line = server.wait_for_log("client_connections=");
    assert!(line.contains(&format!("limit={DESCRIPTORS}")), "{line}");

    // Once they have been idle for a while, they make room, and nothing spins.
    let before = cpu_seconds(&server.metrics());
    eventually("an idle connection makes room", || is_served(&mut Connection::to(address)));
    server.wait_for_metric("tidegate_connections_closed_total", &[("reason", "descriptors")], 1.0);
    let spent = cpu_seconds(&server.metrics()) - before;
    assert!(spent < 1.0, "{spent} s of processor time");
    assert_eq!(server.metrics().sum("tidegate_accept_errors_total", &[]), 0.0);

    // When the crowd has gone, the service is what it was.
    drop(crowd);
    eventually("the connections of the crowd are closed", || {
        server.metrics().sum("tidegate_connections_active", &[]) <= 2.0
    });
    let mut late: Vec<_> = (0..20).map(|_| Connection::to(address)).collect();
    late.iter_mut().for_each(serves);
}

const PROGRAM: &str = r#"
local http, logger = require "silly.net.http", require "silly.logger"
local listener = assert(http.listen { addr = "127.0.0.1:0", handler = function(stream)
    stream:respond(200, { ["content-length"] = "4" })
    stream:closewrite("pong")
end })
logger.info("listening name=lua address=" .. listener.addr)
"#;

/// The commands without a configuration.
#[test]
fn an_idle_crowd_makes_room_under_every_command() {
    let upstream = Upstream::responding("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\npong");
    let to = upstream.address().to_string();
    for (name, command) in [
        ("files", vec!["files", ".", "--bind", "127.0.0.1:0"]),
        ("proxy", vec!["proxy", "127.0.0.1:0", &to]),
        ("lua", vec!["run", "program.lua"]),
    ] {
        let launch = Launch::new("").file("ping", "pong").file("program.lua", PROGRAM);
        let server = launch.command(&command).descriptors(DESCRIPTORS).start();
        let address = server.address(name);
        let crowd: Vec<_> = (0..CROWD).map(|_| Connection::to(address)).collect();
        server.wait_for_log("event=descriptors_exhausted");
        eventually(&format!("{name}: an idle connection makes room"), || {
            is_served(&mut Connection::to(address))
        });
        drop(crowd);
    }
}

/// The numbers of the descriptors that the process has open.
fn open_descriptors(server: &Tidegate) -> BTreeSet<usize> {
    let directory = format!("/proc/{}/fd", server.id());
    let open = std::fs::read_dir(directory).expect("a Linux machine").flatten();
    open.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Takes every number below the highest one in use, and lowers the limit to what is open.
fn exhaust(server: &Tidegate) -> Vec<Connection> {
    let mut taken = Vec::new();
    loop {
        // A response shows that this connection has its descriptor. The count of open ones does
        // not: connections that have ended are still being closed.
        let mut admin = server.connect("admin");
        admin.send("GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n");
        assert_eq!(admin.read_response().status, 200);
        taken.push(admin);
        let open = open_descriptors(server);
        let most = open.last().map_or(0, |last| last + 1);
        if open.len() < most {
            continue;
        }
        let (id, limit) = (server.id().to_string(), format!("--nofile={most}"));
        let exit = Process::run(Command::new("prlimit").args(["--pid", &id, &limit]));
        assert_eq!(exit.code, Some(0), "{exit:?}");
        if open_descriptors(server) == open {
            return taken;
        }
    }
}

/// Without a client to close, unused connections to upstreams are closed.
#[test]
fn pooled_upstream_connections_make_room() {
    if !command_exists("prlimit") {
        return;
    }
    const POOLED: usize = 8;
    let closed = Arc::new(AtomicUsize::new(0));
    let (counter, together) = (closed.clone(), Barrier::new(POOLED));
    let upstream = Upstream::start(move |peer| {
        peer.read_head();
        if peer.number() < POOLED {
            together.wait();
        }
        peer.send("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\npong");
        assert!(peer.at_end(), "no second request comes");
        counter.fetch_add(1, Ordering::SeqCst);
    });
    let server = Tidegate::start(&behind(&upstream, "").replace("workers: 2", "workers: 1"));
    let mut clients: Vec<_> = (0..POOLED).map(|_| server.connect("web")).collect();
    clients.iter_mut().for_each(|client| client.send(PING));
    clients.iter_mut().for_each(|client| assert_eq!(client.read_response().body, b"pong"));
    drop(clients);
    eventually("the connections of the clients are closed", || {
        server.metrics().sum("tidegate_connections_active", &[]) == 0.0
    });

    let _admin = exhaust(&server);
    assert!(is_served(&mut server.connect("web")));
    eventually("pooled connections are closed", || closed.load(Ordering::SeqCst) >= POOLED);
    server.wait_for_log("event=descriptors_exhausted");
}
