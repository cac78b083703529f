//! A body that is compressed while it is sent.
//!
//! Reads what the source has, compresses it, and flushes when the source pauses and its length is
//! unknown: then the client may be waiting for the latest data. Small amounts are compressed on the
//! worker, larger ones on the blocking pool; one batch is in flight at a time, so memory is bounded
//! by the encoder's window and one batch, whatever the length of the body.

use std::io;
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use coding::Encoder;
use message::{Body, BodyStream, Fault, Frame, Headers};
use net::{Blocking, FileRange};

use super::{ON_WORKER_BYTES, Offer};

/// Input gathered before it is compressed, if the source has more.
const BATCH_BYTES: usize = 64 * 1024;
/// Bytes of a file that are read and compressed at once.
const FILE_STEP_BYTES: u64 = 256 * 1024;
/// Below this, compressing costs less than another thread.
const LITTLE_BYTES: usize = 4 * 1024;

pub(super) struct Coder {
    source: Body,
    state: CoderState,
    /// Input to compress.
    batch: Vec<u8>,
    /// A file that the source has returned.
    file: Option<FileRange>,
    /// Input that the encoder has consumed since its output was last complete.
    unflushed: usize,
    /// Bytes that may still be compressed on the worker, in addition to small amounts.
    on_worker_left: usize,
    /// No client waits for a part: the source has declared its length.
    flushes: bool,
    trailers: Option<Headers>,
    /// The counters of the result.
    offer: Offer,
}

enum CoderState {
    Idle(Box<Encoder>),
    Working(Blocking<io::Result<Done>>, Goal),
    /// All content has been returned; trailers may follow.
    Finished,
}

/// The action of the encoder after it has consumed its input.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Goal {
    GoOn,
    Flush,
    Finish,
}

struct Done {
    encoder: Box<Encoder>,
    taken: usize,
    out: Vec<u8>,
}

/// The result of polling the source.
enum CodedPart {
    Work(Goal),
    Pause,
    Broken(Fault),
}

impl Coder {
    pub(super) fn new(source: Body, encoder: Encoder, offer: Offer) -> Coder {
        Coder {
            flushes: source.length().is_none(),
            source,
            state: CoderState::Idle(Box::new(encoder)),
            batch: Vec::new(),
            file: None,
            unflushed: 0,
            on_worker_left: ON_WORKER_BYTES,
            trailers: None,
            offer,
        }
    }

    /// Gathers a batch from the source.
    fn gather(&mut self, cx: &mut Context<'_>) -> CodedPart {
        loop {
            if self.file.is_some() || self.batch.len() >= BATCH_BYTES {
                return CodedPart::Work(Goal::GoOn);
            }
            match self.source.poll_frame(cx) {
                Poll::Ready(Some(Ok(Frame::Data(data)))) => self.batch.extend_from_slice(&data),
                Poll::Ready(Some(Ok(Frame::File(range)))) => self.file = Some(range),
                Poll::Ready(Some(Ok(Frame::Trailers(trailers)))) => self.trailers = Some(trailers),
                Poll::Ready(Some(Err(fault))) => return CodedPart::Broken(fault),
                Poll::Ready(None) => return CodedPart::Work(Goal::Finish),
                Poll::Pending => {
                    let waiting = !self.batch.is_empty() || self.unflushed > 0;
                    return match waiting && self.flushes {
                        true => CodedPart::Work(Goal::Flush),
                        false => CodedPart::Pause,
                    };
                }
            }
        }
    }

    /// Compresses the batch, on the worker or on the pool.
    fn work(&mut self, mut encoder: Box<Encoder>, goal: Goal) -> io::Result<Option<Vec<u8>>> {
        let batch = std::mem::take(&mut self.batch);
        let part = self.file_step();
        let taken = batch.len() + part.as_ref().map_or(0, |part| part.length as usize);
        // The encoder may have deferred the work on its input until now.
        let pending = self.unflushed + taken;
        self.unflushed = if goal == Goal::GoOn { pending } else { 0 };
        if part.is_none() && (pending <= LITTLE_BYTES || pending <= self.on_worker_left) {
            self.on_worker_left = self.on_worker_left.saturating_sub(taken);
            let out = code(&mut encoder, &batch, goal)?;
            self.offer.count(taken, out.len());
            self.settle(encoder, goal);
            return Ok(Some(out));
        }
        let job = move || {
            let mut input = batch;
            if let Some(part) = part {
                let from = input.len();
                input.resize(from + part.length as usize, 0);
                part.file.read_exact_at(&mut input[from..], part.offset)?;
            }
            let out = code(&mut encoder, &input, goal)?;
            Ok(Done { encoder, taken, out })
        };
        self.state = CoderState::Working(net::blocking(job), goal);
        Ok(None)
    }

    /// The next part of the file, if there is one.
    fn file_step(&mut self) -> Option<FileRange> {
        let mut rest = self.file.take()?;
        let part = FileRange { length: rest.length.min(FILE_STEP_BYTES), ..rest.clone() };
        rest.offset += part.length;
        rest.length -= part.length;
        self.file = (rest.length > 0).then_some(rest);
        Some(part)
    }

    fn settle(&mut self, encoder: Box<Encoder>, goal: Goal) {
        self.state =
            if goal == Goal::Finish { CoderState::Finished } else { CoderState::Idle(encoder) };
    }

    fn fail<T>(&mut self, error: impl std::fmt::Display) -> Poll<Option<Result<T, Fault>>> {
        self.state = CoderState::Finished;
        Poll::Ready(Some(Err(Fault::internal(format!("a body cannot be compressed: {error}")))))
    }
}

fn code(encoder: &mut Encoder, input: &[u8], goal: Goal) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    let coded = encoder.encode(input, &mut out).and_then(|()| match goal {
        Goal::GoOn => Ok(()),
        Goal::Flush => encoder.flush(&mut out),
        Goal::Finish => encoder.finish(&mut out),
    });
    coded.map_err(io::Error::other)?;
    Ok(out)
}

impl BodyStream for Coder {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, Fault>>> {
        loop {
            let out = match std::mem::replace(&mut self.state, CoderState::Finished) {
                CoderState::Finished => {
                    return Poll::Ready(self.trailers.take().map(|t| Ok(Frame::Trailers(t))));
                }
                CoderState::Working(mut job, goal) => match Pin::new(&mut job).poll(cx) {
                    Poll::Pending => {
                        self.state = CoderState::Working(job, goal);
                        return Poll::Pending;
                    }
                    Poll::Ready(Ok(Ok(done))) => {
                        self.offer.count(done.taken, done.out.len());
                        self.settle(done.encoder, goal);
                        Some(done.out)
                    }
                    Poll::Ready(Ok(Err(error))) => return self.fail(error),
                    Poll::Ready(Err(error)) => return self.fail(error),
                },
                CoderState::Idle(encoder) => match self.gather(cx) {
                    CodedPart::Pause => {
                        self.state = CoderState::Idle(encoder);
                        return Poll::Pending;
                    }
                    CodedPart::Broken(fault) => {
                        self.trailers = None;
                        return Poll::Ready(Some(Err(fault)));
                    }
                    CodedPart::Work(goal) => match self.work(encoder, goal) {
                        Ok(out) => out,
                        Err(error) => return self.fail(error),
                    },
                },
            };
            if let Some(out) = out
                && !out.is_empty()
            {
                return Poll::Ready(Some(Ok(Frame::Data(Bytes::from(out)))));
            }
        }
    }

    fn length(&self) -> Option<u64> {
        None
    }
}
