//! From received bytes to frames: the preface, frame headers, and which frame may follow which.

use bytes::{Buf, Bytes, BytesMut};

use super::{Connection, Event, Payload, StreamKey};
use crate::h2::code::Violation;
use crate::h2::frame::{self, FrameHeader, HEADER_LEN};
use crate::h2::settings::FRAME_SIZE;

/// The kind of the next bytes.
#[derive(Debug)]
pub(super) enum Reading {
    Preface,
    /// SETTINGS, which comes first (RFC 9113 3.4).
    FirstFrame,
    Frame,
    /// The payload of DATA, which is passed on as it arrives.
    Data(Incoming),
}

/// The payload of a DATA frame that has not been passed on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Incoming {
    /// `None` if the data is to be discarded.
    pub(super) stream: Option<StreamKey>,
    pub(super) left: usize,
    pub(super) padding: usize,
    /// The data ends the message, and that was not reported yet.
    pub(super) ends: bool,
}

/// The result of a step that found no violation.
pub(super) enum Step {
    Event(Event),
    Again,
    /// The frame needs this many bytes from its beginning.
    NeedMore(usize),
}

impl From<Option<Event>> for Step {
    fn from(event: Option<Event>) -> Step {
        event.map_or(Step::Again, Step::Event)
    }
}

impl<P: Payload> Connection<P> {
    /// Takes received bytes. All events of the bytes before must have been taken.
    pub fn receive(&mut self, chunk: Bytes) {
        if self.partial.is_empty() {
            self.input = chunk;
        } else {
            self.partial.extend_from_slice(&chunk);
            self.input = std::mem::take(&mut self.partial).freeze();
        }
    }

    /// The next event; `None` if more bytes are needed. After a violation the connection ends: its
    /// output, which reports it, is to be sent, and nothing else is accepted.
    pub fn poll_event(&mut self) -> Result<Option<Event>, Violation> {
        if let Some(violation) = self.violation {
            return Err(violation);
        }
        if let Some(event) = self.events.pop_front() {
            return Ok(Some(event));
        }
        loop {
            match self.step() {
                Ok(Step::Event(event)) => return Ok(Some(event)),
                Ok(Step::Again) => {}
                Ok(Step::NeedMore(len)) => {
                    self.set_aside(len);
                    return Ok(None);
                }
                Err(violation) => {
                    self.violation = Some(violation);
                    self.input = Bytes::new();
                    self.fail(violation.code());
                    return Err(violation);
                }
            }
        }
    }

    /// Copies an incomplete frame, so that it does not pin the block it was received into.
    fn set_aside(&mut self, len: usize) {
        let input = std::mem::take(&mut self.input);
        if input.is_empty() {
            return;
        }
        let copy = |bytes: &[u8]| {
            let mut partial = BytesMut::with_capacity(len.max(bytes.len()));
            partial.extend_from_slice(bytes);
            partial
        };
        self.partial = match input.try_into_mut() {
            // What was set aside before is not copied again.
            Ok(own) if own.capacity() <= HEADER_LEN + FRAME_SIZE => own,
            Ok(block) => copy(&block),
            Err(shared) => copy(&shared),
        };
    }

    fn step(&mut self) -> Result<Step, Violation> {
        match &mut self.reading {
            Reading::Preface => self.preface(),
            Reading::Data(incoming) => {
                let incoming = *incoming;
                Ok(self.data_payload(incoming))
            }
            Reading::FirstFrame | Reading::Frame => self.frame(),
        }
    }

    fn preface(&mut self) -> Result<Step, Violation> {
        match super::super::begins_with_preface(&self.input) {
            Some(true) => {
                self.input.advance(super::super::PREFACE.len());
                self.reading = Reading::FirstFrame;
                Ok(Step::Again)
            }
            Some(false) => Err(Violation::InvalidPreface),
            None => Ok(Step::NeedMore(super::super::PREFACE.len())),
        }
    }

    fn frame(&mut self) -> Result<Step, Violation> {
        let Some(bytes) = self.input.first_chunk() else {
            return Ok(Step::NeedMore(HEADER_LEN));
        };
        let header = FrameHeader::parse(bytes);
        let is_settings = header.kind == frame::SETTINGS && !header.has(frame::ACK);
        if matches!(self.reading, Reading::FirstFrame) && !is_settings {
            return Err(Violation::InvalidPreface);
        }
        if header.len > FRAME_SIZE {
            return Err(Violation::FrameTooLarge);
        }
        let continues = header.kind == frame::CONTINUATION;
        match &self.block {
            Some(block) if !(continues && block.stream == header.stream) => {
                return Err(Violation::ContinuationExpected);
            }
            None if continues => return Err(Violation::UnexpectedContinuation),
            _ => {}
        }
        if header.kind == frame::DATA {
            return self.data_frame(header);
        }
        let whole = HEADER_LEN + header.len;
        if self.input.len() < whole {
            return Ok(Step::NeedMore(whole));
        }
        self.input.advance(HEADER_LEN);
        let payload = self.input.split_to(header.len);
        self.reading = Reading::Frame;
        let event = match header.kind {
            frame::HEADERS => self.headers_frame(header, &payload)?,
            frame::CONTINUATION => self.continuation(header, &payload)?,
            _ => self.control_frame(header, &payload)?,
        };
        Ok(event.into())
    }
}

/// The payload without its padding (RFC 9113 6.1); the length of the padding is its first byte.
pub(super) fn without_padding(header: FrameHeader, payload: &[u8]) -> Result<&[u8], Violation> {
    if !header.has(frame::PADDED) {
        return Ok(payload);
    }
    let (&padding, rest) = payload.split_first().ok_or(Violation::InvalidFrameSize)?;
    let len = rest.len().checked_sub(usize::from(padding)).ok_or(Violation::InvalidPadding)?;
    Ok(&rest[..len])
}
