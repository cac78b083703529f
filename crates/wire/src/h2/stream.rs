//! One stream (RFC 9113 5.1), and the table of those that are not closed.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use slab::Slab;

use super::priority::Priority;

/// Identifies a stream to the driver of a connection. The slot is below the number of streams that
/// were ever open at once, so that a driver can keep its own state in a vector; it is used again
/// for other streams, the number is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StreamKey {
    pub slot: u32,
    pub id: u32,
}

/// What this side expects from the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Receiving {
    /// The response head, or another interim one.
    Head,
    /// Data or trailers.
    Body,
    Ended,
}

/// What this side may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sending {
    Head,
    Body,
    Ended,
}

/// A stream that is open or half closed.
#[derive(Debug)]
pub(super) struct Stream<P> {
    pub(super) id: u32,
    pub(super) receiving: Receiving,
    pub(super) sending: Sending,
    /// What the peer allows this side to send.
    pub(super) send_window: i64,
    /// What the peer may still send.
    pub(super) receive_window: i64,
    /// Data that the application has not released: what the connection gets back at the end.
    pub(super) unreleased: u32,
    /// Released data that the peer was not told of.
    pub(super) owed: u32,
    /// The content that Content-Length still announces.
    pub(super) body_left: Option<u64>,
    /// The chunk that is being sent, and whether it is the last.
    pub(super) pending: Option<P>,
    pub(super) pending_ends: bool,
    pub(super) priority: Priority,
    /// The place in the order of sending; zero without one.
    pub(super) ticket: u64,
    /// The schedule has a turn for the stream.
    pub(super) is_scheduled: bool,
    /// A response to HEAD has no content.
    pub(super) to_head: bool,
    /// The directions end independently: in a tunnel (RFC 8441), and where the rest of a request is
    /// awaited after its response.
    pub(super) ends_separately: bool,
}

impl<P> Stream<P> {
    pub(super) fn new(id: u32, send_window: u32, receive_window: u32) -> Stream<P> {
        Stream {
            id,
            receiving: Receiving::Head,
            sending: Sending::Head,
            send_window: i64::from(send_window),
            receive_window: i64::from(receive_window),
            unreleased: 0,
            owed: 0,
            body_left: None,
            pending: None,
            pending_ends: false,
            priority: Priority::default(),
            ticket: 0,
            is_scheduled: false,
            to_head: false,
            ends_separately: false,
        }
    }
}

/// Spreads the numbers of streams, which a peer chooses: a table has a bounded number of them, so
/// the worst choice costs a bounded search.
#[derive(Default)]
pub(super) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u32(u32::from(byte));
        }
    }

    fn write_u32(&mut self, id: u32) {
        self.0 = (self.0 ^ u64::from(id)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_right(20);
    }
}

/// The streams that are not closed.
#[derive(Debug)]
pub(super) struct Streams<P> {
    slots: Slab<Stream<P>>,
    by_id: HashMap<u32, u32, BuildHasherDefault<IdHasher>>,
}

impl<P> Default for Streams<P> {
    fn default() -> Streams<P> {
        Streams { slots: Slab::new(), by_id: HashMap::default() }
    }
}

impl<P> Streams<P> {
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn insert(&mut self, stream: Stream<P>) -> StreamKey {
        let id = stream.id;
        let slot = self.slots.insert(stream) as u32;
        self.by_id.insert(id, slot);
        StreamKey { slot, id }
    }

    pub(super) fn find(&self, id: u32) -> Option<StreamKey> {
        self.by_id.get(&id).map(|&slot| StreamKey { slot, id })
    }

    #[inline]
    pub(super) fn get(&self, key: StreamKey) -> Option<&Stream<P>> {
        self.slots.get(key.slot as usize).filter(|stream| stream.id == key.id)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, key: StreamKey) -> Option<&mut Stream<P>> {
        self.slots.get_mut(key.slot as usize).filter(|stream| stream.id == key.id)
    }

    pub(super) fn remove(&mut self, key: StreamKey) -> Option<Stream<P>> {
        self.get(key)?;
        self.by_id.remove(&key.id);
        self.slots.try_remove(key.slot as usize)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Stream<P>> {
        self.slots.iter().map(|(_, stream)| stream)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (StreamKey, &mut Stream<P>)> {
        self.slots
            .iter_mut()
            .map(|(slot, stream)| (StreamKey { slot: slot as u32, id: stream.id }, stream))
    }

    /// Releases the memory of a table that is empty.
    pub(super) fn release_memory(&mut self) {
        if self.slots.is_empty() {
            self.slots = Slab::new();
            self.by_id = HashMap::default();
        }
    }
}
