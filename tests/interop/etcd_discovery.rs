//! Servers of an upstream from the keys of a real etcd, with leases, through its restart.

use crate::etcd::{Server, etcdctl};
use crate::tools::has;
use scenarios::{
    BETWEEN_REQUESTS, Connection, Tidegate, Upstream, eventually, temporary_directory,
};
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const GET: &str = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";

pub(crate) fn upstream(gateway: &Tidegate) -> Value {
    let request = "GET /v1/upstreams HTTP/1.1\r\nhost: a\r\nauthorization: Bearer sesame\r\n\r\n";
    let response = gateway.exchange("admin", request);
    let all: Value = serde_json::from_slice(&response.body).expect("JSON");
    all["upstreams"][0].clone()
}

pub(crate) fn wait_for(gateway: &Tidegate, servers: &[&Upstream]) {
    let mut expected: Vec<String> =
        servers.iter().map(|server| server.address().to_string()).collect();
    expected.sort();
    eventually("the keys are the members", || {
        let upstream = upstream(gateway);
        let shown = upstream["servers"].as_array().expect("servers").iter();
        let mut shown: Vec<String> =
            shown.map(|server| server["address"].as_str().expect("text").to_owned()).collect();
        shown.sort();
        shown == expected
    });
}

#[test]
fn keys_with_leases_are_servers_and_etcd_may_stop() {
    if !has("etcd") || !has("etcdctl") {
        return;
    }
    let directory = temporary_directory();
    let path = directory.path();
    let etcd = Server::start(path, "http", &[]);
    let (port, peer) = (etcd.port, etcd.peer);
    let etcdctl =
        |arguments: &[&str]| etcdctl(path, &format!("http://127.0.0.1:{port}"), arguments);
    let put = |key: &str, value: &str, more: &[&str]| {
        etcdctl(&[&["put", key, value], more].concat());
    };
    let servers =
        [(); 3].map(|()| Upstream::responding("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"));
    let [first, second, third] = &servers;
    put("/services/api/1", &first.address().to_string(), &[]);
    put("/services/apj/1", "10.0.0.1:80", &[]);
    let gateway = Tidegate::start(&format!(
        r#"
listeners: {{ web: {{ bind: "127.0.0.1:0" }} }}
admin: {{ bind: "127.0.0.1:0", token: sesame, socket: admin.sock }}
upstreams:
  api: {{ discover: {{ etcd: {{ endpoints: "127.0.0.1:{port}", prefix: /services/api/ }} }} }}
routes:
  - {{ handler: {{ upstream: api }} }}
"#
    ));
    wait_for(&gateway, &[first]);
    let over = Arc::new(AtomicBool::new(false));
    let load = {
        let (address, over) = (gateway.address("web"), over.clone());
        std::thread::spawn(move || {
            let mut connection = Connection::to(address);
            while !over.load(Ordering::Relaxed) {
                connection.send(GET);
                let response = connection.read_response();
                assert_eq!(response.status, 200, "{response:?}");
                std::thread::sleep(BETWEEN_REQUESTS);
            }
        })
    };
    let json = format!("{{\"address\": \"{}\", \"weight\": 3}}", second.address());
    put("/services/api/2", &json, &[]);
    wait_for(&gateway, &[first, second]);
    put("/services/api/bad", "unix:/run/x", &[]);
    eventually("the key is named", || {
        let error = upstream(&gateway)["discovery"]["error"].clone();
        error.as_str().is_some_and(|error| error.contains("\"/services/api/bad\": "))
    });
    etcdctl(&["del", "/services/api/bad"]);
    // The lease ends, and the key with it.
    let granted = etcdctl(&["lease", "grant", "600"]);
    let lease = granted.split_whitespace().nth(1).expect("a lease").to_owned();
    put("/services/api/3", &third.address().to_string(), &["--lease", &lease]);
    wait_for(&gateway, &[first, second, third]);
    etcdctl(&["lease", "revoke", &lease]);
    wait_for(&gateway, &[first, second]);
    // Without etcd the last known servers stay.
    etcd.kill();
    eventually("the failure is shown", || upstream(&gateway)["discovery"]["error"].is_string());
    wait_for(&gateway, &[first, second]);
    let etcd = Server::start_at(path, "http", &[], port, peer);
    etcdctl(&["del", "/services/api/1"]);
    wait_for(&gateway, &[second]);
    eventually("etcd is followed again", || upstream(&gateway)["discovery"]["error"].is_null());
    over.store(true, Ordering::Relaxed);
    load.join().expect("every request was answered with 200");
    etcd.kill();
}
