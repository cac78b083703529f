//! One connection of frames, as both ends drive it: read, step what is ready, send all of it.
//!
//! Owns the order of things in a turn and nothing of what frames mean. Promises that what a turn
//! makes leaves together, that a stream which waits costs nothing, that neither a long body nor a
//! busy peer keeps the other streams or the worker from their turn, and that a frame is handled
//! where it was received unless it came in parts.

mod messages;
mod outbox;
mod pump;
mod ready;
mod streams;
mod talk;

use std::fmt;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use net::Stream;
use wire::frames::{Decoder, Frame, Malformed};

pub(crate) use messages::{
    read_answer, read_fault, read_interim, read_trailers, write_answer, write_fault,
};
pub(crate) use outbox::Outbox;
pub(crate) use pump::{Credit, Pump, Pumped};
#[cfg(test)]
pub(crate) use streams::STREAMS_MAX;
pub(crate) use streams::Streams;
pub(crate) use talk::{Hearing, Saying, close, closed};

use crate::limits::{FRAMES_LENT_BYTES, FRAMES_READS};
use ready::Ready;

/// The version of this program: both ends are to be of the same.
pub(crate) const PROGRAM: &str = env!("CARGO_PKG_VERSION");

/// Turns of a connection in one of its task.
const ROUNDS: usize = 8;

/// What a connection has at either end.
pub(crate) struct Conduit<T> {
    pub(crate) outbox: Outbox,
    pub(crate) streams: Streams<T>,
    decoder: Decoder,
    ready: Arc<Ready>,
    /// Streams that go on once the outbox has room, by number.
    again: Vec<u32>,
    /// Room for the places of a turn.
    places: Vec<usize>,
}

/// Why a connection has ended.
#[derive(Debug)]
pub(crate) enum Ended {
    /// The end has had enough of it.
    Done,
    /// The peer closed it.
    Closed,
    Failed(io::Error),
    Malformed(Malformed),
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ended::Done => f.write_str("nothing was left to do"),
            Ended::Closed => f.write_str("the peer closed it"),
            Ended::Failed(error) => error.fmt(f),
            Ended::Malformed(malformed) => f.write_str(malformed.text()),
        }
    }
}

/// Whether a stream goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// It is woken when there is something to do.
    Waits,
    /// It has more to send once the outbox has room.
    Again,
    Over,
}

/// What frames mean at one end.
pub(crate) trait End {
    type Stream;

    fn conduit(&mut self) -> &mut Conduit<Self::Stream>;

    /// A frame has come; `chunk` is what its bytes lie in, where they may be kept.
    fn frame(&mut self, frame: Frame<'_>, chunk: Option<&Bytes>) -> Result<(), Malformed>;

    /// A stream was woken.
    fn step(&mut self, number: u32) -> Step;

    /// Whether the connection can be closed, now that all has been sent.
    fn is_done(&mut self) -> bool;
}

impl<T> Conduit<T> {
    pub(crate) fn new() -> Conduit<T> {
        let ready = Arc::<Ready>::default();
        Conduit {
            outbox: Outbox::default(),
            streams: Streams::new(ready.clone()),
            decoder: Decoder::new(),
            ready,
            again: Vec::new(),
            places: Vec::new(),
        }
    }
}

/// Has a stream do what it can.
pub(crate) fn step<E: End>(end: &mut E, number: u32) {
    if end.step(number) == Step::Again {
        let Conduit { streams, again, .. } = end.conduit();
        if streams.set_stalled(number, true) {
            again.push(number);
        }
    }
}

/// Drives a connection until it ends.
pub(crate) fn poll<E: End>(stream: &Stream, end: &mut E, cx: &mut Context<'_>) -> Poll<Ended> {
    for _ in 0..ROUNDS {
        match turn(stream, end, cx) {
            Ok(Turn::More) => {}
            Ok(Turn::Idle) => return Poll::Pending,
            Ok(Turn::Done) => return Poll::Ready(Ended::Done),
            Err(ended) => return Poll::Ready(ended),
        }
    }
    // Comes back after the others.
    cx.waker().wake_by_ref();
    Poll::Pending
}

enum Turn {
    More,
    Idle,
    Done,
}

fn turn<E: End>(stream: &Stream, end: &mut E, cx: &mut Context<'_>) -> Result<Turn, Ended> {
    let mut reads = 0;
    while reads < FRAMES_READS && read(stream, end)? {
        reads += 1;
    }
    let mut places = std::mem::take(&mut end.conduit().places);
    end.conduit().ready.take(&mut places, cx);
    let stepped = !places.is_empty();
    for place in places.drain(..) {
        if let Some(number) = end.conduit().streams.woken(place) {
            step(end, number);
        }
    }
    end.conduit().places = places;
    if !end.conduit().outbox.is_full() {
        for number in std::mem::take(&mut end.conduit().again) {
            if end.conduit().streams.set_stalled(number, false) {
                step(end, number);
            }
        }
    }
    let sent = end.conduit().outbox.send(stream).map_err(Ended::Failed)?;
    if sent && end.is_done() {
        return Ok(Turn::Done);
    }
    // Each is asked, so that each wakes the task.
    let readable = stream.poll_readable(cx).map_err(Ended::Failed)?.is_ready();
    let writable = !sent && stream.poll_writable(cx).map_err(Ended::Failed)?.is_ready();
    let resumes = sent && !end.conduit().again.is_empty();
    let busy = reads > 0 || stepped || readable || writable || resumes;
    Ok(if busy { Turn::More } else { Turn::Idle })
}

/// Reads once; whether there was anything.
fn read<E: End>(stream: &Stream, end: &mut E) -> Result<bool, Ended> {
    let mut decoder = std::mem::take(&mut end.conduit().decoder);
    let mut verdict = Ok(());
    let lent = stream.try_receive_with(|bytes| match take(end, &mut decoder, bytes, None) {
        Ok(taken) => taken,
        Err(malformed) => {
            verdict = Err(malformed);
            bytes.len()
        }
    });
    let read = match lent {
        Ok(lent) if lent.length == 0 => Err(Ended::Closed),
        Ok(lent) => {
            let chunk = lent.rest;
            verdict
                .and_then(|()| take(end, &mut decoder, &chunk, Some(&chunk)))
                .map_err(Ended::Malformed)
                .map(|_| true)
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(true),
        Err(error) => Err(Ended::Failed(error)),
    };
    end.conduit().decoder = decoder;
    read
}

/// Handles the frames in `input`; how many bytes it took. Without a chunk of one's own, a long
/// piece of data is left for when there is one.
fn take<E: End>(
    end: &mut E,
    decoder: &mut Decoder,
    mut input: &[u8],
    chunk: Option<&Bytes>,
) -> Result<usize, Malformed> {
    let length = input.len();
    loop {
        if chunk.is_none() && decoder.is_long_piece(input, FRAMES_LENT_BYTES) {
            break;
        }
        match decoder.next(&mut input)? {
            Some(frame) => end.frame(frame, chunk)?,
            None => break,
        }
    }
    Ok(length - input.len())
}

/// A piece of DATA, to be kept: a long one stays in the chunk it lies in.
pub(crate) fn kept(bytes: &[u8], chunk: Option<&Bytes>) -> Bytes {
    match chunk {
        Some(chunk) if bytes.len() >= FRAMES_LENT_BYTES => chunk.slice_ref(bytes),
        _ => Bytes::copy_from_slice(bytes),
    }
}
