//! Received content: flow control, and what Content-Length announced.

use bytes::Buf;

use super::receive::{Incoming, Reading, Step};
use super::{Connection, ErrorCode, Event, Payload, Receiving, StreamKey};
use crate::Reject;
use crate::h2::code::Violation;
use crate::h2::frame::{self, FrameHeader, HEADER_LEN};

impl<P: Payload> Connection<P> {
    /// Begins a DATA frame (RFC 9113 6.1), whose header is the next input.
    pub(super) fn data_frame(&mut self, header: FrameHeader) -> Result<Step, Violation> {
        if header.stream == 0 {
            return Err(Violation::InvalidStream);
        }
        let mut padding = 0;
        let mut overhead = 0;
        if header.has(frame::PADDED) {
            if header.len == 0 {
                return Err(Violation::InvalidFrameSize);
            }
            let Some(&length) = self.input.get(HEADER_LEN) else {
                return Ok(Step::NeedMore(HEADER_LEN + 1));
            };
            padding = usize::from(length);
            overhead = 1;
        }
        let left = (header.len - overhead).checked_sub(padding).ok_or(Violation::InvalidPadding)?;
        // Padding counts too (RFC 9113 6.9.1).
        self.receive_window -= header.len as i64;
        if self.receive_window < 0 {
            return Err(Violation::WindowExceeded);
        }
        let ends = header.has(frame::END_STREAM);
        if left == 0 && !ends {
            self.budgets.empty()?;
        } else {
            self.budgets.data_received();
        }
        let stream = self.stream_of_data(header)?;
        let mut event = None;
        let mut accepted = None;
        if let Some(key) = stream {
            match self.account(key, header.len, left, ends) {
                Ok(()) => accepted = Some(key),
                Err(fault) => event = self.fail_stream(key, fault)?,
            }
        }
        self.credit_connection((header.len - left) as u32);
        if let Some(key) = accepted {
            self.credit_stream(key, (header.len - left) as u32);
        }
        self.input.advance(HEADER_LEN + overhead);
        self.reading = Reading::Data(Incoming { stream: accepted, left, padding, ends });
        Ok(event.into())
    }

    /// The stream of a DATA frame; `None` if the frame is to be ignored.
    fn stream_of_data(&mut self, header: FrameHeader) -> Result<Option<StreamKey>, Violation> {
        let id = header.stream;
        if let Some(key) = self.streams.find(id) {
            return Ok(Some(key));
        }
        if self.is_idle(id) {
            return Err(Violation::IdleStream);
        }
        let reset = self.reset_streams.iter_mut().find(|stream| stream.id == id);
        let stream = reset.ok_or(Violation::ClosedStream)?;
        stream.window -= header.len as i64;
        if stream.window < 0 { Err(Violation::ResetFlood) } else { Ok(None) }
    }

    /// Counts the data of a frame against the windows and Content-Length.
    fn account(
        &mut self,
        key: StreamKey,
        frame: usize,
        data: usize,
        ends: bool,
    ) -> Result<(), StreamFault> {
        let Some(stream) = self.streams.get_mut(key) else { return Ok(()) };
        match stream.receiving {
            Receiving::Body => {}
            Receiving::Head => return Err(StreamFault::Message(Reject::UnexpectedHeaders)),
            Receiving::Ended => return Err(StreamFault::Code(ErrorCode::STREAM_CLOSED)),
        }
        stream.receive_window -= frame as i64;
        if stream.receive_window < 0 {
            return Err(StreamFault::Code(ErrorCode::FLOW_CONTROL_ERROR));
        }
        if let Some(left) = &mut stream.body_left {
            let rest = left.checked_sub(data as u64);
            *left = rest
                .filter(|&rest| !ends || rest == 0)
                .ok_or(StreamFault::Message(Reject::LengthMismatch))?;
        }
        stream.unreleased += data as u32;
        Ok(())
    }

    /// Passes on the data that has arrived.
    pub(super) fn data_payload(&mut self, mut incoming: Incoming) -> Step {
        let key = incoming.stream.filter(|key| self.streams.get(*key).is_some());
        let take = incoming.left.min(self.input.len());
        let data = self.input.split_to(take);
        incoming.left -= take;
        if key.is_none() {
            // The stream had not been removed when the frame began, so that what it had of the
            // window was given back then.
            if incoming.stream.is_none() {
                self.credit_connection(take as u32);
            }
        }
        if incoming.left == 0 {
            let padding = incoming.padding.min(self.input.len());
            self.input.advance(padding);
            incoming.padding -= padding;
        }
        let ends = incoming.ends && incoming.left == 0;
        incoming.ends &= !ends;
        let is_whole = incoming.left == 0 && incoming.padding == 0;
        self.reading = if is_whole { Reading::Frame } else { Reading::Data(incoming) };
        match key {
            Some(stream) if ends || !data.is_empty() => {
                if ends {
                    self.end_receiving(stream);
                }
                Step::Event(Event::Data { stream, data, ends })
            }
            _ if is_whole => Step::Again,
            _ if take == 0 => Step::NeedMore(1),
            _ => Step::Again,
        }
    }

    /// The peer has sent everything of a message.
    pub(super) fn end_receiving(&mut self, key: StreamKey) {
        if let Some(stream) = self.streams.get_mut(key) {
            stream.receiving = Receiving::Ended;
        }
        self.remove_if_ended(key);
    }

    /// Resets a stream because of what the peer did on it.
    #[cold]
    pub(super) fn fail_stream(
        &mut self,
        stream: StreamKey,
        fault: StreamFault,
    ) -> Result<Option<Event>, Violation> {
        self.budgets.count_reset()?;
        let code = match fault {
            StreamFault::Message(_) => ErrorCode::PROTOCOL_ERROR,
            StreamFault::Code(code) => code,
        };
        self.reset(stream, code);
        Ok(Some(match fault {
            StreamFault::Message(reject) => Event::Malformed { stream: Some(stream), reject },
            StreamFault::Code(code) => {
                Event::Reset { stream, code, by_peer: false, unprocessed: false }
            }
        }))
    }

    /// Gives the peer credit on a stream, in updates of at least half a window.
    pub(super) fn credit_stream(&mut self, key: StreamKey, bytes: u32) {
        let window = self.config.stream_window();
        let Some(stream) = self.streams.get_mut(key) else { return };
        stream.owed += bytes;
        if stream.owed >= window / 2 && stream.receiving != Receiving::Ended {
            let owed = std::mem::take(&mut stream.owed);
            stream.receive_window += i64::from(owed);
            frame::write(&mut self.out, frame::WINDOW_UPDATE, 0, key.id, &owed.to_be_bytes());
        }
    }

    /// Gives the peer credit on the connection, in the same way.
    pub(super) fn credit_connection(&mut self, bytes: u32) {
        self.owed += bytes;
        if self.owed >= self.config.connection_window() / 2 {
            let owed = std::mem::take(&mut self.owed);
            self.receive_window += i64::from(owed);
            frame::write(&mut self.out, frame::WINDOW_UPDATE, 0, 0, &owed.to_be_bytes());
        }
    }
}

/// Why a stream is reset.
#[derive(Clone, Copy, Debug)]
pub(super) enum StreamFault {
    /// The message is malformed (RFC 9113 8.1.1).
    Message(Reject),
    Code(ErrorCode),
}
