//! A body whose coding is undone while it passes, for a client that does not take it.
//!
//! Small amounts are decoded in place, larger ones on the blocking pool; one piece of work is under
//! way at a time, so memory is bounded by the decoder's window and what one piece unpacks to.

use std::io;
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use coding::{Coding, Decode, Decoder};
use exchange::{Body, BodyStream, Fault, Frame};
use net::{Blocking, FileRange};

use crate::limits::{DECODED_BYTES_MAX, DECODED_RATIO_MAX, DECODED_STEP_BYTES};

/// Coded bytes of one body that are decoded on the worker; more go to the pool.
const ON_WORKER_BYTES: usize = 64 * 1024;
/// What is so little that another thread would cost more than the decoding.
const LITTLE_BYTES: usize = 2 * 1024;

pub(super) struct Decoded {
    source: Body,
    state: State,
    /// A piece of which a part has been decoded.
    rest: Option<Frame>,
    on_worker_left: usize,
}

enum State {
    Idle(Box<Decoder>),
    Working(Blocking<io::Result<(Box<Decoder>, Vec<u8>)>>),
    Ended,
}

impl Decoded {
    pub(super) fn new(source: Body, coding: Coding) -> Result<Decoded, Fault> {
        let allowed = Decode { output_bytes: DECODED_BYTES_MAX, ratio: DECODED_RATIO_MAX };
        let decoder = Decoder::new(coding, allowed).map_err(damaged)?;
        Ok(Decoded {
            source,
            state: State::Idle(Box::new(decoder)),
            rest: None,
            on_worker_left: ON_WORKER_BYTES,
        })
    }

    /// Decodes a step of a piece, here or on the pool.
    fn decode(&mut self, mut decoder: Box<Decoder>, piece: Frame) -> io::Result<Vec<u8>> {
        let (step, rest) = step(piece);
        self.rest = rest;
        if let Frame::Data(data) = &step
            && (data.len() <= LITTLE_BYTES || data.len() <= self.on_worker_left)
        {
            self.on_worker_left = self.on_worker_left.saturating_sub(data.len());
            let mut out = Vec::new();
            decoder.decode(data, &mut out).map_err(io::Error::other)?;
            self.state = State::Idle(decoder);
            return Ok(out);
        }
        self.state = State::Working(net::blocking(move || {
            let input = match step {
                Frame::Data(data) => data,
                Frame::File(range) => read(&range)?,
                Frame::Trailers(_) => Bytes::new(),
            };
            let mut out = Vec::new();
            decoder.decode(&input, &mut out).map_err(io::Error::other)?;
            Ok((decoder, out))
        }));
        Ok(Vec::new())
    }
}

/// What of a piece is decoded at once, and the rest of it.
fn step(piece: Frame) -> (Frame, Option<Frame>) {
    match piece {
        Frame::Data(mut data) if data.len() > DECODED_STEP_BYTES => {
            let step = data.split_to(DECODED_STEP_BYTES);
            (Frame::Data(step), Some(Frame::Data(data)))
        }
        Frame::File(mut range) if range.length > DECODED_STEP_BYTES as u64 => {
            let step = FileRange { length: DECODED_STEP_BYTES as u64, ..range.clone() };
            range.offset += step.length;
            range.length -= step.length;
            (Frame::File(step), Some(Frame::File(range)))
        }
        piece => (piece, None),
    }
}

/// Reads a part of a file; only where waiting is allowed.
pub(crate) fn read(range: &FileRange) -> io::Result<Bytes> {
    let length = usize::try_from(range.length).map_err(io::Error::other)?;
    let mut data = vec![0; length];
    range.file.read_exact_at(&mut data, range.offset)?;
    Ok(Bytes::from(data))
}

fn damaged(error: impl std::fmt::Display) -> Fault {
    Fault::upstream(
        502,
        "http_response_content_coding",
        exchange::Retry::Never,
        format!("a body cannot be decoded: {error}"),
    )
}

impl BodyStream for Decoded {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, Fault>>> {
        loop {
            let out = match std::mem::replace(&mut self.state, State::Ended) {
                State::Ended => return Poll::Ready(None),
                State::Working(mut job) => match Pin::new(&mut job).poll(cx) {
                    Poll::Pending => {
                        self.state = State::Working(job);
                        return Poll::Pending;
                    }
                    Poll::Ready(Ok(Ok((decoder, out)))) => {
                        self.state = State::Idle(decoder);
                        Ok(out)
                    }
                    Poll::Ready(Ok(Err(error)) | Err(error)) => Err(error),
                },
                State::Idle(mut decoder) => {
                    let piece = match self.rest.take() {
                        Some(rest) => Some(Ok(rest)),
                        None => match self.source.poll_frame(cx) {
                            Poll::Pending => {
                                self.state = State::Idle(decoder);
                                return Poll::Pending;
                            }
                            Poll::Ready(piece) => piece,
                        },
                    };
                    match piece {
                        Some(Ok(Frame::Trailers(_))) => {
                            self.state = State::Idle(decoder);
                            continue;
                        }
                        Some(Ok(piece)) => self.decode(decoder, piece),
                        Some(Err(fault)) => return Poll::Ready(Some(Err(fault))),
                        None => {
                            let mut out = Vec::new();
                            decoder.finish(&mut out).map(|()| out).map_err(io::Error::other)
                        }
                    }
                }
            };
            match out {
                Ok(out) if out.is_empty() => {}
                Ok(out) => return Poll::Ready(Some(Ok(Frame::Data(Bytes::from(out))))),
                Err(error) => {
                    self.state = State::Ended;
                    return Poll::Ready(Some(Err(damaged(error))));
                }
            }
        }
    }

    fn length(&self) -> Option<u64> {
        None
    }
}
