//! The messages of a WebSocket session as frames, within the credit.
//!
//! Long messages are sent in pieces, and received pieces count as consumed: otherwise a long
//! message would wait for the credit that it holds itself.

use std::task::{Context, Poll};

use bytes::Bytes;
use offload::session::{Closed, Message, Received};
use wire::frames::{self, FRAME_COST, Malformed, WINDOW_MAX};

use super::body_sender::{ReceiveWindow, SendProgress};
use super::outbox::Outbox;
use crate::limits::{FRAMES_MESSAGE_BYTES, FRAMES_PIECE_BYTES, FRAMES_PIECE_BYTES_MIN};

/// The close code of a message that is too long (RFC 6455 7.4.1).
const TOO_BIG: u16 = 1009;

/// The sending side of a session.
pub(crate) struct Outbound {
    credit: u32,
    /// The rest of a message, and whether it is binary.
    pending: Option<(Bytes, bool)>,
}

impl Outbound {
    pub(crate) fn new(credit: u32) -> Outbound {
        Outbound { credit, pending: None }
    }

    pub(crate) fn grant(&mut self, credit: u32) -> Result<(), Malformed> {
        self.credit = self.credit.checked_add(credit).ok_or(Malformed::Credit)?;
        if self.credit > WINDOW_MAX { Err(Malformed::Credit) } else { Ok(()) }
    }

    pub(crate) fn credit(&self) -> u32 {
        self.credit
    }

    /// Sends the messages that `poll` returns, up to the close frame.
    pub(crate) fn run(
        &mut self,
        number: u32,
        outbox: &mut Outbox,
        mut poll: impl FnMut() -> Poll<Received>,
    ) -> SendProgress {
        let mut sent = 0;
        loop {
            while let Some((rest, binary)) = &mut self.pending {
                if outbox.is_full() {
                    return SendProgress::Stalled;
                }
                if sent >= FRAMES_PIECE_BYTES {
                    return SendProgress::Turn;
                }
                let credit = self.credit.saturating_sub(FRAME_COST) as usize;
                if self.credit < FRAME_COST || credit < rest.len().min(FRAMES_PIECE_BYTES_MIN) {
                    return SendProgress::Pending;
                }
                let piece = rest.split_to(rest.len().min(FRAMES_PIECE_BYTES).min(credit));
                let (length, end) = (piece.len(), rest.is_empty());
                frames::message_head(outbox.frames(), number, length, *binary, end);
                outbox.payload(piece);
                self.credit -= cost(length);
                sent += length;
                if end {
                    self.pending = None;
                }
            }
            match poll() {
                Poll::Pending => return SendProgress::Pending,
                Poll::Ready(Received::Message(message)) => {
                    if message.data().len() > FRAMES_MESSAGE_BYTES {
                        let closed = Closed::new(TOO_BIG, "the message is too long");
                        close(outbox, number, &closed);
                        return SendProgress::CloseCause;
                    }
                    self.pending = Some(match message {
                        Message::Text(data) => (data, false),
                        Message::Binary(data) => (data, true),
                    });
                }
                Poll::Ready(Received::Closed(closed)) => {
                    close(outbox, number, &closed);
                    return SendProgress::CloseCause;
                }
            }
        }
    }
}

pub(crate) fn close(outbox: &mut Outbox, number: u32, closed: &Closed) {
    frames::close(outbox.frames(), number, closed.code, &closed.reason);
}

/// An empty message frame has a cost as well: there may be many of them.
fn cost(length: usize) -> u32 {
    // No payload is longer than `frames::DATA_BYTES_MAX`.
    FRAME_COST + length as u32
}

/// The receiving side of a session.
pub(crate) struct Inbound {
    credit: ReceiveWindow,
    /// The received pieces of an incomplete message, and whether it is binary.
    begun: Option<(Vec<u8>, bool)>,
}

impl Inbound {
    pub(crate) fn new(window: u32) -> Inbound {
        Inbound { credit: ReceiveWindow::new(window), begun: None }
    }

    /// Receives a frame; returns the message it completes.
    pub(crate) fn piece(
        &mut self,
        binary: bool,
        end: bool,
        bytes: &[u8],
    ) -> Result<Option<Message>, Malformed> {
        self.credit.spend(cost(bytes.len()))?;
        self.credit.passed_on(cost(bytes.len()));
        let data = match (self.begun.take(), end) {
            (None, true) => Bytes::copy_from_slice(bytes),
            (begun, end) => {
                let (mut data, kind) = begun.unwrap_or((Vec::new(), binary));
                if kind != binary || data.len() + bytes.len() > FRAMES_MESSAGE_BYTES {
                    return Err(Malformed::Payload);
                }
                data.extend_from_slice(bytes);
                if !end {
                    self.begun = Some((data, kind));
                    return Ok(None);
                }
                data.into()
            }
        };
        match binary {
            true => Ok(Some(Message::Binary(data))),
            false if std::str::from_utf8(&data).is_ok() => Ok(Some(Message::Text(data))),
            false => Err(Malformed::Payload),
        }
    }

    /// Renews credit if it is due and `room` is true.
    pub(crate) fn renew(
        &mut self,
        number: u32,
        outbox: &mut Outbox,
        cx: &Context<'_>,
        room: impl FnOnce(&Context<'_>) -> bool,
    ) {
        if self.credit.is_due() && room(cx) {
            self.credit.renew(number, outbox.frames());
        }
    }

    pub(crate) fn is_due(&self) -> bool {
        self.credit.is_due()
    }
}

/// Decodes the close of a session.
pub(crate) fn closed(code: u16, reason: &[u8]) -> Closed {
    Closed::new(code, String::from_utf8_lossy(reason))
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use wire::frames::{Decoder, Frame};

    use super::*;

    /// The received messages when they are sent with a limited credit.
    async fn through(window: u32, messages: Vec<Message>) -> Vec<Message> {
        let (mut outbound, mut inbound) = (Outbound::new(window), Inbound::new(window));
        let mut left: VecDeque<_> = messages.into();
        let mut decoder = Decoder::new();
        let mut arrived = Vec::new();
        let mut greeting = Vec::new();
        frames::hello(&mut greeting, window, "");
        assert!(matches!(decoder.next(&mut &greeting[..]), Ok(Some(_))));
        loop {
            let mut outbox = Outbox::default();
            let pumped = outbound.run(1, &mut outbox, || {
                let next = left.pop_front().map(Received::Message);
                Poll::Ready(next.unwrap_or(Received::Closed(Closed::new(1000, "bye"))))
            });
            let bytes = outbox.take_all().await;
            let mut input = &bytes[..];
            while let Some(frame) = decoder.next(&mut input).unwrap() {
                match frame {
                    Frame::Message { binary, end, bytes, .. } => {
                        arrived.extend(inbound.piece(binary, end, bytes).unwrap());
                    }
                    Frame::Close { code, reason, .. } => {
                        assert_eq!(closed(code, reason), Closed::new(1000, "bye"));
                        assert_eq!(pumped, SendProgress::CloseCause);
                        return arrived;
                    }
                    other => panic!("{other:?}"),
                }
            }
            let mut granted = Outbox::default();
            let cx = Context::from_waker(std::task::Waker::noop());
            inbound.renew(1, &mut granted, &cx, |_| true);
            let bytes = granted.take_all().await;
            let mut input = &bytes[..];
            if let Some(Frame::Window { credit, .. }) = decoder.next(&mut input).unwrap() {
                outbound.grant(credit).unwrap();
            }
        }
    }

    #[test]
    fn messages_arrive_complete_whatever_their_length_and_the_credit() {
        let text = |length: usize| Message::Text("ä".repeat(length).into());
        let binary = |length: usize| Message::Binary(vec![0xFF; length].into());
        let messages =
            vec![text(0), text(3), binary(0), binary(500_000), text(200_000), binary(1), text(1)];
        net::worker::block_on_local(async {
            for window in [frames::WINDOW_MIN, 100_000, frames::WINDOW_MAX] {
                assert!(through(window, messages.clone()).await == messages);
            }
        });
    }

    #[test]
    fn invalid_messages_are_malformed() {
        let mut inbound = Inbound::new(1_000_000);
        assert_eq!(inbound.piece(false, true, &[0xFF]), Err(Malformed::Payload));
        assert_eq!(inbound.piece(true, false, b"a"), Ok(None));
        assert_eq!(inbound.piece(false, true, b"b"), Err(Malformed::Payload));
        let mut inbound = Inbound::new(1_000);
        assert_eq!(inbound.piece(true, true, &[0; 900]), Err(Malformed::Credit));
    }
}
