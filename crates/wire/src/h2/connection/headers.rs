//! Received field sections: HEADERS and CONTINUATION, and the messages they begin or end.

use super::data::StreamFault;
use super::receive::without_padding;
use super::{Connection, ErrorCode, Event, GoingAway, Payload, Receiving, Stream, StreamKey};
use crate::h1::HeadLimits;
use crate::h2::code::Violation;
use crate::h2::frame::{self, FrameHeader};
use crate::h2::head;
use crate::h2::hpack::BlockError;
use crate::h2::priority::Priority;
use crate::h2::section::{Kind, Section, is_malformed};
use crate::{Method, Reject};

/// CONTINUATION frames of one section (CVE-2024-27316): more than the largest section needs.
const CONTINUATIONS_MAX: usize = 16;

/// How many times the limits a decoded section may have. One above the limits is decoded to its
/// end, because the tables depend on it, and gets a response.
const DECODED_FACTOR: usize = 16;

/// Bytes of decoded names and values after which the connection ends ("HPACK bomb").
fn decoded_max(limits: &HeadLimits) -> usize {
    DECODED_FACTOR * (limits.headers + limits.request_line)
}

impl From<BlockError> for Violation {
    fn from(error: BlockError) -> Violation {
        match error {
            BlockError::Malformed => Violation::InvalidFieldBlock,
            BlockError::TooLarge => Violation::FieldBlockTooLarge,
        }
    }
}

/// A field block that continues.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) stream: u32,
    ends: bool,
    bytes: Vec<u8>,
    continuations: usize,
}

/// What a field block belongs to.
enum Target {
    NewRequest,
    /// It is decoded for the tables only.
    Ignored,
    /// The stream cannot be opened now.
    Refused,
    Response(StreamKey),
    Trailers(StreamKey),
    /// The peer had ended the stream.
    Ended(StreamKey),
}

impl<P: Payload> Connection<P> {
    pub(super) fn headers_frame(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
    ) -> Result<Option<Event>, Violation> {
        if header.stream == 0 || header.stream & 1 == 0 {
            return Err(Violation::InvalidStream);
        }
        let mut block = without_padding(header, payload)?;
        if header.has(frame::HAS_PRIORITY) {
            let (priority, rest) =
                block.split_first_chunk::<5>().ok_or(Violation::InvalidFrameSize)?;
            check_dependency(header.stream, priority)?;
            block = rest;
        }
        let ends = header.has(frame::END_STREAM);
        if header.has(frame::END_HEADERS) {
            return self.field_block(header.stream, ends, block);
        }
        let bytes = block.to_vec();
        self.block = Some(Block { stream: header.stream, ends, bytes, continuations: 0 });
        Ok(None)
    }

    pub(super) fn continuation(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
    ) -> Result<Option<Event>, Violation> {
        let Some(block) = &mut self.block else { return Ok(None) };
        block.continuations += 1;
        if block.continuations > CONTINUATIONS_MAX {
            return Err(Violation::ContinuationFlood);
        }
        block.bytes.extend_from_slice(payload);
        // A literal takes about as many bytes as its text. A section a little above the limit gets
        // a response that says so.
        let limits = &self.config.head;
        if block.bytes.len() > 2 * (limits.headers + limits.request_line) {
            return Err(Violation::FieldBlockTooLarge);
        }
        if !header.has(frame::END_HEADERS) {
            return Ok(None);
        }
        match self.block.take() {
            Some(block) => self.field_block(block.stream, block.ends, &block.bytes),
            None => Ok(None),
        }
    }

    /// Decodes a complete block.
    fn field_block(
        &mut self,
        id: u32,
        ends: bool,
        block: &[u8],
    ) -> Result<Option<Event>, Violation> {
        let target = self.target(id)?;
        if !matches!(target, Target::Ignored | Target::Ended(_)) {
            self.budgets.head_received();
        }
        match target {
            Target::NewRequest => self.new_request(id, ends, block),
            Target::Response(key) => self.response(key, ends, block),
            Target::Trailers(key) => self.trailers(key, ends, block),
            Target::Ignored => {
                self.budgets.control(Violation::ResetFlood)?;
                self.skip(block)?;
                Ok(None)
            }
            Target::Refused => {
                self.skip(block)?;
                self.refused += 1;
                self.budgets.count_reset()?;
                let window = i64::from(self.config.stream_window());
                self.reset_number(id, window, ErrorCode::REFUSED_STREAM);
                Ok(None)
            }
            Target::Ended(key) => {
                self.skip(block)?;
                self.fail_stream(key, StreamFault::Code(ErrorCode::STREAM_CLOSED))
            }
        }
    }

    fn target(&mut self, id: u32) -> Result<Target, Violation> {
        if let Some(key) = self.streams.find(id) {
            let receiving = self.streams.get(key).map(|stream| stream.receiving);
            return Ok(match receiving {
                Some(Receiving::Head) => Target::Response(key),
                Some(Receiving::Body) => Target::Trailers(key),
                _ => Target::Ended(key),
            });
        }
        if !self.is_idle(id) {
            let ignored = self.was_reset(id) || matches!(self.going_away, GoingAway::After(_));
            let otherwise =
                if self.is_server { Violation::StreamIdNotNew } else { Violation::ClosedStream };
            return if ignored { Ok(Target::Ignored) } else { Err(otherwise) };
        }
        if !self.is_server {
            return Err(Violation::IdleStream);
        }
        if matches!(self.going_away, GoingAway::After(_)) {
            // RFC 9113 6.8: nothing is sent for it, and the rest of its request is ignored too; the
            // client may send it again elsewhere.
            self.last_peer_stream = id;
            self.ignore_number(id, i64::from(self.config.stream_window()));
            return Ok(Target::Ignored);
        }
        self.last_peer_stream = id;
        let is_full = self.streams.len() >= self.config.max_streams as usize;
        Ok(if is_full { Target::Refused } else { Target::NewRequest })
    }

    fn skip(&mut self, block: &[u8]) -> Result<(), Violation> {
        Ok(self.decoder.decode(block, decoded_max(&self.config.head), |_, _, _| {})?)
    }

    fn new_request(
        &mut self,
        id: u32,
        ends: bool,
        block: &[u8],
    ) -> Result<Option<Event>, Violation> {
        let mut section = Section::new(Kind::Request, &self.config.head, &mut self.fields);
        let most = decoded_max(&self.config.head);
        self.decoder.decode(block, most, |class, name, value| section.add(class, name, value))?;
        let priority = section.priority;
        let result = head::request(&mut section, ends, self.config.extended_connect);
        if let Err(reject) = result
            && is_malformed(reject)
        {
            self.budgets.count_reset()?;
            let window = i64::from(self.config.stream_window());
            self.reset_number(id, window, ErrorCode::PROTOCOL_ERROR);
            return Ok(Some(Event::Malformed { stream: None, reject }));
        }
        let window = self.config.stream_window();
        let mut stream = Stream::new(id, self.peer.stream_window, window);
        stream.receiving = if ends { Receiving::Ended } else { Receiving::Body };
        stream.priority = match self.early_priority.take_if(|(early, _)| *early <= id) {
            Some((early, priority)) if early == id => priority,
            _ => priority,
        };
        Ok(Some(match result {
            Ok(head::Request { head, protocol, length }) => {
                stream.body_left = length;
                stream.to_head = head.method == Method::Head;
                stream.ends_separately = protocol.is_some();
                let stream = self.streams.insert(stream);
                Event::Request { stream, head, protocol, ends }
            }
            Err(reject) => Event::Rejected { stream: self.streams.insert(stream), reject },
        }))
    }

    fn response(
        &mut self,
        key: StreamKey,
        ends: bool,
        block: &[u8],
    ) -> Result<Option<Event>, Violation> {
        let mut section = Section::new(Kind::Response, &self.config.head, &mut self.fields);
        let most = decoded_max(&self.config.head);
        self.decoder.decode(block, most, |class, name, value| section.add(class, name, value))?;
        let to_head = self.streams.get(key).is_some_and(|stream| stream.to_head);
        let head = match head::response(&mut section, ends, to_head) {
            Ok(head) => head,
            Err(reject) => return self.fail_stream(key, StreamFault::Message(reject)),
        };
        if head.status >= 200
            && let Some(stream) = self.streams.get_mut(key)
        {
            stream.receiving = Receiving::Body;
            stream.body_left = head.length;
        }
        if ends {
            self.end_receiving(key);
        }
        Ok(Some(Event::Response { stream: key, status: head.status, ends }))
    }

    fn trailers(
        &mut self,
        key: StreamKey,
        ends: bool,
        block: &[u8],
    ) -> Result<Option<Event>, Violation> {
        let mut section = Section::new(Kind::Trailers, &self.config.head, &mut self.fields);
        let most = decoded_max(&self.config.head);
        self.decoder.decode(block, most, |class, name, value| section.add(class, name, value))?;
        let missing = self.streams.get(key).and_then(|stream| stream.body_left).unwrap_or(0);
        let fault = match section.finish() {
            Err(reject) => Some(reject),
            // RFC 9113 8.1: a second section without the end of the stream is not a trailer
            // section.
            Ok(()) if !ends => Some(Reject::UnexpectedHeaders),
            Ok(()) => (missing > 0).then_some(Reject::LengthMismatch),
        };
        if let Some(reject) = fault {
            return self.fail_stream(key, StreamFault::Message(reject));
        }
        self.end_receiving(key);
        Ok(Some(Event::Trailers { stream: key }))
    }

    /// Whether a stream was never opened.
    pub(super) fn is_idle(&self, id: u32) -> bool {
        let of_peer = (id & 1 == 1) == self.is_server;
        if of_peer { id > self.last_peer_stream } else { self.is_server || id >= self.next_stream }
    }

    /// Whether this side reset a stream a short time ago.
    pub(super) fn was_reset(&self, id: u32) -> bool {
        self.reset_streams.iter().any(|stream| stream.id == id)
    }

    /// Applies a priority to a stream that is open, or will be.
    pub(super) fn prioritize(&mut self, id: u32, priority: Priority) {
        if let Some(key) = self.streams.find(id) {
            self.set_priority(key, priority);
        } else if self.is_idle(id) {
            self.early_priority = Some((id, priority));
        }
    }
}

/// RFC 7540 5.3.1: a stream that depends on itself is an error, although the scheme is deprecated.
pub(super) fn check_dependency(stream: u32, priority: &[u8; 5]) -> Result<(), Violation> {
    let [d0, d1, d2, d3, _] = *priority;
    let depends_on = u32::from_be_bytes([d0, d1, d2, d3]) & 0x7fff_ffff;
    if depends_on == stream { Err(Violation::InvalidPriority) } else { Ok(()) }
}
