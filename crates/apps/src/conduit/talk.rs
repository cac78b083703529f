//! Messages of a session as frames: out as far as there is credit, in to be put together.
//!
//! A message of any length goes in pieces, and what has come of one that is not whole counts as
//! taken: else a long one would wait for ever for the credit that it holds itself.

use std::task::{Context, Poll};

use bytes::Bytes;
use exchange::offload::session::{Closed, Message, Received};
use wire::frames::{self, FRAME_COST, Malformed, WINDOW_MAX};

use super::outbox::Outbox;
use super::pump::{Credit, Pumped};
use crate::limits::{FRAMES_MESSAGE_BYTES, FRAMES_PIECE_BYTES, FRAMES_PIECE_BYTES_MIN};

/// The close code of a message that is too long (RFC 6455 7.4.1).
const TOO_BIG: u16 = 1009;

/// What is said.
pub(crate) struct Saying {
    credit: u32,
    /// The rest of a message, and whether it is binary.
    pending: Option<(Bytes, bool)>,
}

impl Saying {
    pub(crate) fn new(credit: u32) -> Saying {
        Saying { credit, pending: None }
    }

    pub(crate) fn grant(&mut self, credit: u32) -> Result<(), Malformed> {
        self.credit = self.credit.checked_add(credit).ok_or(Malformed::Credit)?;
        if self.credit > WINDOW_MAX { Err(Malformed::Credit) } else { Ok(()) }
    }

    pub(crate) fn credit(&self) -> u32 {
        self.credit
    }

    /// Sends what it can of what `poll` says, up to the goodbye.
    pub(crate) fn run(
        &mut self,
        number: u32,
        outbox: &mut Outbox,
        mut poll: impl FnMut() -> Poll<Received>,
    ) -> Pumped {
        let mut sent = 0;
        loop {
            while let Some((rest, binary)) = &mut self.pending {
                if outbox.is_full() {
                    return Pumped::Stalled;
                }
                if sent >= FRAMES_PIECE_BYTES {
                    return Pumped::Turn;
                }
                let credit = self.credit.saturating_sub(FRAME_COST) as usize;
                if self.credit < FRAME_COST || credit < rest.len().min(FRAMES_PIECE_BYTES_MIN) {
                    return Pumped::Waits;
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
                Poll::Pending => return Pumped::Waits,
                Poll::Ready(Received::Message(message)) => {
                    if message.data().len() > FRAMES_MESSAGE_BYTES {
                        let goodbye = Closed::new(TOO_BIG, "the message is too long");
                        close(outbox, number, &goodbye);
                        return Pumped::Ended;
                    }
                    self.pending = Some(match message {
                        Message::Text(data) => (data, false),
                        Message::Binary(data) => (data, true),
                    });
                }
                Poll::Ready(Received::Closed(goodbye)) => {
                    close(outbox, number, &goodbye);
                    return Pumped::Ended;
                }
            }
        }
    }
}

pub(crate) fn close(outbox: &mut Outbox, number: u32, goodbye: &Closed) {
    frames::close(outbox.frames(), number, goodbye.code, &goodbye.reason);
}

/// A frame of a message costs something even where it is empty: there may be many of them.
fn cost(length: usize) -> u32 {
    // No payload is longer than `frames::DATA_BYTES_MAX`.
    FRAME_COST + length as u32
}

/// What is heard.
pub(crate) struct Hearing {
    credit: Credit,
    /// The beginning of a message that is not whole, and whether it is binary.
    begun: Option<(Vec<u8>, bool)>,
}

impl Hearing {
    pub(crate) fn new(window: u32) -> Hearing {
        Hearing { credit: Credit::new(window), begun: None }
    }

    /// A frame; the message that is whole by it.
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

    /// Renews credit if it is time and `room` says that there is some.
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

/// The end of a session as it came.
pub(crate) fn closed(code: u16, reason: &[u8]) -> Closed {
    Closed::new(code, String::from_utf8_lossy(reason))
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use wire::frames::{Decoder, Frame};

    use super::*;

    /// What arrives of messages that are sent with so much credit and never more than that.
    async fn through(window: u32, messages: Vec<Message>) -> Vec<Message> {
        let (mut saying, mut hearing) = (Saying::new(window), Hearing::new(window));
        let mut left: VecDeque<_> = messages.into();
        let mut decoder = Decoder::new();
        let mut arrived = Vec::new();
        let mut greeting = Vec::new();
        frames::hello(&mut greeting, window, "");
        assert!(matches!(decoder.next(&mut &greeting[..]), Ok(Some(_))));
        loop {
            let mut outbox = Outbox::default();
            let pumped = saying.run(1, &mut outbox, || {
                let next = left.pop_front().map(Received::Message);
                Poll::Ready(next.unwrap_or(Received::Closed(Closed::new(1000, "bye"))))
            });
            let bytes = outbox.take_all().await;
            let mut input = &bytes[..];
            while let Some(frame) = decoder.next(&mut input).unwrap() {
                match frame {
                    Frame::Message { binary, end, bytes, .. } => {
                        arrived.extend(hearing.piece(binary, end, bytes).unwrap());
                    }
                    Frame::Close { code, reason, .. } => {
                        assert_eq!(closed(code, reason), Closed::new(1000, "bye"));
                        assert_eq!(pumped, Pumped::Ended);
                        return arrived;
                    }
                    other => panic!("{other:?}"),
                }
            }
            let mut granted = Outbox::default();
            let cx = Context::from_waker(std::task::Waker::noop());
            hearing.renew(1, &mut granted, &cx, |_| true);
            let bytes = granted.take_all().await;
            let mut input = &bytes[..];
            if let Some(Frame::Window { credit, .. }) = decoder.next(&mut input).unwrap() {
                saying.grant(credit).unwrap();
            }
        }
    }

    #[test]
    fn messages_arrive_whole_whatever_their_length_and_the_credit() {
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
    fn what_is_no_message_is_malformed() {
        let mut hearing = Hearing::new(1_000_000);
        assert_eq!(hearing.piece(false, true, &[0xFF]), Err(Malformed::Payload));
        assert_eq!(hearing.piece(true, false, b"a"), Ok(None));
        assert_eq!(hearing.piece(false, true, b"b"), Err(Malformed::Payload));
        let mut hearing = Hearing::new(1_000);
        assert_eq!(hearing.piece(true, true, &[0; 900]), Err(Malformed::Credit));
    }
}
