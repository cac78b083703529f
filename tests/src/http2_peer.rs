//! One side of a connection of HTTP/2: the script of an [`Upstream`](crate::Upstream), or a client.

use crate::Connection;
use bytes::{Bytes, BytesMut};
use wire::h2::{self, Config, Event, Field, Output, RequestLine, StreamKey};
use wire::{Known, Method};

pub struct Http2Peer<'a> {
    pub connection: &'a mut Connection,
    pub protocol: h2::Connection<Bytes>,
}

/// The head of a request.
pub struct Http2Request {
    pub stream: StreamKey,
    pub method: String,
    pub path: String,
    /// The protocol of an extended CONNECT.
    pub protocol: Option<String>,
    /// With `:authority` as `host`.
    pub fields: Vec<(String, String)>,
    /// No content follows.
    pub ends: bool,
}

impl Http2Request {
    pub fn field(&self, name: &str) -> Option<&str> {
        let field = self.fields.iter().find(|field| field.0 == name);
        field.map(|field| field.1.as_str())
    }
}

struct Sent<'a>(&'a mut BytesMut);

impl Output<Bytes> for Sent<'_> {
    fn frames(&mut self, bytes: &mut Vec<u8>) {
        self.0.extend_from_slice(bytes);
        bytes.clear();
    }

    fn payload(&mut self, payload: Bytes) {
        self.0.extend_from_slice(&payload);
    }
}

/// One frame as bytes.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// A field section in HPACK, as literals without Huffman codes (RFC 7541 6.2.2): any bytes.
fn literals(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name, value] {
            let length = text.len();
            block.push(length.min(127) as u8);
            if let Some(mut rest) = length.checked_sub(127) {
                while rest >= 0x80 {
                    block.push(rest as u8 | 0x80);
                    rest >>= 7;
                }
                block.push(rest as u8);
            }
            block.extend_from_slice(text.as_bytes());
        }
    }
    block
}

fn field<'a>((name, value): (&'a str, &'a str)) -> Field<'a> {
    let known = Known::from_bytes(name.as_bytes());
    Field { known, name: name.as_bytes(), value: value.as_bytes() }
}

impl<'a> Http2Peer<'a> {
    pub fn new(connection: &'a mut Connection, config: Config) -> Http2Peer<'a> {
        Http2Peer { connection, protocol: h2::Connection::server(config) }
    }

    /// A client.
    pub fn client(connection: &'a mut Connection) -> Http2Peer<'a> {
        Http2Peer { connection, protocol: h2::Connection::client(Config::default()) }
    }

    /// Sends a request with exactly these fields, also those that no honest client sends.
    pub fn open_unchecked(&mut self, fields: &[(&str, &str)], ends: bool) -> StreamKey {
        self.flush();
        let line = RequestLine {
            method: &Method::Post,
            secure: false,
            authority: b"a",
            path: b"/",
            protocol: None,
        };
        let stream = self.protocol.request(line, [], ends).expect("the connection has room");
        // The protocol has the stream, but the server gets other fields for it.
        self.protocol.write(&mut Sent(&mut BytesMut::new()), usize::MAX);
        self.section(stream, fields, ends);
        stream
    }

    /// Sends exactly these fields on a stream: a request, or trailers.
    pub fn section(&mut self, stream: StreamKey, fields: &[(&str, &str)], ends: bool) {
        let flags = 4 | u8::from(ends);
        self.connection.try_send(frame(1, flags, stream.id, &literals(fields)));
    }

    /// Sends what the protocol has to send; false if the gateway has gone.
    pub fn flush(&mut self) -> bool {
        let mut bytes = BytesMut::new();
        self.protocol.write(&mut Sent(&mut bytes), usize::MAX);
        bytes.is_empty() || self.connection.try_send(bytes)
    }

    /// What the gateway did next; `None` at the end of the connection.
    pub fn event(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.protocol.poll_event().expect("the gateway keeps the rules") {
                return Some(event);
            }
            self.receive()?;
        }
    }

    /// Sends what there is and receives once; `None` at the end of the connection. All events must
    /// have been taken.
    fn receive(&mut self) -> Option<()> {
        if !self.flush() || self.connection.at_end() {
            return None;
        }
        let received = self.connection.read_exactly(self.connection.waiting());
        self.protocol.receive(Bytes::from(received));
        Some(())
    }

    /// What the gateway did until the stream takes content; `None` at the end of the connection.
    pub fn until_ready(&mut self, stream: StreamKey) -> Option<Vec<Event>> {
        let mut events = Vec::new();
        loop {
            while let Some(event) = self.protocol.poll_event().expect("the gateway keeps the rules")
            {
                events.push(event);
            }
            self.flush();
            if self.protocol.is_ready(stream) || !self.protocol.is_open(stream) {
                return Some(events);
            }
            self.receive()?;
        }
    }

    /// The head of the next request; `None` at the end of the connection.
    pub fn request(&mut self) -> Option<Http2Request> {
        loop {
            if let Event::Request { stream, head, protocol, ends } = self.event()? {
                let fields = self.protocol.fields();
                let text = |span: wire::h1::Span| {
                    String::from_utf8_lossy(span.of(&fields.text)).into_owned()
                };
                return Some(Http2Request {
                    stream,
                    method: String::from_utf8_lossy(head.method.as_bytes()).into_owned(),
                    path: text(head.target),
                    protocol: protocol.map(text),
                    fields: fields
                        .spans
                        .iter()
                        .map(|field| (text(field.name()), text(field.value())))
                        .collect(),
                    ends,
                });
            }
        }
    }

    /// The content of a message to its end, and the lines of its trailers.
    pub fn content(&mut self, of: StreamKey) -> (Vec<u8>, String) {
        let mut content = Vec::new();
        loop {
            match self.event().expect("the message has an end") {
                Event::Data { stream, data, ends } if stream == of => {
                    self.protocol.release(stream, data.len());
                    content.extend_from_slice(&data);
                    if ends {
                        return (content, String::new());
                    }
                }
                Event::Trailers { stream } if stream == of => {
                    let text = &self.protocol.fields().text;
                    return (content, String::from_utf8_lossy(text).into_owned());
                }
                Event::Reset { stream, code, .. } if stream == of => {
                    panic!("the stream was reset: {code:?}")
                }
                _ => {}
            }
        }
    }

    /// Sends a response head, whole if `ends`.
    pub fn head(&mut self, stream: StreamKey, status: u16, fields: &[(&str, &str)], ends: bool) {
        let fields = fields.iter().copied().map(field);
        // The gateway may have reset the stream: then it gets nothing.
        let _ = self.protocol.respond(stream, status, fields, ends);
        self.flush();
    }

    /// Sends content as the windows allow; events that come in the meantime are passed over.
    pub fn send(&mut self, stream: StreamKey, content: impl Into<Bytes>, ends: bool) {
        let _ = self.protocol.send_data(stream, content.into(), ends);
        self.flush();
        if self.protocol.pending(stream) > 0 {
            self.until_ready(stream);
        }
    }

    /// Sends trailers, which end the response.
    pub fn trailers(&mut self, stream: StreamKey, fields: &[(&str, &str)]) {
        let _ = self.protocol.send_trailers(stream, fields.iter().copied().map(field));
        self.flush();
    }

    /// Sends a whole response.
    pub fn respond(&mut self, stream: StreamKey, content: impl Into<Bytes>) {
        self.head(stream, 200, &[], false);
        self.send(stream, content, true);
    }

    /// Serves until the gateway closes the connection: resets that it sent in the meantime.
    pub fn until_end(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        while let Some(event) = self.event() {
            events.push(event);
        }
        events
    }
}
