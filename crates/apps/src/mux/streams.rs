//! The streams of a connection by number.
//!
//! The lower bits of a number are an index in a table, the upper ones a generation: a frame for a
//! stream that has ended is not delivered to its successor. An index keeps its waker for later
//! streams.

use std::sync::Arc;
use std::task::Waker;

use wire::frames::Malformed;

use super::ready::{ReadyQueue, StreamWaker};

/// Bits of a number that are its index.
const INDEX_BITS: u32 = 12;
/// Streams of one connection at a time.
pub(crate) const STREAMS_MAX: usize = 1 << INDEX_BITS;

pub(crate) struct Streams<T> {
    entries: Vec<StreamEntry<T>>,
    /// Free indices of the table.
    free: Vec<usize>,
    ready: Arc<ReadyQueue>,
}

struct StreamEntry<T> {
    stream_waker: Arc<StreamWaker>,
    waker: Waker,
    number: u32,
    /// The stream waits for room in the outbox.
    stalled: bool,
    stream: Option<T>,
}

impl<T> Streams<T> {
    pub(super) fn new(ready: Arc<ReadyQueue>) -> Streams<T> {
        Streams { entries: Vec::new(), free: Vec::new(), ready }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn add_entry(&mut self) {
        let index = self.entries.len();
        let stream_waker = StreamWaker::new(index, self.ready.clone());
        let waker = Waker::from(stream_waker.clone());
        self.entries.push(StreamEntry {
            stream_waker,
            waker,
            number: 0,
            stalled: false,
            stream: None,
        });
        self.free.push(index);
    }

    /// Returns a number for a new stream and its waker, or `None` at the limit. [`Streams::open`]
    /// follows.
    pub(crate) fn number(&mut self) -> Option<(u32, Waker)> {
        if self.free.is_empty() {
            if self.entries.len() >= STREAMS_MAX {
                return None;
            }
            self.add_entry();
        }
        let index = *self.free.last()?;
        let entry = self.entries.get(index)?;
        // 0 is the number of the connection.
        let turn = match (entry.number >> INDEX_BITS).wrapping_add(1) << INDEX_BITS {
            0 => 1 << INDEX_BITS,
            turn => turn,
        };
        Some((turn | index as u32, entry.waker.clone()))
    }

    /// Opens a stream; its index must be free.
    pub(crate) fn open(&mut self, number: u32, stream: T) -> Result<(), Malformed> {
        let index = index_of(number);
        while self.entries.len() <= index {
            self.add_entry();
        }
        let entry = &mut self.entries[index];
        if entry.stream.is_some() {
            return Err(Malformed::Stream);
        }
        entry.number = number;
        entry.stalled = false;
        entry.stream = Some(stream);
        // Usually it is the last one.
        if let Some(at) = self.free.iter().rposition(|free| *free == index) {
            self.free.swap_remove(at);
        }
        Ok(())
    }

    /// Returns the stream of this number, if it is open, and its waker.
    pub(crate) fn get(&mut self, number: u32) -> Option<(&mut T, &Waker)> {
        let entry = self.entries.get_mut(index_of(number))?;
        if entry.number != number {
            return None;
        }
        Some((entry.stream.as_mut()?, &entry.waker))
    }

    /// Returns the number of the stream at a woken index.
    pub(crate) fn woken(&self, index: usize) -> Option<u32> {
        let entry = self.entries.get(index)?;
        entry.stream_waker.taken();
        entry.stream.as_ref().map(|_| entry.number)
    }

    /// Sets whether a stream waits for room in the outbox; returns true if this changed.
    pub(super) fn set_stalled(&mut self, number: u32, stalled: bool) -> bool {
        match self.entries.get_mut(index_of(number)) {
            Some(entry) if entry.number == number && entry.stream.is_some() => {
                std::mem::replace(&mut entry.stalled, stalled) != stalled
            }
            _ => false,
        }
    }

    /// The numbers of the open streams.
    pub(crate) fn numbers(&self) -> Vec<u32> {
        let open = self.entries.iter().filter(|entry| entry.stream.is_some());
        open.map(|entry| entry.number).collect()
    }

    pub(crate) fn close(&mut self, number: u32) -> Option<T> {
        let index = index_of(number);
        let entry = self.entries.get_mut(index).filter(|entry| entry.number == number)?;
        let stream = entry.stream.take()?;
        self.free.push(index);
        Some(stream)
    }

    /// Removes all streams.
    pub(crate) fn drain(&mut self) -> Vec<T> {
        self.free.clear();
        let streams = self.entries.drain(..).filter_map(|entry| entry.stream).collect();
        self.entries.shrink_to_fit();
        streams
    }
}

fn index_of(number: u32) -> usize {
    (number & ((1 << INDEX_BITS) - 1)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_an_ended_stream_is_unknown() {
        let mut streams = Streams::new(Arc::default());
        let (first, _) = streams.number().unwrap();
        streams.open(first, 'a').unwrap();
        assert_eq!(streams.open(first, 'x'), Err(Malformed::Stream));
        assert_eq!(streams.close(first), Some('a'));
        let (second, _) = streams.number().unwrap();
        assert_eq!(index_of(first), index_of(second));
        streams.open(second, 'b').unwrap();
        assert!(streams.get(first).is_none() && streams.close(first).is_none());
        assert_eq!(streams.get(second).map(|(stream, _)| *stream), Some('b'));
        assert_eq!(streams.len(), 1);
    }

    #[test]
    fn numbers_of_the_other_end_are_accepted() {
        let mut streams = Streams::new(Arc::default());
        let number = 7 << INDEX_BITS | (STREAMS_MAX as u32 - 1);
        streams.open(number, 'z').unwrap();
        assert_eq!(streams.woken(STREAMS_MAX - 1), Some(number));
        assert_eq!((streams.len(), streams.woken(3)), (1, None));
        assert_eq!(streams.drain(), ['z']);
    }

    #[test]
    fn the_number_of_streams_is_limited() {
        let mut streams = Streams::new(Arc::default());
        for _ in 0..STREAMS_MAX {
            let (number, _) = streams.number().unwrap();
            streams.open(number, ()).unwrap();
        }
        assert!(streams.number().is_none());
    }
}
