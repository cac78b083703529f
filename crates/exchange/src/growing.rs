//! A body that grows while others read it, on this worker or another one.
//!
//! One [`GrowingWriter`] adds to it; a [`Growing`] is a handle for any thread; each
//! [`GrowingReader`] made from it is a [`BodyStream`] that begins at the beginning and is woken
//! when there is more. Promises a bound on what is kept, that no lock is held while bytes are
//! copied (a reader takes a reference to a piece under a read lock; only one that has caught up
//! takes a mutex, to leave its waker), and that nobody waits for a writer that has gone. Drops
//! nothing while anybody may still read it.

use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use net::FileRange;
use slab::Slab;

use crate::body::kept;
use crate::{Body, BodyStream, Fault, Frame, Headers, Side};

/// What a piece counts besides its bytes: what it takes to keep it. A server that sends byte by
/// byte must not make us keep much more than the bound says.
const PIECE_BYTES: u64 = 64;

/// The next piece would be beyond the bound; it was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// A handle to the body, for any thread.
#[derive(Clone)]
pub struct Growing(Arc<Shared>);

struct Shared {
    grown: RwLock<Grown>,
    sleeping: Mutex<Slab<Option<Waker>>>,
    /// Length of the whole, where it was known from the start.
    length: Option<u64>,
    limit: u64,
}

#[derive(Default)]
struct Grown {
    pieces: Vec<Piece>,
    /// Bytes of content so far.
    length: u64,
    /// What is counted against the bound.
    counted: u64,
    end: Option<Result<Option<Headers>, Fault>>,
}

#[derive(Clone)]
enum Piece {
    Data(Bytes),
    File(FileRange),
}

/// A new body that may come to `limit` bytes; `length` is its length, where that is known.
pub fn growing(limit: u64, length: Option<u64>) -> (GrowingWriter, Growing) {
    let grown = RwLock::new(Grown::default());
    let shared = Arc::new(Shared { grown, sleeping: Mutex::default(), length, limit });
    (GrowingWriter(shared.clone()), Growing(shared))
}

impl Shared {
    fn read(&self) -> RwLockReadGuard<'_, Grown> {
        self.grown.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Grown> {
        self.grown.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, end: Result<Option<Headers>, Fault>) {
        self.write().end.get_or_insert(end);
        self.wake_all();
    }

    fn wake_all(&self) {
        let mut sleeping = self.sleeping.lock().unwrap_or_else(PoisonError::into_inner);
        let wakers: Vec<Waker> =
            sleeping.iter_mut().filter_map(|(_, place)| place.take()).collect();
        drop(sleeping);
        wakers.into_iter().for_each(Waker::wake);
    }
}

/// Adds to the body. Dropped before its end, it leaves a fault for its readers.
pub struct GrowingWriter(Arc<Shared>);

impl GrowingWriter {
    /// Adds a piece.
    pub fn push(&mut self, data: Bytes) -> Result<(), Full> {
        let length = data.len() as u64;
        if length == 0 {
            return Ok(());
        }
        self.add(Piece::Data(kept(data)), length, length)
    }

    /// Adds a part of a file, which takes no memory.
    pub fn push_file(&mut self, range: FileRange) -> Result<(), Full> {
        let length = range.length;
        self.add(Piece::File(range), length, 0)
    }

    fn add(&mut self, piece: Piece, length: u64, memory: u64) -> Result<(), Full> {
        let mut grown = self.0.write();
        let counted = grown.counted + memory + PIECE_BYTES;
        if counted > self.0.limit {
            return Err(Full);
        }
        grown.counted = counted;
        grown.length += length;
        grown.pieces.push(piece);
        drop(grown);
        self.0.wake_all();
        Ok(())
    }

    /// Ends the body.
    pub fn finish(self, trailers: Option<Headers>) {
        self.0.end(Ok(trailers));
    }

    /// Breaks the body off: readers get what there is, and then the fault.
    pub fn fail(self, fault: Fault) {
        self.0.end(Err(fault));
    }

    /// Whether nobody reads the body, nor can any more.
    pub fn is_abandoned(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }

    /// Adds a whole body as it arrives. Gives up, with the rest unread, when nobody is left to read
    /// or the bound is reached; the fault is what its readers get.
    pub async fn fill(mut self, body: &mut Body) -> Result<(), Fault> {
        let mut trailers = None;
        let outcome = loop {
            if self.is_abandoned() {
                break Err(Fault::client_gone("nobody reads the growing body"));
            }
            let added = match body.frame().await {
                None => break Ok(()),
                Some(Err(fault)) => break Err(fault),
                Some(Ok(Frame::Data(data))) => self.push(data),
                Some(Ok(Frame::File(range))) => self.push_file(range),
                Some(Ok(Frame::Trailers(fields))) => {
                    trailers = Some(fields);
                    Ok(())
                }
            };
            if added.is_err() {
                break Err(fault("growing_full", "the body is longer than may be kept"));
            }
        };
        match outcome.clone() {
            Ok(()) => self.finish(trailers),
            Err(fault) => self.fail(fault),
        }
        outcome
    }
}

impl Drop for GrowingWriter {
    fn drop(&mut self) {
        self.0.end(Err(fault("growing_dropped", "nobody adds to the growing body any more")));
    }
}

fn fault(slug: &'static str, detail: &'static str) -> Fault {
    Fault::new(Side::Us, 500, slug, detail)
}

impl Growing {
    /// A reader from the beginning.
    pub fn reader(&self) -> GrowingReader {
        GrowingReader { shared: self.0.clone(), at: 0, read: 0, bed: None, ended: false }
    }

    /// The same as a body.
    pub fn body(&self) -> Body {
        Body::stream(self.reader())
    }

    /// Bytes there are now.
    pub fn length(&self) -> u64 {
        self.0.read().length
    }

    /// How it ended, once it has: whole, or with a fault.
    pub fn ended(&self) -> Option<Result<(), Fault>> {
        self.0.read().end.as_ref().map(|end| end.as_ref().map(|_| ()).map_err(Fault::clone))
    }
}

/// Reads the body from its beginning.
pub struct GrowingReader {
    shared: Arc<Shared>,
    /// The next piece.
    at: usize,
    /// Bytes read.
    read: u64,
    /// Its place among the sleeping.
    bed: Option<usize>,
    ended: bool,
}

impl GrowingReader {
    /// What there is to be read now.
    fn next(&mut self) -> Option<Option<Result<Frame, Fault>>> {
        let grown = self.shared.read();
        if let Some(piece) = grown.pieces.get(self.at) {
            let piece = piece.clone();
            drop(grown);
            self.at += 1;
            let (length, frame) = match piece {
                Piece::Data(data) => (data.len() as u64, Frame::Data(data)),
                Piece::File(range) => (range.length, Frame::File(range)),
            };
            self.read += length;
            return Some(Some(Ok(frame)));
        }
        let end = grown.end.clone()?;
        drop(grown);
        self.ended = true;
        Some(match end {
            Ok(trailers) => trailers.map(|fields| Ok(Frame::Trailers(fields))),
            Err(fault) => Some(Err(fault)),
        })
    }

    fn sleep(&mut self, cx: &Context<'_>) {
        let mut sleeping = self.shared.sleeping.lock().unwrap_or_else(PoisonError::into_inner);
        let bed = *self.bed.get_or_insert_with(|| sleeping.insert(None));
        match &mut sleeping[bed] {
            Some(known) if known.will_wake(cx.waker()) => {}
            place => *place = Some(cx.waker().clone()),
        }
    }
}

impl BodyStream for GrowingReader {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, Fault>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        if let Some(next) = self.next() {
            return Poll::Ready(next);
        }
        self.sleep(cx);
        // It may have grown before we were on the list.
        self.next().map_or(Poll::Pending, Poll::Ready)
    }

    fn length(&self) -> Option<u64> {
        let whole = self.shared.length.or_else(|| {
            let grown = self.shared.read();
            // Trailers need chunks: then no length is announced.
            matches!(grown.end, Some(Ok(None))).then_some(grown.length)
        });
        whole.map(|length| length.saturating_sub(self.read))
    }
}

impl Drop for GrowingReader {
    fn drop(&mut self) {
        if let Some(bed) = self.bed {
            let mut sleeping = self.shared.sleeping.lock().unwrap_or_else(PoisonError::into_inner);
            sleeping.remove(bed);
        }
    }
}

#[cfg(test)]
mod tests;
