//! Every flood ends its connection, with its own counter and reason, and leaves nothing in flight.

use std::rc::Rc;
use std::time::Duration;

use message::{HandlerResult, Request};
use net::Stream;
use net::worker::block_on_local;
use plugin::{Handler, MaybeFuture};
use telemetry::{CloseReason, LimitHit};
use wire::h2::ErrorCode;

use super::client::{beginning, frame, goaway_at_end, send_raw};
use crate::client::serve_stream;
use crate::served;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
const PRIORITY_UPDATE: u8 = 16;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// `:method: GET`, `:scheme: http`, `:path: /`, and `:authority: a`.
const GET: &[u8] = &[0x82, 0x86, 0x84, 0x41, 1, b'a'];

/// Has no response until its client has gone.
struct Waits;

impl Handler for Waits {
    fn name(&self) -> &'static str {
        "waits"
    }

    fn handle<'a>(&'a self, _: &'a mut Request) -> MaybeFuture<'a, HandlerResult> {
        MaybeFuture::of(std::future::pending())
    }
}

fn stream_of(round: u32) -> u32 {
    2 * round + 1
}

fn get(round: u32, flags: u8) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | flags, stream_of(round), GET)
}

/// Sends the frames of so many rounds; the server has to end the connection because of this limit.
fn flood(limit: LimitHit, rounds: u32, frames: impl Fn(u32) -> Vec<u8>) {
    block_on_local(async {
        let service = served::service(Vec::new(), Rc::new(Waits));
        let (ours, theirs) = Stream::pair().unwrap();
        serve_stream(ours, service.clone());
        let mut bytes = beginning();
        for round in 0..rounds {
            bytes.extend(frames(round));
            if bytes.len() > 4096 {
                send_raw(&theirs, std::mem::take(&mut bytes)).await;
                tokio::task::yield_now().await;
            }
        }
        send_raw(&theirs, bytes).await;
        let code = goaway_at_end(&theirs).await;
        assert_eq!(code, Some(ErrorCode::ENHANCE_YOUR_CALM), "{limit:?}");
        drop(theirs);
        let closed = async {
            while service.open_connections() > 0 {
                tokio::task::yield_now().await;
            }
        };
        let closed = net::timer::within(Duration::from_secs(10), closed).await;
        assert!(closed.is_some(), "{limit:?}: the connection is closed within ten seconds");
        let metrics = &service.metrics;
        assert_eq!(metrics.hits(limit), 1, "{limit:?}");
        assert_eq!(metrics.closes(CloseReason::Http2Flood), 1, "{limit:?}");
        assert_eq!(metrics.requests_in_flight.get(), 0, "{limit:?}");
    });
}

#[test]
fn resets() {
    let cancel = 8u32.to_be_bytes();
    flood(LimitHit::RapidReset, 300, |round| {
        [get(round, END_STREAM), frame(RST_STREAM, 0, stream_of(round), &cancel)].concat()
    });
    // MadeYouReset: the server has to reset a stream whose response is being made.
    flood(LimitHit::ProvokedResets, 300, |round| {
        [get(round, END_STREAM), frame(WINDOW_UPDATE, 0, stream_of(round), &[0; 4])].concat()
    });
    // More streams than the client may open.
    flood(LimitHit::ProvokedResets, 300, |round| get(round, 0));
}

#[test]
fn control_frames() {
    let windows = frame(WINDOW_UPDATE, 0, 0, &1u32.to_be_bytes());
    for frames in [
        frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]),
        frame(PING, 0, 0, b"12345678"),
        frame(PRIORITY, 0, 1, &[0, 0, 0, 0, 16]),
        frame(PRIORITY_UPDATE, 0, 0, b"\0\0\0\x01u=1"),
        windows,
        frame(0xbe, 0, 0, b""),
    ] {
        flood(LimitHit::ControlFrames, 1100, |_| frames.clone());
    }
    // A stream in flight holds the connection that the client wants to end.
    flood(LimitHit::ControlFrames, 1100, |round| match round {
        0 => get(0, END_STREAM),
        _ => frame(GOAWAY, 0, 0, &[0; 8]),
    });
    let cancel = frame(RST_STREAM, 0, 1, &8u32.to_be_bytes());
    flood(LimitHit::ControlFrames, 1100, |round| match round {
        0 => [get(0, END_STREAM), cancel.clone()].concat(),
        _ => cancel.clone(),
    });
}

#[test]
fn frames_without_content() {
    flood(LimitHit::EmptyFrames, 200, |round| match round {
        0 => get(0, 0),
        _ => frame(DATA, 0, 1, b""),
    });
}

#[test]
fn field_sections() {
    flood(LimitHit::ContinuationFlood, 30, |round| match round {
        0 => frame(HEADERS, 0, 1, GET),
        _ => frame(CONTINUATION, 0, 1, b""),
    });
    // One entry of 4000 bytes in the table, and thousands of references to it.
    let entry = [&[0x40, 1, b'a', 0x7f, 0xa1, 0x1e], &[b'v'; 4000][..]].concat();
    let bomb = [GET, &entry, &[0xbe; 10_000]].concat();
    flood(LimitHit::Headers, 1, |round| {
        frame(HEADERS, END_HEADERS | END_STREAM, stream_of(round), &bomb)
    });
    flood(LimitHit::Headers, 10, |round| match round {
        0 => frame(HEADERS, 0, 1, &[0x82; 16_384]),
        _ => frame(CONTINUATION, 0, 1, &[0x82; 16_384]),
    });
}
