//! Connections against connections, and against frames that are made by hand.

mod floods;
mod messages;
mod model;
mod rules;

use bytes::Bytes;

use super::connection::{Connection, Event, Field, Output, RequestLine};
use super::{Config, ErrorCode, PREFACE, StreamKey, Violation, frame};
use crate::{Known, Method, Reject};

/// Everything that a connection sent, as one text.
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

fn sent(connection: &mut Connection) -> Vec<u8> {
    let mut sent = Sent::default();
    connection.write(&mut sent, usize::MAX);
    sent.0
}

/// Takes all events of the bytes.
fn events(connection: &mut Connection, bytes: &[u8]) -> Result<Vec<Event>, Violation> {
    connection.receive(Bytes::copy_from_slice(bytes));
    let mut events = Vec::new();
    while let Some(event) = connection.poll_event()? {
        events.push(event);
    }
    Ok(events)
}

fn field<'a>(name: &'a str, value: &'a str) -> Field<'a> {
    let known = Known::from_bytes(name.as_bytes());
    Field { known, name: name.as_bytes(), value: value.as_bytes() }
}

/// The fields of the last section as lines.
fn lines(connection: &Connection) -> Vec<String> {
    let fields = connection.fields();
    let line = |field: &crate::h1::FieldSpan| {
        let text =
            |span: crate::h1::Span| String::from_utf8_lossy(span.of(&fields.text)).into_owned();
        format!("{}: {}", text(field.name()), text(field.value()))
    };
    fields.spans.iter().map(line).collect()
}

/// The frames in the bytes: type, flags, stream and payload.
fn frames(mut bytes: &[u8]) -> Vec<(u8, u8, u32, Vec<u8>)> {
    let mut frames = Vec::new();
    while let Some((header, rest)) = bytes.split_first_chunk() {
        let header = frame::FrameHeader::parse(header);
        let (payload, rest) = rest.split_at(header.len);
        frames.push((header.kind, header.flags, header.stream, payload.to_vec()));
        bytes = rest;
    }
    assert!(bytes.is_empty(), "part of a frame");
    frames
}

/// A client and a server whose bytes are passed on by hand.
struct Pair {
    client: Connection,
    server: Connection,
}

impl Pair {
    fn new(server: Config) -> Pair {
        let client = Connection::client(Config::default());
        let mut pair = Pair { client, server: Connection::server(server) };
        assert!(pair.pass_to_server().is_empty() && pair.pass_to_client().is_empty());
        assert!(pair.pass_to_server().is_empty() && pair.pass_to_client().is_empty());
        pair
    }

    fn pass_to_server(&mut self) -> Vec<Event> {
        let bytes = sent(&mut self.client);
        events(&mut self.server, &bytes).unwrap()
    }

    fn pass_to_client(&mut self) -> Vec<Event> {
        let bytes = sent(&mut self.server);
        events(&mut self.client, &bytes).unwrap()
    }

    /// Sends a request and returns its stream on both sides.
    fn open(&mut self, method: Method, ends: bool) -> (StreamKey, StreamKey) {
        let client = self.client.request(line(&method, "/"), [], ends).unwrap();
        match &self.pass_to_server()[..] {
            [Event::Request { stream, .. }] => (client, *stream),
            other => panic!("{other:?}"),
        }
    }
}

fn line<'a>(method: &'a Method, path: &'a str) -> RequestLine<'a> {
    let (authority, path) = (&b"example.com"[..], path.as_bytes());
    RequestLine { method, secure: false, authority, path, protocol: None }
}

/// A server that has seen the preface and settings of a client made by hand.
fn server_with(config: Config) -> Connection {
    let mut server = Connection::server(config);
    let mut bytes = PREFACE.to_vec();
    frame::write(&mut bytes, frame::SETTINGS, 0, 0, b"");
    assert!(events(&mut server, &bytes).unwrap().is_empty());
    sent(&mut server);
    server
}

fn server() -> Connection {
    server_with(Config::default())
}

fn frame_of(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame::write(&mut bytes, kind, flags, stream, payload);
    bytes
}

/// A field block of literals without indexing.
fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name, value] {
            assert!(text.len() < 127);
            block.push(text.len() as u8);
            block.extend_from_slice(text.as_bytes());
        }
    }
    block
}

const GET: &[(&str, &str)] =
    &[(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "a")];
const POST: &[(&str, &str)] =
    &[(":method", "POST"), (":scheme", "http"), (":path", "/"), (":authority", "a")];

/// HEADERS that is a section of its own.
fn headers(stream: u32, ends: bool, fields: &[(&str, &str)]) -> Vec<u8> {
    let flags = frame::END_HEADERS | if ends { frame::END_STREAM } else { 0 };
    frame_of(frame::HEADERS, flags, stream, &block(fields))
}

/// The codes of RST_STREAM that the connection sends.
fn resets(connection: &mut Connection) -> Vec<(u32, ErrorCode)> {
    let frames = frames(&sent(connection)).into_iter();
    let resets = frames.filter(|(kind, ..)| *kind == frame::RST_STREAM);
    resets
        .map(|(_, _, id, payload)| (id, ErrorCode(u32::from_be_bytes(payload.try_into().unwrap()))))
        .collect()
}

#[test]
fn bodies_arrive_whole_and_in_order_whatever_the_order_of_operations() {
    for seed in 1..=30 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut choose = |bound| random.usize(..bound);
        let mut world = model::World::new(&mut choose);
        for _ in 0..1500 {
            world.step();
        }
        assert!(world.finished > 10, "seed {seed}: {} exchanges finished", world.finished);
        world.finish();
    }
}
