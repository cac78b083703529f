//! Keys of session tickets that servers share in etcd: openssl begins a session at one server and
//! resumes it at another, through rotations and while etcd is gone.

use crate::etcd_configuration::{Fleet, serve};
use crate::openssl::s_client;
use crate::tools::has;
use scenarios::{Authority, Tidegate};
use std::fs;

const VERSIONS: [&str; 2] = ["-tls1_2", "-tls1_3"];

/// Waits until each server has so many keys, and compares with etcd: a rotation is that of one.
fn wait_for_keys(fleet: &Fleet, nodes: &[Tidegate], count: usize) {
    for node in nodes {
        scenarios::eventually(&format!("there are {count} keys"), || {
            node.metrics().sum("tidegate_tls_shared_ticket_keys", &[]) == count as f64
        });
    }
    assert_eq!(stored_keys(fleet), count);
}

fn stored_keys(fleet: &Fleet) -> usize {
    let names = fleet.etcdctl(&["get", "--prefix", "/shop/tickets/keys/", "--keys-only"]);
    names.lines().filter(|line| !line.is_empty()).count()
}

/// Begins a session of each version and stores its ticket.
fn begin(fleet: &Fleet, node: &Tidegate, session: &str) {
    for version in VERSIONS {
        let said = connect(fleet, node, version, ["-sess_out", session]);
        assert!(said.contains("New, TLSv1"), "{said}");
    }
}

/// Whether the server resumes the sessions; it serves them in any case.
fn resumes(fleet: &Fleet, node: &Tidegate, session: &str) -> [bool; 2] {
    VERSIONS.map(|version| {
        connect(fleet, node, version, ["-sess_in", session]).contains("Reused, TLSv1")
    })
}

fn connect(fleet: &Fleet, node: &Tidegate, version: &str, [option, session]: [&str; 2]) -> String {
    let file = format!("{session}{version}.pem");
    let options = [version, "-servername", "a.test", option, &file];
    let said = s_client(fleet.path(), node.address("secure"), &options);
    assert!(said.contains("HTTP/1.1 200"), "{said}");
    said
}

#[test]
fn a_session_is_resumed_by_another_server_through_rotations_and_without_etcd() {
    if !has("etcd") || !has("etcdctl") || !has("openssl") {
        return;
    }
    let mut fleet = Fleet::start();
    fleet.apply("one");
    let nodes = ["n1", "n2"].map(|name| fleet.node(name));
    serve(&nodes, "one");
    assert_eq!(stored_keys(&fleet), 0, "no listener has TLS");
    let authority = Authority::new();
    let issued = authority.issue(&["a.test"]);
    for (name, text) in
        [("ca.pem", &authority.pem()), ("cert.pem", &issued.chain), ("key.pem", &issued.key)]
    {
        fs::write(fleet.path().join(name), text).expect("a writable directory");
    }
    let secure = format!(
        "listeners: {{ secure: {{ bind: \"127.0.0.1:0\", tls: {{ certificates: \
         [{{ cert: \"{0}/cert.pem\", key: \"{0}/key.pem\" }}] }} }} }}\n",
        fleet.path().display()
    );
    fs::write(fleet.path().join("site/secure.yaml"), secure).expect("a writable directory");
    fleet.apply("two");
    serve(&nodes, "two");
    wait_for_keys(&fleet, &nodes, 2);
    let [first, second] = &nodes;
    begin(&fleet, first, "first");
    assert_eq!(resumes(&fleet, second, "first"), [true; 2]);
    // The end of the lock's lease is the time of a rotation.
    let rotate = |fleet: &Fleet| fleet.etcdctl(&["del", "/shop/tickets/lock"]);
    rotate(&fleet);
    wait_for_keys(&fleet, &nodes, 3);
    begin(&fleet, second, "second");
    for session in ["first", "second"] {
        for node in &nodes {
            assert_eq!(resumes(&fleet, node, session), [true; 2], "{session}");
        }
    }
    // Without etcd the last keys stay in use, and a server that starts has its own.
    fleet.kill();
    begin(&fleet, first, "third");
    assert_eq!(resumes(&fleet, second, "third"), [true; 2]);
    let alone = fleet.node("n1");
    assert_eq!(resumes(&fleet, &alone, "third"), [false; 2], "keys are not on disk");
    begin(&fleet, &alone, "alone");
    fleet.restart();
    rotate(&fleet);
    wait_for_keys(&fleet, &nodes, 4);
    wait_for_keys(&fleet, std::slice::from_ref(&alone), 4);
    for session in ["first", "second", "third"] {
        assert_eq!(resumes(&fleet, &alone, session), [true; 2], "{session}");
    }
    assert_eq!(resumes(&fleet, &alone, "alone"), [true; 2], "its own ticket of before");
    assert_eq!(resumes(&fleet, second, "alone"), [false; 2]);
    // Removed keys end all sessions that can be resumed.
    fleet.etcdctl(&["del", "--prefix", "/shop/tickets/"]);
    wait_for_keys(&fleet, &nodes, 2);
    for session in ["first", "second", "third"] {
        assert_eq!(resumes(&fleet, second, session), [false; 2], "{session}");
    }
    begin(&fleet, second, "fourth");
    assert_eq!(resumes(&fleet, first, "fourth"), [true; 2]);
    fleet.kill_etcd();
}
