//! Frames, field blocks and connections of HTTP/2.

use crate::{FuzzTarget, owned};
use bytes::Bytes;
use wire::h2::{
    Config, Connection, Decoder, Encoder, ErrorCode, Event, Field, Output, PREFACE, RequestLine,
    StreamKey, Violation,
};
use wire::{Known, Method};

#[path = "../../../crates/wire/src/h2/tests/model.rs"]
mod model;

pub(crate) const FRAMES: FuzzTarget = FuzzTarget {
    check: frames,
    seeds: || vec![requests(), response()],
    dictionary: &["\0\0\0", "\u{1}\u{4}\0\0\0\u{1}", "\u{4}", "\u{9}"],
    cases: 2000,
};

pub(crate) const HPACK: FuzzTarget = FuzzTarget {
    check: hpack,
    seeds: || {
        let huffman = b"\x82\x86\x84\x41\x8c\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff";
        owned(&[REQUEST, huffman, &[0x20, 0x3f, 0x05]])
    },
    dictionary: &["@", "\u{1}x", "A", " "],
    cases: 4500,
};

pub(crate) const CONNECTION: FuzzTarget = FuzzTarget {
    check: connection,
    seeds: || {
        let script: Vec<u8> =
            (0..400u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        vec![script, vec![0, 0, 5, 0, 2, 1, 3, 200, 6, 0]]
    },
    dictionary: &[],
    cases: 700,
};

pub(crate) const BODIES: FuzzTarget = FuzzTarget {
    check: bodies,
    seeds: || {
        let script = |seed: u32, length: u32| -> Vec<u8> {
            (seed..seed + length).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
        };
        vec![script(0, 300), script(1000, 1500), script(5000, 4000)]
    },
    dictionary: &[],
    cases: 100,
};

/// A field block.
const REQUEST: &[u8] = b"\x83\x86\x84\x41\x01a\x40\x01x\x01y\xbe";

pub(crate) fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0, 0, payload.len() as u8, kind, flags, 0, 0, 0, stream];
    frame.extend_from_slice(payload);
    frame
}

fn requests() -> Vec<u8> {
    [
        frame(1, 4, 1, REQUEST),
        frame(0, 8, 1, b"\x02abc\0\0"),
        frame(8, 0, 1, b"\0\0\0\x01"),
        frame(1, 5, 1, b"\0\x01t\x01u"),
        frame(1, 0, 3, &REQUEST[..4]),
        frame(9, 4, 3, &REQUEST[4..]),
        frame(3, 0, 3, b"\0\0\0\x08"),
        frame(6, 0, 0, b"12345678"),
        frame(16, 0, 0, b"\0\0\0\x05u=1"),
    ]
    .concat()
}

fn response() -> Vec<u8> {
    [frame(1, 4, 1, b"\x88\x0f\x0d\x013"), frame(0, 1, 1, b"abc"), frame(7, 0, 0, &[0; 8])].concat()
}

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

pub(crate) fn sent(connection: &mut Connection) -> Vec<u8> {
    let mut sent = Sent::default();
    connection.write(&mut sent, usize::MAX);
    sent.0
}

/// Any bytes after the opening of a connection, received by a server and by a client with one
/// request, as a whole and split.
fn frames(data: &[u8]) {
    for is_server in [true, false] {
        let whole = received(is_server, &[data]);
        if let Some(violation) = whole.violation {
            assert!(whole.output.ends_with(&violation.code().0.to_be_bytes()), "GOAWAY says why");
        }
        let single: Vec<&[u8]> = data.chunks(1).collect();
        assert_eq!(received(is_server, &single), whole, "byte by byte");
        for cut in [data.len() / 3, data.len() / 2] {
            let (left, right) = data.split_at(cut);
            assert_eq!(received(is_server, &[left, right]), whole, "cut at {cut}");
        }
    }
}

/// What a side made of the bytes, without the places at which data was cut.
#[derive(Debug, Default, PartialEq)]
struct Received {
    events: Vec<String>,
    violation: Option<Violation>,
    output: Vec<u8>,
}

fn received(is_server: bool, pieces: &[&[u8]]) -> Received {
    let mut connection = opened(is_server);
    let mut received = Received::default();
    'pieces: for piece in pieces {
        connection.receive(Bytes::copy_from_slice(piece));
        loop {
            match connection.poll_event() {
                Ok(None) => break,
                Ok(Some(event)) => received.note(&mut connection, event),
                Err(violation) => {
                    received.violation = Some(violation);
                    break 'pieces;
                }
            }
        }
    }
    received.output = sent(&mut connection);
    received
}

impl Received {
    fn note(&mut self, connection: &mut Connection, event: Event) {
        let fields = connection.fields();
        for span in &fields.spans {
            let (name, value) = (span.name().of(&fields.text), span.value().of(&fields.text));
            assert!(!name.is_empty() && !name.iter().any(u8::is_ascii_uppercase), "{name:?}");
            assert!(!value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)), "{value:?}");
            assert_eq!(span.known, Known::from_bytes(name));
        }
        let text = match event {
            Event::Data { stream, data, ends } => {
                let id = stream.id;
                // Data is passed on as it arrives, so its bytes are compared one by one.
                self.events.extend(data.iter().map(|byte| format!("{id}: {byte}")));
                if !ends {
                    return;
                }
                format!("{id} ends")
            }
            Event::Request { .. } | Event::Response { .. } | Event::Trailers { .. } => {
                format!("{event:?} {:?} {:?}", fields.text, fields.spans)
            }
            other => format!("{other:?}"),
        };
        self.events.push(text);
    }
}

/// A side that has seen the opening of the other.
pub(crate) fn opened(is_server: bool) -> Connection {
    const SETTINGS: &[u8] = b"\0\0\0\x04\0\0\0\0\0";
    let mut connection = if is_server {
        let mut server = Connection::server(Config::default());
        server.receive(Bytes::from([&PREFACE[..], SETTINGS].concat()));
        server
    } else {
        let mut client = Connection::client(Config::default());
        client.request(line(&Method::Get), [], true).expect("the first stream");
        client.receive(Bytes::from_static(SETTINGS));
        client
    };
    assert!(matches!(connection.poll_event(), Ok(None)));
    connection
}

fn line(method: &Method) -> RequestLine<'_> {
    RequestLine { method, secure: true, authority: b"a", path: b"/", protocol: None }
}

/// Any bytes as field blocks: what is decoded can be encoded, and is decoded to the same.
fn hpack(data: &[u8]) {
    let (mut decoder, mut encoder, mut second) =
        (Decoder::default(), Encoder::default(), Decoder::default());
    for block in data.chunks(64) {
        let mut list = Vec::new();
        let mut note = |name: &[u8], value: &[u8]| list.push((name.to_vec(), value.to_vec()));
        if decoder.decode(block, usize::MAX, |_, name, value| note(name, value)).is_err() {
            return;
        }
        let mut encoded = Vec::new();
        encoder.begin(&mut encoded);
        for (name, value) in &list {
            encoder.field(&mut encoded, Known::from_bytes(name), name, value);
        }
        let mut again = Vec::new();
        let decoded = second.decode(&encoded, usize::MAX, |_, name, value| {
            again.push((name.to_vec(), value.to_vec()))
        });
        assert!(decoded.is_ok(), "what was encoded can be decoded");
        list.iter_mut().for_each(|(name, _)| name.make_ascii_lowercase());
        assert_eq!(again, list);
    }
}

/// Any bytes as a script of what both sides of a connection do: neither ever violates the protocol,
/// and bodies arrive as they were sent.
fn connection(script: &[u8]) {
    let mut pair = Pair {
        client: Connection::client(Config::default()),
        server: Connection::server(Config { max_streams: 5, ..Config::default() }),
        bodies: Vec::new(),
    };
    for step in script.chunks_exact(2) {
        pair.step(step[0], usize::from(step[1]));
    }
    for _ in 0..3 {
        pair.deliver(true);
        pair.deliver(false);
    }
}

/// Any bytes as the choices of a model of both sides: bodies arrive whole and in order, every
/// exchange can be finished, and no stream is left.
fn bodies(script: &[u8]) {
    let mut bytes = script.iter().copied();
    let mut choose = |bound: usize| {
        let mut byte = || usize::from(bytes.next().unwrap_or(0));
        let number = if bound > 256 { byte() << 8 | byte() } else { byte() };
        number % bound
    };
    let mut world = model::World::new(&mut choose);
    for _ in 0..script.len() / 3 {
        world.step();
    }
    world.finish();
}

struct Pair {
    client: Connection,
    server: Connection,
    bodies: Vec<Body>,
}

/// What the client sends on one stream, and the server's end of it.
struct Body {
    client: StreamKey,
    server: Option<StreamKey>,
    sent: usize,
    arrived: usize,
}

impl Pair {
    fn step(&mut self, operation: u8, argument: usize) {
        let at = argument % self.bodies.len().max(1);
        let body = self.bodies.get_mut(at);
        match (operation % 9, body) {
            (0, _) => {
                if let Ok(client) = self.client.request(line(&Method::Post), [], false) {
                    self.bodies.push(Body { client, server: None, sent: 0, arrived: 0 });
                }
            }
            (1, Some(body)) if self.client.is_ready(body.client) => {
                let len = argument * 200;
                body.sent += len;
                let data = Bytes::from(vec![body.client.id as u8; len]);
                assert!(
                    self.client.send_data(body.client, data, argument.is_multiple_of(3)).is_ok()
                );
            }
            (2, Some(Body { server: Some(key), .. })) => {
                let value = [b'v'; 40];
                let field = Field { known: Some(Known::Server), name: b"", value: &value };
                // Refused if it has been responded to, or has ended.
                let _ = self.server.respond(*key, 200, [field], argument.is_multiple_of(5));
            }
            (3, Some(Body { server: Some(key), .. })) if self.server.is_ready(*key) => {
                let data = Bytes::from(vec![0; argument * 300]);
                assert!(self.server.send_data(*key, data, argument.is_multiple_of(3)).is_ok());
            }
            (4, Some(Body { server: Some(key), .. })) if self.server.is_ready(*key) => {
                assert!(self.server.send_trailers(*key, []).is_ok());
            }
            (5, _) => self.deliver(true),
            (6, _) => self.deliver(false),
            (7, Some(body)) if argument.is_multiple_of(4) => {
                self.client.reset(body.client, ErrorCode::CANCEL);
            }
            (8, Some(Body { server: Some(key), .. })) if argument.is_multiple_of(4) => {
                self.server.reset(*key, ErrorCode::INTERNAL_ERROR);
            }
            (8, _) if argument == 255 => self.server.shut_down(),
            _ => {}
        }
    }

    fn deliver(&mut self, to_server: bool) {
        let (from, to) = match to_server {
            true => (&mut self.client, &mut self.server),
            false => (&mut self.server, &mut self.client),
        };
        to.elapsed(100);
        to.receive(Bytes::from(sent(from)));
        while let Some(event) = to.poll_event().expect("a side that obeys the protocol") {
            match event {
                Event::Request { stream, .. } => {
                    let body = self.bodies.iter_mut().find(|body| body.client.id == stream.id);
                    body.expect("a stream of the client").server = Some(stream);
                }
                Event::Data { stream, data, .. } => {
                    to.release(stream, data.len());
                    if to_server {
                        let body = self.bodies.iter_mut().find(|body| body.client.id == stream.id);
                        let body = body.expect("a stream of the client");
                        body.arrived += data.len();
                        assert!(body.arrived <= body.sent);
                        assert!(data.iter().all(|&byte| byte == stream.id as u8));
                    }
                }
                Event::Malformed { .. } | Event::Rejected { .. } => panic!("{event:?}"),
                _ => {}
            }
        }
    }
}
