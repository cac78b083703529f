//! Operations of both sides of a connection in any order, against a model of what must arrive.
//!
//! A test chooses the operations at random; the fuzz target `h2_bodies` compiles this file a
//! second time and chooses them by its input.

use super::{
    Bytes, Config, Connection, ErrorCode, Event, Field, Method, RequestLine, StreamKey, sent,
};

/// Streams that may be open at once.
const STREAMS: usize = 12;

/// What one direction of a stream has sent, and what has arrived of it.
#[derive(Default)]
struct Direction {
    sent: Vec<u8>,
    arrived: Vec<u8>,
    ended: bool,
    end_arrived: bool,
}

impl Direction {
    fn check(&self, what: &str) {
        assert!(self.sent.starts_with(&self.arrived), "{what}: bytes changed");
        assert!(!self.end_arrived || (self.ended && self.arrived == self.sent), "{what}: end");
    }
}

const FIELD: Field<'static> = Field { known: None, name: b"x-a", value: b"b" };

struct Exchange {
    client: StreamKey,
    server: Option<StreamKey>,
    up: Direction,
    down: Direction,
    has_response: bool,
    is_reset: bool,
}

/// Both sides, and what is open between them.
pub(super) struct World<'a> {
    /// Chooses a number below a bound.
    choose: &'a mut dyn FnMut(usize) -> usize,
    client: Connection,
    server: Connection,
    exchanges: Vec<Exchange>,
    /// Exchanges that both sides have ended.
    pub(super) finished: usize,
}

impl<'a> World<'a> {
    pub(super) fn new(choose: &'a mut dyn FnMut(usize) -> usize) -> World<'a> {
        let config =
            Config { max_streams: STREAMS as u32, stream_window: 65_535, ..Config::default() };
        let (client, server) = (Connection::client(Config::default()), Connection::server(config));
        let mut world = World { choose, client, server, exchanges: Vec::new(), finished: 0 };
        for _ in 0..2 {
            world.deliver(true);
            world.deliver(false);
        }
        world
    }

    /// Whatever is still open can be finished, and leaves nothing.
    pub(super) fn finish(&mut self) {
        for _ in 0..4000 {
            if self.exchanges.is_empty() {
                break;
            }
            self.send(true);
            self.send(false);
            self.deliver(true);
            self.deliver(false);
        }
        assert!(self.exchanges.is_empty(), "{} exchanges do not end", self.exchanges.len());
        self.deliver(true);
        self.deliver(false);
        assert_eq!((self.client.streams(), self.server.streams()), (0, 0), "streams left");
    }

    pub(super) fn step(&mut self) {
        match (self.choose)(8) {
            0 => self.open(),
            1 | 2 => self.send(true),
            3 | 4 => self.send(false),
            5 => self.deliver(true),
            6 => self.deliver(false),
            _ if (self.choose)(20) == 0 => self.reset(),
            _ => {}
        }
    }

    fn open(&mut self) {
        if self.client.can_open().is_err() {
            return;
        }
        assert!(self.exchanges.len() <= STREAMS);
        let (method, authority) = (&Method::Post, &b"example.com"[..]);
        let line = RequestLine { method, secure: false, authority, path: b"/", protocol: None };
        let client = self.client.request(line, [], false).expect("it can open a stream");
        let (up, down) = Default::default();
        let exchange =
            Exchange { client, server: None, up, down, has_response: false, is_reset: false };
        self.exchanges.push(exchange);
    }

    fn pick(&mut self) -> Option<usize> {
        let bound = self.exchanges.len();
        (bound > 0).then(|| (self.choose)(bound))
    }

    fn send(&mut self, up: bool) {
        let Some(at) = self.pick() else { return };
        let exchange = &mut self.exchanges[at];
        let (connection, key) = match (up, exchange.server) {
            (true, _) => (&mut self.client, exchange.client),
            (false, Some(key)) => (&mut self.server, key),
            (false, None) => return,
        };
        if !up && !exchange.has_response && connection.is_open(key) {
            connection.respond(key, 200, [FIELD], false).expect("no response precedes it");
            exchange.has_response = true;
        }
        if !connection.is_ready(key) {
            return;
        }
        let len = (self.choose)(40_000) >> (self.choose)(12);
        let data: Bytes = (0..len).map(|byte| (byte * 7 + at) as u8).collect();
        // A response ends after its request, so that nothing is cut off.
        let may_end = up || exchange.up.end_arrived;
        let ends = may_end && (self.choose)(4) == 0;
        let direction = if up { &mut exchange.up } else { &mut exchange.down };
        direction.sent.extend_from_slice(&data);
        direction.ended = ends;
        if ends && (self.choose)(3) == 0 && data.is_empty() {
            connection.send_trailers(key, [FIELD]).expect("the stream takes more");
        } else {
            connection.send_data(key, data, ends).expect("the stream takes more");
        }
    }

    fn deliver(&mut self, to_server: bool) {
        let from = if to_server { &mut self.client } else { &mut self.server };
        let bytes = sent(from);
        while from.take_drained().is_some() {}
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let len = (1 + (self.choose)(20_000)).min(rest.len());
            let (chunk, after) = rest.split_at(len);
            rest = after;
            let to = if to_server { &mut self.server } else { &mut self.client };
            to.receive(Bytes::copy_from_slice(chunk));
            loop {
                let to = if to_server { &mut self.server } else { &mut self.client };
                match to.poll_event().expect("both sides obey the protocol") {
                    Some(event) => self.note(to_server, event),
                    None => break,
                }
            }
        }
    }

    fn note(&mut self, to_server: bool, event: Event) {
        let (Event::Request { stream, .. }
        | Event::Response { stream, .. }
        | Event::Data { stream, .. }
        | Event::Trailers { stream }
        | Event::Reset { stream, .. }) = event
        else {
            panic!("{event:?}")
        };
        let exchange = self.exchanges.iter_mut().find(|other| other.client.id == stream.id);
        let Some(exchange) = exchange else { return };
        match event {
            Event::Request { stream, .. } => exchange.server = Some(stream),
            Event::Response { status, .. } => assert_eq!(status, 200),
            Event::Reset { .. } => assert!(exchange.is_reset),
            Event::Data { data, ends, .. } => {
                let direction = if to_server { &mut exchange.up } else { &mut exchange.down };
                direction.arrived.extend_from_slice(&data);
                direction.end_arrived |= ends;
                direction.check("data");
                let to = if to_server { &mut self.server } else { &mut self.client };
                to.release(stream, data.len());
            }
            _ => {
                let direction = if to_server { &mut exchange.up } else { &mut exchange.down };
                direction.end_arrived = true;
                direction.check("trailers");
            }
        }
        if exchange.down.end_arrived && exchange.up.end_arrived {
            self.finished += 1;
            let id = stream.id;
            self.exchanges.retain(|other| other.client.id != id);
        }
    }

    fn reset(&mut self) {
        let Some(at) = self.pick() else { return };
        let exchange = &mut self.exchanges[at];
        exchange.is_reset = true;
        match exchange.server.filter(|_| (self.choose)(2) == 0) {
            Some(key) => self.server.reset(key, ErrorCode::CANCEL),
            None => self.client.reset(exchange.client, ErrorCode::CANCEL),
        }
        self.exchanges.remove(at);
    }
}
