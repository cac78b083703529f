//! One connection: its state, and the operations of the application.

mod control;
mod data;
mod headers;
mod open;
mod receive;
mod send;

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use super::budget::Budgets;
use super::code::{ErrorCode, Violation};
use super::frame;
use super::hpack::{Decoder, Encoder};
use super::priority::Priority;
use super::schedule::Schedule;
use super::section::Fields;
use super::settings::{Config, DEFAULT_WINDOW, PeerSettings};
use super::stream::{Receiving, Sending, Stream, StreamKey, Streams};
use crate::h1::{RequestHead, Span};
use crate::{Known, Reject};

use headers::Block;
pub use open::{RequestLine, Unavailable};
use receive::Reading;

/// Content that is sent: a chunk of memory, or whatever the driver can send, such as a part of a
/// file.
pub trait Payload: Sized {
    fn len(&self) -> u64;

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes and returns the first `len` bytes.
    fn split_to(&mut self, len: usize) -> Self;

    /// The bytes, if they are in memory.
    fn as_slice(&self) -> Option<&[u8]>;
}

impl Payload for Bytes {
    fn len(&self) -> u64 {
        Bytes::len(self) as u64
    }

    fn split_to(&mut self, len: usize) -> Bytes {
        Bytes::split_to(self, len)
    }

    fn as_slice(&self) -> Option<&[u8]> {
        Some(self)
    }
}

/// The consumer of the bytes that a connection sends, in order.
pub trait Output<P> {
    /// Takes all bytes and leaves an empty vector, with its capacity if it copies them.
    fn frames(&mut self, bytes: &mut Vec<u8>);

    /// Takes the payload of the frame whose header came last.
    fn payload(&mut self, payload: P);
}

/// A field to send. Its name is written in lower case; connection-specific fields are left out.
#[derive(Clone, Copy, Debug)]
pub struct Field<'a> {
    pub known: Option<Known>,
    pub name: &'a [u8],
    pub value: &'a [u8],
}

/// What the peer did. The fields of a head or trailer section are in [`Connection::fields`] until
/// the next event is taken.
#[derive(Clone, Debug)]
pub enum Event {
    /// A request; without content if `ends`. `protocol` is that of an extended CONNECT, whose data
    /// is a tunnel.
    Request { stream: StreamKey, head: RequestHead, protocol: Option<Span>, ends: bool },
    /// A request that is well-formed and not accepted: it is to be responded to with the status of
    /// the reason.
    Rejected { stream: StreamKey, reject: Reject },
    /// A response, interim if the status is below 200.
    Response { stream: StreamKey, status: u16, ends: bool },
    /// Content; the application releases its length when it has been used.
    Data { stream: StreamKey, data: Bytes, ends: bool },
    /// Trailers, which end the message.
    Trailers { stream: StreamKey },
    /// A malformed message. Its stream was reset; the application knows it unless it is `None`.
    Malformed { stream: Option<StreamKey>, reject: Reject },
    /// A stream ended before its messages did. If it is `unprocessed` the request had no effect and
    /// may be sent again (RFC 9113 8.7).
    Reset { stream: StreamKey, code: ErrorCode, by_peer: bool, unprocessed: bool },
    /// The peer accepts no more streams; those that it will not process are reset next.
    GoAway { code: ErrorCode },
}

/// The stream has ended, so that nothing more can be sent on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamEnded;

/// How far the end of the connection is (RFC 9113 6.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GoingAway {
    No,
    /// The peer was told, and may still have opened streams before it knew.
    Announced,
    /// No stream above this one is processed.
    After(u32),
}

/// One connection of HTTP/2.
#[derive(Debug)]
pub struct Connection<P = Bytes> {
    is_server: bool,
    config: Config,
    peer: PeerSettings,
    budgets: Budgets,
    // Received.
    input: Bytes,
    /// A frame that has not arrived as a whole.
    partial: BytesMut,
    reading: Reading,
    block: Option<Block>,
    decoder: Decoder,
    fields: Fields,
    /// Events that follow the one that was taken last.
    events: VecDeque<Event>,
    /// The violation that ended the connection.
    violation: Option<Violation>,
    // Streams.
    streams: Streams<P>,
    /// The highest stream that the peer has opened, and the next one of this side.
    last_peer_stream: u32,
    next_stream: u32,
    /// Streams that this side has reset, or that came after its last GOAWAY, the last of them:
    /// frames that the peer sent before it knew are ignored.
    reset_streams: VecDeque<ResetStream>,
    /// A priority that came before its request.
    early_priority: Option<(u32, Priority)>,
    refused: u32,
    going_away: GoingAway,
    peer_went_away: bool,
    // Flow control of the connection.
    send_window: i64,
    receive_window: i64,
    owed: u32,
    // To be sent.
    encoder: Encoder,
    out: Vec<u8>,
    schedule: Schedule,
    /// Streams whose chunk has been sent and that can take another; at a client also those of which
    /// a part was sent.
    drained: VecDeque<StreamKey>,
}

/// A stream that this side has reset or did not accept.
#[derive(Clone, Copy, Debug)]
struct ResetStream {
    id: u32,
    /// What the peer may still send: its window is not opened any more.
    window: i64,
}

/// Streams remembered as reset by this side.
const RESET_STREAMS_MAX: usize = 256;
/// Bytes of frames to be sent above which the driver stops reading: what the peer provokes and does
/// not read.
const OUT_MAX: usize = 64 * 1024;

impl<P: Payload> Connection<P> {
    /// The server's side of a connection; the preface is expected first.
    pub fn server(config: Config) -> Connection<P> {
        Connection::new(config, true)
    }

    /// The client's side of a connection.
    pub fn client(config: Config) -> Connection<P> {
        Connection::new(config, false)
    }

    fn new(config: Config, is_server: bool) -> Connection<P> {
        let mut out = Vec::new();
        if !is_server {
            out.extend_from_slice(super::PREFACE);
        }
        config.write(is_server, &mut out);
        Connection {
            is_server,
            peer: PeerSettings::default(),
            budgets: Budgets::new(),
            input: Bytes::new(),
            partial: BytesMut::new(),
            reading: if is_server { Reading::Preface } else { Reading::FirstFrame },
            block: None,
            decoder: Decoder::default(),
            fields: Fields::default(),
            events: VecDeque::new(),
            violation: None,
            streams: Streams::default(),
            last_peer_stream: 0,
            next_stream: 1,
            reset_streams: VecDeque::new(),
            early_priority: None,
            refused: 0,
            going_away: GoingAway::No,
            peer_went_away: false,
            send_window: i64::from(DEFAULT_WINDOW),
            receive_window: i64::from(config.connection_window()),
            owed: 0,
            encoder: Encoder::default(),
            out,
            schedule: Schedule::default(),
            drained: VecDeque::new(),
            config,
        }
    }

    /// The fields of the last head or trailer section.
    pub fn fields(&self) -> &Fields {
        &self.fields
    }

    /// Number of streams that are not closed.
    pub fn streams(&self) -> usize {
        self.streams.len()
    }

    /// Whether the stream is not closed.
    pub fn is_open(&self, stream: StreamKey) -> bool {
        self.streams.get(stream).is_some()
    }

    /// The priority of a response, which later frames of the client may change.
    pub fn priority(&self, stream: StreamKey) -> Option<Priority> {
        self.streams.get(stream).map(|stream| stream.priority)
    }

    /// Sets the priority of a response.
    pub fn set_priority(&mut self, key: StreamKey, priority: Priority) {
        let Some(stream) = self.streams.get_mut(key) else { return };
        stream.priority = priority;
        if std::mem::take(&mut stream.is_scheduled) {
            self.schedule.retain(|turn| turn.id != key.id);
            self.schedule(key);
        }
    }

    /// Whether more bytes should be read. They should not while the peer does not read what it
    /// provokes.
    pub fn wants_input(&self) -> bool {
        self.out.len() < OUT_MAX && self.violation.is_none()
    }

    /// Whether data is held back by a window of the peer: the driver limits how long.
    pub fn is_stalled(&self) -> bool {
        let blocked = self.send_window <= 0 && !self.schedule.is_empty();
        blocked || (self.schedule.is_empty() && self.has_pending())
    }

    fn has_pending(&self) -> bool {
        self.streams.iter().any(|stream| stream.pending.is_some())
    }

    /// Tells the connection that time has passed, which refunds its budgets.
    pub fn elapsed(&mut self, seconds: u32) {
        self.budgets.elapsed(seconds);
    }

    /// Gives the peer credit for data that the application has used.
    pub fn release(&mut self, key: StreamKey, bytes: usize) {
        let Some(stream) = self.streams.get_mut(key) else { return };
        let bytes = (bytes as u32).min(stream.unreleased);
        stream.unreleased -= bytes;
        self.credit_stream(key, bytes);
        self.credit_connection(bytes);
    }

    /// Gives the peer credit for data that the application will not use, on the connection alone:
    /// the stream gets no more of it than its window.
    pub fn discard(&mut self, key: StreamKey) {
        let Some(stream) = self.streams.get_mut(key) else { return };
        let unreleased = std::mem::take(&mut stream.unreleased);
        self.credit_connection(unreleased);
    }

    /// Lets the peer send the rest of a message that the application does not read, also once this
    /// side's has ended: without it a server resets the stream then. What was discarded so far gets
    /// credit on the stream too.
    pub fn let_finish(&mut self, key: StreamKey) {
        let window = i64::from(self.config.stream_window());
        let Some(stream) = self.streams.get_mut(key) else { return };
        stream.ends_separately = true;
        let known = i64::from(stream.owed) + i64::from(stream.unreleased);
        let missing = window - stream.receive_window - known;
        self.credit_stream(key, u32::try_from(missing).unwrap_or(0));
    }

    /// Sends a PING, which the peer acknowledges.
    pub fn send_ping(&mut self) {
        frame::write(&mut self.out, frame::PING, 0, 0, &[0; 8]);
    }

    /// Whether the peer accepts extended CONNECT (RFC 8441); `None` before its settings.
    pub fn peer_has_extended_connect(&self) -> Option<bool> {
        let has_settings = !matches!(self.reading, Reading::Preface | Reading::FirstFrame);
        has_settings.then_some(self.peer.extended_connect)
    }

    /// Streams refused since the last call: the peer had more open than it may.
    pub fn take_refused(&mut self) -> u32 {
        std::mem::take(&mut self.refused)
    }

    /// Whether a frame, or a field section of several, has arrived in part. DATA is passed on as it
    /// arrives, so it does not count.
    pub fn is_within_frame(&self) -> bool {
        self.block.is_some() || !self.partial.is_empty()
    }

    /// Whether a field section has arrived in part, at least the type of its first frame.
    pub fn is_within_section(&self) -> bool {
        self.block.is_some() || self.partial.get(3) == Some(&frame::HEADERS)
    }

    /// Whether received bytes have not become events yet.
    pub fn has_input(&self) -> bool {
        !self.input.is_empty()
    }

    /// Ends a stream at once, for example because the application gave it up.
    pub fn reset(&mut self, key: StreamKey, code: ErrorCode) {
        if let Some(stream) = self.streams.get(key) {
            let window = stream.receive_window;
            self.reset_number(key.id, window, code);
            self.remove(key);
        }
    }

    /// Announces the end of the connection: streams that the peer opens until it knows are still
    /// processed. After its PING is acknowledged, or after [`Connection::close_to_new_streams`], no
    /// others are.
    pub fn shut_down(&mut self) {
        if self.going_away == GoingAway::No {
            self.going_away = GoingAway::Announced;
            self.write_goaway(0x7fff_ffff, ErrorCode::NO_ERROR);
            frame::write(&mut self.out, frame::PING, 0, 0, control::SHUT_DOWN_PING);
        }
    }

    /// Takes no more streams, whether or not the peer knows.
    pub fn close_to_new_streams(&mut self) {
        if !matches!(self.going_away, GoingAway::After(_)) {
            let last = self.last_peer_stream;
            self.going_away = GoingAway::After(last);
            self.write_goaway(last, ErrorCode::NO_ERROR);
        }
    }

    /// Whether the connection has nothing more to do once its output is sent.
    pub fn is_finished(&self) -> bool {
        let ended = matches!(self.going_away, GoingAway::After(_)) || self.peer_went_away;
        self.violation.is_some() || (ended && self.streams.len() == 0)
    }

    /// Releases the buffers of a connection without streams.
    pub fn release_memory(&mut self) {
        self.streams.release_memory();
        self.schedule.release_memory();
        if self.streams.len() == 0 {
            self.fields = Fields::default();
            self.drained = VecDeque::new();
            self.events = VecDeque::new();
            self.out.shrink_to_fit();
        }
    }

    /// Removes a stream that has ended or was reset, and gives the connection credit for data that
    /// was not used.
    fn remove(&mut self, key: StreamKey) {
        let Some(stream) = self.streams.remove(key) else { return };
        self.credit_connection(stream.unreleased);
        if stream.is_scheduled && self.schedule.len() > 2 * self.streams.len() + 8 {
            let streams = &self.streams;
            self.schedule.retain(|turn| {
                let key = StreamKey { slot: turn.slot, id: turn.id };
                streams.get(key).is_some_and(|stream| stream.is_scheduled)
            });
        }
    }

    /// Removes a stream if both of its directions have ended.
    fn remove_if_ended(&mut self, key: StreamKey) {
        let Some(stream) = self.streams.get(key) else { return };
        if stream.sending != Sending::Ended {
            return;
        }
        if stream.receiving == Receiving::Ended {
            self.budgets.stream_ended();
            self.remove(key);
        } else if self.is_server && !stream.ends_separately {
            // RFC 9113 8.1: the client need not send the rest of a request that was responded to.
            let window = stream.receive_window;
            self.budgets.stream_ended();
            self.reset_number(key.id, window, ErrorCode::NO_ERROR);
            self.remove(key);
        }
    }

    /// Sends RST_STREAM and ignores what the peer has sent before it knows.
    fn reset_number(&mut self, id: u32, window: i64, code: ErrorCode) {
        frame::write(&mut self.out, frame::RST_STREAM, 0, id, &code.0.to_be_bytes());
        self.ignore_number(id, window);
    }

    /// Ignores what the peer sends on a stream, as far as its window allows.
    fn ignore_number(&mut self, id: u32, window: i64) {
        if self.reset_streams.len() == RESET_STREAMS_MAX {
            self.reset_streams.pop_front();
        }
        self.reset_streams.push_back(ResetStream { id, window });
    }

    fn write_goaway(&mut self, last: u32, code: ErrorCode) {
        frame::write_header(&mut self.out, 8, frame::GOAWAY, 0, 0);
        self.out.extend_from_slice(&last.to_be_bytes());
        self.out.extend_from_slice(&code.0.to_be_bytes());
    }
}

#[cfg(test)]
impl<P: Payload> Connection<P> {
    pub(super) fn scheduled(&self) -> usize {
        self.schedule.len()
    }
}
