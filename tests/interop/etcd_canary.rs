//! `ctl apply --canary` on a real etcd: some servers try a configuration, and all have it, or none.

use crate::etcd_configuration::{Fleet, Load, body, serve};
use crate::tools::has;
use scenarios::{Process, Tidegate, eventually, tidegate_binary};
use std::process::Command;

const CANARY: &[&str] = &["apply", "site", "--canary", "33%"];

/// The nodes that serve a body now.
pub(crate) fn serving(nodes: &[Tidegate], expected: &str) -> usize {
    nodes.iter().filter(|node| body(node.address("web")) == expected).count()
}

impl Fleet {
    /// Starts a canary that ends by an error or with its process only.
    fn try_out(&self, body: &str) -> Process {
        self.try_out_at(body, &self.url())
    }

    /// The same where etcd is reached at this address.
    pub(crate) fn try_out_at(&self, body: &str, url: &str) -> Process {
        self.write(body);
        let mut command = Command::new(tidegate_binary());
        command.current_dir(self.path()).arg("ctl").args(CANARY);
        Process::start(command.args(["--for", "1h", "--etcd", url]))
    }
}

#[test]
fn a_canary_is_tried_by_some_and_then_served_by_all() {
    if !has("etcd") || !has("etcdctl") {
        return;
    }
    let fleet = Fleet::start();
    fleet.apply("one");
    let nodes = ["n1", "n2", "n3"].map(|name| fleet.node(name));
    serve(&nodes, "one");
    let load = Load::start(&nodes);
    fleet.write("two");
    // Long enough for the reports of a server on a busy machine.
    let (code, out) = fleet.ctl(&[CANARY, &["--for", "10s"]].concat());
    assert_eq!(code, Some(0), "{out}");
    assert!(out.contains("is tried on n") && out.contains("in the trial 0.00% of"), "{out}");
    serve(&nodes, "two");
    load.end();
    let (_, history) = fleet.ctl(&["history"]);
    assert_eq!(history.lines().count(), 3, "{history}");
    fleet.kill_etcd();
}

#[test]
fn a_canary_ends_by_errors_and_with_its_command() {
    if !has("etcd") || !has("etcdctl") {
        return;
    }
    let fleet = Fleet::start();
    fleet.apply("one");
    let nodes = ["n1", "n2", "n3"].map(|name| fleet.node(name));
    serve(&nodes, "one");
    // One server of three has it, and nothing else may be applied.
    let trial = fleet.try_out("two");
    eventually("one server tries it", || serving(&nodes, "two") == 1);
    eventually("it reports that", || fleet.ctl(&["nodes"]).1.contains("serving a canary: 0 of"));
    let (code, out) = fleet.ctl(&["apply", "site"]);
    assert!(code == Some(1) && out.contains("a canary of version"), "{out}");
    assert_eq!(serving(&nodes, "one"), 2);
    // Its lease ends it.
    trial.signal("KILL");
    trial.wait();
    eventually("its lease has ended", || serving(&nodes, "one") == 3);
    // Errors end it.
    let trial = fleet.try_out("three, status: 503");
    eventually("errors have ended it", || {
        nodes.iter().for_each(|node| drop(body(node.address("web"))));
        trial.log().iter().any(|line| line.contains("responses were errors"))
    });
    assert_eq!(trial.wait().code, Some(1));
    serve(&nodes, "one");
    // A server that ends has failed.
    let trial = fleet.try_out("four");
    let (mut at, mut ended) = (0, false);
    eventually("one server tries it", || {
        at = nodes.iter().position(|node| body(node.address("web")) == "four").unwrap_or(9);
        at < nodes.len()
    });
    let mut left: Vec<Tidegate> = nodes.into();
    let failed = left.remove(at);
    failed.signal("TERM");
    failed.wait();
    eventually("the end of its server ends the trial", || {
        ended |= trial.log().iter().any(|line| line.contains("does not report any more"));
        ended
    });
    assert_eq!(trial.wait().code, Some(1));
    serve(&left, "one");
    fleet.kill_etcd();
}
