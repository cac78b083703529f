//! Where the server listens: Unix sockets, stale ones and live ones, and addresses that are taken.
#![allow(clippy::disallowed_types, reason = "the client side of a test opens its own sockets")]

use scenarios::{Process, Tidegate, tidegate_binary};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Command;

const UNIX: &str = r#"
workers: 2
listeners: { web: { bind: "unix:web.sock" } }
admin: { bind: "127.0.0.1:0" }
log: { access: { format: json, path: stderr } }
routes:
  - { match: { path: "/ping" }, handler: { respond: { body: pong } } }
"#;

fn ping(server: &Tidegate) -> String {
    server.address_text("web");
    let mut client = UnixStream::connect(server.path("web.sock")).expect("it listens");
    client.set_read_timeout(Some(scenarios::PATIENCE)).expect("a time-out");
    let request = "GET /ping HTTP/1.1\r\nhost: a\r\n\r\n";
    let last = "GET /ping HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    client.write_all(format!("{request}{request}{last}").as_bytes()).expect("sent");
    let mut responses = String::new();
    client.read_to_string(&mut responses).expect("three answers and the end");
    responses
}

#[test]
fn requests_come_over_a_unix_socket() {
    let server = Tidegate::start(UNIX);
    assert!(server.address_text("web").ends_with("web.sock"));
    assert_eq!(ping(&server).matches("\r\n\r\npong").count(), 3);
    // A peer without an address counts as this machine.
    let line = server.wait_for_log("\"status\":200");
    assert!(line.contains("\"client_ip\":\"127.0.0.1\""), "{line}");
    let path = server.path("web.sock");
    server.signal("TERM");
    server.wait_for_log("drain");
    let exit = server.wait();
    assert_eq!(exit.code, Some(0), "{}", exit.stderr);
    assert!(!path.exists(), "the socket goes with the server");
}

#[test]
fn a_stale_socket_file_is_replaced() {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("tidegate.yaml"), UNIX).expect("a file");
    let start = || {
        let mut command = Command::new(tidegate_binary());
        let server = Process::start(command.arg("up").current_dir(directory.path()));
        let listens = server.wait_for_line(|line| line.contains("name=web").then_some(()));
        assert!(listens.is_some(), "{}", server.log().join("\n"));
        server
    };
    let path = directory.path().join("web.sock");
    drop(start()); // killed: it cannot tidy up
    assert!(path.exists());
    assert!(UnixStream::connect(&path).is_err(), "the socket has no listener any more");
    let _next = start();
    assert!(UnixStream::connect(&path).is_ok());
}

/// One sentence and exit code 1, before anything was served.
fn refuses_to_start(config: &str, directory: &std::path::Path, sentence: &str) {
    std::fs::write(directory.join("tidegate.yaml"), config).expect("a file");
    let mut command = Command::new(tidegate_binary());
    let exit = Process::run(command.arg("up").current_dir(directory));
    assert_eq!(exit.code, Some(1), "{}", exit.stderr);
    assert_eq!(exit.stderr.lines().count(), 1, "{}", exit.stderr);
    assert!(exit.stderr.contains(sentence), "{}", exit.stderr);
    assert!(exit.stderr.starts_with("error: listener web: "), "{}", exit.stderr);
    assert!(!exit.stderr.contains("os error"), "no number of the kernel's: {}", exit.stderr);
}

#[test]
fn a_live_unix_socket_is_an_address_in_use() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("web.sock");
    let live = UnixListener::bind(&path).expect("a socket");
    refuses_to_start(UNIX, directory.path(), "the address is in use");
    assert!(path.exists(), "it was left alone");
    drop(live);
}

#[test]
fn a_file_in_the_place_of_a_socket_is_left_alone() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("web.sock");
    std::fs::write(&path, "precious").expect("a file");
    refuses_to_start(UNIX, directory.path(), "not a socket");
    assert_eq!(std::fs::read_to_string(&path).expect("still there"), "precious");
}

#[test]
fn a_tcp_address_in_use_is_one_clear_sentence() {
    let directory = tempfile::tempdir().expect("a directory");
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("bound").to_string();
    let config = UNIX.replace("unix:web.sock", &address);
    refuses_to_start(&config, directory.path(), &format!("cannot listen on {address}"));
}

#[test]
fn a_second_server_on_the_same_address_does_not_share_it() {
    // Workers share an address among themselves (SO_REUSEPORT); two servers must not.
    let first = Tidegate::start(&UNIX.replace("unix:web.sock", "127.0.0.1:0"));
    let address = first.address("web").to_string();
    let directory = tempfile::tempdir().expect("a directory");
    refuses_to_start(&UNIX.replace("unix:web.sock", &address), directory.path(), "in use");
}

#[test]
fn an_address_of_another_machine_is_one_clear_sentence() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = UNIX.replace("unix:web.sock", "192.0.2.1:8080");
    refuses_to_start(&config, directory.path(), "cannot listen on 192.0.2.1:8080");
}
