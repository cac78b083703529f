//! TLS against a server of rustls: kinds of handshakes, and what is an error.

use super::{END, PONG, consistent, is_something, plan, pong, until};
use crate::load::{Address, Handshakes, LoadOutcome, Target, Tls, Traffic, check, run};
use rustls::pki_types::PrivateKeyDer;
use rustls::server::NoServerSessionStorage;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
const WAIT: Duration = Duration::from_secs(20);

/// A server that says `pong` over TLS until its client closes. Its threads end with the test.
struct Server {
    address: Address,
    certificate: Vec<u8>,
}

impl Server {
    fn start(tickets: usize) -> Self {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let mut config = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        config.send_tls13_tickets = tickets;
        if tickets == 0 {
            config.session_storage = Arc::new(NoServerSessionStorage {});
        }
        let config = Arc::new(config);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = Address::Tcp(listener.local_addr().unwrap());
        thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let config = Arc::clone(&config);
                thread::spawn(move || serve(socket, config));
            }
        });
        Self { address, certificate: made.cert.der().to_vec() }
    }

    fn target(&self, handshakes: Handshakes, keep_alive: bool) -> Target {
        let tls = Some(Arc::new(Tls::new(self.certificate.clone(), handshakes).unwrap()));
        let traffic = Traffic::Http { request: REQUEST.to_vec(), expect: pong(), keep_alive };
        Target { address: self.address.clone(), tls, traffic }
    }
}

fn serve(socket: TcpStream, config: Arc<ServerConfig>) {
    let Ok(tls) = ServerConnection::new(config) else { return };
    let mut stream = StreamOwned::new(tls, socket);
    let (mut received, mut buffer) = (Vec::new(), [0; 1024]);
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        received.extend_from_slice(&buffer[..count]);
        if received.ends_with(END) {
            received.clear();
            if stream.write_all(PONG).and_then(|()| stream.flush()).is_err() {
                return;
            }
        }
    }
}

fn load(target: &Target) -> LoadOutcome {
    load_until(target, is_something)
}

fn load_until(target: &Target, says: impl Fn(&LoadOutcome) -> bool) -> LoadOutcome {
    until(|| consistent(run(target, &plan()).unwrap()), says)
}

#[test]
fn connections_are_kept_or_made_for_each_request() {
    let server = Server::start(2);
    let kept = load_until(&server.target(Handshakes::Full, true), |found| found.requests > 10);
    assert_eq!((kept.errors.total(), kept.reconnects), (0, 0), "{kept:?}");
    assert!(kept.bytes > kept.requests * PONG.len() as u64, "{kept:?}");
    let each = load_until(&server.target(Handshakes::Full, false), |found| found.requests > 2);
    assert_eq!(each.errors.total(), 0, "{each:?}");
}

#[test]
fn sessions_are_resumed_once_there_are_tickets() {
    let server = Server::start(2);
    let target = server.target(Handshakes::Resumed, false);
    // The warm-up: the first connection of each has no ticket.
    let first = load(&target);
    let full = first.errors.handshake;
    assert!((1..=2).contains(&full) && first.errors.total() == full, "{first:?}");
    // As many loads as it takes on a busy machine.
    let mut resumed = 0;
    while resumed <= 2 {
        let next = load(&target);
        assert_eq!(next.errors.total(), 0, "{:?}", next.errors);
        resumed += next.requests;
    }
    check(&server.target(Handshakes::Resumed, false), Instant::now() + WAIT).unwrap();
}

#[test]
fn a_full_handshake_where_one_is_resumed_is_an_error() {
    let server = Server::start(0);
    let target = server.target(Handshakes::Resumed, false);
    let outcome = load_until(&target, |found| found.errors.handshake > 2);
    assert_eq!(outcome.requests, 0, "{outcome:?}");
    let why = check(&target, Instant::now() + WAIT).unwrap_err();
    assert_eq!(why, "does not answer rightly: wrong handshake");
}

#[test]
fn another_certificate_is_an_error() {
    let (server, other) = (Server::start(2), Server::start(2));
    let mut target = server.target(Handshakes::Full, true);
    target.address = other.address;
    let outcome = load(&target);
    assert!(outcome.requests == 0 && outcome.errors.handshake > 0, "{outcome:?}");
    let why = check(&target, Instant::now() + WAIT).unwrap_err();
    assert!(why.contains("certificate"), "{why}");
}

#[test]
fn a_wrong_length_is_seen_through_tls() {
    let server = Server::start(2);
    let target = server.target(Handshakes::Full, true);
    check(&target, Instant::now() + WAIT).unwrap();
    let Traffic::Http { request, mut expect, keep_alive } = target.traffic else { unreachable!() };
    expect.length = Some(3);
    expect.body = None;
    let traffic = Traffic::Http { request, expect, keep_alive };
    let outcome = load(&Target { traffic, ..target });
    assert!(outcome.requests == 0 && outcome.errors.length > 0, "{outcome:?}");
}
