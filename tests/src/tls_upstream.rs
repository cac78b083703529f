//! An upstream with TLS, by Python's `ssl` (OpenSSL): another implementation than ours.

use crate::{Issued, Process};
use std::fs;
use std::net::SocketAddr;
use std::process::Command;
use tempfile::TempDir;

/// Responds to every request with what it knows of the connection: the name that the client sent
/// (SNI), the common name of the client's certificate, whether the session was resumed, and how
/// many connections and requests there were before.
const SERVER: &str = r#"
import socket, ssl, sys, threading
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("server.pem", "server.key")
if len(sys.argv) > 1:
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(sys.argv[1])
names = {}
context.sni_callback = lambda connection, name, _: names.__setitem__(id(connection), name)
def serve(plain, number):
    try:
        connection = context.wrap_socket(plain, server_side=True, do_handshake_on_connect=False)
        connection.do_handshake()
        subject = dict(pair[0] for pair in (connection.getpeercert() or {}).get("subject", ()))
        received, requests = b"", 0
        while chunk := connection.recv(65536):
            received += chunk
            while b"\r\n\r\n" in received:
                head, received = received.split(b"\r\n\r\n", 1)
                host = [line for line in head.decode().split("\r\n") if line[:5].lower() == "host:"]
                body = "sni=%s client=%s resumed=%s connection=%d request=%d %s" % (
                    names.get(id(connection)), subject.get("commonName"),
                    connection.session_reused, number, requests, host[0])
                requests += 1
                connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s"
                                   % (len(body), body.encode()))
    except OSError as error:
        print("failed", error, file=sys.stderr, flush=True)
listener = socket.create_server(("127.0.0.1", 0))
print("listening", listener.getsockname()[1], file=sys.stderr, flush=True)
number = 0
while True:
    plain, _ = listener.accept()
    threading.Thread(target=serve, args=(plain, number), daemon=True).start()
    number += 1
"#;

pub struct TlsUpstream {
    process: Process,
    _directory: TempDir,
    address: SocketAddr,
}

impl TlsUpstream {
    /// Serves with this certificate.
    pub fn start(issued: &Issued) -> TlsUpstream {
        TlsUpstream::launch(issued, None)
    }

    /// Demands a certificate that this authority, in PEM, has issued.
    pub fn demanding(issued: &Issued, authority: &str) -> TlsUpstream {
        TlsUpstream::launch(issued, Some(authority))
    }

    fn launch(issued: &Issued, authority: Option<&str>) -> TlsUpstream {
        let directory = tempfile::tempdir().expect("a directory");
        let write = |name: &str, content: &str| {
            fs::write(directory.path().join(name), content).expect("a file");
        };
        write("server.pem", &issued.chain);
        write("server.key", &issued.key);
        let mut command = Command::new("python3");
        command.args(["-c", SERVER]).current_dir(directory.path());
        if let Some(authority) = authority {
            write("clients.pem", authority);
            command.arg("clients.pem");
        }
        let process = Process::start(&mut command);
        let port = process.wait_for_line(|line| line.strip_prefix("listening ")?.parse().ok());
        let address = SocketAddr::from(([127, 0, 0, 1], port.expect("it listens")));
        TlsUpstream { process, _directory: directory, address }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its address as a setting.
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// What it has said on standard error.
    pub fn log(&self) -> Vec<String> {
        self.process.log()
    }
}
