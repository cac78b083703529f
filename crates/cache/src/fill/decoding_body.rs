//! A body that is decoded while it is sent.
//!
//! Decodes only as fast as the client reads, in steps of at most [`DECODED_AHEAD_BYTES`], on the
//! worker or on the blocking pool. The memory of a decoder counts against that of fetches
//! ([`FillBudget`](super::FillBudget)); a body that gets none is rejected.

use std::io;
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use coding::{Coding, Decode, DecodeError, Decoder, Step};
use message::{Body, BodyStream, Fault, FaultKind, Frame};
use net::{Blocking, FileRange};

use super::StreamingResponse;
use super::budget::BudgetShare;
use crate::limits::{DECODED_AHEAD_BYTES, DECODED_RATIO_MAX, DECODED_STEP_BYTES};
use crate::{Cache, Object};

/// Decoded bytes of one body that are made on the worker; the rest is made on the pool.
const ON_WORKER_BYTES: usize = 256 * 1024;
const RETRY_AFTER_S: u32 = 1;

/// The source of decoded content, and its bound.
#[derive(Clone)]
pub(crate) struct DecodeContext {
    pub(crate) cache: Arc<Cache>,
    pub(crate) whose: DecodeSource,
    /// The longest decoded content.
    pub(crate) bytes_max: u64,
}

/// The response whose body is decoded.
#[derive(Clone)]
pub(crate) enum DecodeSource {
    Stored(Arc<Object>),
    Streaming(Arc<StreamingResponse>),
    /// A response that is not stored.
    Unstored,
}

impl DecodeContext {
    /// Handles a body that is damaged, or decodes to more than `bytes_max`.
    fn failed(&self, error: DecodeError) {
        let is_damaged = matches!(error, DecodeError::Corrupt | DecodeError::Truncated);
        match &self.whose {
            DecodeSource::Stored(object) if is_damaged => self.cache.remove_damaged(object),
            DecodeSource::Stored(object) => object.state.set_too_long_decoded(),
            DecodeSource::Streaming(streaming) if is_damaged => {
                streaming.set_damaged();
                let store = self.cache.store();
                let key = &streaming.key;
                let stored = store.peek(key.hash(), key.text());
                let is_it = |object: &Arc<Object>| {
                    object.response().is_some_and(|it| it.version == streaming.stored.version)
                };
                if let Some(object) = stored.filter(is_it) {
                    self.cache.remove_damaged(&object);
                }
            }
            DecodeSource::Streaming(_) | DecodeSource::Unstored => {}
        }
    }
}

pub(super) struct DecodingBody {
    source: Body,
    state: DecodingState,
    /// Read from the source and not decoded yet.
    input: Bytes,
    /// A part of a file that has not been read.
    file: Option<FileRange>,
    /// The last step filled its output: more may follow without input.
    full: bool,
    on_worker_left: usize,
    /// Memory of the decoder and its buffers, and how much of it is taken.
    share: BudgetShare,
    taken: u64,
    decode_context: DecodeContext,
}

enum DecodingState {
    Idle(Box<Decoder>),
    Working(Blocking<Result<DecodedStep, DecodeFailure>>),
    Ended,
}

/// The result of a step, and the input that it was made of.
struct DecodedStep {
    decoder: Box<Decoder>,
    input: Bytes,
    out: Vec<u8>,
    step: Step,
}

enum DecodeFailure {
    /// The content cannot be read.
    Read(io::Error),
    Coding(DecodeError),
}

/// The memory of a decoder besides its window.
const BUFFERS_BYTES: u64 = (DECODED_AHEAD_BYTES + DECODED_STEP_BYTES) as u64;

impl DecodingBody {
    /// Fails if the budget has no room for a decoder.
    pub(super) fn new(
        source: Body,
        coding: Coding,
        decode_context: DecodeContext,
    ) -> Result<DecodingBody, Fault> {
        let allowed = Decode { output_bytes: decode_context.bytes_max, ratio: DECODED_RATIO_MAX };
        let decoder = Decoder::new(coding, allowed).map_err(damaged)?;
        let taken = BUFFERS_BYTES + decoder.memory_bytes();
        let share = decode_context.cache.fill_budget().share(0).filter(|share| share.grow(taken));
        Ok(DecodingBody {
            source,
            state: DecodingState::Idle(Box::new(decoder)),
            input: Bytes::new(),
            file: None,
            full: false,
            on_worker_left: ON_WORKER_BYTES,
            share: share.ok_or_else(no_room)?,
            taken,
            decode_context,
        })
    }

    /// Makes one step on the worker, or starts one on the pool.
    fn step(&mut self, decoder: Box<Decoder>) -> Result<Option<DecodedStep>, DecodeFailure> {
        let input = self.input.slice(..self.input.len().min(DECODED_STEP_BYTES));
        // Allocated here, where it is freed: memory that one thread allocates and another frees
        // waits in the allocator.
        let out = Vec::with_capacity(DECODED_AHEAD_BYTES);
        let file = match self.file.take().filter(|_| input.is_empty() && !self.full) {
            None if self.on_worker_left > 0 => return decode(decoder, input, out).map(Some),
            None => None,
            Some(mut file) => {
                let step = FileRange {
                    length: file.length.min(DECODED_STEP_BYTES as u64),
                    ..file.clone()
                };
                file.offset += step.length;
                file.length -= step.length;
                self.file = Some(file).filter(|file| file.length > 0);
                Some(step)
            }
        };
        self.state = DecodingState::Working(net::blocking(move || {
            let input = match file {
                Some(file) => read(&file).map_err(DecodeFailure::Read)?,
                None => input,
            };
            decode(decoder, input, out)
        }));
        Ok(None)
    }

    /// Takes the output of a step.
    fn take_output(&mut self, done: DecodedStep) -> Result<Option<Bytes>, Fault> {
        let DecodedStep { decoder, input, out, step } = done;
        if self.input.is_empty() {
            self.input = input;
        }
        self.input.advance(step.consumed);
        self.full = step.full;
        self.on_worker_left = self.on_worker_left.saturating_sub(out.len());
        let taken = BUFFERS_BYTES + decoder.memory_bytes();
        if !self.share.grow(taken.saturating_sub(self.taken)) {
            return Err(no_room());
        }
        self.taken = self.taken.max(taken);
        self.state = DecodingState::Idle(decoder);
        Ok((!out.is_empty()).then(|| Bytes::from(out)))
    }

    fn broken(&self, broken: DecodeFailure) -> Fault {
        match broken {
            DecodeFailure::Read(error) => {
                Fault::internal(format!("stored content cannot be read: {error}"))
            }
            DecodeFailure::Coding(error) => {
                self.decode_context.failed(error);
                damaged(error)
            }
        }
    }

    /// Reads the next frame of the source; true at its end.
    fn poll_source(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool, Fault>> {
        loop {
            match std::task::ready!(self.source.poll_frame(cx)) {
                None => return Poll::Ready(Ok(true)),
                Some(Err(fault)) => return Poll::Ready(Err(fault)),
                Some(Ok(Frame::Trailers(_))) => continue,
                Some(Ok(Frame::Data(data))) => self.input = data,
                Some(Ok(Frame::File(range))) => self.file = Some(range),
            }
            return Poll::Ready(Ok(false));
        }
    }

    /// Polls for the next bytes; `None` at the end.
    fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Fault>> {
        loop {
            let done = match std::mem::replace(&mut self.state, DecodingState::Ended) {
                DecodingState::Ended => return Poll::Ready(Ok(None)),
                DecodingState::Working(mut job) => match Pin::new(&mut job).poll(cx) {
                    Poll::Pending => {
                        self.state = DecodingState::Working(job);
                        return Poll::Pending;
                    }
                    Poll::Ready(done) => done.map_err(DecodeFailure::Read).flatten().map(Some),
                },
                DecodingState::Idle(mut decoder) => {
                    if self.input.is_empty() && self.file.is_none() && !self.full {
                        match self.poll_source(cx) {
                            Poll::Pending => {
                                self.state = DecodingState::Idle(decoder);
                                return Poll::Pending;
                            }
                            Poll::Ready(Err(fault)) => return Poll::Ready(Err(fault)),
                            Poll::Ready(Ok(false)) => {}
                            Poll::Ready(Ok(true)) => {
                                let end =
                                    decoder.finish().map(|()| None).map_err(DecodeFailure::Coding);
                                return Poll::Ready(end.map_err(|broken| self.broken(broken)));
                            }
                        }
                    }
                    self.step(decoder)
                }
            };
            match done {
                Ok(None) => {}
                Ok(Some(done)) => match self.take_output(done) {
                    Ok(None) => {}
                    made => return Poll::Ready(made),
                },
                Err(broken) => return Poll::Ready(Err(self.broken(broken))),
            }
        }
    }
}

fn decode(
    mut decoder: Box<Decoder>,
    input: Bytes,
    mut out: Vec<u8>,
) -> Result<DecodedStep, DecodeFailure> {
    let step = decoder.decode_some(&input, &mut out, DECODED_AHEAD_BYTES);
    Ok(DecodedStep { step: step.map_err(DecodeFailure::Coding)?, decoder, input, out })
}

/// Reads a part of a file. Blocks.
pub(crate) fn read(range: &FileRange) -> io::Result<Bytes> {
    let length = usize::try_from(range.length).map_err(io::Error::other)?;
    let mut data = vec![0; length];
    range.file.read_exact_at(&mut data, range.offset)?;
    Ok(Bytes::from(data))
}

fn damaged(error: impl std::fmt::Display) -> Fault {
    Fault::new(FaultKind::ResponseContentCoding, format!("a body cannot be decoded: {error}"))
}

fn no_room() -> Fault {
    let detail = "no memory is left for decoding, within what the cache's fetches may take";
    Fault { retry_after_s: Some(RETRY_AFTER_S), ..Fault::new(FaultKind::DecodingFull, detail) }
}

impl BodyStream for DecodingBody {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, Fault>>> {
        self.poll_bytes(cx).map(|bytes| bytes.map(|bytes| bytes.map(Frame::Data)).transpose())
    }

    fn length(&self) -> Option<u64> {
        None
    }
}
