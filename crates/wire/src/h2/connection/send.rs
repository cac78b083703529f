//! What is sent: heads, data in the order of priorities, and trailers.

use super::{Connection, Field, Output, Payload, Sending, StreamEnded, StreamKey};
use crate::Known;
use crate::h2::ErrorCode;
use crate::h2::frame;
use crate::h2::hpack::Encoder;
use crate::h2::schedule::Turn;
use crate::h2::settings::FRAME_SIZE;

/// Data up to this length is copied next to its frame header: a copy costs less than another piece
/// of output.
const COPY_MAX: usize = 2048;
/// A frame shorter than this was cut short by a window, and is not useful work.
const SHORT_FRAME: usize = 256;

impl<P: Payload> Connection<P> {
    /// Sends a response head, whole if `ends`.
    #[inline]
    pub fn respond<'a>(
        &mut self,
        key: StreamKey,
        status: u16,
        fields: impl IntoIterator<Item = Field<'a>>,
        ends: bool,
    ) -> Result<(), StreamEnded> {
        if self.streams.get(key).ok_or(StreamEnded)?.sending != Sending::Head {
            return Err(StreamEnded);
        }
        self.write_head(key, ends, fields, |encoder, out| encoder.status(out, status));
        if status >= 200 {
            self.head_sent(key, ends);
        }
        Ok(())
    }

    /// Sends content, of which `ends` is the last. Nothing else may be pending on the stream: see
    /// [`Connection::is_ready`].
    #[inline]
    pub fn send_data(&mut self, key: StreamKey, payload: P, ends: bool) -> Result<(), StreamEnded> {
        let stream = self.streams.get_mut(key).ok_or(StreamEnded)?;
        if stream.sending != Sending::Body || stream.pending.is_some() {
            return Err(StreamEnded);
        }
        let len = payload.len();
        if len == 0 && !ends {
            self.drained.push_back(key);
            return Ok(());
        }
        let at_once = len <= COPY_MAX as u64
            && len as i64 <= stream.send_window.min(self.send_window)
            && self.schedule.is_empty();
        // Without content a frame needs no window.
        if (at_once || len == 0)
            && let Some(bytes) = payload.as_slice()
        {
            let flags = if ends { frame::END_STREAM } else { 0 };
            frame::write(&mut self.out, frame::DATA, flags, key.id, bytes);
            stream.send_window -= len as i64;
            self.send_window -= len as i64;
            self.budgets.data_sent(bytes.len());
            if ends {
                self.end_sending(key);
            } else {
                self.drained.push_back(key);
            }
            return Ok(());
        }
        stream.pending = Some(payload);
        stream.pending_ends = ends;
        self.schedule(key);
        Ok(())
    }

    /// Sends trailers, which end the message. Nothing else may be pending on the stream.
    pub fn send_trailers<'a>(
        &mut self,
        key: StreamKey,
        fields: impl IntoIterator<Item = Field<'a>>,
    ) -> Result<(), StreamEnded> {
        let stream = self.streams.get(key).ok_or(StreamEnded)?;
        if stream.sending != Sending::Body || stream.pending.is_some() {
            return Err(StreamEnded);
        }
        self.write_head(key, true, fields, |_, _| {});
        self.end_sending(key);
        Ok(())
    }

    /// Whether the stream can take content or trailers.
    pub fn is_ready(&self, key: StreamKey) -> bool {
        let ready =
            |stream: &super::Stream<P>| stream.sending == Sending::Body && stream.pending.is_none();
        self.streams.get(key).is_some_and(ready)
    }

    /// The next stream whose content has been sent: it can take more, or has ended. A client is
    /// told of each part, since a server that takes one is slow, not silent.
    pub fn take_drained(&mut self) -> Option<StreamKey> {
        while let Some(key) = self.drained.pop_front() {
            if !self.is_server || self.pending(key) == 0 {
                return Some(key);
            }
        }
        None
    }

    /// Bytes of content of the stream that were not sent yet.
    pub fn pending(&self, key: StreamKey) -> u64 {
        let pending = self.streams.get(key).and_then(|stream| stream.pending.as_ref());
        pending.map_or(0, Payload::len)
    }

    /// Bytes of content that the peer's windows allow on the stream now.
    pub fn window(&self, key: StreamKey) -> u64 {
        let window = self.streams.get(key).map_or(0, |stream| stream.send_window);
        window.min(self.send_window).max(0) as u64
    }

    /// Whether the window of the stream holds its content back. Other streams may still send.
    pub fn is_blocked(&self, key: StreamKey) -> bool {
        let blocked =
            |stream: &super::Stream<P>| stream.pending.is_some() && stream.send_window <= 0;
        self.streams.get(key).is_some_and(blocked)
    }

    /// Whether there is anything that can be sent now.
    pub fn wants_output(&self) -> bool {
        !self.out.is_empty() || (self.send_window > 0 && !self.schedule.is_empty())
    }

    /// Passes on what can be sent, with about `most` bytes of content.
    pub fn write(&mut self, output: &mut impl Output<P>, most: usize) {
        let mut left = most;
        while left > 0
            && self.send_window > 0
            && let Some(turn) = self.schedule.pop()
        {
            let sent = self.write_turn(turn, output);
            left = left.saturating_sub(sent);
        }
        if !self.out.is_empty() {
            output.frames(&mut self.out);
        }
    }

    /// Sends one frame of a stream and returns the length of its content.
    fn write_turn(&mut self, turn: Turn, output: &mut impl Output<P>) -> usize {
        let key = StreamKey { slot: turn.slot, id: turn.id };
        let Some(stream) = self.streams.get_mut(key) else { return 0 };
        stream.is_scheduled = false;
        let Some(mut payload) = stream.pending.take() else { return 0 };
        let whole = payload.len().min(FRAME_SIZE as u64) as usize;
        let window = stream.send_window.min(self.send_window);
        let len = whole.min(usize::try_from(window).unwrap_or(0));
        if len == 0 {
            // The schedule has only streams with a window; a changed setting may have closed it.
            stream.pending = Some(payload);
            return 0;
        }
        stream.send_window -= len as i64;
        self.send_window -= len as i64;
        let part = if len as u64 == payload.len() {
            payload
        } else {
            let part = payload.split_to(len);
            stream.pending = Some(payload);
            part
        };
        let is_last = stream.pending.is_none();
        let ends = is_last && stream.pending_ends;
        if stream.priority.incremental {
            stream.ticket = 0;
        }
        let flags = if ends { frame::END_STREAM } else { 0 };
        frame::write_header(&mut self.out, len, frame::DATA, flags, key.id);
        match part.as_slice() {
            Some(bytes) if len <= COPY_MAX => self.out.extend_from_slice(bytes),
            _ => {
                output.frames(&mut self.out);
                output.payload(part);
            }
        }
        if len == whole || len >= SHORT_FRAME {
            self.budgets.data_sent(len);
        }
        if is_last {
            self.chunk_sent(key, ends)
        } else {
            if !self.is_server {
                self.drained.push_back(key);
            }
            self.schedule(key);
        }
        len
    }

    fn chunk_sent(&mut self, key: StreamKey, ends: bool) {
        self.drained.push_back(key);
        if ends {
            self.end_sending(key);
        }
    }

    fn end_sending(&mut self, key: StreamKey) {
        if let Some(stream) = self.streams.get_mut(key) {
            stream.sending = Sending::Ended;
        }
        self.remove_if_ended(key);
    }

    pub(super) fn head_sent(&mut self, key: StreamKey, ends: bool) {
        if ends {
            self.end_sending(key);
        } else if let Some(stream) = self.streams.get_mut(key) {
            stream.sending = Sending::Body;
        }
    }

    /// Schedules a stream that has something to send and a window for it.
    pub(super) fn schedule(&mut self, key: StreamKey) {
        let Some(stream) = self.streams.get_mut(key) else { return };
        if stream.is_scheduled || stream.pending.is_none() {
            return;
        }
        let is_empty = stream.pending.as_ref().is_some_and(Payload::is_empty);
        if is_empty {
            // The end of content that is not in memory: a frame without data needs no window.
            stream.pending = None;
            self.drained.push_back(key);
            frame::write(&mut self.out, frame::DATA, frame::END_STREAM, key.id, b"");
            return self.end_sending(key);
        }
        if stream.send_window <= 0 {
            return;
        }
        if stream.ticket == 0 {
            stream.ticket = self.schedule.draw_ticket();
        }
        stream.is_scheduled = true;
        let (urgency, ticket) = (stream.priority.urgency, stream.ticket);
        self.schedule.push(Turn { urgency, ticket, slot: key.slot, id: key.id });
    }

    /// Appends HEADERS, and CONTINUATION if the section is larger than a frame.
    #[inline]
    pub(super) fn write_head<'a>(
        &mut self,
        key: StreamKey,
        ends: bool,
        fields: impl IntoIterator<Item = Field<'a>>,
        pseudo: impl FnOnce(&mut Encoder, &mut Vec<u8>),
    ) {
        let at = self.out.len();
        let flags = frame::END_HEADERS | if ends { frame::END_STREAM } else { 0 };
        frame::write_header(&mut self.out, 0, frame::HEADERS, flags, key.id);
        self.encoder.begin(&mut self.out);
        pseudo(&mut self.encoder, &mut self.out);
        for field in fields {
            if !field.known.is_some_and(is_connection_specific) {
                self.encoder.field(&mut self.out, field.known, field.name, field.value);
            }
        }
        if self.out.len() - at - frame::HEADER_LEN > FRAME_SIZE {
            self.split_head(at, key.id, flags);
        } else {
            frame::set_length(&mut self.out, at);
        }
    }

    #[cold]
    fn split_head(&mut self, at: usize, id: u32, flags: u8) {
        let block = self.out.split_off(at + frame::HEADER_LEN);
        self.out.truncate(at);
        let mut parts = block.chunks(FRAME_SIZE).peekable();
        let (mut kind, mut flags) = (frame::HEADERS, flags & !frame::END_HEADERS);
        while let Some(part) = parts.next() {
            if parts.peek().is_none() {
                flags |= frame::END_HEADERS;
            }
            frame::write(&mut self.out, kind, flags, id, part);
            (kind, flags) = (frame::CONTINUATION, 0);
        }
    }

    /// Ends the connection: GOAWAY tells the peer why.
    #[cold]
    pub(super) fn fail(&mut self, code: ErrorCode) {
        self.write_goaway(self.last_peer_stream, code);
    }
}

/// RFC 9113 8.2.2: fields that are never sent.
#[inline]
fn is_connection_specific(known: Known) -> bool {
    matches!(
        known,
        Known::Connection
            | Known::KeepAlive
            | Known::ProxyConnection
            | Known::TransferEncoding
            | Known::Upgrade
            | Known::Http2Settings
    )
}
