//! The nodes of a fleet on a real etcd: by the admin API of one of them, and in its console.

use std::fs;

use scenarios::{Tidegate, eventually};
use serde_json::Value;

use crate::console::Visitor;
use crate::etcd_configuration::{Fleet, serve};
use crate::tools::has;

const TOKEN: &str = "s3cret-token";

/// A fleet of two nodes with the console, which serve `one`.
fn fleet() -> (Fleet, [Tidegate; 2]) {
    let fleet = Fleet::start();
    let main = format!(
        "listeners: {{ web: {{ bind: \"127.0.0.1:0\" }} }}\n\
         admin: {{ bind: \"127.0.0.1:0\", token: {TOKEN}, metrics: open, console: true }}\n"
    );
    fs::write(fleet.path().join("site/main.yaml"), main).expect("a writable directory");
    fleet.apply("one");
    let nodes = ["n1", "n2"].map(|name| fleet.node(name));
    serve(&nodes, "one");
    (fleet, nodes)
}

/// The response to `/v1/nodes` with this query.
fn listed(node: &Tidegate, query: &str) -> Value {
    let request = format!(
        "GET /v1/nodes{query} HTTP/1.1\r\nhost: admin\r\nauthorization: Bearer {TOKEN}\r\n\r\n"
    );
    let response = node.exchange("admin", request);
    serde_json::from_str(&response.text()).unwrap_or_else(|error| panic!("{error}: {response:?}"))
}

fn states(fleet: &Value) -> Vec<&str> {
    let nodes = fleet["nodes"].as_array().into_iter().flatten();
    nodes.filter_map(|node| node["state"].as_str()).collect()
}

#[test]
fn a_node_lists_the_nodes_of_its_fleet() {
    if !has("etcd") || !has("etcdctl") {
        return;
    }
    let (fleet, nodes) = fleet();
    eventually("both report", || states(&listed(&nodes[0], "")) == ["ready", "ready"]);
    let all = listed(&nodes[0], "");
    assert_eq!((&all["source"], &all["node"]), (&fleet.url().into(), &"n1".into()));
    assert_eq!((&all["nodes"][0]["name"], &all["nodes"][1]["name"]), (&"n1".into(), &"n2".into()));
    assert_eq!(all["nodes"][1]["process"], nodes[1].id());
    assert_eq!(all["nodes"][0]["version"], all["nodes"][1]["version"]);
    assert_eq!(all.get("next"), None);
    let first = listed(&nodes[1], "?limit=1");
    assert_eq!((&first["node"], &first["next"]), (&"n2".into(), &"n1".into()));
    let second = listed(&nodes[1], "?limit=1&after=n1");
    assert_eq!((&second["nodes"][0]["name"], second.get("next")), (&"n2".into(), None));
    // What is rejected is reported with its errors.
    fleet.put("bad.yaml", "upstreams: [");
    eventually("both reject it", || states(&listed(&nodes[0], "")) == ["refused", "refused"]);
    let all = listed(&nodes[0], "");
    let refused = &all["nodes"][0]["refused"];
    let error = refused["errors"][0].as_str().expect("an error");
    assert!(error.starts_with("bad.yaml:1:"), "{all}");
    assert!(refused["revision"].as_i64() > all["nodes"][0]["revision"].as_i64(), "{all}");
    // Without etcd the API says why it has no nodes, and everything else works.
    fleet.kill_etcd();
    let problem = listed(&nodes[0], "");
    assert_eq!(problem["status"], 503);
    assert!(problem["detail"].as_str().is_some_and(|text| text.contains("etcd: ")), "{problem}");
}

#[test]
fn chromium_shows_the_nodes_of_a_fleet() {
    if !has("etcd") || !has("etcdctl") {
        return;
    }
    let Some(visitor) = Visitor::found() else { return };
    let (fleet, nodes) = fleet();
    fleet.put("bad.yaml", "upstreams: [");
    eventually("both reject it", || states(&listed(&nodes[0], "")) == ["refused", "refused"]);
    let visit = visitor.start(include_str!("console/nodes.js"), &nodes[0]);
    let seen = visit.process.wait_for_line(|line| (line == "rejected").then_some(()));
    if seen.is_some() {
        fleet.delete("bad.yaml");
    }
    let exit = visit.wait();
    assert_eq!((exit.code, exit.stdout.trim()), (Some(0), "done"), "{}", exit.stderr);
    fleet.kill_etcd();
}
