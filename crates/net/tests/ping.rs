//! The example `ping` in both forms, against given bytes and redis-benchmark, and with a listening
//! socket inherited from its parent.

// Clippy knows test functions, but not their helpers.
#![allow(clippy::unwrap_used)]

#[path = "../examples/ping/driven.rs"]
mod driven;
#[path = "../examples/ping/server.rs"]
mod server;

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::time::Duration;

use net::Bind;

/// Runs a test against both forms.
fn both(test: impl Fn(SocketAddr)) {
    let listening = || server::listening("127.0.0.1:0".parse().unwrap(), 1).unwrap();
    let tasks = server::start(listening(), 1).unwrap();
    let Bind::Tcp(at) = tasks.local()[0] else { panic!("TCP was requested") };
    test(at);
    assert_eq!(tasks.stop(Duration::from_secs(10)), 0);

    let listening = listening();
    let Bind::Tcp(at) = *listening[0].local() else { panic!("TCP was requested") };
    driven::start(listening, 1).unwrap(); // for as long as this process lives
    test(at);
}

fn connect(address: SocketAddr) -> TcpStream {
    let client = TcpStream::connect(address).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    client.set_nodelay(true).unwrap();
    client
}

fn expect(client: &mut TcpStream, replies: &[u8]) {
    let mut got = vec![0; replies.len()];
    client.read_exact(&mut got).unwrap();
    assert_eq!(String::from_utf8_lossy(&got), String::from_utf8_lossy(replies));
}

#[test]
fn commands_are_handled_in_order() {
    both(|address| {
        let mut client = connect(address);
        for (sent, replies) in [
            ("PING\r\n", "+PONG\r\n"),
            ("ping\n\r\nPing hello\r\n", "+PONG\r\n$5\r\nhello\r\n"),
            ("*1\r\n$4\r\nPING\r\n", "+PONG\r\n"),
            ("*2\r\n$4\r\nPING\r\n$2\r\n\r\n\r\nPING\r\n", "$2\r\n\r\n\r\n+PONG\r\n"),
            ("GET x\r\nPING\r\n", "-ERR unknown command, this server answers PING\r\n+PONG\r\n"),
            ("PING 1 2\r\n", "-ERR wrong number of arguments for 'ping' command\r\n"),
        ] {
            client.write_all(sent.as_bytes()).unwrap();
            expect(&mut client, replies.as_bytes());
        }
    });
}

#[test]
fn a_command_may_arrive_in_pieces() {
    both(|address| {
        let mut client = connect(address);
        let sent = b"*2\r\n$4\r\nPING\r\n$5\r\nsplit\r\n";
        for at in 1..sent.len() {
            client.write_all(&sent[..at]).unwrap();
            std::thread::yield_now();
            client.write_all(&sent[at..]).unwrap();
            expect(&mut client, b"$5\r\nsplit\r\n");
        }
    });
}

#[test]
fn a_client_that_sends_before_it_reads_gets_every_reply() {
    const COMMANDS: usize = 300_000;
    both(|address| {
        let mut client = connect(address);
        let mut writer = client.try_clone().unwrap();
        // 4 MB of commands and 2 MB of replies: more than the sockets hold.
        let writing = std::thread::spawn(move || {
            writer.write_all(&b"*1\r\n$4\r\nPING\r\n".repeat(COMMANDS)).unwrap();
        });
        let mut got = vec![0; COMMANDS * b"+PONG\r\n".len()];
        client.read_exact(&mut got).unwrap();
        assert!(got.chunks(7).all(|reply| reply == b"+PONG\r\n"));
        writing.join().unwrap();
    });
}

#[test]
fn a_protocol_error_closes_the_connection() {
    both(|address| {
        let mut client = connect(address);
        client.write_all(b"PING\r\n*1\r\n+PING\r\nPING\r\n").unwrap();
        expect(&mut client, b"+PONG\r\n-ERR Protocol error: expected '$'\r\n");
        // An end or, as bytes were left unread, a reset.
        let end = client.read(&mut [0; 8]);
        assert!(matches!(end, Ok(0)) || end.is_err_and(|e| e.kind() == ErrorKind::ConnectionReset));
    });
}

#[test]
fn redis_benchmark_succeeds() {
    let Ok(version) = Command::new("redis-benchmark").arg("--version").output() else {
        eprintln!("redis-benchmark is not installed: left out");
        return;
    };
    assert!(version.status.success());
    both(|address| {
        for pipeline in ["1", "16"] {
            let port = address.port().to_string();
            let run = Command::new("redis-benchmark")
                .args(["-p", &port, "-t", "ping", "-n", "2000", "-c", "20", "-P", pipeline, "-q"])
                .output()
                .unwrap();
            let sent = String::from_utf8_lossy(&run.stdout);
            assert!(run.status.success(), "{sent}{}", String::from_utf8_lossy(&run.stderr));
            assert!(sent.contains("PING_INLINE") && sent.contains("PING_MBULK"), "{sent}");
        }
    });
}

/// The child process of the next test: serves the inherited socket until its stdin ends.
#[test]
fn child_with_a_socket() {
    if std::env::var_os("LISTEN_FDS").is_none() {
        return;
    }
    let nowhere = "127.0.0.1:1".parse().unwrap(); // never bound: a socket was handed over
    let serving = server::start(server::listening(nowhere, 2).unwrap(), 2).unwrap();
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    serving.stop(Duration::from_secs(10));
}

#[test]
fn an_inherited_socket_is_served() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // The connection is made before the socket is served: none is lost in between.
    let mut client = connect(address);
    let (their_stdin, our_end) = std::io::pipe().unwrap();
    // The shell places the socket at the number sd_listen_fds(3) requires; exec keeps the process
    // id.
    let script = r#"LISTEN_PID=$$ exec "$@" 3<&1 1>&2"#;
    let mut child = Command::new("sh")
        .args(["-c", script, "sh"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "child_with_a_socket", "--nocapture"])
        .envs([("LISTEN_FDS", "1"), ("LISTEN_FDNAMES", "ping")])
        .stdin(their_stdin)
        .stdout(Stdio::from(OwnedFd::from(listener)))
        .spawn()
        .unwrap();
    client.write_all(b"PING handed over\r\nPING\r\n").unwrap();
    expect(&mut client, b"-ERR wrong number of arguments for 'ping' command\r\n+PONG\r\n");
    drop(our_end);
    assert!(child.wait().unwrap().success());
}
