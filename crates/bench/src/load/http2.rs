//! HTTP/2 by prior knowledge: streams of one connection, each with the same request.
//!
//! Owns the requests, which are GET or gRPC calls, and their checks; frames, HPACK and flow control
//! are those of `wire`. Promises the checks of HTTP/1.1 for each response. Its windows are so large
//! that they hold nothing back, as those of h2load.

use bytes::Bytes;
use wire::Method;
use wire::h2::{Config, Connection, Event, Field, Output, RequestLine, StreamKey, Unavailable};

use super::http::{self, FeedResult, has_fields};
use super::{BODY_COMPARED_ONE_IN, Call, Kind};

const WINDOW: u32 = 1 << 30;
/// The fields of a gRPC call (PROTOCOL-HTTP2.md).
const CALL_FIELDS: [Field<'_>; 2] =
    [GRPC_TYPE, Field { known: None, name: b"te", value: b"trailers" }];
/// The content type of both directions.
pub(crate) const GRPC_TYPE: Field<'_> =
    Field { known: None, name: b"content-type", value: b"application/grpc" };

/// The request, and the expectations of every response.
#[derive(Debug)]
pub(super) struct Rules {
    pub(super) http: http::Rules,
    pub(super) authority: Vec<u8>,
    pub(super) path: Vec<u8>,
    /// As in [`super::Traffic::Http2`].
    pub(super) call: Option<Call>,
    /// The trailers of a correct response.
    pub(super) trailers: Vec<(String, String)>,
    /// Requests outstanding on a connection, if the server allows so many.
    pub(super) streams: u32,
    /// Compare every body.
    pub(super) verify: bool,
}

/// A response that ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Finished {
    pub(super) since_ns: u64,
    pub(super) wrong: Option<Kind>,
}

/// One connection and its outstanding responses.
#[derive(Debug)]
pub(super) struct Streams {
    connection: Connection<Bytes>,
    /// By the slot of the stream's key.
    awaited: Vec<Option<Awaited>>,
    open: usize,
    asked: u32,
    /// The server takes no more requests.
    closing: bool,
    finished: Vec<Finished>,
    out: Unsent,
}

#[derive(Debug)]
struct Awaited {
    since_ns: u64,
    body_bytes: u64,
    compared: bool,
    /// True if the expected trailers have arrived.
    has_trailers: bool,
    wrong: Option<Kind>,
}

/// Frames, and how many bytes of them are sent.
#[derive(Debug, Default)]
pub struct Unsent {
    bytes: Vec<u8>,
    sent: usize,
}

impl Unsent {
    pub fn rest(&self) -> &[u8] {
        &self.bytes[self.sent..]
    }

    fn sent(&mut self, count: usize) {
        self.sent += count;
        if self.sent == self.bytes.len() {
            self.bytes.clear();
            self.sent = 0;
        }
    }
}

impl Output<Bytes> for Unsent {
    fn frames(&mut self, bytes: &mut Vec<u8>) {
        self.bytes.append(bytes);
    }

    fn payload(&mut self, payload: Bytes) {
        self.bytes.extend_from_slice(&payload);
    }
}

impl Default for Streams {
    fn default() -> Self {
        let config =
            Config { stream_window: WINDOW, connection_window: WINDOW, ..Config::default() };
        Self {
            connection: Connection::client(config),
            awaited: Vec::new(),
            open: 0,
            asked: 0,
            closing: false,
            finished: Vec::new(),
            out: Unsent::default(),
        }
    }
}

impl Streams {
    /// Sends requests until as many are outstanding as there may be.
    pub(super) fn fill(&mut self, rules: &Rules, since_ns: u64) {
        let (method, fields): (_, &[_]) = match rules.call {
            Some(_) => (Method::Post, &CALL_FIELDS),
            None => (Method::Get, &[]),
        };
        let line = RequestLine {
            method: &method,
            secure: false,
            authority: &rules.authority,
            path: &rules.path,
            protocol: None,
        };
        while !self.closing && self.open < rules.streams as usize {
            let fields = fields.iter().copied();
            match self.connection.request(line, fields, rules.call.is_none()) {
                Ok(key) => {
                    if let Some(Call { content, holds }) = &rules.call {
                        // Fails only on a stream that has ended, and this one has just begun.
                        let _ = self.connection.send_data(key, content.clone(), !holds);
                    }
                    let compared = rules.verify || self.asked.is_multiple_of(BODY_COMPARED_ONE_IN);
                    self.asked = self.asked.wrapping_add(1);
                    let slot = key.slot as usize;
                    if self.awaited.len() <= slot {
                        self.awaited.resize_with(slot + 1, || None);
                    }
                    self.awaited[slot] = Some(Awaited {
                        since_ns,
                        body_bytes: 0,
                        compared,
                        has_trailers: false,
                        wrong: None,
                    });
                    self.open += 1;
                }
                Err(Unavailable::Busy) => break,
                Err(Unavailable::Ending | Unavailable::NoExtendedConnect) => self.closing = true,
            }
        }
        self.connection.write(&mut self.out, usize::MAX);
    }

    /// Returns the bytes to be sent.
    pub(super) fn unsent(&self) -> &[u8] {
        self.out.rest()
    }

    pub(super) fn sent(&mut self, count: usize) {
        self.out.sent(count);
    }

    /// The responses that ended with what was fed last.
    pub(super) fn finished(&self) -> &[Finished] {
        &self.finished
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing
    }

    /// True if no response is outstanding.
    pub(super) fn is_idle(&self) -> bool {
        self.open == 0
    }

    /// When the request was due that waits longest.
    pub(super) fn oldest_ns(&self) -> Option<u64> {
        self.awaited.iter().flatten().map(|awaited| awaited.since_ns).min()
    }

    /// Takes received bytes. The result is the last one when no response is outstanding.
    pub(super) fn feed(&mut self, rules: &Rules, bytes: &[u8]) -> FeedResult {
        self.finished.clear();
        self.connection.receive(Bytes::copy_from_slice(bytes));
        loop {
            match self.connection.poll_event() {
                Ok(Some(event)) => self.take(rules, event),
                Ok(None) => break,
                Err(_) => return FeedResult::Broken { right: 0, kind: Kind::Framing },
            }
        }
        self.connection.write(&mut self.out, usize::MAX);
        if self.open > 0 {
            return FeedResult::More { right: 0 };
        }
        let wrong = self.finished.iter().find_map(|finished| finished.wrong);
        let right = self.finished.iter().filter(|finished| finished.wrong.is_none()).count();
        FeedResult::Last { right: right as u32, wrong, close: self.closing }
    }

    fn take(&mut self, rules: &Rules, event: Event) {
        match event {
            Event::Response { status: 100..=199, .. } => {}
            Event::Response { stream, status, ends } => {
                let fields = &self.connection.fields().text;
                let Some(awaited) = awaited(&mut self.awaited, stream) else { return };
                let expected = &rules.http.fields;
                if status != rules.http.status {
                    awaited.wrong = Some(Kind::Status);
                } else if awaited.compared && !has_fields(fields, expected) {
                    awaited.wrong = Some(Kind::Header);
                }
                self.finish_if(rules, stream, ends);
            }
            Event::Data { stream, data, ends } => {
                self.connection.release(stream, data.len());
                let Some(awaited) = awaited(&mut self.awaited, stream) else { return };
                if awaited.compared
                    && awaited.wrong.is_none()
                    && !rules.http.is_in_body(awaited.body_bytes, &data)
                {
                    awaited.wrong = Some(Kind::Body);
                }
                awaited.body_bytes += data.len() as u64;
                let holds = rules.call.as_ref().is_some_and(|call| call.holds);
                if holds && !ends && rules.http.length == Some(awaited.body_bytes) {
                    let finished = Finished { since_ns: awaited.since_ns, wrong: awaited.wrong };
                    self.finished.push(finished);
                    return self.end(stream, None);
                }
                self.finish_if(rules, stream, ends);
            }
            Event::Trailers { stream } => {
                let fields = &self.connection.fields().text;
                let Some(awaited) = awaited(&mut self.awaited, stream) else { return };
                awaited.has_trailers = has_fields(fields, &rules.trailers);
                self.finish_if(rules, stream, true);
            }
            // The request had no effect: a server may refuse requests when it closes the
            // connection.
            Event::Reset { stream, unprocessed: true, .. } => self.end(stream, None),
            Event::Reset { stream, .. } => self.end(stream, Some(Kind::Read)),
            Event::Malformed { stream: Some(stream), .. } => self.end(stream, Some(Kind::Framing)),
            Event::Malformed { stream: None, .. } => {}
            Event::GoAway { .. } => self.closing = true,
            Event::Request { .. } | Event::Rejected { .. } => {
                unreachable!("only servers have these events")
            }
        }
    }

    fn finish_if(&mut self, rules: &Rules, stream: StreamKey, ends: bool) {
        let Some(awaited) = awaited(&mut self.awaited, stream).filter(|_| ends) else { return };
        if rules.http.length.is_some_and(|length| length != awaited.body_bytes) {
            awaited.wrong.get_or_insert(Kind::Length);
        }
        if !awaited.has_trailers && !rules.trailers.is_empty() {
            awaited.wrong.get_or_insert(Kind::Header);
        }
        let finished = Finished { since_ns: awaited.since_ns, wrong: awaited.wrong };
        self.finished.push(finished);
        self.end(stream, None);
    }

    /// The stream has ended; before its response with that error.
    fn end(&mut self, stream: StreamKey, wrong: Option<Kind>) {
        let Some(ended) = self.awaited.get_mut(stream.slot as usize).and_then(Option::take) else {
            return;
        };
        self.open -= 1;
        if wrong.is_some() {
            self.finished.push(Finished { since_ns: ended.since_ns, wrong });
        }
    }
}

fn awaited(all: &mut [Option<Awaited>], stream: StreamKey) -> Option<&mut Awaited> {
    all.get_mut(stream.slot as usize)?.as_mut()
}
