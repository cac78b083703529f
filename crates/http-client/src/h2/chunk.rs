//! Content on its way through the protocol to the send queue.

use bytes::Bytes;
use net::{FileRange, Outgoing};
use wire::h2::{Output, Payload};

/// Content of a request.
#[derive(Debug)]
pub(super) enum Chunk {
    Bytes(Bytes),
    File(FileRange),
}

impl Payload for Chunk {
    fn len(&self) -> u64 {
        match self {
            Chunk::Bytes(bytes) => bytes.len() as u64,
            Chunk::File(range) => range.length,
        }
    }

    fn split_to(&mut self, len: usize) -> Chunk {
        match self {
            Chunk::Bytes(bytes) => Chunk::Bytes(bytes.split_to(len)),
            Chunk::File(range) => {
                let first = FileRange { length: len as u64, ..range.clone() };
                range.offset += len as u64;
                range.length -= len as u64;
                Chunk::File(first)
            }
        }
    }

    fn as_slice(&self) -> Option<&[u8]> {
        match self {
            Chunk::Bytes(bytes) => Some(bytes),
            Chunk::File(_) => None,
        }
    }
}

/// The send queue of a connection.
pub(super) struct SendQueue<'a>(pub(super) &'a mut Outgoing);

impl Output<Chunk> for SendQueue<'_> {
    fn frames(&mut self, bytes: &mut Vec<u8>) {
        self.0.push(Bytes::from(std::mem::take(bytes)));
    }

    fn payload(&mut self, payload: Chunk) {
        match payload {
            Chunk::Bytes(bytes) => self.0.push(bytes),
            Chunk::File(range) => self.0.push_file(range),
        }
    }
}
