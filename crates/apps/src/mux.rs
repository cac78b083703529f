//! A multiplexed connection of frames, as both ends drive it: reads, steps the streams that are
//! ready, and sends their output.
//!
//! Owns the order of these steps, and nothing of the meaning of frames. Promises that the output of
//! a turn is sent together, that a waiting stream costs nothing, that neither a long body nor a
//! busy peer starves the other streams or the worker, and that a frame is handled without a copy
//! unless it arrives in parts.

mod body_sender;
mod messages;
mod outbox;
mod ready;
mod streams;
mod ws_session;

use std::collections::VecDeque;
use std::fmt;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use net::Stream;
use wire::frames::{Decoder, Frame, Malformed};

pub(crate) use body_sender::{BodySender, ReceiveWindow, SendProgress};
pub(crate) use messages::{
    read_fault, read_interim, read_response_head, read_trailers, write_fault, write_response_head,
};
pub(crate) use outbox::Outbox;
#[cfg(test)]
pub(crate) use streams::STREAMS_MAX;
pub(crate) use streams::Streams;
pub(crate) use ws_session::{Inbound, Outbound, close, closed};

use crate::limits::{FRAMES_FILES_MAX, FRAMES_LENT_BYTES, FRAMES_READS};
use ready::ReadyQueue;

/// The version of this program; both ends must have the same.
pub(crate) const PROGRAM: &str = env!("CARGO_PKG_VERSION");

/// Turns of a connection in one poll of its task.
const ROUNDS: usize = 8;

/// The state of a connection at either end.
pub(crate) struct Mux<T> {
    pub(crate) outbox: Outbox,
    pub(crate) streams: Streams<T>,
    decoder: Decoder,
    /// Files whose frames are not complete yet, or the errors in their place.
    files: VecDeque<io::Result<File>>,
    ready: Arc<ReadyQueue>,
    /// Streams that continue once the outbox has room, by number.
    again: Vec<u32>,
    /// Reused buffer for the ready streams of a turn.
    indices: Vec<usize>,
}

/// Why a connection has ended.
#[derive(Debug)]
pub(crate) enum CloseCause {
    /// This end has nothing left to do.
    Done,
    /// The peer closed it.
    Closed,
    Failed(io::Error),
    Malformed(Malformed),
}

impl fmt::Display for CloseCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CloseCause::Done => f.write_str("completed"),
            CloseCause::Closed => f.write_str("closed by the peer"),
            CloseCause::Failed(error) => error.fmt(f),
            CloseCause::Malformed(malformed) => f.write_str(malformed.text()),
        }
    }
}

/// The next step of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamStep {
    /// The stream waits and will be woken.
    Pending,
    /// The stream continues once the outbox has room.
    Again,
    Done,
}

/// The meaning of frames at one end.
pub(crate) trait Endpoint {
    type Stream;

    /// True if the peer passes files.
    const TAKES_FILES: bool = false;

    fn mux(&mut self) -> &mut Mux<Self::Stream>;

    /// Handles a frame; `chunk` is the buffer its bytes are in, if they may be shared.
    fn frame(&mut self, frame: Frame<'_>, chunk: Option<&Bytes>) -> Result<(), Malformed>;

    /// Steps a stream that was woken.
    fn step(&mut self, number: u32) -> StreamStep;

    /// True if the connection can be closed once everything is sent.
    fn is_done(&mut self) -> bool;
}

impl<T> Mux<T> {
    /// Returns the file of the frame that was decoded.
    pub(crate) fn take_file(&mut self) -> Result<io::Result<File>, Malformed> {
        self.files.pop_front().ok_or(Malformed::Descriptor)
    }

    pub(crate) fn new() -> Mux<T> {
        let ready = Arc::<ReadyQueue>::default();
        Mux {
            outbox: Outbox::default(),
            streams: Streams::new(ready.clone()),
            decoder: Decoder::new(),
            files: VecDeque::new(),
            ready,
            again: Vec::new(),
            indices: Vec::new(),
        }
    }
}

/// Steps a stream.
pub(crate) fn step<E: Endpoint>(end: &mut E, number: u32) {
    if end.step(number) == StreamStep::Again {
        let Mux { streams, again, .. } = end.mux();
        if streams.set_stalled(number, true) {
            again.push(number);
        }
    }
}

/// Drives a connection until it ends.
pub(crate) fn poll<E: Endpoint>(
    stream: &Stream,
    end: &mut E,
    cx: &mut Context<'_>,
) -> Poll<CloseCause> {
    for _ in 0..ROUNDS {
        match turn(stream, end, cx) {
            Ok(Turn::More) => {}
            Ok(Turn::Idle) => return Poll::Pending,
            Ok(Turn::Done) => return Poll::Ready(CloseCause::Done),
            Err(ended) => return Poll::Ready(ended),
        }
    }
    // Polled again after the other tasks.
    cx.waker().wake_by_ref();
    Poll::Pending
}

enum Turn {
    More,
    Idle,
    Done,
}

fn turn<E: Endpoint>(
    stream: &Stream,
    end: &mut E,
    cx: &mut Context<'_>,
) -> Result<Turn, CloseCause> {
    let mut reads = 0;
    while reads < FRAMES_READS && read(stream, end)? {
        reads += 1;
    }
    let mut indices = std::mem::take(&mut end.mux().indices);
    end.mux().ready.take(&mut indices, cx);
    let stepped = !indices.is_empty();
    for index in indices.drain(..) {
        if let Some(number) = end.mux().streams.woken(index) {
            step(end, number);
        }
    }
    end.mux().indices = indices;
    if !end.mux().outbox.is_full() {
        for number in std::mem::take(&mut end.mux().again) {
            if end.mux().streams.set_stalled(number, false) {
                step(end, number);
            }
        }
    }
    let sent = end.mux().outbox.send(stream).map_err(CloseCause::Failed)?;
    if sent && end.is_done() {
        return Ok(Turn::Done);
    }
    // Both are polled, so that both wake the task.
    let readable = stream.poll_readable(cx).map_err(CloseCause::Failed)?.is_ready();
    let writable = !sent && stream.poll_writable(cx).map_err(CloseCause::Failed)?.is_ready();
    let resumes = sent && !end.mux().again.is_empty();
    let busy = reads > 0 || stepped || readable || writable || resumes;
    Ok(if busy { Turn::More } else { Turn::Idle })
}

/// Reads once; returns false if there was nothing to read.
fn read<E: Endpoint>(stream: &Stream, end: &mut E) -> Result<bool, CloseCause> {
    let mut decoder = std::mem::take(&mut end.mux().decoder);
    let mut verdict = Ok(());
    let mut borrow = |bytes: &[u8], file: Option<io::Result<File>>| {
        let files = &mut end.mux().files;
        files.extend(file);
        let taken = match files.len() > FRAMES_FILES_MAX {
            true => Err(Malformed::Descriptor),
            false => take(end, &mut decoder, bytes, None),
        };
        taken.unwrap_or_else(|malformed| {
            verdict = Err(malformed);
            bytes.len()
        })
    };
    let lent = match E::TAKES_FILES {
        true => stream.try_receive_with_file(borrow),
        false => stream.try_receive_with(|bytes| borrow(bytes, None)),
    };
    let read = match lent {
        Ok(lent) if lent.length == 0 => Err(CloseCause::Closed),
        Ok(lent) => {
            let chunk = lent.rest;
            verdict
                .and_then(|()| take(end, &mut decoder, &chunk, Some(&chunk)))
                .map_err(CloseCause::Malformed)
                .map(|_| true)
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(true),
        Err(error) => Err(CloseCause::Failed(error)),
    };
    end.mux().decoder = decoder;
    read
}

/// Handles the frames in `input` and returns the bytes consumed. Without a chunk of its own, a long
/// piece of data is left until there is one.
fn take<E: Endpoint>(
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

/// Returns the bytes of DATA as an owned buffer: a long piece shares its chunk.
pub(crate) fn kept(bytes: &[u8], chunk: Option<&Bytes>) -> Bytes {
    match chunk {
        Some(chunk) if bytes.len() >= FRAMES_LENT_BYTES => chunk.slice_ref(bytes),
        _ => Bytes::copy_from_slice(bytes),
    }
}
