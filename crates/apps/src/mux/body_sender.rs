//! The sending side of one stream: turns a body into DATA frames within the credit.
//!
//! The body is not polled without credit or while the outbox is full: that is the back-pressure.
//! The descriptor of a long file is passed to a gateway, which sends the file itself. Other files
//! are read, so that one that was truncated ends its own stream and not the connection.

use std::task::{Context, Poll, ready};

use bytes::Bytes;
use message::{Fault, FileReader, Frame};
use net::FileRange;
use offload::encoding::put_fields;
use wire::frames::{self, FILE_COST, FRAME_COST, Kind, Malformed, WINDOW_MAX, cost};

use super::messages;
use super::outbox::Outbox;
use crate::limits::{FRAMES_FILE_BYTES, FRAMES_PIECE_BYTES, FRAMES_PIECE_BYTES_MIN};

pub(crate) struct BodySender {
    credit: u32,
    pending: Bytes,
    /// `pending` is the end of the body.
    last: bool,
    /// The frame after it, if it was already polled.
    next: Option<Result<Frame, Fault>>,
    /// A file that is being read.
    file: Option<FileReader>,
    passes_files: bool,
}

/// The progress of a body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SendProgress {
    /// The stream is woken when there is more data or credit.
    Pending,
    /// The other streams of the connection run first.
    Turn,
    /// The outbox is full.
    Stalled,
    CloseCause,
}

impl BodySender {
    pub(crate) fn new(credit: u32) -> BodySender {
        BodySender {
            credit,
            pending: Bytes::new(),
            last: false,
            next: None,
            file: None,
            passes_files: false,
        }
    }

    /// A sender to a gateway, which takes descriptors of files.
    pub(crate) fn passing_files(credit: u32) -> BodySender {
        BodySender { passes_files: true, ..BodySender::new(credit) }
    }

    pub(crate) fn grant(&mut self, credit: u32) -> Result<(), Malformed> {
        self.credit = self.credit.checked_add(credit).ok_or(Malformed::Credit)?;
        if self.credit > WINDOW_MAX { Err(Malformed::Credit) } else { Ok(()) }
    }

    /// Sends a complete body.
    pub(crate) fn set_whole(&mut self, bytes: Bytes) {
        (self.pending, self.last) = (bytes, true);
    }

    /// Sets what was already polled of the body.
    pub(crate) fn begin(&mut self, bytes: Bytes, next: Option<Result<Frame, Fault>>) {
        (self.pending, self.next) = (bytes, next);
    }

    /// Sends what it can of the body that `poll` reads.
    pub(crate) fn run(
        &mut self,
        stream: u32,
        outbox: &mut Outbox,
        cx: &mut Context<'_>,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<Option<Result<Frame, Fault>>>,
    ) -> SendProgress {
        let mut sent = 0;
        loop {
            while !self.pending.is_empty() {
                if outbox.is_full() {
                    return SendProgress::Stalled;
                }
                if sent >= FRAMES_PIECE_BYTES {
                    return SendProgress::Turn;
                }
                match self.piece(stream, outbox) {
                    0 => return SendProgress::Pending,
                    piece => sent += piece,
                }
                if self.last && self.pending.is_empty() {
                    return SendProgress::CloseCause;
                }
            }
            if self.credit <= FRAME_COST {
                // Data polled now would only wait here.
                return SendProgress::Pending;
            }
            let next = match self.poll_file(cx) {
                Poll::Ready(None) => match self.next.take() {
                    None => poll(cx),
                    next => Poll::Ready(next),
                },
                Poll::Ready(Some(Ok(bytes))) => Poll::Ready(Some(Ok(Frame::Data(bytes)))),
                Poll::Ready(Some(Err(fault))) => Poll::Ready(Some(Err(fault))),
                Poll::Pending => return SendProgress::Pending,
            };
            match next {
                Poll::Pending => return SendProgress::Pending,
                Poll::Ready(Some(Ok(Frame::Data(bytes)))) => self.pending = bytes,
                Poll::Ready(Some(Ok(Frame::File(range)))) if self.passes(&range) => {
                    self.credit -= FILE_COST;
                    outbox.file(stream, range);
                }
                Poll::Ready(Some(Ok(Frame::File(range)))) => {
                    self.file = Some(FileReader::new(range));
                }
                Poll::Ready(Some(Ok(Frame::Trailers(fields)))) => {
                    let write = |out: &mut Vec<u8>| put_fields(out, &fields);
                    if frames::plain(outbox.frames(), Kind::Trailers, stream, write).is_err() {
                        frames::data_head(outbox.frames(), stream, 0, true);
                    }
                    return SendProgress::CloseCause;
                }
                Poll::Ready(Some(Err(fault))) => {
                    messages::write_fault(outbox.frames(), stream, &fault);
                    return SendProgress::CloseCause;
                }
                Poll::Ready(None) => {
                    frames::data_head(outbox.frames(), stream, 0, true);
                    return SendProgress::CloseCause;
                }
            }
        }
    }

    /// Sends a piece of the pending data within the credit; returns its length.
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

    /// True if the descriptor of a file is passed. Without the credit for it the file is read.
    fn passes(&self, range: &FileRange) -> bool {
        self.passes_files && range.length > FRAMES_FILE_BYTES && self.credit >= FILE_COST
    }

    /// Reads the next piece of the file that is being sent as data.
    fn poll_file(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Fault>>> {
        let Some(file) = &mut self.file else { return Poll::Ready(None) };
        let piece = ready!(file.poll_piece(cx));
        if piece.is_none() {
            self.file = None;
        }
        Poll::Ready(piece)
    }
}

/// The receiving side of one stream: the credit that the sender has.
pub(crate) struct ReceiveWindow {
    window: u32,
    left: u32,
    /// Consumed and not yet granted again.
    taken: u32,
}

impl ReceiveWindow {
    pub(crate) fn new(window: u32) -> ReceiveWindow {
        ReceiveWindow { window, left: window, taken: 0 }
    }

    /// A window whose credit is withheld until it is renewed.
    pub(crate) fn withheld(window: u32) -> ReceiveWindow {
        ReceiveWindow { window, left: 0, taken: window }
    }

    /// Counts received data against the credit.
    pub(crate) fn spend(&mut self, cost: u32) -> Result<(), Malformed> {
        self.left = self.left.checked_sub(cost).ok_or(Malformed::Credit)?;
        Ok(())
    }

    /// Counts data as consumed.
    pub(crate) fn passed_on(&mut self, cost: u32) {
        self.taken += cost;
    }

    /// True if enough was consumed to be worth a WINDOW frame.
    pub(crate) fn is_due(&self) -> bool {
        self.taken >= self.window / 2
    }

    /// Grants the consumed credit again.
    pub(crate) fn renew(&mut self, stream: u32, out: &mut Vec<u8>) {
        self.left += self.taken;
        frames::window(out, stream, self.taken);
        self.taken = 0;
    }
}
