//! Content that is there whole, in memory or in a file, and parts of it as bodies.
//!
//! Promises that a worker waits for none of it: a large file is sent in windows; before each the
//! page cache is asked, and a window that is not in memory is read on the blocking pool first, and
//! only then handed on to `sendfile`.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use net::{Blocking, FileRange};

use crate::{Body, BodyStream, Fault, Frame};

/// A file that may not be in memory is sent in steps of this size, each looked at first.
pub const WINDOW_BYTES: u64 = 1024 * 1024;

/// Content of known length.
#[derive(Clone, Debug)]
pub enum Content {
    Memory(Bytes),
    /// A part of a file that may have to be read from a disk.
    File(FileRange),
    /// A part of a file that is known to be in memory: it is sent in one piece.
    MemoryFile(FileRange),
}

impl Content {
    pub fn len(&self) -> u64 {
        match self {
            Content::Memory(bytes) => bytes.len() as u64,
            Content::File(range) | Content::MemoryFile(range) => range.length,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All of it as a body.
    pub fn body(&self) -> Body {
        match self {
            Content::Memory(bytes) => Body::from(bytes.clone()),
            Content::MemoryFile(range) => Body::File(range.clone()),
            Content::File(range) => file(range.clone()),
        }
    }

    /// Returns `length` bytes from `first` on as a body, limited by the end of the content.
    pub fn part(&self, first: u64, length: u64) -> Body {
        match self {
            Content::Memory(bytes) => Body::from(slice(bytes, first, length)),
            Content::MemoryFile(whole) => Body::File(within(whole, first, length)),
            Content::File(whole) => file(within(whole, first, length)),
        }
    }
}

/// A body of several pieces of memory, one after the other.
pub fn in_pieces(all: impl IntoIterator<Item = Bytes>) -> Body {
    let mut pieces = Pieces::default();
    all.into_iter().for_each(|bytes| pieces.push(bytes));
    Body::stream(pieces)
}

fn file(range: FileRange) -> Body {
    let length = range.length;
    let waiting = VecDeque::from([Piece::File(range)]);
    Body::stream(Pieces { waiting, length, ..Pieces::default() })
}

fn slice(bytes: &Bytes, first: u64, length: u64) -> Bytes {
    let first = usize::try_from(first).unwrap_or(usize::MAX).min(bytes.len());
    let length = usize::try_from(length).unwrap_or(usize::MAX).min(bytes.len() - first);
    bytes.slice(first..first + length)
}

fn within(whole: &FileRange, first: u64, length: u64) -> FileRange {
    let first = first.min(whole.length);
    let length = length.min(whole.length - first);
    FileRange { file: whole.file.clone(), offset: whole.offset + first, length }
}

/// Pieces in order.
pub(crate) struct Pieces {
    waiting: VecDeque<Piece>,
    length: u64,
    warming: Option<Blocking<io::Result<()>>>,
    /// `net::files::is_resident`, except in tests that simulate a slow disk.
    is_resident: fn(&File, u64, u64) -> bool,
}

impl Default for Pieces {
    fn default() -> Pieces {
        Pieces {
            waiting: VecDeque::new(),
            length: 0,
            warming: None,
            is_resident: net::files::is_resident,
        }
    }
}

enum Piece {
    Bytes(Bytes),
    File(FileRange),
    MemoryFile(FileRange),
}

impl Pieces {
    pub(crate) fn push(&mut self, bytes: impl Into<Bytes>) {
        let bytes = bytes.into();
        self.length += bytes.len() as u64;
        self.waiting.push_back(Piece::Bytes(bytes));
    }

    pub(crate) fn push_part(&mut self, content: &Content, first: u64, length: u64) {
        let piece = match content {
            Content::Memory(bytes) => return self.push(slice(bytes, first, length)),
            Content::File(whole) => Piece::File(within(whole, first, length)),
            Content::MemoryFile(whole) => Piece::MemoryFile(within(whole, first, length)),
        };
        self.length += length;
        self.waiting.push_back(piece);
    }

    /// The next window of a file, unless it has to be read first.
    fn window(&mut self, mut range: FileRange, warmed: bool) -> Option<FileRange> {
        let window = FileRange { length: range.length.min(WINDOW_BYTES), ..range.clone() };
        if !warmed && !(self.is_resident)(&window.file, window.offset, window.length) {
            self.waiting.push_front(Piece::File(range));
            self.warming = Some(net::blocking(move || {
                net::files::warm(&window.file, window.offset, window.length)
            }));
            return None;
        }
        range.offset += window.length;
        range.length -= window.length;
        if range.length > 0 {
            self.waiting.push_front(Piece::File(range));
        }
        Some(window)
    }
}

impl BodyStream for Pieces {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, Fault>>> {
        let mut warmed = false;
        loop {
            if let Some(warming) = &mut self.warming {
                let done = ready!(Pin::new(warming).poll(cx));
                self.warming = None;
                warmed = true;
                if let Err(error) = done.flatten() {
                    let fault = Fault::internal(format!("a file cannot be read: {error}"));
                    return Poll::Ready(Some(Err(fault)));
                }
            }
            let frame = match self.waiting.pop_front() {
                None => return Poll::Ready(None),
                Some(Piece::Bytes(bytes)) => {
                    self.length -= bytes.len() as u64;
                    Frame::Data(bytes)
                }
                Some(Piece::MemoryFile(range)) => {
                    self.length -= range.length;
                    Frame::File(range)
                }
                Some(Piece::File(range)) => match self.window(range, warmed) {
                    Some(window) => {
                        self.length -= window.length;
                        Frame::File(window)
                    }
                    None => continue,
                },
            };
            return Poll::Ready(Some(Ok(frame)));
        }
    }

    fn length(&self) -> Option<u64> {
        Some(self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on_a_slow_disk(file: File) -> Pieces {
        let length = WINDOW_BYTES + 5;
        let range = FileRange { file: file.into(), offset: 0, length };
        let waiting = VecDeque::from([Piece::File(range)]);
        Pieces { is_resident: |_, _, _| false, waiting, length, ..Pieces::default() }
    }

    #[test]
    fn what_is_not_in_memory_is_read_on_the_pool_first() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(WINDOW_BYTES + 5).unwrap();
        net::worker::block_on_local(async {
            let mut body = Body::stream(on_a_slow_disk(file.reopen().unwrap()));
            let mut windows = Vec::new();
            while let Some(frame) = body.frame().await {
                let Frame::File(range) = frame.unwrap() else { panic!("not a file") };
                windows.push((range.offset, range.length));
            }
            assert_eq!(windows, [(0, WINDOW_BYTES), (WINDOW_BYTES, 5)]);
            assert_eq!(body.length(), Some(0));
            // Reading a file that cannot be read shows up as a fault.
            let write_only = File::options().write(true).open(file.path()).unwrap();
            let fault = Body::stream(on_a_slow_disk(write_only)).frame().await.unwrap();
            assert!(fault.unwrap_err().detail.contains("cannot be read"));
        });
    }

    #[test]
    fn a_part_is_within_the_whole() {
        let file = std::sync::Arc::new(tempfile::tempfile().unwrap());
        let range = FileRange { file, offset: 100, length: 10 };
        for whole in [Content::MemoryFile(range.clone()), Content::Memory(vec![0; 10].into())] {
            assert_eq!((whole.len(), whole.body().length()), (10, Some(10)));
            for (first, length, there) in [(0, 10, 10), (9, 9, 1), (10, 1, 0), (99, 99, 0)] {
                let part = whole.part(first, length);
                assert_eq!(part.length(), Some(there), "{whole:?} {first} {length}");
                if let Body::File(part) = part {
                    assert_eq!(part.offset, 100 + first.min(10));
                }
            }
        }
        assert!(matches!(Content::File(range).part(2, 3), Body::Stream(_)));
    }
}
