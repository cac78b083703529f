//! Random operations of both sides of a connection against a model of what must arrive.

use super::*;

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

struct Exchange {
    client: StreamKey,
    server: Option<StreamKey>,
    up: Direction,
    down: Direction,
    has_response: bool,
    is_reset: bool,
}

struct World {
    random: fastrand::Rng,
    pair: Pair,
    exchanges: Vec<Exchange>,
    finished: usize,
}

impl World {
    fn step(&mut self) {
        match self.random.u64(..8) {
            0 => self.open(),
            1 | 2 => self.send(true),
            3 | 4 => self.send(false),
            5 => self.deliver(true),
            6 => self.deliver(false),
            _ if self.random.u64(..20) == 0 => self.reset(),
            _ => {}
        }
    }

    fn open(&mut self) {
        if self.pair.client.can_open().is_err() {
            return;
        }
        let client = self.pair.client.request(line(&Method::Post, "/"), [], false).unwrap();
        let (up, down) = Default::default();
        let exchange =
            Exchange { client, server: None, up, down, has_response: false, is_reset: false };
        self.exchanges.push(exchange);
    }

    fn pick(&mut self) -> Option<usize> {
        let bound = self.exchanges.len() as u64;
        (bound > 0).then(|| self.random.u64(..bound) as usize)
    }

    fn send(&mut self, up: bool) {
        let Some(at) = self.pick() else { return };
        let exchange = &mut self.exchanges[at];
        let (connection, key) = match (up, exchange.server) {
            (true, _) => (&mut self.pair.client, exchange.client),
            (false, Some(key)) => (&mut self.pair.server, key),
            (false, None) => return,
        };
        if !up && !exchange.has_response && connection.is_open(key) {
            let fields = [field("server", "t"), field("x-a", "b")];
            connection.respond(key, 200, fields, false).unwrap();
            exchange.has_response = true;
        }
        if !connection.is_ready(key) {
            return;
        }
        let len = self.random.usize(..40_000) >> self.random.u64(..12);
        let data: Bytes = (0..len).map(|byte| (byte * 7 + at) as u8).collect();
        // A response ends after its request, so that nothing is cut off.
        let may_end = up || exchange.up.end_arrived;
        let ends = may_end && self.random.u64(..4) == 0;
        let direction = if up { &mut exchange.up } else { &mut exchange.down };
        direction.sent.extend_from_slice(&data);
        direction.ended = ends;
        if ends && self.random.u64(..3) == 0 && data.is_empty() {
            connection.send_trailers(key, [field("x-sum", "1")]).unwrap();
        } else {
            connection.send_data(key, data, ends).unwrap();
        }
    }

    fn deliver(&mut self, to_server: bool) {
        let from = if to_server { &mut self.pair.client } else { &mut self.pair.server };
        let bytes = sent(from);
        while from.take_drained().is_some() {}
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let len = (1 + self.random.usize(..20_000)).min(rest.len());
            let (chunk, after) = rest.split_at(len);
            rest = after;
            let to = if to_server { &mut self.pair.server } else { &mut self.pair.client };
            for event in events(to, chunk).unwrap() {
                self.note(to_server, event);
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
                let to = if to_server { &mut self.pair.server } else { &mut self.pair.client };
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
        match exchange.server.filter(|_| self.random.u64(..2) == 0) {
            Some(key) => self.pair.server.reset(key, ErrorCode::CANCEL),
            None => self.pair.client.reset(exchange.client, ErrorCode::CANCEL),
        }
        self.exchanges.remove(at);
    }
}

#[test]
fn bodies_arrive_whole_and_in_order_whatever_the_order_of_operations() {
    for seed in 1..=30 {
        let config = Config { max_streams: 12, stream_window: 65_535, ..Config::default() };
        let mut world = World {
            random: fastrand::Rng::with_seed(seed),
            pair: Pair::new(config),
            exchanges: Vec::new(),
            finished: 0,
        };
        for _ in 0..1500 {
            world.step();
        }
        assert!(world.finished > 10, "seed {seed}: {} exchanges finished", world.finished);
        // Whatever is still open can be finished.
        for _ in 0..4000 {
            if world.exchanges.is_empty() {
                break;
            }
            world.send(true);
            world.send(false);
            world.deliver(true);
            world.deliver(false);
        }
        assert!(world.exchanges.is_empty(), "seed {seed}: {} left", world.exchanges.len());
        world.deliver(true);
        world.deliver(false);
        let left = (world.pair.client.streams(), world.pair.server.streams());
        assert_eq!(left, (0, 0), "seed {seed}");
    }
}
