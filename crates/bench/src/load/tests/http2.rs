//! HTTP/2 against a server of `wire`: what is counted, and what is an error.

use super::{consistent, is_something, plan, pong, until};
use crate::load::{
    Address, BlockingClient, Call, Expect, LoadOutcome, LoadPlan, Mode, Target, Traffic, Unsent,
    check, run,
};
use bytes::Bytes;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use wire::h2::{Config, Connection, Event, Field};

const WAIT: Duration = Duration::from_secs(20);
const STREAMS: u32 = 5;
const CALL: &[u8] = b"\0\0\0\0\x03abc";

/// Responds `pong`; each request with such a number tells its client to leave.
fn server(leaves_at: Option<usize>) -> Address {
    let requests = AtomicUsize::new(0);
    accepting(move |connection, event| {
        let Event::Request { stream, .. } = event else { return Some(()) };
        connection.respond(stream, 200, [], false).ok()?;
        connection.send_data(stream, Bytes::from_static(b"pong"), true).ok()?;
        let number = requests.fetch_add(1, Ordering::Relaxed) + 1;
        if leaves_at.is_some_and(|count| number.is_multiple_of(count)) {
            connection.close_to_new_streams();
        }
        Some(())
    })
}

/// A server that handles events; `None` ends the connection. Its threads end with the test.
fn accepting(
    handle: impl Fn(&mut Connection<Bytes>, Event) -> Option<()> + Send + Sync + 'static,
) -> Address {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = Address::Tcp(listener.local_addr().unwrap());
    let handle = Arc::new(handle);
    thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            let handle = Arc::clone(&handle);
            thread::spawn(move || serve(socket, &*handle));
        }
    });
    address
}

fn serve(
    mut socket: TcpStream,
    handle: &impl Fn(&mut Connection<Bytes>, Event) -> Option<()>,
) -> Option<()> {
    let mut connection = Connection::server(Config::default());
    let mut buffer = [0; 4096];
    loop {
        let mut out = Unsent::default();
        connection.write(&mut out, usize::MAX);
        socket.write_all(out.rest()).ok()?;
        if connection.is_finished() {
            return Some(());
        }
        let count = socket.read(&mut buffer).ok().filter(|count| *count > 0)?;
        connection.receive(Bytes::copy_from_slice(&buffer[..count]));
        while let Some(event) = connection.poll_event().ok()? {
            handle(&mut connection, event)?;
        }
    }
}

fn target(address: &Address, expect: Expect) -> Target {
    let (authority, path) = ("localhost".to_owned(), "/".to_owned());
    let call = None;
    let traffic = Traffic::Http2 { authority, path, call, streams: STREAMS, expect };
    Target { address: address.clone(), tls: None, traffic }
}

fn load(address: &Address, expect: Expect) -> LoadOutcome {
    load_until(address, expect, is_something)
}

fn load_until(
    address: &Address,
    expect: Expect,
    says: impl Fn(&LoadOutcome) -> bool,
) -> LoadOutcome {
    let target = target(address, expect);
    until(|| consistent(run(&target, &plan()).unwrap()), says)
}

#[test]
fn every_stream_is_asked_again_and_again() {
    let address = server(None);
    let outcome = load_until(&address, pong(), |found| found.requests > 4 * u64::from(STREAMS));
    assert_eq!((outcome.errors.total(), outcome.reconnects), (0, 0), "{outcome:?}");
    check(&target(&address, pong()), Instant::now() + WAIT).unwrap();
}

#[test]
fn a_server_that_goes_away_is_connected_to_again() {
    let goes_on = |found: &LoadOutcome| found.reconnects > 0 && found.requests > 7;
    let outcome = load_until(&server(Some(7)), pong(), goes_on);
    assert_eq!(outcome.errors.total(), 0, "{outcome:?}");
}

#[test]
fn wrong_responses_are_errors() {
    let address = server(None);
    let status = load(&address, Expect { status: 204, ..Expect::default() });
    assert!(status.requests == 0 && status.errors.status > 0, "{status:?}");
    let length = load(&address, Expect { length: Some(5), body: None, ..pong() });
    assert!(length.requests == 0 && length.errors.length > 0, "{length:?}");
    let field = vec![("content-type".to_owned(), "text/plain".to_owned())];
    let both = |found: &LoadOutcome| found.requests > 0 && found.errors.header > 0;
    load_until(&address, Expect { headers: field, ..pong() }, both);
    let body = Expect { body: Some(b"ping".to_vec().into()), ..pong() };
    let verify = LoadPlan { verify: true, ..plan() };
    let target = target(&address, body);
    let outcome = until(|| consistent(run(&target, &verify).unwrap()), is_something);
    assert!(outcome.requests == 0 && outcome.errors.body > 0, "{outcome:?}");
    let why = check(&target, Instant::now() + WAIT).unwrap_err();
    assert_eq!(why, "does not answer rightly: wrong body");
}

/// Responds to a message with another, and never ends the stream.
fn held_server() -> Address {
    accepting(|connection, event| {
        let Event::Data { stream, ends: false, .. } = event else { return Some(()) };
        connection.respond(stream, 200, [], false).ok()?;
        connection.send_data(stream, Bytes::from_static(CALL), false).ok()
    })
}

#[test]
fn a_held_call_has_its_message_and_no_end() {
    let held = |body: &[u8]| {
        let length = Some(body.len() as u64);
        let expect = Expect { status: 200, length, body: Some(body.into()), ..Expect::default() };
        let mut target = target(&held_server(), expect);
        let Traffic::Http2 { call, .. } = &mut target.traffic else { unreachable!() };
        *call = Some(Call { content: Bytes::from_static(CALL), holds: true });
        let plan = plan();
        let mut client = BlockingClient::new(&target, &plan).unwrap();
        client.grow(3, 3, Instant::now() + WAIT).map_err(|why| why.to_string())
    };
    assert_eq!(held(CALL), Ok(()));
    assert_eq!(held(&[1; CALL.len()]), Err("wrong body".to_owned()));
}

/// Its response has an empty message and this status, in trailers unless it is only a status.
fn grpc_server(status: &'static [u8], only_status: bool) -> Address {
    accepting(move |connection, event| {
        let Event::Data { stream, data, ends: true } = event else { return Some(()) };
        assert_eq!(&data[..], CALL);
        let status = Field { known: None, name: b"grpc-status", value: status };
        if only_status {
            return connection.respond(stream, 200, [status], true).ok();
        }
        connection.respond(stream, 200, [], false).ok()?;
        connection.send_data(stream, Bytes::from_static(&[0; 5]), false).ok()?;
        connection.send_trailers(stream, [status]).ok()
    })
}

#[test]
fn calls_are_right_with_the_expected_trailers_only() {
    let called = |address: Address, more_than: u64| {
        let trailers = vec![("grpc-status".to_owned(), "0".to_owned())];
        let expect = Expect { status: 200, trailers, ..Expect::default() };
        let mut target = target(&address, expect);
        let Traffic::Http2 { call, .. } = &mut target.traffic else { unreachable!() };
        *call = Some(Call { content: Bytes::from_static(CALL), holds: false });
        let all = |found: &LoadOutcome| found.requests + found.errors.total();
        until(|| consistent(run(&target, &plan()).unwrap()), |found| all(found) > more_than)
    };
    let right = called(grpc_server(b"0", false), STREAMS.into());
    assert_eq!(right.errors.total(), 0, "{right:?}");
    for wrong in [called(grpc_server(b"2", false), 0), called(grpc_server(b"0", true), 0)] {
        assert!(wrong.requests == 0 && wrong.errors.header > 0, "{wrong:?}");
    }
}

#[test]
fn what_is_not_http2_is_a_framing_error() {
    let outcome = load(&super::says(b"HTTP/1.1 400 Bad Request\r\n\r\n").address, pong());
    assert!(outcome.requests == 0 && outcome.errors.framing > 0, "{outcome:?}");
}

#[test]
fn streams_have_their_limits() {
    let refused = |streams: u32, mode: Mode| {
        let mut target = target(&Address::Unix("/nowhere".into()), pong());
        let Traffic::Http2 { streams: wanted, .. } = &mut target.traffic else { unreachable!() };
        *wanted = streams;
        run(&target, &LoadPlan { mode, ..plan() }).unwrap_err().to_string()
    };
    assert_eq!(refused(0, Mode::Closed), "a connection has 1 to 1024 streams");
    assert_eq!(refused(1025, Mode::Closed), "a connection has 1 to 1024 streams");
    assert_eq!(refused(1, Mode::Open { rate: 10.0 }), "an open loop has no streams");
}
