//! Requests that change their version on the way: odd ones of HTTP/2 to a server of HTTP/1.1, and
//! of HTTP/1.1 to servers of HTTP/2. What is forwarded has to be exactly one well-formed request
//! with the values that were checked. nginx, Go and Node get the same requests in front of the same
//! server; the table names those that decide differently.
#![allow(clippy::disallowed_types, reason = "a relay to the Unix socket of nginx")]

mod recorder;
mod requests;
mod servers;

use crate::tools::{command, go_program, has, nginx, proxy};
use recorder::Recorder;
use requests::{Decision, Row, rows};
use scenarios::{Connection, Http2Peer, Process, Upstream, frame};
use std::fs;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;
use wire::h2::Event;

/// What a client gets for a request.
#[derive(Debug, PartialEq, Eq)]
enum Response {
    Status(u16),
    /// The stream was reset.
    Reset,
    /// The connection ended.
    Closed,
}

/// Sends a row on a connection of its own.
fn send(address: SocketAddr, row: &Row) -> Response {
    let mut connection = Connection::to(address);
    let mut client = Http2Peer::client(&mut connection);
    let is_whole = row.content.is_none() && row.trailers.is_empty();
    let stream = client.open_unchecked(&row.fields, is_whole);
    if let Some(content) = row.content {
        let flags = u8::from(row.trailers.is_empty());
        client.connection.try_send(frame(0, flags, stream.id, content.as_bytes()));
    }
    if !row.trailers.is_empty() {
        client.section(stream, row.trailers, true);
    }
    loop {
        match client.event() {
            Some(Event::Response { status, .. }) if status >= 200 => {
                return Response::Status(status);
            }
            Some(Event::Reset { .. } | Event::Malformed { .. }) => return Response::Reset,
            Some(_) => {}
            None => return Response::Closed,
        }
    }
}

#[test]
fn requests_of_http_2_are_forwarded_as_they_were_checked_or_not_at_all() {
    let (recorder, upstream) = Recorder::start();
    let server = proxy(&upstream.address().to_string());
    let mut wrong = Vec::new();
    for row in rows() {
        let response = send(server.address("web"), &row);
        let expected = match row.decision {
            Decision::Forwards(_) => Response::Status(200),
            Decision::Responds(status) => Response::Status(status),
            Decision::Resets => Response::Reset,
        };
        let forwarded: Vec<&str> = match &row.decision {
            Decision::Forwards(request) => vec![request],
            _ => vec![],
        };
        let recorded = recorder.take();
        if response != expected || recorded != forwarded {
            wrong.push(format!("{row:?}\n  {response:?} {recorded:?}"));
        }
    }
    // Of those that were rejected nothing arrives later either.
    drop(server);
    drop(upstream);
    assert_eq!(recorder.take(), Vec::<String>::new());
    assert!(wrong.is_empty(), "{} rows:\n{}", wrong.len(), wrong.join("\n"));
}

/// Compares the decisions of another server with ours.
fn compare(name: &str, address: SocketAddr, recorder: &Recorder) {
    let mut wrong = Vec::new();
    for row in rows() {
        let response = send(address, &row);
        let forwards = !recorder.take().is_empty() && response == Response::Status(200);
        let differs = forwards != matches!(row.decision, Decision::Forwards(_));
        let is_one_of = |name: &str| row.others.split(' ').any(|other| other == name);
        if differs != is_one_of(name) && !is_one_of(&format!("{name}?")) {
            wrong.push(format!("{row:?}\n  {name}: {response:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} rows:\n{}", wrong.len(), wrong.join("\n"));
}

/// A port in front of a Unix socket.
fn relay(socket: String) -> Upstream {
    Upstream::start(move |peer| {
        let mut server = UnixStream::connect(&socket).expect("the server listens");
        let (mut client, mut reader) =
            (peer.clone_for_reading(), server.try_clone().expect("a socket"));
        let back = std::thread::spawn(move || {
            let mut buffer = [0; 16 * 1024];
            while let Ok(count @ 1..) = reader.read(&mut buffer) {
                if !client.try_send(&buffer[..count]) {
                    return;
                }
            }
            client.try_finish_sending();
        });
        while !peer.at_end() {
            let received = peer.read_exactly(peer.waiting());
            if server.write_all(&received).is_err() {
                break;
            }
        }
        let _ = server.shutdown(std::net::Shutdown::Both);
        back.join().expect("the relay ends");
    })
}

#[test]
fn nginx_decides_the_same_about_requests_of_http_2() {
    if !has("nginx") {
        return;
    }
    let (recorder, upstream) = Recorder::start();
    let directory = TempDir::new().expect("a temporary directory");
    let config = NGINX.replace("UPSTREAM", &upstream.address().to_string());
    let (_process, address) = nginx(&directory, &config, "text");
    let relay = relay(address.trim_start_matches("unix:").to_owned());
    compare("nginx", relay.address(), &recorder);
}

const NGINX: &str = r"
daemon off; master_process off; pid nginx.pid; error_log stderr notice;
events { worker_connections 64; }
http {
  access_log off;
  client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;
  uwsgi_temp_path uwsgi; scgi_temp_path scgi;
  server {
    listen unix:nginx.sock http2;
    location / { proxy_pass http://UPSTREAM; proxy_http_version 1.1; }
  }
}
";

/// Starts a program that prints the port of its listener.
fn start(program: &mut Command) -> (Process, SocketAddr) {
    let process = Process::start(program);
    let port: Option<u16> =
        process.wait_for_line(|line| line.strip_prefix("listening ")?.parse().ok());
    (process, SocketAddr::from(([127, 0, 0, 1], port.expect("it listens"))))
}

/// A program of one file.
fn node(directory: &Path, source: &str) -> Command {
    fs::write(directory.join("program.js"), source).expect("a file");
    let mut node = command("node", directory);
    node.arg("program.js");
    node
}

#[test]
fn go_decides_the_same_about_requests_of_http_2() {
    if !has("go") {
        return;
    }
    let (recorder, upstream) = Recorder::start();
    let directory = TempDir::new().expect("a temporary directory");
    let mut program = go_program(directory.path(), include_str!("translation/proxy.go"));
    let (_process, address) = start(program.arg(upstream.address().to_string()));
    compare("go", address, &recorder);
}

#[test]
fn node_decides_the_same_about_requests_of_http_2() {
    if !has("node") {
        return;
    }
    let (recorder, upstream) = Recorder::start();
    let directory = TempDir::new().expect("a temporary directory");
    let mut program = node(directory.path(), include_str!("translation/proxy.js"));
    let (_process, address) = start(program.arg(upstream.address().to_string()));
    compare("node", address, &recorder);
}
