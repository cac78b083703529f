//! The streams of one connection.

use std::rc::Rc;

use wire::h2::StreamKey;

use super::connection::Http2Connection;
use super::stream::Stream;

/// The streams of a connection, by the slot of their key. Their exchanges end with it, also where a
/// panic of one ends the driver.
pub(super) struct Streams {
    pub(super) connection: Rc<Http2Connection>,
    streams: Vec<Rc<Stream>>,
    /// When the field section began that has arrived in part, in microseconds.
    pub(super) section_began_us: Option<u64>,
}

impl Streams {
    pub(super) fn new(connection: Rc<Http2Connection>) -> Streams {
        Streams { connection, streams: Vec::new(), section_began_us: None }
    }

    /// The stream of this key, if its request has begun and its slot has no other yet.
    pub(super) fn get(&self, key: StreamKey) -> Option<&Stream> {
        let stream = self.streams.get(key.slot as usize)?;
        (stream.key() == key).then_some(stream)
    }

    /// The stream of a new request, mostly in the memory of one that has ended; `is_whole` if the
    /// request has no content.
    pub(super) fn open(&mut self, key: StreamKey, is_whole: bool) -> Rc<Stream> {
        let slot = key.slot as usize;
        let new = || Stream::new(self.connection.clone(), key, is_whole);
        match self.streams.get_mut(slot) {
            Some(stream) if Rc::strong_count(stream) == 1 => stream.restart(key, is_whole),
            Some(stream) => *stream = new(),
            // Slots of rejected requests were never opened.
            None => self.streams.resize_with(slot + 1, new),
        }
        self.streams[slot].clone()
    }

    /// Wakes every exchange.
    pub(super) fn wake_exchanges(&self) {
        self.streams.iter().for_each(|stream| stream.wake_exchange());
    }

    /// Releases the memory of all streams, unless the exchange of one has not ended.
    pub(super) fn release_memory(&mut self) {
        if self.streams.iter().all(|stream| Rc::strong_count(stream) == 1) {
            self.streams = Vec::new();
        }
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        self.streams.iter().for_each(|stream| stream.client_gone());
    }
}
