//! The sending side of one stream: a body becomes DATA, as far as there is credit.
//!
//! Asks the body for no more while there is no credit or the outbox is full: that is the
//! back-pressure. Files are read in pieces, off the loop where they are not in memory, so that one
//! that has become shorter ends its own stream and not the connection.

use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use exchange::offload::encoding::put_fields;
use exchange::{Fault, Frame};
use net::{Blocking, FileRange};
use wire::frames::{self, FRAME_COST, Kind, Malformed, WINDOW_MAX, cost};

use super::messages;
use super::outbox::Outbox;
use crate::limits::{FRAMES_FILE_BYTES, FRAMES_PIECE_BYTES, FRAMES_PIECE_BYTES_MIN};

pub(crate) struct Pump {
    credit: u32,
    pending: Bytes,
    /// Nothing comes behind what is pending.
    last: bool,
    /// What comes behind it, where it was taken before.
    next: Option<Result<Frame, Fault>>,
    file: Option<FileRange>,
    reading: Option<Blocking<std::io::Result<Bytes>>>,
}

/// How far it went.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Pumped {
    /// The stream is woken when there is more, or gets credit.
    Waits,
    /// The others of the connection come first; then it goes on.
    Turn,
    /// The outbox is full.
    Stalled,
    Ended,
}

impl Pump {
    pub(crate) fn new(credit: u32) -> Pump {
        Pump { credit, pending: Bytes::new(), last: false, next: None, file: None, reading: None }
    }

    pub(crate) fn grant(&mut self, credit: u32) -> Result<(), Malformed> {
        self.credit = self.credit.checked_add(credit).ok_or(Malformed::Credit)?;
        if self.credit > WINDOW_MAX { Err(Malformed::Credit) } else { Ok(()) }
    }

    /// This is the whole body.
    pub(crate) fn whole(&mut self, bytes: Bytes) {
        (self.pending, self.last) = (bytes, true);
    }

    /// This was taken of the body before.
    pub(crate) fn begin(&mut self, bytes: Bytes, next: Option<Result<Frame, Fault>>) {
        (self.pending, self.next) = (bytes, next);
    }

    /// Sends what it can of the body that `poll` asks.
    pub(crate) fn run(
        &mut self,
        stream: u32,
        outbox: &mut Outbox,
        cx: &mut Context<'_>,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<Option<Result<Frame, Fault>>>,
    ) -> Pumped {
        let mut sent = 0;
        loop {
            while !self.pending.is_empty() {
                if outbox.is_full() {
                    return Pumped::Stalled;
                }
                if sent >= FRAMES_PIECE_BYTES {
                    return Pumped::Turn;
                }
                match self.piece(stream, outbox) {
                    0 => return Pumped::Waits,
                    piece => sent += piece,
                }
                if self.last && self.pending.is_empty() {
                    return Pumped::Ended;
                }
            }
            if self.credit <= FRAME_COST {
                // Asked now, the body would only wait here.
                return Pumped::Waits;
            }
            let next = match self.poll_file(cx) {
                Poll::Ready(None) => match self.next.take() {
                    None => poll(cx),
                    next => Poll::Ready(next),
                },
                Poll::Ready(Some(Ok(bytes))) => Poll::Ready(Some(Ok(Frame::Data(bytes)))),
                Poll::Ready(Some(Err(fault))) => Poll::Ready(Some(Err(fault))),
                Poll::Pending => return Pumped::Waits,
            };
            match next {
                Poll::Pending => return Pumped::Waits,
                Poll::Ready(Some(Ok(Frame::Data(bytes)))) => self.pending = bytes,
                Poll::Ready(Some(Ok(Frame::File(range)))) => self.file = Some(range),
                Poll::Ready(Some(Ok(Frame::Trailers(fields)))) => {
                    let write = |out: &mut Vec<u8>| put_fields(out, &fields);
                    if frames::plain(outbox.frames(), Kind::Trailers, stream, write).is_err() {
                        frames::data_head(outbox.frames(), stream, 0, true);
                    }
                    return Pumped::Ended;
                }
                Poll::Ready(Some(Err(fault))) => {
                    messages::write_fault(outbox.frames(), stream, &fault);
                    return Pumped::Ended;
                }
                Poll::Ready(None) => {
                    frames::data_head(outbox.frames(), stream, 0, true);
                    return Pumped::Ended;
                }
            }
        }
    }

    /// Sends a piece of what is pending, if there is credit for one; its length.
    fn piece(&mut self, stream: u32, outbox: &mut Outbox) -> usize {
        let credit = self.credit.saturating_sub(FRAME_COST) as usize;
        if credit < self.pending.len().min(FRAMES_PIECE_BYTES_MIN) {
            return 0;
        }
        let length = self.pending.len().min(FRAMES_PIECE_BYTES).min(credit);
        let piece = self.pending.split_to(length);
        let end = self.last && self.pending.is_empty();
        frames::data_head(outbox.frames(), stream, length, end);
        outbox.payload(piece);
        self.credit -= cost(length);
        length
    }

    /// The next piece of the file that is being sent.
    fn poll_file(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Fault>>> {
        let Some(range) = &mut self.file else { return Poll::Ready(None) };
        let length = range.length.min(FRAMES_FILE_BYTES);
        let read = match &mut self.reading {
            Some(reading) => ready!(Pin::new(reading).poll(cx)).flatten(),
            None if net::files::is_resident(&range.file, range.offset, length) => {
                read_file(range, length)
            }
            None => {
                let range = range.clone();
                self.reading = Some(net::blocking(move || read_file(&range, length)));
                return self.poll_file(cx);
            }
        };
        self.reading = None;
        range.offset += length;
        range.length -= length;
        if range.length == 0 {
            self.file = None;
        }
        Poll::Ready(Some(read.map_err(|error| {
            Fault::internal(format!("a file of the body cannot be read: {error}"))
        })))
    }
}

fn read_file(range: &FileRange, length: u64) -> std::io::Result<Bytes> {
    // At most `FRAMES_FILE_BYTES`.
    let mut room = vec![0; length as usize];
    range.file.read_exact_at(&mut room, range.offset)?;
    Ok(room.into())
}

/// The receiving side of one stream: how much the other end may still send.
pub(crate) struct Credit {
    window: u32,
    left: u32,
    /// What has been taken on and is not granted anew.
    taken: u32,
}

impl Credit {
    pub(crate) fn new(window: u32) -> Credit {
        Credit { window, left: window, taken: 0 }
    }

    /// As if all had been taken and nothing renewed: the sender waits until it is.
    pub(crate) fn withheld(window: u32) -> Credit {
        Credit { window, left: 0, taken: window }
    }

    /// Something came that cost this much.
    pub(crate) fn spend(&mut self, cost: u32) -> Result<(), Malformed> {
        self.left = self.left.checked_sub(cost).ok_or(Malformed::Credit)?;
        Ok(())
    }

    /// What cost this much has been passed on.
    pub(crate) fn passed_on(&mut self, cost: u32) {
        self.taken += cost;
    }

    /// Whether so much has been passed on that it is worth a frame to grant it anew.
    pub(crate) fn is_due(&self) -> bool {
        self.taken >= self.window / 2
    }

    /// Grants it.
    pub(crate) fn renew(&mut self, stream: u32, out: &mut Vec<u8>) {
        self.left += self.taken;
        frames::window(out, stream, self.taken);
        self.taken = 0;
    }
}
