//! The output to the client, as chunks of bytes.
//!
//! Small frames share a chunk, so that many messages are sent with one system call; a large payload
//! is sent without a copy, in slices, so that the progress of a slow client is visible.

use std::collections::VecDeque;

use bytes::Bytes;
use offload::session::{Closed, Message};
use wire::websocket::{CONTROL_BYTES_MAX, FrameHead, HEAD_BYTES_MAX, Opcode, is_close_code};

use super::deflate::{AgreedDeflate, Deflating};
use crate::limits::{WEBSOCKET_COPIED_BYTES, WEBSOCKET_SLICE_BYTES};

/// A close without a code (RFC 6455 7.4.1): it is not sent.
pub(super) const NO_CODE: u16 = 1005;

pub(super) struct Outbox {
    deflate: Option<Deflating>,
    /// The chunk of small frames.
    gathered: Vec<u8>,
    chunks: VecDeque<Bytes>,
}

impl Outbox {
    pub(super) fn new(deflate: Option<AgreedDeflate>) -> Outbox {
        Outbox {
            deflate: deflate.map(Deflating::new),
            gathered: Vec::new(),
            chunks: VecDeque::new(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.gathered.is_empty() && self.chunks.is_empty()
    }

    /// True if there is enough output to be sent first.
    pub(super) fn is_full(&self) -> bool {
        self.gathered.len() >= WEBSOCKET_SLICE_BYTES || !self.chunks.is_empty()
    }

    /// The next bytes to send.
    pub(super) fn next(&mut self) -> Option<Bytes> {
        if self.chunks.is_empty() {
            self.end_chunk();
        }
        self.chunks.pop_front()
    }

    pub(super) fn message(&mut self, message: Message) {
        let (opcode, data) = match message {
            Message::Text(data) => (Opcode::Text, data),
            Message::Binary(data) => (Opcode::Binary, data),
        };
        if let Some(coded) = self.deflate.as_mut().and_then(|deflate| deflate.message(&data)) {
            let head = FrameHead::new(opcode, coded.len());
            self.frame(FrameHead { compressed: true, ..head }, coded.into());
        } else {
            self.frame(FrameHead::new(opcode, data.len()), data);
        }
    }

    pub(super) fn control(&mut self, opcode: Opcode, payload: &[u8]) {
        self.copied(FrameHead::new(opcode, payload.len()), payload);
    }

    /// Appends a close frame; a code that must not be sent becomes 1011, and a long reason is cut.
    pub(super) fn close(&mut self, closed: &Closed) {
        if closed.code == NO_CODE {
            return self.control(Opcode::Close, b"");
        }
        let code = if is_close_code(closed.code) { closed.code } else { Closed::INTERNAL };
        let mut payload = Vec::from(code.to_be_bytes());
        let end = closed.reason.floor_char_boundary(CONTROL_BYTES_MAX - payload.len());
        payload.extend_from_slice(&closed.reason.as_bytes()[..end]);
        self.control(Opcode::Close, &payload);
    }

    fn frame(&mut self, head: FrameHead, mut payload: Bytes) {
        if payload.len() <= WEBSOCKET_COPIED_BYTES {
            return self.copied(head, &payload);
        }
        head.write(&mut self.gathered);
        self.end_chunk();
        while !payload.is_empty() {
            let slice = payload.split_to(payload.len().min(WEBSOCKET_SLICE_BYTES));
            self.chunks.push_back(slice);
        }
    }

    fn copied(&mut self, head: FrameHead, payload: &[u8]) {
        self.gathered.reserve(HEAD_BYTES_MAX + payload.len());
        head.write(&mut self.gathered);
        self.gathered.extend_from_slice(payload);
    }

    fn end_chunk(&mut self) {
        if !self.gathered.is_empty() {
            self.chunks.push_back(std::mem::take(&mut self.gathered).into());
        }
    }
}
