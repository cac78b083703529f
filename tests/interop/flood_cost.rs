//! What floods of HTTP/2 cost: instructions of the protocol's code, which callgrind counts,
//! compared with those of ordinary requests. No time is measured.
//!
//! Budgets end a flood after a bounded number of frames. Here the peer sends as slowly as budgets
//! are refunded, so that the connection lives: no round may cost more than the requests that the
//! peer could send instead, and the last rounds no more than the first.

use crate::tools::has;
use bytes::Bytes;
use scenarios::{PATIENCE, Process, frame};
use std::process::Command;
use tempfile::TempDir;
use wire::h2::{Config, Connection, Event, Output, PREFACE};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
const PRIORITY_UPDATE: u8 = 16;

const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;

/// The rounds of a short and a long run.
const ROUNDS: [u32; 2] = [50, 250];
/// Streams that are open from the beginning.
const OPEN: u32 = 100;
/// Received bytes that a flood may have processed for the price of a request.
const BYTES_PER_REQUEST: usize = 48;

/// What a peer sends again and again.
struct Flood {
    name: &'static str,
    /// How many requests a round may cost, unless its length allows more.
    requests: f64,
    /// Requests are responded to before the next round.
    responds: bool,
    round: fn(u32) -> Vec<u8>,
}

const fn flood(name: &'static str, requests: f64, round: fn(u32) -> Vec<u8>) -> Flood {
    Flood { name, requests, responds: true, round }
}

/// Its requests are reset before their response.
const fn resets(name: &'static str, round: fn(u32) -> Vec<u8>) -> Flood {
    Flood { name, requests: 1.2, responds: false, round }
}

/// The first are the requests that the others are compared with.
const FLOODS: [Flood; 16] = [
    flood("requests", 1.0, |round| request(round, END_STREAM)),
    resets("rapid reset", |round| {
        [request(round, END_STREAM), on_stream(RST_STREAM, 0, round, &[0, 0, 0, 8])].concat()
    }),
    resets("MadeYouReset, window", |round| {
        [request(round, END_STREAM), on_stream(WINDOW_UPDATE, 0, round, &[0; 4])].concat()
    }),
    resets("MadeYouReset, data", |round| {
        [request(round, END_STREAM), on_stream(DATA, 0, round, b"data")].concat()
    }),
    flood("malformed requests", 1.2, |round| {
        on_stream(HEADERS, END_HEADERS | END_STREAM, round, &literals(&[(b":method", b"GET")]))
    }),
    flood("CONTINUATION", 1.5, |round| {
        let mut frames = on_stream(HEADERS, END_STREAM, round, &get());
        for _ in 0..15 {
            frames.extend(on_stream(CONTINUATION, 0, round, b""));
        }
        frames.extend(on_stream(CONTINUATION, END_HEADERS, round, b""));
        frames
    }),
    flood("SETTINGS", 0.5, |_| frame(SETTINGS, 0, 0, b"\0\x04\0\0\0\0")),
    // Each one changes the windows of all streams.
    flood("SETTINGS that open and close windows", 2.0, |round| {
        frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, (round % 2) as u8])
    }),
    flood("PING", 0.5, |_| frame(PING, 0, 0, b"12345678")),
    flood("PRIORITY_UPDATE", 0.5, |round| {
        let stream = 1 + 2 * (round % OPEN);
        frame(PRIORITY_UPDATE, 0, 0, &[&stream.to_be_bytes()[..], b"u=1"].concat())
    }),
    flood("WINDOW_UPDATE of the connection", 1.0, |_| frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1])),
    flood("WINDOW_UPDATE of a stream", 1.0, |round| {
        frame(WINDOW_UPDATE, 0, 1 + 2 * (round % OPEN), &[0, 0, 0, 1])
    }),
    flood("empty DATA", 0.5, |_| frame(DATA, PADDED, 1, b"\0")),
    flood("unknown frames", 0.5, |_| frame(0xbe, 0, 0, b"")),
    // An entry of 4000 bytes in the table, and a hundred references to it.
    flood("HPACK bomb", 2.0, |round| {
        let block = [&get()[..], &[0x40, 1, b'a', 0x7f, 0xa1, 0x1e], &[b'v'; 4000], &[0xbe; 100]];
        on_stream(HEADERS, END_HEADERS | END_STREAM, round, &block.concat())
    }),
    // Sixty fields whose entries push each other out of the table: a large request, but no more.
    flood("HPACK table", 25.0, |round| {
        let mut block = get();
        for number in 0..60u8 {
            block.extend([0x40, 2, b'x', b'a' + number % 26, 3, b'0' + number % 10, b'y', b'z']);
        }
        on_stream(HEADERS, END_HEADERS | END_STREAM, round, &block)
    }),
];

/// A field section in HPACK, as literals.
fn literals(fields: &[(&[u8], &[u8])]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name, value] {
            block.push(u8::try_from(text.len()).expect("a short text"));
            block.extend_from_slice(text);
        }
    }
    block
}

fn get() -> Vec<u8> {
    literals(&[
        (b":method", b"GET"),
        (b":scheme", b"http"),
        (b":path", b"/"),
        (b":authority", b"a"),
    ])
}

/// A frame on the stream of a round.
fn on_stream(kind: u8, flags: u8, round: u32, payload: &[u8]) -> Vec<u8> {
    frame(kind, flags, 1 + 2 * (OPEN + round), payload)
}

fn request(round: u32, flags: u8) -> Vec<u8> {
    on_stream(HEADERS, END_HEADERS | flags, round, &get())
}

/// Counts what the connection sends.
struct Sent(usize);

impl Output<Bytes> for Sent {
    fn frames(&mut self, bytes: &mut Vec<u8>) {
        self.0 += bytes.len();
        bytes.clear();
    }

    fn payload(&mut self, payload: Bytes) {
        self.0 += payload.len();
    }
}

/// A server with open streams, whose responses wait for windows.
fn opened() -> Connection {
    let mut server = Connection::server(Config::default());
    let mut bytes = [&PREFACE[..], &frame(SETTINGS, 0, 0, b"\0\x04\0\0\0\0")].concat();
    for stream in 0..OPEN {
        // The request on the first one has not ended.
        let flags = END_HEADERS | if stream == 0 { 0 } else { END_STREAM };
        bytes.extend(frame(HEADERS, flags, 1 + 2 * stream, &get()));
    }
    server.receive(Bytes::from(bytes));
    // Filling one for each stream would take longer than all else.
    let content = Bytes::from(vec![0; 100_000]);
    while let Some(event) = server.poll_event().expect("well-formed frames") {
        let Event::Request { stream, .. } = event else { panic!("{event:?}") };
        server.respond(stream, 200, [], false).expect("the first response");
        server.send_data(stream, content.clone(), true).expect("its content");
    }
    server.write(&mut Sent(0), usize::MAX);
    server
}

/// Receives the rounds and returns the bytes that were sent. Its instructions are counted.
#[inline(never)]
fn measured(server: &mut Connection, rounds: &[Bytes], responds: bool) -> usize {
    let mut sent = Sent(0);
    for round in rounds {
        server.elapsed(20);
        server.receive(round.clone());
        while let Some(event) = server.poll_event().expect("the budgets are refunded in time") {
            match event {
                Event::Request { stream, .. } if responds => {
                    server.respond(stream, 200, [], true).expect("the first response");
                }
                Event::Rejected { stream, .. } => {
                    server.respond(stream, 431, [], true).expect("the first response");
                }
                _ => {}
            }
        }
        server.write(&mut sent, usize::MAX);
    }
    sent.0
}

/// A peer that floods as slowly as budgets are refunded is served, and gets few bytes.
#[test]
fn a_slow_flood_is_served() {
    for flood in FLOODS {
        for count in ROUNDS {
            let mut server = opened();
            let rounds: Vec<Bytes> = (0..count).map(|round| (flood.round)(round).into()).collect();
            let sent = measured(&mut server, &rounds, flood.responds);
            assert!(sent <= 100 * rounds.len(), "{}: {sent} bytes sent", flood.name);
            assert_eq!(server.streams(), OPEN as usize, "{}", flood.name);
        }
    }
}

/// The instructions of each call of [`measured`] in [`a_slow_flood_is_served`].
fn instructions() -> Vec<f64> {
    let directory = TempDir::new().expect("a temporary directory");
    let out = directory.path().join("out");
    let mut command = Command::new("valgrind");
    let measured = concat!(module_path!(), "::measured");
    command.args(["--tool=callgrind", &format!("--zero-before={measured}")]);
    command.args([
        format!("--dump-after={measured}"),
        format!("--callgrind-out-file={}", out.display()),
    ]);
    command.arg(std::env::current_exe().expect("this program"));
    command.args(["flood_cost::a_slow_flood_is_served", "--exact", "--test-threads=1"]);
    // It is many times slower there.
    let exit = Process::start(&mut command).wait_within(5 * PATIENCE);
    assert!(exit.code == Some(0) && exit.stdout.contains("1 passed"), "{exit:?}");
    let total = |number: usize| {
        let text = std::fs::read_to_string(directory.path().join(format!("out.{number}"))).ok()?;
        let total = text.lines().find_map(|line| line.strip_prefix("totals: "))?;
        total.trim().parse::<f64>().ok()
    };
    (1..).map_while(total).collect()
}

#[test]
fn a_flood_costs_no_more_than_requests() {
    if !has("valgrind") {
        return;
    }
    let instructions = instructions();
    assert_eq!(instructions.len(), FLOODS.len() * ROUNDS.len(), "a count for each run");
    let runs: Vec<[f64; 2]> = instructions.chunks_exact(2).map(|run| [run[0], run[1]]).collect();
    // Without what the first run of the program costs once.
    let per_round = |run: &[f64; 2]| (run[1] - run[0]) / f64::from(ROUNDS[1] - ROUNDS[0]);
    let request = per_round(&runs[0]);
    assert!(request > 1000.0, "{request} instructions are not a request");
    let mut wrong = Vec::new();
    for (flood, run) in FLOODS.iter().zip(&runs) {
        let (cost, length) = (per_round(run), (flood.round)(0).len());
        let allowed = flood.requests.max((length / BYTES_PER_REQUEST) as f64);
        let line = format!("{}: {:.2} requests in {length} bytes", flood.name, cost / request);
        println!("{line}");
        if cost > allowed * request {
            wrong.push(format!("{line}, allowed are {allowed}"));
        }
        let growth = run[1] / run[0] * f64::from(ROUNDS[0]) / f64::from(ROUNDS[1]);
        if growth > 1.2 {
            wrong.push(format!("{}: later rounds cost {growth:.2} times as much", flood.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
