//! Content of HTTP/2 streams, as both sides hold it: what is sent, on its way through the protocol
//! to the send queue of the connection, and what was received, until it is read.

use std::collections::VecDeque;
use std::rc::Rc;

use bytes::{Bytes, BytesMut};
use net::{FileRange, Outgoing};
use wire::h2::{Output, Payload};

/// Received pieces up to this length are joined: each alone might pin a block of the worker.
const JOINED_BYTES_MAX: usize = 16 * 1024;

/// Content to send.
#[derive(Debug)]
pub enum Chunk {
    Bytes(Bytes),
    /// Bytes that the worker stores: they are copied, which costs less than counting them.
    Kept(Rc<[u8]>),
    File(FileRange),
}

impl Payload for Chunk {
    fn len(&self) -> u64 {
        match self {
            Chunk::Bytes(bytes) => bytes.len() as u64,
            Chunk::Kept(bytes) => bytes.len() as u64,
            Chunk::File(range) => range.length,
        }
    }

    fn split_to(&mut self, len: usize) -> Chunk {
        if let Chunk::Kept(bytes) = self {
            *self = Chunk::Bytes(Bytes::copy_from_slice(bytes));
        }
        match self {
            Chunk::Bytes(bytes) => Chunk::Bytes(bytes.split_to(len)),
            Chunk::File(range) => {
                let first = FileRange { length: len as u64, ..range.clone() };
                range.offset += len as u64;
                range.length -= len as u64;
                Chunk::File(first)
            }
            // Replaced above.
            Chunk::Kept(_) => Chunk::Bytes(Bytes::new()),
        }
    }

    fn as_slice(&self) -> Option<&[u8]> {
        match self {
            Chunk::Bytes(bytes) => Some(bytes),
            Chunk::Kept(bytes) => Some(bytes),
            Chunk::File(_) => None,
        }
    }
}

/// The send queue of a connection, and how its frames get there: the function takes all bytes and
/// leaves an empty vector.
pub struct SendQueue<'a, F>(pub &'a mut Outgoing, pub F);

impl<F: FnMut(&mut Vec<u8>) -> Bytes> Output<Chunk> for SendQueue<'_, F> {
    fn frames(&mut self, bytes: &mut Vec<u8>) {
        self.0.push((self.1)(bytes));
    }

    fn payload(&mut self, payload: Chunk) {
        match payload {
            Chunk::Bytes(bytes) => self.0.push(bytes),
            Chunk::Kept(bytes) => self.0.push(Bytes::copy_from_slice(&bytes)),
            Chunk::File(range) => self.0.push_file(range),
        }
    }
}

/// Takes the bytes with their memory.
pub fn take(bytes: &mut Vec<u8>) -> Bytes {
    Bytes::from(std::mem::take(bytes))
}

/// Received pieces that were not read. A piece that waits does not pin a block of the worker, and
/// many small ones cost no more than a few large ones.
#[derive(Default)]
pub struct ReceivedData(VecDeque<Bytes>);

impl ReceivedData {
    pub fn push(&mut self, data: Bytes) {
        if data.len() > JOINED_BYTES_MAX {
            return self.0.push_back(data);
        }
        let room = self.0.back().is_some_and(|last| last.len() + data.len() <= JOINED_BYTES_MAX);
        let last = if room { self.0.pop_back() } else { None };
        let mut joined = match last {
            Some(last) => last.try_into_mut().unwrap_or_else(|last| net::detach(&last)),
            None => BytesMut::with_capacity(data.len()),
        };
        joined.extend_from_slice(&data);
        self.0.push_back(joined.freeze());
    }

    pub fn pop(&mut self) -> Option<Bytes> {
        self.0.pop_front()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::{JOINED_BYTES_MAX, ReceivedData};
    use bytes::Bytes;

    #[test]
    fn small_pieces_are_joined_and_large_ones_are_not_copied() {
        let mut data = ReceivedData::default();
        data.push(Bytes::from_static(b"ab"));
        data.push(Bytes::from_static(b"c"));
        let large = Bytes::from(vec![b'd'; JOINED_BYTES_MAX + 1]);
        data.push(large.clone());
        data.push(Bytes::from_static(b"e"));
        data.push(Bytes::from(vec![b'f'; JOINED_BYTES_MAX]));
        assert_eq!(data.len(), 4);
        assert_eq!(data.pop().as_deref(), Some(&b"abc"[..]));
        assert_eq!(data.pop().map(|piece| piece.as_ptr()), Some(large.as_ptr()));
        assert_eq!(data.pop().as_deref(), Some(&b"e"[..]));
        assert_eq!(data.pop().map(|piece| piece.len()), Some(JOINED_BYTES_MAX));
        assert!(data.is_empty() && data.pop().is_none());
    }
}
