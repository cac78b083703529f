//! etcd as the source of the configuration: `up etcd://…` and `ctl apply`, on a real server.

use crate::etcd::{Server, etcdctl};
use crate::tools::has;
use scenarios::{
    Connection, HttpResponse, Launch, Process, TcpProxy, Tidegate, eventually, temporary_directory,
    tidegate_binary,
};
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

const MAIN: &str =
    "listeners: { web: { bind: \"127.0.0.1:0\" } }\nadmin: { bind: \"127.0.0.1:0\" }\n";
const REQUEST: &str = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";

/// etcd, and the documents of `site/`, which are applied to it.
pub(crate) struct Fleet {
    directory: TempDir,
    etcd: Option<Server>,
    port: u16,
    peer: u16,
}

impl Fleet {
    pub(crate) fn start() -> Fleet {
        let directory = temporary_directory();
        fs::create_dir_all(directory.path().join("site/routes")).expect("a writable directory");
        fs::write(directory.path().join("site/main.yaml"), MAIN).expect("a writable directory");
        let etcd = Server::start(directory.path(), "http", &[]);
        let (port, peer) = (etcd.port, etcd.peer);
        Fleet { directory, etcd: Some(etcd), port, peer }
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn url(&self) -> String {
        Fleet::url_at(self.port)
    }

    pub(crate) fn url_at(port: u16) -> String {
        format!("etcd://127.0.0.1:{port}/shop")
    }

    /// A proxy between etcd and a node.
    pub(crate) fn proxy(&self) -> TcpProxy {
        TcpProxy::start(self.port)
    }

    pub(crate) fn kill(&mut self) {
        self.etcd.take().expect("a running etcd").kill();
    }

    /// Ends the fleet.
    pub(crate) fn kill_etcd(mut self) {
        self.kill();
    }

    pub(crate) fn restart(&mut self) {
        self.etcd = Some(Server::start_at(self.path(), "http", &[], self.port, self.peer));
    }

    fn signal(&self, name: &str) {
        self.etcd.as_ref().expect("a running etcd").process.signal(name);
    }

    pub(crate) fn node(&self, name: &str) -> Tidegate {
        self.node_at(name, self.port)
    }

    /// A node that reaches etcd at this port.
    pub(crate) fn node_at(&self, name: &str, port: u16) -> Tidegate {
        let state = self.path().join(name).display().to_string();
        let node = Launch::new("").command(&["up", &Fleet::url_at(port)]);
        let node = node.argument(&format!("--node={name}"));
        node.argument(&format!("--state-dir={state}")).start()
    }

    /// Runs `ctl`; returns the exit code and what it printed.
    pub(crate) fn ctl(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let mut command = Command::new(tidegate_binary());
        command.current_dir(self.path()).arg("ctl").args(arguments).arg("--etcd").arg(self.url());
        let exit = Process::run(&mut command);
        (exit.code, exit.stdout + &exit.stderr)
    }

    pub(crate) fn write(&self, body: &str) {
        let route = format!("routes: [{{ handler: {{ respond: {{ body: {body} }} }} }}]\n");
        fs::write(self.path().join("site/routes/all.yaml"), route).expect("a writable directory");
    }

    pub(crate) fn apply(&self, body: &str) -> String {
        self.write(body);
        let (code, out) = self.ctl(&["apply", "site"]);
        assert_eq!(code, Some(0), "{out}");
        out
    }

    /// Runs `etcdctl`; returns what it printed.
    pub(crate) fn etcdctl(&self, arguments: &[&str]) -> String {
        etcdctl(self.path(), &format!("http://127.0.0.1:{}", self.port), arguments)
    }

    /// Puts a document past the checks of `ctl apply`.
    pub(crate) fn put(&self, name: &str, text: &str) {
        self.etcdctl(&["put", &format!("/shop/config/{name}"), text]);
    }

    pub(crate) fn delete(&self, name: &str) {
        self.etcdctl(&["del", &format!("/shop/config/{name}")]);
    }
}

pub(crate) fn body(address: SocketAddr) -> String {
    let mut connection = Connection::to(address);
    connection.send(REQUEST);
    connection.read_response().text()
}

pub(crate) fn serve(nodes: &[Tidegate], expected: &str) {
    for node in nodes {
        let address = node.address("web");
        eventually(&format!("{expected} is served"), || body(address) == expected);
    }
}

pub(crate) fn ready(node: &Tidegate) -> (u16, String) {
    let response =
        node.exchange("admin", "GET /readyz HTTP/1.1\r\nhost: a\r\naccept: text/plain\r\n\r\n");
    (response.status, response.text())
}

/// Whether a node follows etcd, as its metrics say.
fn followed(node: &Tidegate) -> f64 {
    node.metrics().sum("tidegate_config_etcd_followed", &[])
}

/// Between two requests of a [`Load`]. Its tests last as long as leases do: with a shorter pause
/// the load takes more processor time than all else in them.
const PAUSE: Duration = Duration::from_millis(10);

/// Sends requests to each node until it is dropped; each has to be answered with 200.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    failures: mpsc::Receiver<String>,
    requests: Arc<AtomicU64>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Load {
    pub(crate) fn start(nodes: &[Tidegate]) -> Load {
        let (stop, requests) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (failed, failures) = mpsc::channel();
        let threads = nodes.iter().map(|node| {
            let address = node.address("web");
            let (stop, requests, failed) = (stop.clone(), requests.clone(), failed.clone());
            thread::spawn(move || {
                let mut connection = Connection::to(address);
                while !stop.load(Ordering::Relaxed) {
                    connection.send(REQUEST);
                    let response = connection.read_response();
                    if response.status != 200 {
                        let _ = failed.send(format!("{response:?}"));
                    }
                    requests.fetch_add(1, Ordering::Relaxed);
                    thread::sleep(PAUSE);
                }
            })
        });
        let threads = threads.collect();
        Load { stop, failures, requests, threads }
    }

    pub(crate) fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().expect("every request was answered");
        }
        assert!(self.requests.load(Ordering::Relaxed) > 0);
        assert_eq!(self.failures.try_iter().next(), None);
    }
}

#[test]
fn a_change_is_served_by_every_node_and_etcd_may_stop() {
    if !has("etcd") || !has("etcdctl") {
        return;
    }
    let mut fleet = Fleet::start();
    fleet.apply("one");
    let nodes = ["n1", "n2", "n3"].map(|name| fleet.node(name));
    serve(&nodes, "one");
    let load = Load::start(&nodes);
    let told = fleet.apply("two");
    assert!(told.contains("document \"routes/all.yaml\" changed"), "{told}");
    assert!(told.contains("route"), "{told}");
    serve(&nodes, "two");
    // Without etcd everything is served as before.
    fleet.kill();
    eventually("the node notices that etcd is gone", || {
        let (status, text) = ready(&nodes[0]);
        assert_eq!(status, 200);
        text.contains("etcd: ") && followed(&nodes[0]) == 0.0
    });
    assert_eq!(body(nodes[0].address("web")), "two");
    fleet.restart();
    fleet.apply("three");
    serve(&nodes, "three");
    eventually("the node follows etcd again", || {
        ready(&nodes[0]) == (200, "ready\n".to_owned()) && followed(&nodes[0]) == 1.0
    });
    assert!(nodes[0].metrics().sum("tidegate_config_etcd_revision", &[]) > 1.0);
    // An etcd that stands still is no different from one that is gone.
    fleet.signal("STOP");
    assert_eq!(body(nodes[1].address("web")), "three");
    fleet.signal("CONT");
    fleet.apply("four");
    serve(&nodes, "four");
    load.end();
    eventually("every node reports", || {
        let (code, nodes) = fleet.ctl(&["nodes"]);
        code == Some(0) && nodes.matches(" serving").count() == 3
    });
    // A node that ends has no report.
    let [first, ..] = nodes;
    first.signal("TERM");
    assert_eq!(first.wait().code, Some(0));
    eventually("the other nodes are left", || {
        let (_, nodes) = fleet.ctl(&["nodes"]);
        !nodes.contains("n1") && nodes.contains("n2")
    });
    fleet.kill();
}

#[test]
fn what_cannot_be_used_is_refused_and_reported() {
    if !has("etcd") || !has("etcdctl") {
        return;
    }
    let fleet = Fleet::start();
    fleet.apply("one");
    let nodes = [fleet.node("n1")];
    serve(&nodes, "one");
    fleet.write("x, colour: red");
    let (code, out) = fleet.ctl(&["apply", "site"]);
    assert!(code == Some(2) && out.contains("routes/all.yaml:1:"), "{out}");
    // Written by something else, the nodes refuse it.
    fleet.put("bad.yaml", "upstreams: [");
    let state = |expected: &str| {
        eventually(expected, || {
            let (code, out) = fleet.ctl(&["nodes"]);
            code == Some(0) && out.contains(expected)
        });
    };
    state("refused: bad.yaml:1:");
    assert!(ready(&nodes[0]).1.contains("bad.yaml"));
    serve(&nodes, "one");
    // A node that starts now serves what it served last.
    let [node] = nodes;
    node.signal("TERM");
    assert_eq!(node.wait().code, Some(0));
    let nodes = [fleet.node("n1")];
    serve(&nodes, "one");
    state("refused: bad.yaml:1:");
    fleet.delete("bad.yaml");
    state(" serving");
    fleet.apply("two");
    serve(&nodes, "two");
}

#[test]
fn a_node_starts_without_etcd() {
    if !has("etcd") {
        return;
    }
    let mut fleet = Fleet::start();
    fleet.apply("one");
    let node = fleet.node("n1");
    serve(std::slice::from_ref(&node), "one");
    eventually("there is a copy", || {
        fleet.path().join("n1/etcd").read_dir().is_ok_and(|mut files| {
            files.any(|file| {
                file.expect("an entry").path().extension().is_some_and(|it| it == "json")
            })
        })
    });
    node.signal("TERM");
    assert_eq!(node.wait().code, Some(0));
    fleet.kill();
    let nodes = [fleet.node("n1")];
    serve(&nodes, "one");
    let (status, text) = ready(&nodes[0]);
    assert!(status == 200 && text.contains("etcd: "), "{text}");
    fleet.restart();
    fleet.apply("two");
    serve(&nodes, "two");
    eventually("no problem is left", || ready(&nodes[0]) == (200, "ready\n".to_owned()));
    fleet.kill();
}

#[test]
fn versions_are_applied_shown_and_applied_again() {
    if !has("etcd") {
        return;
    }
    let fleet = Fleet::start();
    fleet.write("one");
    let (code, out) = fleet.ctl(&["apply", "site", "--dry-run"]);
    assert!(code == Some(0) && out.contains("would change"), "{out}");
    let (_, none) = fleet.ctl(&["history"]);
    assert_eq!(none.lines().count(), 1, "a dry run writes nothing: {none}");
    let first = fleet.apply("one");
    let version = first.split_whitespace().nth(1).expect("a version").to_owned();
    fleet.apply("two");
    let again = fleet.apply("two");
    assert!(again.contains("is applied") && !again.contains("revision"), "{again}");
    let (_, history) = fleet.ctl(&["history"]);
    let lines: Vec<&str> = history.lines().collect();
    assert!(lines.len() == 3 && lines[1].ends_with("current"), "{history}");
    assert!(lines[2].starts_with(&version), "{history}");
    let nodes = [fleet.node("n1")];
    serve(&nodes, "two");
    let (code, out) = fleet.ctl(&["rollback", &version]);
    assert_eq!(code, Some(0), "{out}");
    serve(&nodes, "one");
    let (code, out) = fleet.ctl(&["rollback", "none"]);
    assert!(code == Some(2) && out.contains("no version none"), "{out}");
    // A document that is not there any more is removed.
    fs::remove_dir_all(fleet.path().join("site/routes")).expect("the directory");
    let (code, out) = fleet.ctl(&["apply", "site"]);
    assert!(code == Some(0) && out.contains("\"routes/all.yaml\" removed"), "{out}");
}

const ADMIN: &str = "listeners: { web: { bind: \"127.0.0.1:0\" } }\n\
                     admin: { bind: \"127.0.0.1:0\", token: s3cret-token, metrics: open }\n";

/// Sends a request to the admin API; `body` is a configuration for PUT.
fn admin(node: &Tidegate, if_match: &str, body: &str) -> HttpResponse {
    config(node, ["/v1/config", "application/yaml"], if_match, body)
}

/// The same with all documents.
fn documents(node: &Tidegate, if_match: &str, body: &str) -> HttpResponse {
    config(node, ["/v1/config?documents", "application/json"], if_match, body)
}

fn config(node: &Tidegate, [target, kind]: [&str; 2], if_match: &str, body: &str) -> HttpResponse {
    let method = if body.is_empty() { "GET" } else { "PUT" };
    let request = format!(
        "{method} {target} HTTP/1.1\r\nhost: admin\r\nif-match: {if_match}\r\n\
         authorization: Bearer s3cret-token\r\ncontent-type: {kind}\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    node.exchange("admin", request)
}

#[test]
fn the_admin_api_writes_one_document_to_etcd() {
    if !has("etcd") {
        return;
    }
    let fleet = Fleet::start();
    let with =
        |body: &str| format!("{ADMIN}routes: [{{ handler: {{ respond: {{ body: {body} }} }} }}]\n");
    fs::write(fleet.path().join("site/main.yaml"), ADMIN).expect("a writable directory");
    fleet.apply("one");
    let nodes = ["n1", "n2", "n3"].map(|name| fleet.node(name));
    serve(&nodes, "one");
    let shown = admin(&nodes[0], "*", "");
    assert!(shown.header("tidegate-read-only").is_some_and(|why| why.contains("2 documents")));
    let refused = admin(&nodes[0], "*", &with("two"));
    assert_ne!(refused.status, 200, "{refused:?}");
    // One document is the configuration that the API has.
    fs::remove_dir_all(fleet.path().join("site/routes")).expect("the directory");
    fs::write(fleet.path().join("site/main.yaml"), with("two")).expect("a writable directory");
    let (code, out) = fleet.ctl(&["apply", "site"]);
    assert_eq!(code, Some(0), "{out}");
    serve(&nodes, "two");
    let tag = |node: &Tidegate| {
        let etag = admin(node, "*", "").header("etag").map(str::to_owned);
        etag.expect("a version")
    };
    let before = tag(&nodes[0]);
    let response = admin(&nodes[0], &before, &with("three"));
    assert_eq!(response.status, 200, "{response:?}");
    assert_eq!(body(nodes[0].address("web")), "three");
    serve(&nodes, "three");
    // The others have the new version: the one before is not theirs any more.
    let stale = admin(&nodes[1], &before, &with("four"));
    assert_eq!(stale.status, 412, "{stale:?}");
    let response = admin(&nodes[1], &tag(&nodes[1]), &with("five"));
    assert_eq!(response.status, 200, "{response:?}");
    serve(&nodes, "five");
    let (_, history) = fleet.ctl(&["history"]);
    assert!(history.contains("admin API of n1") && history.contains("n2"), "{history}");
    let invalid = admin(&nodes[2], "*", "routes: [");
    assert_ne!(invalid.status, 200, "{invalid:?}");
    eventually("every node reports that it serves", || {
        fleet.ctl(&["nodes"]).1.matches(" serving").count() == 3
    });
    serve(&nodes, "five");
}

#[test]
fn the_admin_api_writes_all_documents_to_etcd_in_one_revision() {
    if !has("etcd") || !has("etcdctl") {
        return;
    }
    let fleet = Fleet::start();
    fs::write(fleet.path().join("site/main.yaml"), ADMIN).expect("a writable directory");
    fleet.apply("one");
    let nodes = ["n1", "n2"].map(|name| fleet.node(name));
    serve(&nodes, "one");
    let shown = documents(&nodes[0], "*", "");
    let value: Value = serde_json::from_str(&shown.text()).expect("JSON");
    let names: Vec<&String> = value.as_object().expect("an object").keys().collect();
    assert_eq!(names, ["main.yaml", "routes/all.yaml"]);
    assert!(value["main.yaml"].as_str().is_some_and(|text| text.contains("\"***\"")), "{value}");
    let tag = shown.header("etag").expect("a version");
    let set = |body: &str| {
        let route = |path: &str| {
            format!(
                "routes: [{{ match: {{ path: \"{path}\" }}, \
                 handler: {{ respond: {{ body: {body} }} }} }}]\n"
            )
        };
        let set = json!({ "main.yaml": ADMIN, "routes/a.yaml": route("/"), "b.yaml": route("/b") });
        set.to_string()
    };
    // An error names its document, and nothing is changed.
    let wrong = documents(&nodes[0], tag, &set("x, colour: red"));
    let errors: Value = serde_json::from_str(&wrong.text()).expect("JSON");
    assert!(wrong.status == 422 && errors["errors"][0]["file"] == "b.yaml", "{errors}");
    let masked = documents(&nodes[0], tag, &shown.text());
    assert!(masked.status == 422 && masked.text().contains("masked secret"), "{masked:?}");
    let response = documents(&nodes[0], tag, &set("two"));
    assert_eq!(response.status, 200, "{response:?}");
    assert_eq!(body(nodes[0].address("web")), "two");
    serve(&nodes, "two");
    let keys = fleet.etcdctl(&["get", "--prefix", "/shop/config/", "--write-out=json"]);
    let keys: Value = serde_json::from_str(&keys).expect("JSON");
    let keys = keys["kvs"].as_array().expect("keys");
    // What was not sent is removed, what is the same was not written again.
    let revisions: Vec<&Value> = keys.iter().map(|kv| &kv["mod_revision"]).collect();
    let [b, main, a] = revisions[..] else { panic!("{keys:?}") };
    assert!(a == b && a != main, "{keys:?}");
    // Every server has the new version, and nothing replaces the one before again.
    let new = response.header("etag").expect("a version");
    for node in &nodes {
        eventually("the version is that of the response", || {
            documents(node, "*", "").header("etag") == Some(new)
        });
        let stale = documents(node, tag, &set("three"));
        assert_eq!(stale.status, 412, "{stale:?}");
    }
    let response = documents(&nodes[1], new, &set("three"));
    assert_eq!(response.status, 200, "{response:?}");
    serve(&nodes, "three");
    let (_, history) = fleet.ctl(&["history"]);
    assert!(history.contains("admin API of n1") && history.contains("n2"), "{history}");
}
