//! A body that grows while others read it, on this worker or another one.
//!
//! One [`SharedBodyWriter`] adds to it; a [`SharedBody`] is a handle for any thread; each
//! [`SharedBodyReader`] made from it is a [`BodyStream`] that begins at the beginning and is woken
//! when there is more. Promises a bound on what is kept, that no lock is held while bytes are
//! copied (a reader takes a reference to a piece under a read lock; only one that has caught up
//! takes a mutex, to leave its waker), and that no reader waits for a writer that is gone.
//! Drops nothing that a reader may still need: what becomes longer than the bound continues as a
//! window ([`SharedBodyWriter::push_on`]), at the pace of the slowest reader, and no reader joins
//! any more.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;

use crate::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
use crate::{Body, BodyStream, Fault, FaultKind, FileRange, Frame, Headers, detach_small};
use readers::Readers;

// The path is for `tests/models`, which compiles this file as a module of its own.
#[path = "shared_body/readers.rs"]
mod readers;

/// What a piece counts besides its bytes: what it takes to keep it. A server that sends byte by
/// byte must not make us keep much more than the bound says.
const PIECE_BYTES: u64 = 64;

/// The next piece would be beyond the bound; it was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

/// A handle to the body, for any thread.
#[derive(Clone)]
pub struct SharedBody(Arc<Shared>);

struct Shared {
    /// Taken after `readers`, where both are needed.
    grown: RwLock<SharedBodyState>,
    readers: Mutex<Readers>,
    /// Length of the whole, where it was known from the start.
    length: Option<u64>,
    limit: u64,
}

#[derive(Default)]
struct SharedBodyState {
    pieces: VecDeque<Piece>,
    /// Pieces that were let go of before the first that is kept.
    gone: usize,
    /// Pieces are let go of: readers say how far they have come.
    is_window: bool,
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

impl Piece {
    fn length(&self) -> u64 {
        match self {
            Piece::Data(data) => data.len() as u64,
            Piece::File(range) => range.length,
        }
    }

    /// What it counts against the bound: a part of a file takes no memory.
    fn counted(&self) -> u64 {
        match self {
            Piece::Data(data) => data.len() as u64 + PIECE_BYTES,
            Piece::File(_) => PIECE_BYTES,
        }
    }
}

impl From<Piece> for Frame {
    fn from(piece: Piece) -> Frame {
        match piece {
            Piece::Data(data) => Frame::Data(data),
            Piece::File(range) => Frame::File(range),
        }
    }
}

impl SharedBodyState {
    fn has_room(&self, piece: &Piece, limit: u64) -> bool {
        self.counted + piece.counted() <= limit
    }

    fn add(&mut self, piece: Piece) {
        self.counted += piece.counted();
        self.length += piece.length();
        self.pieces.push_back(piece);
    }

    /// Lets go of what is before the piece `upto`.
    fn let_go(&mut self, upto: usize) -> Vec<Piece> {
        let count = upto.saturating_sub(self.gone).min(self.pieces.len());
        let old: Vec<Piece> = self.pieces.drain(..count).collect();
        self.gone += count;
        self.counted -= old.iter().map(Piece::counted).sum::<u64>();
        old
    }
}

/// A new body that may come to `limit` bytes; `length` is its length, where that is known.
pub fn shared_body(limit: u64, length: Option<u64>) -> (SharedBodyWriter, SharedBody) {
    let grown = RwLock::new(SharedBodyState::default());
    let shared = Arc::new(Shared { grown, readers: Mutex::default(), length, limit });
    (SharedBodyWriter { shared: shared.clone(), window: limit }, SharedBody(shared))
}

impl Shared {
    fn read(&self) -> RwLockReadGuard<'_, SharedBodyState> {
        self.grown.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, SharedBodyState> {
        self.grown.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn readers(&self) -> MutexGuard<'_, Readers> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, end: Result<Option<Headers>, Fault>) {
        self.write().end.get_or_insert(end);
        self.wake_all();
    }

    fn wake_all(&self) {
        let wakers = self.readers().take_wakers();
        wakers.into_iter().for_each(Waker::wake);
    }
}

/// Adds to the body. Dropped before its end, it leaves a fault for its readers.
pub struct SharedBodyWriter {
    shared: Arc<Shared>,
    /// What a window may come to.
    window: u64,
}

impl SharedBodyWriter {
    /// Adds a piece.
    pub fn push(&mut self, data: Bytes) -> Result<(), TooLong> {
        if data.is_empty() { Ok(()) } else { self.add(Piece::Data(detach_small(data))) }
    }

    /// Adds a part of a file, which takes no memory.
    pub fn push_file(&mut self, range: FileRange) -> Result<(), TooLong> {
        self.add(Piece::File(range))
    }

    fn add(&mut self, piece: Piece) -> Result<(), TooLong> {
        let mut grown = self.shared.write();
        if !grown.has_room(&piece, self.shared.limit) {
            return Err(TooLong);
        }
        grown.add(piece);
        drop(grown);
        self.shared.wake_all();
        Ok(())
    }

    /// Bounds what is kept from now on, if it is [pushed on](Self::push_on).
    pub fn narrow(&mut self, bytes: u64) {
        self.window = bytes.min(self.shared.limit);
    }

    /// Adds a piece to a body that has become too long to be stored, once every reader has read
    /// enough of it; pieces that all have read are dropped. Returns false if no reader remains.
    pub async fn push_on(&mut self, frame: Frame) -> bool {
        let piece = match frame {
            Frame::Data(data) if data.is_empty() => return true,
            Frame::Data(data) => Piece::Data(detach_small(data)),
            Frame::File(range) => Piece::File(range),
            Frame::Trailers(_) => return true,
        };
        if !poll_fn(|cx| self.poll_room(&piece, cx)).await {
            return false;
        }
        self.shared.write().add(piece);
        self.shared.wake_all();
        true
    }

    fn poll_room(&self, piece: &Piece, cx: &Context<'_>) -> Poll<bool> {
        let mut readers = self.shared.readers();
        let Some(least) = readers.least(cx) else { return Poll::Ready(false) };
        let mut grown = self.shared.write();
        grown.is_window = true;
        let old = grown.let_go(least);
        let ready = grown.has_room(piece, self.window) || grown.pieces.is_empty();
        drop(grown);
        drop(readers);
        drop(old);
        if ready { Poll::Ready(true) } else { Poll::Pending }
    }

    /// How many read it now.
    pub fn readers(&self) -> usize {
        self.shared.readers().count()
    }

    /// Ends the body.
    pub fn finish(self, trailers: Option<Headers>) {
        self.shared.end(Ok(trailers));
    }

    /// Breaks the body off: readers get what there is, and then the fault.
    pub fn fail(self, fault: Fault) {
        self.shared.end(Err(fault));
    }

    /// True if the body has no reader and can get none.
    pub fn is_abandoned(&self) -> bool {
        Arc::strong_count(&self.shared) == 1
    }

    /// Adds a whole body as it arrives. Gives up, with the rest unread, when no reader remains or
    /// the bound is reached; the fault is what its readers get.
    pub async fn fill(mut self, body: &mut Body) -> Result<(), Fault> {
        let mut trailers = None;
        let outcome = loop {
            if self.is_abandoned() {
                break Err(Fault::client_gone("the shared body has no reader"));
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
                break Err(Fault::new(
                    FaultKind::SharedBodyFull,
                    "the body is longer than may be kept",
                ));
            }
        };
        match outcome.clone() {
            Ok(()) => self.finish(trailers),
            Err(fault) => self.fail(fault),
        }
        outcome
    }
}

impl Drop for SharedBodyWriter {
    fn drop(&mut self) {
        self.shared
            .end(Err(Fault::new(FaultKind::SharedBodyDropped, "the writer of the body is gone")));
    }
}

impl SharedBody {
    /// A reader from the beginning; a fault is all it gets if that is not kept any more.
    pub fn reader(&self) -> SharedBodyReader {
        let place = self.0.readers().join();
        SharedBodyReader { shared: self.0.clone(), at: 0, read: 0, place, ended: false }
    }

    /// A reader that will get the whole, unless the writer fails; `None` if it cannot.
    pub fn join(&self) -> Option<SharedBodyReader> {
        let mut readers = self.0.readers();
        // The writer lets go of pieces under the same lock.
        if self.0.read().is_window {
            return None;
        }
        let place = readers.join();
        drop(readers);
        Some(SharedBodyReader { shared: self.0.clone(), at: 0, read: 0, place, ended: false })
    }

    /// Every piece, once it has ended well and if it was not too long to be kept.
    pub fn complete_frames(&self) -> Option<Vec<Frame>> {
        let grown = self.0.read();
        let whole = matches!(grown.end, Some(Ok(_))) && !grown.is_window;
        whole.then(|| grown.pieces.iter().cloned().map(Frame::from).collect())
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
pub struct SharedBodyReader {
    shared: Arc<Shared>,
    /// The next piece.
    at: usize,
    /// Bytes read.
    read: u64,
    /// Its place among the readers.
    place: usize,
    ended: bool,
}

impl SharedBodyReader {
    /// What there is to be read now.
    fn next(&mut self) -> Option<Option<Result<Frame, Fault>>> {
        let grown = self.shared.read();
        let Some(kept) = self.at.checked_sub(grown.gone) else {
            self.ended = true;
            return Some(Some(Err(Fault::new(
                FaultKind::SharedBodyLate,
                "its beginning is not kept any more",
            ))));
        };
        if let Some(piece) = grown.pieces.get(kept) {
            let (piece, is_window) = (piece.clone(), grown.is_window);
            drop(grown);
            self.at += 1;
            self.read += piece.length();
            if is_window {
                self.shared.readers().come_to(self.place, self.at);
            }
            return Some(Some(Ok(piece.into())));
        }
        let end = grown.end.clone()?;
        drop(grown);
        self.ended = true;
        Some(match end {
            Ok(trailers) => trailers.map(|fields| Ok(Frame::Trailers(fields))),
            Err(fault) => Some(Err(fault)),
        })
    }
}

impl BodyStream for SharedBodyReader {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, Fault>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        if let Some(next) = self.next() {
            return Poll::Ready(next);
        }
        self.shared.readers().sleep(self.place, self.at, cx);
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

impl Drop for SharedBodyReader {
    fn drop(&mut self) {
        self.shared.readers().leave(self.place);
    }
}
