//! The states of HTTP/2's streams (RFC 9113 5.1): a server that gets any frames in any order,
//! against a model of what each of them means.

use crate::FuzzTarget;
use crate::http2::{frame, opened, sent};
use bytes::Bytes;
use wire::h2::{Connection, ErrorCode, Event, StreamKey};

pub(crate) const TARGET: FuzzTarget = FuzzTarget {
    check,
    seeds: || {
        let script = |seed: u32, length: u32| -> Vec<u8> {
            (seed..seed + length).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
        };
        // Each state of a stream, then frames that do not fit.
        let states: [&[u8]; 6] = [
            &[0, 0, 3, 5, 8, 0, 9, 128, 3, 5],
            &[0, 128, 8, 128, 2, 128],
            &[0, 0, 2, 128, 8, 0, 9, 3, 3, 0],
            &[0, 0, 10, 0, 0, 0, 3, 0, 5, 0, 6, 0],
            &[0, 0, 11, 255, 0, 1, 3, 1, 2, 129, 8, 128],
            &[0, 3, 0, 1],
        ];
        let mut seeds: Vec<Vec<u8>> = states.iter().map(|states| states.to_vec()).collect();
        seeds.extend([script(7, 200), script(900, 600)]);
        seeds
    },
    dictionary: &[],
    cases: 4000,
};

/// Streams of the model.
const STREAMS: usize = 6;
const STEPS_MAX: usize = 400;
/// A request's section, and one of trailers, both as literals.
const REQUEST: &[u8] = b"\x83\x86\x84\x01\x01a";
const TRAILERS: &[u8] = b"\x00\x01x\x01y";

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
const RST_STREAM: u8 = 3;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

#[derive(Clone, Copy, Debug, PartialEq)]
enum StreamState {
    Idle,
    Open,
    /// The client has ended its message.
    HalfClosed,
    /// The server has reset it or takes no more streams: what the client sends is ignored.
    Ignored,
    /// Both sides have ended it, the client has reset it, or it was skipped.
    Closed,
}

/// What a frame leads to.
#[derive(Debug, PartialEq)]
enum Effect {
    Nothing,
    Request {
        ends: bool,
    },
    Data {
        length: usize,
        ends: bool,
    },
    Trailers,
    Malformed,
    Reset {
        by_peer: bool,
    },
    /// The connection ends.
    Violation,
}

struct Model {
    states: [StreamState; STREAMS],
    keys: [Option<StreamKey>; STREAMS],
    /// The response has begun.
    has_head: [bool; STREAMS],
    /// The server takes no more streams.
    is_ending: bool,
    /// The stream that the server has to reset in this step.
    reset: Option<(u32, ErrorCode)>,
}

/// The number of a stream.
fn id(stream: usize) -> u8 {
    1 + 2 * stream as u8
}

impl Model {
    fn is_open(&self, stream: usize) -> bool {
        matches!(self.states[stream], StreamState::Open | StreamState::HalfClosed)
    }

    fn resets(&mut self, stream: usize, code: ErrorCode) {
        self.states[stream] = StreamState::Ignored;
        self.reset = Some((u32::from(id(stream)), code));
    }

    fn fails(&mut self, stream: usize, code: ErrorCode, effect: Effect) -> Effect {
        self.resets(stream, code);
        effect
    }

    /// The first HEADERS of a stream, which skips those below.
    fn opens(&mut self, stream: usize, state: StreamState) {
        for below in &mut self.states[..stream] {
            if *below == StreamState::Idle {
                *below = StreamState::Closed;
            }
        }
        self.states[stream] = state;
    }

    fn headers(&mut self, stream: usize, is_request: bool, ends: bool) -> Effect {
        match self.states[stream] {
            StreamState::Idle if self.is_ending => {
                self.opens(stream, StreamState::Ignored);
                Effect::Nothing
            }
            StreamState::Idle if is_request => {
                self.opens(stream, if ends { StreamState::HalfClosed } else { StreamState::Open });
                Effect::Request { ends }
            }
            StreamState::Idle => {
                self.opens(stream, StreamState::Ignored);
                self.fails(stream, ErrorCode::PROTOCOL_ERROR, Effect::Malformed)
            }
            StreamState::Open if !is_request && ends => {
                self.states[stream] = StreamState::HalfClosed;
                Effect::Trailers
            }
            StreamState::Open => self.fails(stream, ErrorCode::PROTOCOL_ERROR, Effect::Malformed),
            StreamState::HalfClosed => self.ended(stream),
            StreamState::Closed if !self.is_ending => Effect::Violation,
            StreamState::Ignored | StreamState::Closed => Effect::Nothing,
        }
    }

    /// A part of a message follows its end.
    fn ended(&mut self, stream: usize) -> Effect {
        self.fails(stream, ErrorCode::STREAM_CLOSED, Effect::Reset { by_peer: false })
    }

    fn data(&mut self, stream: usize, length: usize, ends: bool) -> Effect {
        match self.states[stream] {
            StreamState::Idle | StreamState::Closed => Effect::Violation,
            StreamState::Open => {
                if ends {
                    self.states[stream] = StreamState::HalfClosed;
                }
                if ends || length > 0 { Effect::Data { length, ends } } else { Effect::Nothing }
            }
            StreamState::HalfClosed => self.ended(stream),
            StreamState::Ignored => Effect::Nothing,
        }
    }

    fn rst_stream(&mut self, stream: usize) -> Effect {
        match self.states[stream] {
            StreamState::Idle => Effect::Violation,
            StreamState::Open | StreamState::HalfClosed => {
                self.states[stream] = StreamState::Closed;
                Effect::Reset { by_peer: true }
            }
            StreamState::Ignored | StreamState::Closed => Effect::Nothing,
        }
    }

    fn window_update(&mut self, stream: usize, increment: u32) -> Effect {
        match (self.states[stream], increment) {
            (StreamState::Idle, _) => Effect::Violation,
            (StreamState::Open | StreamState::HalfClosed, 0) => {
                let effect = Effect::Reset { by_peer: false };
                self.fails(stream, ErrorCode::PROTOCOL_ERROR, effect)
            }
            (StreamState::Open | StreamState::HalfClosed, 0x7fff_ffff) => {
                let effect = Effect::Reset { by_peer: false };
                self.fails(stream, ErrorCode::FLOW_CONTROL_ERROR, effect)
            }
            _ => Effect::Nothing,
        }
    }

    /// The response has ended: the client need not send the rest of its request.
    fn response_ends(&mut self, stream: usize) {
        match self.states[stream] {
            StreamState::Open => self.resets(stream, ErrorCode::NO_ERROR),
            _ => self.states[stream] = StreamState::Closed,
        }
    }
}

fn check(script: &[u8]) {
    let mut server = opened(true);
    sent(&mut server);
    let mut model = Model {
        states: [StreamState::Idle; STREAMS],
        keys: [None; STREAMS],
        has_head: [false; STREAMS],
        is_ending: false,
        reset: None,
    };
    for step in script.chunks_exact(2).take(STEPS_MAX) {
        server.elapsed(100);
        let (operation, argument) = (step[0] % 12, step[1]);
        match operation {
            0..=7 => {
                let (bytes, expected) = receive(&mut model, operation, argument);
                let effect = effect(&mut server, &mut model, bytes);
                assert_eq!(effect, expected, "{step:?} {:?}", model.states);
                if effect == Effect::Violation {
                    return;
                }
            }
            11 if argument == 255 => {
                server.close_to_new_streams();
                model.is_ending = true;
            }
            _ => apply(&mut server, &mut model, operation, argument),
        }
        let resets: Vec<_> = model.reset.take().into_iter().collect();
        assert_eq!(resets_in(&sent(&mut server)), resets, "{step:?} {:?}", model.states);
        let open = (0..STREAMS).filter(|stream| model.is_open(*stream));
        assert_eq!(server.streams(), open.count(), "{step:?} {:?}", model.states);
    }
}

/// A frame, and what it means.
fn receive(model: &mut Model, operation: u8, argument: u8) -> (Vec<u8>, Effect) {
    let (stream, ends) = (usize::from(argument) % STREAMS, argument >= 128);
    let (id, flags) = (id(stream), if ends { END_STREAM } else { 0 });
    match operation {
        0 | 1 => {
            let bytes = frame(HEADERS, END_HEADERS | flags, id, REQUEST);
            (bytes, model.headers(stream, true, ends))
        }
        2 => {
            let bytes = frame(HEADERS, END_HEADERS | flags, id, TRAILERS);
            (bytes, model.headers(stream, false, ends))
        }
        3 | 4 => {
            let length = usize::from(argument % 64);
            (frame(DATA, flags, id, &vec![b'd'; length]), model.data(stream, length, ends))
        }
        5 => (frame(RST_STREAM, 0, id, &[0, 0, 0, 8]), model.rst_stream(stream)),
        6 => {
            let increment = [0, 1, 0x7fff_ffff][usize::from(argument) / STREAMS % 3];
            let bytes = frame(WINDOW_UPDATE, 0, id, &u32::to_be_bytes(increment));
            (bytes, model.window_update(stream, increment))
        }
        _ => (frame(PRIORITY, 0, id, &[0, 0, 0, 0, 16]), Effect::Nothing),
    }
}

/// What the server makes of a frame.
fn effect(server: &mut Connection, model: &mut Model, bytes: Vec<u8>) -> Effect {
    server.receive(Bytes::from(bytes));
    let mut effect = Effect::Nothing;
    loop {
        let next = match server.poll_event() {
            Ok(None) => return effect,
            Ok(Some(Event::Request { stream, ends, .. })) => {
                model.keys[stream.id as usize / 2] = Some(stream);
                Effect::Request { ends }
            }
            Ok(Some(Event::Data { stream, data, ends })) => {
                server.release(stream, data.len());
                Effect::Data { length: data.len(), ends }
            }
            Ok(Some(Event::Trailers { .. })) => Effect::Trailers,
            Ok(Some(Event::Malformed { .. })) => Effect::Malformed,
            Ok(Some(Event::Reset { by_peer, .. })) => Effect::Reset { by_peer },
            Ok(Some(other)) => panic!("{other:?}"),
            Err(violation) => {
                let goaway = sent(server);
                assert!(goaway.ends_with(&violation.code().0.to_be_bytes()), "GOAWAY says why");
                return Effect::Violation;
            }
        };
        assert_eq!(effect, Effect::Nothing, "one event for a frame");
        effect = next;
    }
}

/// What the application does.
fn apply(server: &mut Connection, model: &mut Model, operation: u8, argument: u8) {
    let (stream, ends) = (usize::from(argument) % STREAMS, argument >= 128);
    let Some(key) = model.keys[stream] else { return };
    let (is_open, has_head) = (model.is_open(stream), model.has_head[stream]);
    assert_eq!(server.is_open(key), is_open);
    assert_eq!(server.is_ready(key), is_open && has_head);
    match operation {
        8 => {
            let responded = server.respond(key, 200, [], ends);
            assert_eq!(responded.is_ok(), is_open && !has_head);
            if responded.is_ok() {
                model.has_head[stream] = true;
                if ends {
                    model.response_ends(stream);
                }
            }
        }
        9 => {
            let data = Bytes::from(vec![0; usize::from(argument % 64)]);
            let taken = server.send_data(key, data, ends);
            assert_eq!(taken.is_ok(), is_open && has_head);
            if taken.is_ok() && ends {
                model.response_ends(stream);
            }
        }
        10 => {
            server.reset(key, ErrorCode::CANCEL);
            if is_open {
                model.resets(stream, ErrorCode::CANCEL);
            }
        }
        _ => {}
    }
}

/// The streams that are reset in these frames, with the codes.
fn resets_in(mut bytes: &[u8]) -> Vec<(u32, ErrorCode)> {
    let mut resets = Vec::new();
    while let Some((header, rest)) = bytes.split_first_chunk::<9>() {
        let &[l0, l1, l2, kind, _, s0, s1, s2, s3] = header;
        let (payload, rest) = rest.split_at(u32::from_be_bytes([0, l0, l1, l2]) as usize);
        if kind == RST_STREAM {
            let code = payload.try_into().expect("a payload of four bytes");
            let stream = u32::from_be_bytes([s0, s1, s2, s3]);
            resets.push((stream, ErrorCode(u32::from_be_bytes(code))));
        }
        assert!(kind <= GOAWAY || kind == WINDOW_UPDATE, "a frame of type {kind}");
        bytes = rest;
    }
    assert!(bytes.is_empty(), "a part of a frame");
    resets
}
