//! `make fleet`: nodes, etcd, Redis and load, started and stopped by one command.
#![allow(clippy::disallowed_types, reason = "the client side of a test opens its own sockets")]

use crate::tools::has;
use scenarios::{Connection, Exit, Process, eventually, temporary_directory, tidegate_binary};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// The command; its end ends what it has started, also if the test fails.
struct Fleet {
    /// `None` once it has ended.
    process: Option<Process>,
    /// Engines wait for the disk, which may be busy.
    _directory: TempDir,
}

impl Fleet {
    fn start() -> Fleet {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("perf/fleet");
        let mut command = Command::new("sh");
        command.args(["-c", "exec python3 \"$0\" \"$@\" >&2"]).arg(script);
        let directory = temporary_directory();
        command.arg("--tidegate").arg(tidegate_binary()).env("TMPDIR", directory.path());
        Fleet { process: Some(Process::start(&mut command)), _directory: directory }
    }

    /// The address of the status page.
    fn page(&self) -> String {
        let process = self.process.as_ref().expect("it runs");
        let page = process.wait_for_line(|line| {
            let address = line.strip_prefix("status  http://")?;
            Some(address.trim_end_matches('/').to_owned())
        });
        page.unwrap_or_else(|| panic!("the fleet ended: {:?}", process.log()))
    }

    fn end(mut self) -> Exit {
        let process = self.process.take().expect("it runs");
        process.signal("INT");
        process.wait()
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        if let Some(process) = self.process.take() {
            process.signal("TERM");
            process.wait();
        }
    }
}

/// What the status page says, from its JSON.
fn status(address: &str) -> Value {
    let mut connection = Connection::to(address.parse().expect("an address"));
    connection.send("GET /status.json HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
    serde_json::from_slice(&connection.read_response().body).expect("JSON")
}

fn is_running(pid: &Value) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

fn signal(name: &str, pid: &Value) {
    let exit = Process::run(Command::new("kill").arg(format!("-{name}")).arg(pid.to_string()));
    assert_eq!(exit.code, Some(0), "{exit:?}");
}

#[test]
fn one_command_starts_a_fleet_that_survives_its_engines_and_stops_it() {
    if !has("etcd") || !has("redis-server") || !has("python3") {
        return;
    }
    let fleet = Fleet::start();
    let page = fleet.page();
    let pids = |now: &Value, kind: &str| -> Vec<Value> {
        let all = now[kind].as_array().expect("a list").iter();
        all.map(|one| one["pid"].clone()).collect()
    };
    let before = status(&page);
    assert_eq!((pids(&before, "nodes").len(), pids(&before, "engines").len()), (3, 4));
    // A member and Redis are killed; both come back.
    for at in [0, 3] {
        signal("KILL", &before["engines"][at]["pid"]);
    }
    let mut now = before.clone();
    eventually("the engines are back and every node is ready", || {
        now = status(&page);
        let is_new = |at: usize| now["engines"][at]["pid"] != before["engines"][at]["pid"];
        let nodes = now["nodes"].as_array().expect("a list");
        is_new(0) && is_new(3) && nodes.iter().all(|node| node["ready"] == "ready")
    });
    let exit = fleet.end();
    assert_eq!(exit.code, Some(0), "{exit:?}");
    assert!(exit.stderr.contains(" requests, 0 failed"), "{exit:?}");
    for pid in [pids(&now, "nodes"), pids(&now, "engines")].concat() {
        assert!(!is_running(&pid), "{pid} is left");
    }
}
