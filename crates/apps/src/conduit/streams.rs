//! The streams of a connection by number.
//!
//! The lower bits of a number are a place in a table, the upper ones count who has had it: a frame
//! for a stream that is over finds nobody. A place keeps its waker for the streams to come.

use std::sync::Arc;
use std::task::Waker;

use wire::frames::Malformed;

use super::ready::{Mark, Ready};

/// Bits of a number that are its place.
const PLACE_BITS: u32 = 12;
/// Streams of one connection at a time.
pub(crate) const STREAMS_MAX: usize = 1 << PLACE_BITS;

pub(crate) struct Streams<T> {
    places: Vec<Place<T>>,
    /// Places that are free, among those that there are.
    free: Vec<usize>,
    ready: Arc<Ready>,
}

struct Place<T> {
    mark: Arc<Mark>,
    waker: Waker,
    number: u32,
    /// It waits for room in the outbox.
    stalled: bool,
    stream: Option<T>,
}

impl<T> Streams<T> {
    pub(super) fn new(ready: Arc<Ready>) -> Streams<T> {
        Streams { places: Vec::new(), free: Vec::new(), ready }
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn add_place(&mut self) {
        let index = self.places.len();
        let mark = Mark::new(index, self.ready.clone());
        let waker = Waker::from(mark.clone());
        self.places.push(Place { mark, waker, number: 0, stalled: false, stream: None });
        self.free.push(index);
    }

    /// A number for a new stream, and its waker; `None` if there are as many as may be. Then comes
    /// [`Streams::open`].
    pub(crate) fn number(&mut self) -> Option<(u32, Waker)> {
        if self.free.is_empty() {
            if self.places.len() >= STREAMS_MAX {
                return None;
            }
            self.add_place();
        }
        let index = *self.free.last()?;
        let place = self.places.get(index)?;
        // No number is 0, which is the connection.
        let turn = match (place.number >> PLACE_BITS).wrapping_add(1) << PLACE_BITS {
            0 => 1 << PLACE_BITS,
            turn => turn,
        };
        Some((turn | index as u32, place.waker.clone()))
    }

    /// Puts a stream in its place, which must be free.
    pub(crate) fn open(&mut self, number: u32, stream: T) -> Result<(), Malformed> {
        let index = place_of(number);
        while self.places.len() <= index {
            self.add_place();
        }
        let place = &mut self.places[index];
        if place.stream.is_some() {
            return Err(Malformed::Stream);
        }
        place.number = number;
        place.stalled = false;
        place.stream = Some(stream);
        // It is mostly the last one.
        if let Some(at) = self.free.iter().rposition(|free| *free == index) {
            self.free.swap_remove(at);
        }
        Ok(())
    }

    /// The stream of this number, if it is not over, and its waker.
    pub(crate) fn get(&mut self, number: u32) -> Option<(&mut T, &Waker)> {
        let place = self.places.get_mut(place_of(number))?;
        if place.number != number {
            return None;
        }
        Some((place.stream.as_mut()?, &place.waker))
    }

    /// The number of the stream in a place that was ready.
    pub(crate) fn woken(&self, index: usize) -> Option<u32> {
        let place = self.places.get(index)?;
        place.mark.taken();
        place.stream.as_ref().map(|_| place.number)
    }

    /// Says whether a stream waits for room in the outbox; whether that is news.
    pub(super) fn set_stalled(&mut self, number: u32, stalled: bool) -> bool {
        match self.places.get_mut(place_of(number)) {
            Some(place) if place.number == number && place.stream.is_some() => {
                std::mem::replace(&mut place.stalled, stalled) != stalled
            }
            _ => false,
        }
    }

    /// Those that are not over.
    pub(crate) fn numbers(&self) -> Vec<u32> {
        let open = self.places.iter().filter(|place| place.stream.is_some());
        open.map(|place| place.number).collect()
    }

    pub(crate) fn close(&mut self, number: u32) -> Option<T> {
        let index = place_of(number);
        let place = self.places.get_mut(index).filter(|place| place.number == number)?;
        let stream = place.stream.take()?;
        self.free.push(index);
        Some(stream)
    }

    /// Takes all streams out.
    pub(crate) fn drain(&mut self) -> Vec<T> {
        self.free.clear();
        let streams = self.places.drain(..).filter_map(|place| place.stream).collect();
        self.places.shrink_to_fit();
        streams
    }
}

fn place_of(number: u32) -> usize {
    (number & ((1 << PLACE_BITS) - 1)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_is_over_finds_nobody() {
        let mut streams = Streams::new(Arc::default());
        let (first, _) = streams.number().unwrap();
        streams.open(first, 'a').unwrap();
        assert_eq!(streams.open(first, 'x'), Err(Malformed::Stream));
        assert_eq!(streams.close(first), Some('a'));
        let (second, _) = streams.number().unwrap();
        assert_eq!(place_of(first), place_of(second));
        streams.open(second, 'b').unwrap();
        assert!(streams.get(first).is_none() && streams.close(first).is_none());
        assert_eq!(streams.get(second).map(|(stream, _)| *stream), Some('b'));
        assert_eq!(streams.len(), 1);
    }

    #[test]
    fn the_other_ends_numbers_find_their_places() {
        let mut streams = Streams::new(Arc::default());
        let number = 7 << PLACE_BITS | (STREAMS_MAX as u32 - 1);
        streams.open(number, 'z').unwrap();
        assert_eq!(streams.woken(STREAMS_MAX - 1), Some(number));
        assert_eq!((streams.len(), streams.woken(3)), (1, None));
        assert_eq!(streams.drain(), ['z']);
    }

    #[test]
    fn there_are_only_so_many() {
        let mut streams = Streams::new(Arc::default());
        for _ in 0..STREAMS_MAX {
            let (number, _) = streams.number().unwrap();
            streams.open(number, ()).unwrap();
        }
        assert!(streams.number().is_none());
    }
}
