//! HTTP/2 against a server of `wire`: what is counted, and what is an error.

use super::{consistent, plan, pong};
use crate::load::{Address, Expect, LoadOutcome, LoadPlan, Mode, Target, Traffic, check, run};
use bytes::Bytes;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};
use wire::h2::{Config, Connection, Event, Output};

const WAIT: Duration = Duration::from_secs(20);
const STREAMS: u32 = 5;

#[derive(Default)]
struct Sent(Vec<u8>);

impl Output<Bytes> for Sent {
    fn frames(&mut self, bytes: &mut Vec<u8>) {
        self.0.append(bytes);
    }

    fn payload(&mut self, payload: Bytes) {
        self.0.extend_from_slice(&payload);
    }
}

/// Responds `pong`; the client is told to leave after so many requests of a connection. Its threads
/// end with the test.
fn server(leaves_after: Option<usize>) -> Address {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = Address::Tcp(listener.local_addr().unwrap());
    thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            thread::spawn(move || serve(socket, leaves_after));
        }
    });
    address
}

fn serve(mut socket: TcpStream, leaves_after: Option<usize>) -> Option<()> {
    let mut connection = Connection::server(Config::default());
    let (mut buffer, mut requests) = ([0; 4096], 0);
    loop {
        let mut sent = Sent::default();
        connection.write(&mut sent, usize::MAX);
        socket.write_all(&sent.0).ok()?;
        if connection.is_finished() {
            return Some(());
        }
        let count = socket.read(&mut buffer).ok().filter(|count| *count > 0)?;
        connection.receive(Bytes::copy_from_slice(&buffer[..count]));
        while let Some(event) = connection.poll_event().ok()? {
            let Event::Request { stream, .. } = event else { continue };
            connection.respond(stream, 200, [], false).ok()?;
            connection.send_data(stream, Bytes::from_static(b"pong"), true).ok()?;
            requests += 1;
            if Some(requests) == leaves_after {
                connection.close_to_new_streams();
            }
        }
    }
}

fn target(address: &Address, expect: Expect) -> Target {
    let (authority, path) = ("localhost".to_owned(), "/".to_owned());
    let traffic = Traffic::Http2 { authority, path, streams: STREAMS, expect };
    Target { address: address.clone(), tls: None, traffic }
}

fn load(address: &Address, expect: Expect) -> LoadOutcome {
    consistent(run(&target(address, expect), &plan()).unwrap())
}

#[test]
fn every_stream_is_asked_again_and_again() {
    let address = server(None);
    let outcome = load(&address, pong());
    assert_eq!((outcome.errors.total(), outcome.reconnects), (0, 0), "{outcome:?}");
    assert!(outcome.requests > 4 * u64::from(STREAMS), "{outcome:?}");
    check(&target(&address, pong()), Instant::now() + WAIT).unwrap();
}

#[test]
fn a_server_that_goes_away_is_connected_to_again() {
    let outcome = load(&server(Some(7)), pong());
    assert_eq!(outcome.errors.total(), 0, "{outcome:?}");
    assert!(outcome.reconnects > 0 && outcome.requests > 7, "{outcome:?}");
}

#[test]
fn wrong_responses_are_errors() {
    let address = server(None);
    let status = load(&address, Expect { status: 204, ..Expect::default() });
    assert!(status.requests == 0 && status.errors.status > 0, "{status:?}");
    let length = load(&address, Expect { length: Some(5), body: None, ..pong() });
    assert!(length.requests == 0 && length.errors.length > 0, "{length:?}");
    let field = vec![("content-type".to_owned(), "text/plain".to_owned())];
    let header = load(&address, Expect { headers: field, ..pong() });
    assert!(header.requests > 0 && header.errors.header > 0, "{header:?}");
    let body = Expect { body: Some(b"ping".to_vec().into()), ..pong() };
    let verify = LoadPlan { verify: true, ..plan() };
    let outcome = consistent(run(&target(&address, body.clone()), &verify).unwrap());
    assert!(outcome.requests == 0 && outcome.errors.body > 0, "{outcome:?}");
    let why = check(&target(&address, body), Instant::now() + WAIT).unwrap_err();
    assert_eq!(why, "does not answer rightly: wrong body");
}

#[test]
fn what_is_no_http2_is_a_framing_error() {
    let outcome = load(&super::says(b"HTTP/1.1 400 Bad Request\r\n\r\n").address, pong());
    assert!(outcome.requests == 0 && outcome.errors.framing > 0, "{outcome:?}");
}

#[test]
fn streams_have_their_limits() {
    let refused = |streams: u32, mode: Mode| {
        let Traffic::Http2 { authority, path, expect, .. } =
            target(&Address::Unix("/nowhere".into()), pong()).traffic
        else {
            unreachable!()
        };
        let traffic = Traffic::Http2 { authority, path, streams, expect };
        let target = Target { address: Address::Unix("/nowhere".into()), tls: None, traffic };
        run(&target, &LoadPlan { mode, ..plan() }).unwrap_err().to_string()
    };
    assert_eq!(refused(0, Mode::Closed), "a connection has 1 to 1024 streams");
    assert_eq!(refused(1025, Mode::Closed), "a connection has 1 to 1024 streams");
    assert_eq!(refused(1, Mode::Open { rate: 10.0 }), "an open loop has no streams");
}
